"""What the `claude` program prints with `--output-format stream-json`: a JSON object a line.

Seen of version 2.1.197, against a server on loopback that spoke its provider's protocol:

- `system`, subtype `init`, first: `mcp_servers` with a status each, `tools`, `session_id`.
- `stream_event`, with `--include-partial-messages`: the provider's own events as they come, so that
  a call that is cut off has told what it took.
- `assistant`: one for each block of a message, all with the message's `id` and with its usage as it
  was when the message began; an answer that the program made up itself has model `<synthetic>` and
  no events.
- `user`: the results of tools.
- `result`, last: `result` (the last text), `usage` and `modelUsage` of this run alone, also when a
  session was resumed. An error of the provider is `is_error: true` beside subtype `success`; a
  session that is not there is subtype `error_during_execution` with `errors`, and no `result`.

A line that is no JSON object is passed over: builds of it print warnings there, and only the result
decides. Pure: bytes in, facts out.
"""

import json
from collections.abc import Mapping
from typing import Any

import attrs

from muster.clients.agent.backend import Usage
from muster.clients.agent.members import read_object, read_objects

SERVER = "muster"  # what the tool door is called in the program's configuration
SYNTHETIC = "<synthetic>"
OUT_OF_REACH = frozenset({"failed", "needs-auth", "disabled"})
TOO_LONG = "prompt is too long"
NO_SESSION = "no conversation found with session id"


@attrs.frozen(kw_only=True)
class Result:
    """The last word of a run; `text` says what went wrong where `is_error`."""

    text: str
    is_error: bool


@attrs.define(kw_only=True)
class Stream:
    """What was heard so far of one run."""

    result: Result | None = None
    tools_ran: bool = False  # a tool was called: the run must not be repeated
    door_is_away: bool = False  # the program could not connect to muster's tools
    _model: str = ""
    _calls: int = 0
    _before: Usage | None = None  # the usage of the messages before the one that is being read
    _message: tuple[str, Usage] | None = None
    _streams: bool = False  # the text was told by its pieces
    _in_text: bool = False
    _told: Usage | None = None  # by the result

    def take(self, line: bytes) -> str:
        """Read one line; what the model said in it, if anything."""
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return ""
        if not isinstance(event, dict):
            return ""
        match event.get("type"):
            case "system" if event.get("subtype") == "init":
                self.door_is_away = any(
                    server.get("name") == SERVER and str(server.get("status")) in OUT_OF_REACH
                    for server in read_objects(event, "mcp_servers")
                )
            case "stream_event":
                return self._piece(read_object(event, "event"))
            case "assistant":
                return self._assistant(read_object(event, "message"))
            case "result":
                self.result = _result(event)
                self._told = self._read_totals(event)
        return ""

    @property
    def usage(self) -> Usage | None:
        """What the run took: as its result says, else as its messages did; None for nothing."""
        heard = self._before
        if self._message is not None:
            heard = self._message[1] if heard is None else heard + self._message[1]
        return self._told or heard

    @property
    def is_too_long(self) -> bool:
        """Whether the run failed because the session had grown too long."""
        return self.result is not None and self.result.is_error and self._tells(TOO_LONG)

    @property
    def has_no_session(self) -> bool:
        """Whether the run failed because the session to resume is not there."""
        return self.result is not None and self.result.is_error and self._tells(NO_SESSION)

    def _tells(self, words: str) -> bool:
        return self.result is not None and words in self.result.text.lower()

    def _piece(self, event: Mapping[str, Any]) -> str:
        self._streams = True
        match event.get("type"):
            case "message_start":
                message = read_object(event, "message")
                self._name(message)
                self._begin(str(message.get("id")), message)
            case "message_delta" if self._message is not None:
                # Cumulative, and it may leave out what was told before.
                message_id, before = self._message
                output = _number(read_object(event, "usage"), "output_tokens")
                self._message = message_id, attrs.evolve(before, output_tokens=output)
            case "content_block_start":
                self._in_text = read_object(event, "content_block").get("type") == "text"
            case "content_block_delta" if self._in_text:
                text = read_object(event, "delta").get("text")
                return clean(text) if isinstance(text, str) else ""
            case "content_block_stop" if self._in_text:
                self._in_text = False
                return "\n"
        return ""

    def _assistant(self, message: Mapping[str, Any]) -> str:
        blocks = read_objects(message, "content")
        self.tools_ran |= any(block.get("type") == "tool_use" for block in blocks)
        if message.get("model") == SYNTHETIC:
            return ""
        self._name(message)
        message_id = str(message.get("id"))
        if self._message is None or self._message[0] != message_id:
            self._begin(message_id, message)
        if self._streams:
            return ""
        texts = [block.get("text") for block in blocks if block.get("type") == "text"]
        return "".join(f"{clean(text)}\n" for text in texts if isinstance(text, str))

    def _name(self, message: Mapping[str, Any]) -> None:
        model = message.get("model")
        if isinstance(model, str):
            self._model = model

    def _begin(self, message_id: str, message: Mapping[str, Any]) -> None:
        if self._message is not None:
            before = self._message[1]
            self._before = before if self._before is None else self._before + before
        self._calls += 1
        self._message = message_id, _usage(self._model, 1, read_object(message, "usage"))

    def _read_totals(self, event: Mapping[str, Any]) -> Usage | None:
        models = read_object(event, "modelUsage")
        calls = max(1, self._calls)
        total: Usage | None = None
        for name in models:  # that of other models than the one that was asked too
            counts = read_object(models, name)
            each = _usage_of(
                self._model or clean(name),
                0 if total else calls,
                fresh=_number(counts, "inputTokens"),
                cached=_number(counts, "cacheReadInputTokens"),
                written=_number(counts, "cacheCreationInputTokens"),
                output=_number(counts, "outputTokens"),
            )
            total = each if total is None else total + each
        if total is None:
            total = _usage(self._model, calls, read_object(event, "usage"))
        return total if total.input_tokens or total.output_tokens else None


def clean(text: str) -> str:
    """`text` without lone surrogates, which no frame could carry."""
    return text.encode("utf-8", "replace").decode()


def _result(event: Mapping[str, Any]) -> Result:
    errors = event.get("errors")
    texts = [event.get("result"), *(errors if isinstance(errors, list) else [])]
    told = "; ".join(clean(text) for text in texts if isinstance(text, str) and text)
    subtype = event.get("subtype")
    failed = event.get("is_error") is not False or subtype != "success"
    return Result(text=told or (str(subtype) if failed else ""), is_error=failed)


def _usage(model: str, calls: int, counts: Mapping[str, Any]) -> Usage:
    return _usage_of(
        model,
        calls,
        fresh=_number(counts, "input_tokens"),
        cached=_number(counts, "cache_read_input_tokens"),
        written=_number(counts, "cache_creation_input_tokens"),
        output=_number(counts, "output_tokens"),
    )


def _usage_of(
    model: str, calls: int, *, fresh: int, cached: int, written: int, output: int
) -> Usage:
    # The provider counts what is read from its cache, and what is written to it, beside the rest.
    return Usage(
        model=model,
        calls=calls,
        input_tokens=fresh + cached + written,
        cached_input_tokens=cached,
        output_tokens=output,
    )


def _number(counts: Mapping[str, Any], name: str) -> int:
    value = counts.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value
