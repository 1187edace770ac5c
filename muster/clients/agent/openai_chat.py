"""A model behind an OpenAI-compatible chat server: `POST …/chat/completions`, streamed.

The servers that call themselves compatible differ, and these differences are lived with: usage that
cannot be asked for (`stream_options` is refused and left out from then on), the two names of the
bound on the answer, tool calls without ids or indexes, arguments in one piece or as an object,
names repeated in every piece, and streams that end without `[DONE]` or without a finish reason.
"""

from collections.abc import Mapping
from typing import Any

import attrs
import httpx2
import msgspec

from muster.clients.agent import sse
from muster.clients.agent.backend import Tool, Usage
from muster.clients.agent.members import read_object, read_objects
from muster.clients.agent.model import Count, Hear, Prompt, Reply, Stop, TryAgain, check_calls
from muster.clients.agent.model_faults import Provider, is_address, is_key
from muster.clients.agent.transcript import Entry, FromModel, FromUser, ToolCall, ToolResult

BASE_URL = "https://api.openai.com/v1"
KEY_NAME = "OPENAI_API_KEY"


@attrs.define(kw_only=True, eq=False)
class OpenAiModel:
    """The model `model` at `base_url`; a server of one's own may want no key.

    ValueError when the address or the key can't be one.
    """

    model: str
    base_url: str = attrs.field(default=BASE_URL, validator=is_address)
    api_key: str | None = attrs.field(default=None, repr=False, validator=is_key)
    http: httpx2.AsyncClient = attrs.field(factory=httpx2.AsyncClient)
    _tells_usage: bool = attrs.field(default=True, init=False)
    _bound_name: str = attrs.field(default="max_tokens", init=False)

    async def ask(self, prompt: Prompt, *, hear: Hear, count: Count) -> Reply:
        """Ask once (`Model.ask`)."""
        answer = _Answer(hear=hear, provider=self._provider)
        try:
            while True:  # each refusal that is learnt from is met once, so this ends
                refused = await sse.stream(
                    self.http,
                    self._provider.url,
                    headers={"authorization": f"Bearer {self.api_key}"} if self.api_key else {},
                    body=self._body(prompt),
                    heed=answer.heed,
                )
                if refused is None:
                    return answer.reply()
                if not self._learn(refused):
                    raise self._provider.fault(refused)
        finally:
            usage = answer.usage(self.model)
            if usage is not None:
                count(usage)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.http.aclose()

    @property
    def _provider(self) -> Provider:
        return Provider(
            url=f"{self.base_url.rstrip('/')}/chat/completions",
            model=self.model,
            key_name=KEY_NAME,
            key=self.api_key,
        )

    def _body(self, prompt: Prompt) -> dict[str, object]:
        body: dict[str, object] = {
            "model": self.model,
            "messages": _messages(prompt),
            "stream": True,
            self._bound_name: prompt.output_tokens_max,
        }
        if self._tells_usage:
            body["stream_options"] = {"include_usage": True}
        if prompt.tools:
            body["tools"] = [_tool(tool) for tool in prompt.tools]
        return body

    def _learn(self, refused: sse.ErrorAnswer) -> bool:
        """Whether the refusal is about a member that is said otherwise from now on."""
        if refused.status not in {400, 422}:
            return False
        if self._tells_usage and b"stream_options" in refused.body:
            self._tells_usage = False
            return True
        if self._bound_name == "max_tokens" and b"max_completion_tokens" in refused.body:
            self._bound_name = "max_completion_tokens"
            return True
        return False


@attrs.define
class _Call:
    """A tool call as far as its pieces have come."""

    index: int | None
    call_id: str
    name: str
    arguments: str = ""


@attrs.define(kw_only=True)
class _Answer:
    """What has come of an answer."""

    hear: Hear
    provider: Provider
    texts: list[str] = attrs.field(factory=list)
    calls: list[_Call] = attrs.field(factory=list)
    refusal: str = ""
    finish: str | None = None
    done: bool = False
    counted: Mapping[str, Any] | None = None

    async def heed(self, event: str) -> bool:
        """Take in one chunk; True at the end."""
        if event.strip() == "[DONE]":
            self.done = True
            return True
        try:
            chunk = msgspec.json.decode(event, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError) as error:
            raise TryAgain("the model sent a chunk that is no JSON object") from error
        if chunk.get("error") or chunk.get("object") == "error":
            raise self.provider.fault_in_stream(event)
        if isinstance(chunk.get("usage"), dict):
            self.counted = chunk["usage"]
        for choice in read_objects(chunk, "choices")[:1]:
            delta = choice.get("delta")
            if isinstance(delta, dict):
                await self._take(delta)
            finish = choice.get("finish_reason")
            self.finish = finish if isinstance(finish, str) and finish else self.finish
        return False

    async def _take(self, delta: Mapping[str, Any]) -> None:
        content, refusal = delta.get("content"), delta.get("refusal")
        if isinstance(content, str) and content:
            self.texts.append(content)
            await self.hear(content)
        if isinstance(refusal, str):
            self.refusal += refusal
        for piece in read_objects(delta, "tool_calls"):
            self._take_piece(piece)

    def _take_piece(self, piece: Mapping[str, Any]) -> None:
        function = read_object(piece, "function")
        index = piece.get("index")
        call_id, name = _text(piece.get("id")), _text(function.get("name"))
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        arguments = _text(arguments)
        call = self._find(
            index=index if isinstance(index, int) else None,
            call_id=call_id,
            name=name,
            more=bool(arguments),
        )
        if call is None:
            call = _Call(index if isinstance(index, int) else None, call_id, name)
            self.calls.append(call)
        call.call_id = call.call_id or call_id
        call.name = call.name or name
        call.arguments += arguments
        check_calls(count=len(self.calls), arguments=call.arguments)

    def _find(self, *, index: int | None, call_id: str, name: str, more: bool) -> _Call | None:
        """The call that a piece belongs to; None when the piece begins another."""
        if index is None:
            if call_id:
                return next((each for each in self.calls if each.call_id == call_id), None)
            return None if name or not self.calls else self.calls[-1]
        found = next((each for each in reversed(self.calls) if each.index == index), None)
        if found is None or (call_id and found.call_id and call_id != found.call_id):
            return None
        # Some servers number every call 0 and give no ids: each comes whole, with its name.
        begins_another = name and more and _is_whole(found.arguments)
        return None if begins_another else found

    def reply(self) -> Reply:
        """The whole answer; TryAgain when the stream ended before it was whole."""
        if self.finish is None and not self.done:
            raise TryAgain("the model's answer broke off")
        calls = tuple(
            ToolCall(call_id=each.call_id, name=each.name, arguments=each.arguments or "{}")
            for each in self.calls
        )
        stop = Stop.CALLS if calls else Stop.DONE
        if self.finish == "length":
            stop = Stop.LENGTH
        if self.finish == "content_filter" or self.refusal:
            stop = Stop.REFUSED
        text = "".join(self.texts)
        return Reply(text=self.refusal or text, calls=calls, stop=stop)

    def usage(self, model: str) -> Usage | None:
        """What the call took; None when it is not known to have taken anything."""
        if self.counted is None:
            return Usage(model=model) if self.finish is not None or self.done else None
        cached = read_object(self.counted, "prompt_tokens_details").get("cached_tokens")
        tokens = _tokens(self.counted.get("prompt_tokens"))
        return Usage(
            model=model,
            input_tokens=tokens,
            cached_input_tokens=min(_tokens(cached), tokens),
            output_tokens=_tokens(self.counted.get("completion_tokens")),
        )


def _messages(prompt: Prompt) -> list[dict[str, object]]:
    system: list[dict[str, object]] = [{"role": "system", "content": prompt.instructions}]
    return system + [_message(entry) for entry in prompt.entries]


def _message(entry: Entry) -> dict[str, object]:
    match entry:
        case FromUser():
            return {"role": "user", "content": entry.text}
        case ToolResult():
            text = f"Error: {entry.text}" if entry.is_error else entry.text
            return {"role": "tool", "tool_call_id": entry.call_id, "content": text}
        case FromModel():
            message: dict[str, object] = {"role": "assistant", "content": entry.text or None}
            if entry.calls:
                message["tool_calls"] = [_call(call) for call in entry.calls]
            elif not entry.text:
                message["content"] = ""
            return message


def _call(call: ToolCall) -> dict[str, object]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.call_id, "type": "function", "function": function}


def _tool(tool: Tool) -> dict[str, object]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": function}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _tokens(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _is_whole(arguments: str) -> bool:
    try:
        msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
