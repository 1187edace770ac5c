"""A model behind Anthropic's Messages API: `POST …/v1/messages`, streamed.

Tools and instructions are the same in every request, and each round of a turn begins with the last
one's request, so both are marked for the provider's cache: its tokens cost a tenth.

Models that think unasked want their thinking back while a turn calls tools. It travels in
`FromModel.echo`, the blocks of the answer in their order, and is gone once the turn has ended.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import httpx2
import msgspec

from muster.clients.agent import sse
from muster.clients.agent.backend import Tool, Usage
from muster.clients.agent.members import read_object
from muster.clients.agent.model import Count, Hear, Prompt, Reply, Stop, TryAgain, check_calls
from muster.clients.agent.model_faults import Provider, is_address, is_key
from muster.clients.agent.transcript import Entry, FromModel, FromUser, ToolCall, ToolResult

BASE_URL = "https://api.anthropic.com"
KEY_NAME = "ANTHROPIC_API_KEY"
API_VERSION = "2023-06-01"
CACHED = {"cache_control": {"type": "ephemeral"}}

_STOPS = {
    "tool_use": Stop.CALLS,
    "max_tokens": Stop.LENGTH,
    "model_context_window_exceeded": Stop.LENGTH,
    "refusal": Stop.REFUSED,
}

# The members of a kind of block that are texts.
TEXTS = {"text": ("text",), "thinking": ("thinking", "signature"), "tool_use": ("id", "name")}

Block = dict[str, Any]


@attrs.define(kw_only=True, eq=False)
class AnthropicModel:
    """The model `model` at `base_url`, asked with `api_key`.

    ValueError when the address or the key can't be one.
    """

    model: str
    base_url: str = attrs.field(default=BASE_URL, validator=is_address)
    api_key: str | None = attrs.field(default=None, repr=False, validator=is_key)
    http: httpx2.AsyncClient = attrs.field(factory=httpx2.AsyncClient)

    async def ask(self, prompt: Prompt, *, hear: Hear, count: Count) -> Reply:
        """Ask once (`Model.ask`)."""
        provider = self._provider
        answer = _Answer(hear=hear, provider=provider)
        headers = {"anthropic-version": API_VERSION}
        if self.api_key:
            headers["x-api-key"] = self.api_key
        try:
            refused = await sse.stream(
                self.http, provider.url, headers=headers, body=self._body(prompt), heed=answer.heed
            )
            if refused is not None:
                raise provider.fault(refused)
            return answer.reply()
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
            url=f"{self.base_url.rstrip('/')}/v1/messages",
            model=self.model,
            key_name=KEY_NAME,
            key=self.api_key,
        )

    def _body(self, prompt: Prompt) -> dict[str, object]:
        body: dict[str, object] = {
            "model": self.model,
            "max_tokens": prompt.output_tokens_max,
            # Tools stand before the instructions, so one mark covers both.
            "system": [{"type": "text", "text": prompt.instructions, **CACHED}],
            "messages": _messages(prompt.entries),
            "stream": True,
        }
        if prompt.tools:
            body["tools"] = [_tool(tool) for tool in prompt.tools]
        return body


@attrs.define(kw_only=True)
class _Answer:
    """What has come of an answer: its blocks by their numbers."""

    hear: Hear
    provider: Provider
    blocks: dict[int, Block] = attrs.field(factory=dict)
    stop_reason: str = ""
    whole: bool = False
    counted: dict[str, int] = attrs.field(factory=dict)

    async def heed(self, event: str) -> bool:
        """Take in one event; True at the end. What is not known is passed over, as documented."""
        try:
            members = msgspec.json.decode(event, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError) as error:
            raise TryAgain("the model sent an event that is no JSON object") from error
        index = members.get("index")
        match members.get("type"):
            case "message_start":
                self._take_usage(read_object(members, "message"))
            case "content_block_start" if isinstance(index, int):
                await self._begin(index, read_object(members, "content_block"))
            case "content_block_delta" if isinstance(index, int) and index in self.blocks:
                await self._add(self.blocks[index], read_object(members, "delta"))
            case "message_delta":
                self._take_usage(members)
                reason = read_object(members, "delta").get("stop_reason")
                self.stop_reason = reason if isinstance(reason, str) else self.stop_reason
            case "message_stop":
                self.whole = True
            case "error":
                raise self.provider.fault_in_stream(event)
            case _:
                pass
        return self.whole

    def _take_usage(self, holder: Mapping[str, Any]) -> None:
        # The counts of a later event are running totals and take the place of earlier ones.
        for name, value in read_object(holder, "usage").items():
            if isinstance(value, int) and value >= 0:
                self.counted[name] = value

    async def _begin(self, index: int, block: Block) -> None:
        kind = block.get("type")
        if not isinstance(kind, str):
            return
        # Some servers begin a text with null: each of these is a text from here on.
        for name in TEXTS.get(kind, ()):
            block[name] = block[name] if isinstance(block.get(name), str) else ""
        self.blocks[index] = block
        if kind == "tool_use":
            block["json"] = ""
            calls = sum(each["type"] == "tool_use" for each in self.blocks.values())
            check_calls(count=calls, arguments="")
        elif kind == "text" and block["text"]:
            await self.hear(block["text"])

    async def _add(self, block: Block, delta: Block) -> None:
        kind = block["type"]
        match delta:
            case {"type": "text_delta", "text": str(text)} if kind == "text":
                block["text"] += text
                await self.hear(text)
            case {"type": "input_json_delta", "partial_json": str(piece)} if kind == "tool_use":
                block["json"] += piece
                check_calls(count=1, arguments=block["json"])
            case {"type": "thinking_delta", "thinking": str(text)} if kind == "thinking":
                block["thinking"] += text
            case {"type": "signature_delta", "signature": str(signature)} if kind == "thinking":
                block["signature"] = signature
            case _:
                pass

    def reply(self) -> Reply:
        """The whole answer; TryAgain when the stream ended before it was whole."""
        if not self.whole:
            raise TryAgain("the model's answer broke off")
        blocks = [self.blocks[index] for index in sorted(self.blocks)]
        calls = tuple(
            ToolCall(
                call_id=block["id"],
                name=block["name"],
                arguments=block["json"] or msgspec.json.encode(block.get("input", {})).decode(),
            )
            for block in blocks
            if block["type"] == "tool_use"
        )
        stop = _STOPS.get(self.stop_reason, Stop.DONE)
        if stop in {Stop.DONE, Stop.CALLS}:
            stop = Stop.CALLS if calls else Stop.DONE
        return Reply(
            text="".join(_text_of(block) for block in blocks),
            calls=calls,
            echo=_echo(blocks),
            stop=stop,
        )

    def usage(self, model: str) -> Usage | None:
        """What the call took so far; None when nothing was told."""
        if not self.counted:
            return Usage(model=model) if self.whole else None
        cached = self.counted.get("cache_read_input_tokens", 0)
        written = self.counted.get("cache_creation_input_tokens", 0)
        return Usage(
            model=model,
            # Anthropic counts the cached ones beside the others.
            input_tokens=self.counted.get("input_tokens", 0) + cached + written,
            cached_input_tokens=cached,
            output_tokens=self.counted.get("output_tokens", 0),
        )


def _echo(blocks: Sequence[Block]) -> str:
    """The blocks as they go back, "" when they hold nothing but what a transcript holds."""
    if not any(block["type"] in {"thinking", "redacted_thinking"} for block in blocks):
        return ""
    kept = [{name: value for name, value in block.items() if name != "json"} for block in blocks]
    return msgspec.json.encode(kept).decode()


def _messages(entries: Sequence[Entry]) -> list[Block]:
    messages: list[Block] = []
    for entry in entries:
        match entry:
            case FromModel():
                role, blocks = "assistant", _answered(entry)
            case FromUser():
                role, blocks = "user", [_text(entry.text)]
            case ToolResult():
                role, blocks = "user", [_result(entry)]
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"].extend(blocks)
        else:
            messages.append({"role": role, "content": blocks})
    if messages:
        messages[-1]["content"][-1] |= CACHED
    return messages


def _answered(entry: FromModel) -> list[Block]:
    calls = {call.call_id: call for call in entry.calls}
    if entry.echo:
        echoed: list[Block] = msgspec.json.decode(entry.echo)
        return [
            _call(calls[block["id"]]) if block["type"] == "tool_use" else block
            for block in echoed
            if block["type"] != "text" or block["text"].strip()
        ]
    texts = [_text(entry.text)] if entry.text.strip() or not entry.calls else []
    return [*texts, *(_call(call) for call in entry.calls)]


def _call(call: ToolCall) -> Block:
    arguments = msgspec.json.decode(call.arguments)
    return {"type": "tool_use", "id": _id(call.call_id), "name": call.name, "input": arguments}


def _result(entry: ToolResult) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": _id(entry.call_id)}
    if entry.text.strip():
        block["content"] = entry.text
    return {**block, "is_error": True} if entry.is_error else block


def _id(call_id: str) -> str:
    """The id in the letters that Anthropic takes; another provider's may have others."""
    return "".join(
        each if each.isascii() and (each.isalnum() or each in "_-") else "_" for each in call_id
    )


def _text(text: str) -> Block:
    return {"type": "text", "text": text if text.strip() else "(nothing was said)"}


def _text_of(block: Block) -> str:
    return str(block["text"]) if block["type"] == "text" else ""


def _tool(tool: Tool) -> Block:
    schema = dict(tool.input_schema) or {"type": "object", "properties": {}}
    return {"name": tool.name, "description": tool.description, "input_schema": schema}
