"""What the two protocols look like on the wire: events, errors, and what a request must keep to."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

OPENAI = "/v1/chat/completions"
ANTHROPIC = "/v1/messages"
PIECE = 7
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@attrs.frozen(kw_only=True)
class Says:
    """What the model says, and the tools that it calls with which arguments (text is as it is).

    `stop` is a neutral word: done, calls, length or refusal. `thinks` is what it thinks first, and
    `call_id` the id of its calls, where they are to have a certain one.
    """

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, object] | str]] = ()
    stop: str = ""
    thinks: str = ""
    call_id: str = ""
    input_tokens: int = 100
    cached_tokens: int = 0
    output_tokens: int = 10


def render(path: str, body: Mapping[str, Any], says: Says) -> list[str]:
    """The events of an answer, each as it goes over the wire."""
    return list(_openai(body, says) if path == OPENAI else _anthropic(body, says))


# Each as its provider documents it, or as its server was seen to answer.
TOO_LONG: dict[str, dict[str, object]] = {
    OPENAI: {
        "error": {
            "message": "This model's maximum context length is 8192 tokens. However, your messages "
            "resulted in 9001 tokens. Please reduce the length of the messages.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    },
    ANTHROPIC: {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "prompt is too long: 208310 tokens > 200000 maximum",
        },
        "request_id": "req_011CVQe1dLrGNMJyE1ghG1av",
    },
}
OVERLOADED: dict[str, dict[str, object]] = {
    OPENAI: {
        "error": {
            "message": "The engine is currently overloaded, please try again later",
            "type": "server_error",
            "param": None,
            "code": None,
        }
    },
    ANTHROPIC: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
}


def refusal(path: str, kind: str, message: str) -> dict[str, object]:
    """An error's body in the protocol of `path`."""
    if path == OPENAI:
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}
    return {"type": "error", "error": {"type": kind, "message": message}}


def refused_request(path: str, fault: str) -> dict[str, object]:
    """What the provider answers to a request that breaks its rules."""
    return refusal(path, "invalid_request_error", fault)


def event_error(path: str, body: Mapping[str, object]) -> str:
    """An error as an event in the middle of a stream."""
    return _data(body) if path == OPENAI else f"event: error\n{_data(body)}"


def find_fault(path: str, body: Mapping[str, Any]) -> str | None:
    """What the real provider would refuse in a request, if anything."""
    faults = _openai_faults(body) if path == OPENAI else _anthropic_faults(body)
    return next(faults, None)


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), PIECE):
        yield text[start : start + PIECE]


def _arguments(given: Mapping[str, object] | str) -> str:
    return given if isinstance(given, str) else json.dumps(given)


def _data(members: Mapping[str, object]) -> str:
    return f"data: {json.dumps(members)}\n\n"


def _openai(body: Mapping[str, Any], says: Says) -> Iterator[str]:
    counts = bool(body.get("stream_options", {}).get("include_usage"))
    constant = {
        "id": "chatcmpl-123",
        "object": "chat.completion.chunk",
        "created": 1694268190,
        "model": body["model"],
        "system_fingerprint": "fp_44709d6fcb",
    } | ({"usage": None} if counts else {})

    def chunk(delta: Mapping[str, object], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _data({**constant, "choices": [choice]})

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    refuses = says.stop == "refusal"
    for piece in _pieces(says.text):
        yield chunk({"refusal": piece} if refuses else {"content": piece})
    for index, (name, arguments) in enumerate(says.calls):
        function = {"name": name, "arguments": ""}
        call_id = says.call_id or f"call_{len(body['messages'])}_{index}"
        begun = {"index": index, "id": call_id, "type": "function", "function": function}
        yield chunk({"tool_calls": [begun]})
        for piece in _pieces(_arguments(arguments)):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    finish = {"length": "length", "filter": "content_filter"}.get(says.stop)
    yield chunk({}, finish or ("tool_calls" if says.calls else "stop"))
    if counts:
        usage = {
            "prompt_tokens": says.input_tokens,
            "completion_tokens": says.output_tokens,
            "total_tokens": says.input_tokens + says.output_tokens,
            "prompt_tokens_details": {"cached_tokens": says.cached_tokens, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        }
        yield _data({**constant, "choices": [], "usage": usage})
    yield "data: [DONE]\n\n"


def _anthropic(body: Mapping[str, Any], says: Says) -> Iterator[str]:
    def event(kind: str, **members: object) -> str:
        return f"event: {kind}\n{_data({'type': kind, **members})}"

    begun = {
        "id": "msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyY",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": body["model"],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": says.input_tokens - says.cached_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": says.cached_tokens,
            "output_tokens": 1,
        },
    }
    yield event("message_start", message=begun)
    yield event("ping")
    for number, (block, deltas) in enumerate(_blocks(body, says)):
        yield event("content_block_start", index=number, content_block=block)
        for delta in deltas:
            yield event("content_block_delta", index=number, delta=delta)
        yield event("content_block_stop", index=number)
    reasons = {"length": "max_tokens", "refusal": "refusal", "filter": "refusal"}
    reason = reasons.get(says.stop) or ("tool_use" if says.calls else "end_turn")
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield event("message_delta", delta=delta, usage={"output_tokens": says.output_tokens})
    yield event("message_stop")


def _blocks(
    body: Mapping[str, Any], says: Says
) -> Iterator[tuple[Mapping[str, object], list[dict[str, object]]]]:
    if says.thinks:
        deltas: list[dict[str, object]] = [
            {"type": "thinking_delta", "thinking": piece} for piece in _pieces(says.thinks)
        ]
        deltas.append({"type": "signature_delta", "signature": "EqQBCgIYAhIM1gbcDa9GJwZA"})
        yield {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if says.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(says.text)]
        yield {"type": "text", "text": ""}, deltas
    for index, (name, arguments) in enumerate(says.calls):
        call_id = says.call_id or f"toolu_{len(body['messages'])}_{index}"
        pieces = ["", *_pieces(_arguments(arguments))]
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        yield {"type": "tool_use", "id": call_id, "name": name, "input": {}}, deltas


def _openai_faults(body: Mapping[str, Any]) -> Iterator[str]:
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield "messages with role 'tool' must be a response to a message with 'tool_calls'"
                return
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            break
        calls = message.get("tool_calls", [])
        waiting = [call["id"] for call in calls]
        if "" in waiting or len(set(waiting)) != len(waiting):
            yield f"tool calls need ids of their own: {waiting}"
        names = [call["function"]["name"] for call in calls]
        yield from map(_name_fault, itertools.filterfalse(NAME.fullmatch, names))
        if message["role"] == "assistant" and message["content"] is None and not calls:
            yield "an assistant message needs content or tool_calls"
        yield from (f"no JSON: {call}" for call in calls if not _is_object(call["function"]))
    if waiting:
        yield (
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            f"to each 'tool_call_id'. Without: {waiting}"
        )


def _name_fault(name: str) -> str:
    return f"tool name {name!r}: expected a string that matches {NAME.pattern}"


def _is_object(function: Mapping[str, str]) -> bool:
    return isinstance(json.loads(function["arguments"]), dict)


def _anthropic_faults(body: Mapping[str, Any]) -> Iterator[str]:
    used: list[str] = []
    waiting: list[str] = []
    role = "assistant"
    for at, message in enumerate(body["messages"]):
        if message["role"] == role:
            yield f"messages.{at}: roles must alternate"
        role = message["role"]
        blocks = message["content"]
        given = [each["tool_use_id"] for each in blocks if each["type"] == "tool_result"]
        if sorted(given) != sorted(waiting):
            yield (
                f"messages.{at}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {waiting}"
            )
        waiting = [each["id"] for each in blocks if each["type"] == "tool_use"]
        used += waiting
        names = [each["name"] for each in blocks if each["type"] == "tool_use"]
        yield from map(_name_fault, itertools.filterfalse(NAME.fullmatch, names))
        if any(each["type"] == "text" and not each["text"].strip() for each in blocks):
            yield f"messages.{at}: text content blocks must contain non-whitespace text"
        if not blocks:
            yield f"messages.{at}: all messages must have non-empty content"
        yield from (
            f"messages.{at}: a thinking block without its signature"
            for each in blocks
            if each["type"] == "thinking" and not each["signature"]
        )
    if len(set(used)) != len(used):
        yield "messages: `tool_use` ids must be unique"
    if waiting or role != "user":
        yield "messages: the last message must be the user's"
