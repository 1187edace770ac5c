"""Providers of models that mean harm, or are merely broken: none ends a runner or holds it up."""

import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from muster.clients.agent import anthropic_messages, openai_chat
from muster.clients.agent.backend import TurnError, Usage
from muster.clients.agent.frames import turn_done
from muster.clients.agent.model import (
    ARGUMENTS_CHARACTERS_MAX,
    CALLS_MAX,
    Prompt,
    TooLong,
    TryAgain,
)
from muster.clients.agent.model_faults import Provider
from muster.clients.agent.sse import EventReader
from muster.clients.agent.tool_loop import _named, _readable
from muster.clients.agent.transcript import FromModel, FromUser, ToolResult
from muster.token_use import read_token_use
from tests.support.model_protocols import ANTHROPIC, OPENAI
from tests.support.model_server import Raw
from tests.support.model_stage import stage

PROVIDER = Provider(url="http://model.test", model="m", key_name="KEY", key=None)
WORDS = st.sampled_from(
    ["text", "thinking", "redacted_thinking", "tool_use", "text_delta", "thinking_delta", "stop",
     "input_json_delta", "signature_delta", "tool_calls", "length", "refusal", "look", "{}", ""]
)  # fmt: skip
NAMES = st.sampled_from(
    ["type", "text", "thinking", "signature", "id", "name", "input", "json", "partial_json",
     "content", "refusal", "tool_calls", "function", "arguments", "index", "stop_reason",
     "finish_reason", "prompt_tokens", "completion_tokens", "prompt_tokens_details",
     "cached_tokens", "input_tokens", "output_tokens", "cache_read_input_tokens"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.integers() | st.floats(width=16) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
MEMBERS = st.dictionaries(NAMES, VALUES, max_size=5)
KINDS = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "message_delta", "ping"]
)
OF_ANTHROPIC = st.fixed_dictionaries(
    {"type": KINDS, "index": st.integers(0, 2)},
    optional={
        "content_block": MEMBERS, "delta": MEMBERS, "usage": VALUES,
        "message": st.fixed_dictionaries({"usage": VALUES}),
    },
)  # fmt: skip
OF_OPENAI = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.lists(
            st.fixed_dictionaries({"delta": VALUES | MEMBERS, "finish_reason": VALUES}), max_size=2
        ) | VALUES,
        "usage": VALUES | MEMBERS,
        "error": VALUES,
    },
)  # fmt: skip


def sse(*events: object) -> str:
    """Events as they go over the wire."""
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events)


async def hear(text: str) -> None:
    """Listen."""
    assert text


async def read(answer: Any, events: Sequence[object], last: str) -> Any:
    """The reply that these events make, None where the answer was refused in the proper way."""
    try:
        for event in events:
            await answer.heed(json.dumps(event))
        await answer.heed(last)
        return answer.reply()
    except (TryAgain, TooLong, TurnError):
        return None


def check_usage(usage: Usage | None) -> None:
    """What is counted, also of two calls, is told within the server's bounds."""
    if usage is not None:
        read_token_use(json.loads(turn_done("t", "", usage + usage))["usage"])


def as_entries(reply: Any) -> Iterator[Any]:
    """A reply as the loop sends it back with the results of its calls."""
    named = _named(reply, set())
    calls = tuple(_readable(call) for call in named.calls)
    yield FromUser(text="go")
    yield FromModel(text=named.text, calls=calls, echo=named.echo)
    for call in calls:
        yield ToolResult(call_id=call.call_id, text="done")


@given(events=st.lists(OF_ANTHROPIC, max_size=8))
def test_no_event_of_anthropics_breaks_a_turn(events: list[object]) -> None:
    """Events with members of any kind make an answer that can go back, or are refused."""
    answer = anthropic_messages._Answer(hear=hear, provider=PROVIDER)
    reply = trio.run(partial(read, answer, events, '{"type":"message_stop"}'))
    check_usage(answer.usage("m"))
    if reply is not None:
        json.dumps(anthropic_messages._messages(list(as_entries(reply))))


@given(events=st.lists(OF_OPENAI, max_size=8))
def test_no_chunk_of_openais_breaks_a_turn(events: list[object]) -> None:
    """Chunks with members of any kind make an answer that can go back, or are refused."""
    answer = openai_chat._Answer(hear=hear, provider=PROVIDER)
    reply = trio.run(partial(read, answer, events, "[DONE]"))
    check_usage(answer.usage("m"))
    if reply is not None:
        entries = list(as_entries(reply))
        json.dumps(openai_chat._messages(Prompt(instructions="", entries=entries)))


def call_of(path: str, number: int, *pieces: str) -> str:
    """A call of a tool with its arguments in pieces, as the provider at `path` streams it."""
    call_id = f"c{number}"
    if path == ANTHROPIC:
        block = {"type": "tool_use", "id": call_id, "name": "look", "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        return sse(
            {"type": "content_block_start", "index": number, "content_block": block},
            *({"type": "content_block_delta", "index": number, "delta": each} for each in deltas),
        )
    calls = [
        {"index": number, "id": call_id, "function": {"name": "look", "arguments": piece}}
        for piece in pieces or ("{}",)
    ]
    return sse(*({"choices": [{"delta": {"tool_calls": [call]}}]} for call in calls))


END = {
    OPENAI: sse({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
    ANTHROPIC: sse({"type": "message_stop"}),
}
BOTH = pytest.mark.parametrize("path", [OPENAI, ANTHROPIC])


@BOTH
async def test_the_calls_of_one_answer_are_bounded(path: str, tmp_path: Path) -> None:
    """As many calls as are allowed are carried out; of an answer with one more, none is."""
    async with stage(path, tmp_path) as on:
        calls = [call_of(path, number) for number in range(CALLS_MAX + 1)]
        on.server.plays(Raw(chunks=[*calls[:-1], END[path]]))
        await on.turn("go")
        assert len(on.tools.called) == CALLS_MAX
        on.server.plays(Raw(chunks=[*calls, END[path]]))
        with pytest.raises(TurnError, match=f"more than {CALLS_MAX} tools at once"):
            await on.turn("go")
        assert len(on.tools.called) == CALLS_MAX


@BOTH
async def test_the_arguments_of_a_call_are_bounded(path: str, tmp_path: Path) -> None:
    """Arguments without an end are given up in mid-stream, and the tool is not called."""
    async with stage(path, tmp_path) as on:
        piece = "0123456789" * 400
        pieces = ['{"a": "', *[piece] * (ARGUMENTS_CHARACTERS_MAX // len(piece) + 1)]
        on.server.plays(Raw(chunks=[call_of(path, 0, *pieces)], hangs=True))
        with pytest.raises(TurnError, match="arguments of more than 256 KiB"):
            await on.turn("go")
        assert on.tools.called == []


def test_a_line_in_many_pieces_is_read_in_time() -> None:
    """A line of megabytes that comes a few bytes at a time takes time by its length."""
    reader = EventReader()
    began = time.process_time()
    for _piece in range(400_000):
        assert reader.feed(b"data: or") == []
        assert time.process_time() - began < 20
    (event,) = reader.feed(b"!\n\n")
    assert len(event) == 400_000 * 8 - 5
