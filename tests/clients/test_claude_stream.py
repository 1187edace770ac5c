"""The events of Claude Code, whatever they hold."""

import json

from hypothesis import given
from hypothesis import strategies as st

from muster.clients.agent.backend import Usage
from muster.clients.agent.claude_stream import Stream
from muster.clients.agent.frames import turn_failed
from muster.token_use import read_token_use

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
KEYS = st.sampled_from(
    (
        *("type", "subtype", "message", "event", "content", "text", "usage", "model", "id"),
        *("result", "is_error", "errors", "modelUsage", "mcp_servers", "name", "status"),
        *("delta", "content_block", "input_tokens", "output_tokens", "inputTokens"),
        "cache_read_input_tokens",
    )
)
TYPES = st.sampled_from(
    (
        *("system", "init", "assistant", "stream_event", "result", "text", "tool_use"),
        *("message_start", "message_delta", "content_block_start", "content_block_delta"),
        "content_block_stop",
    )
)
VALUES = st.recursive(
    SCALARS | TYPES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=12,
)
EVENTS = st.dictionaries(KEYS, VALUES, max_size=6).flatmap(
    lambda event: TYPES.map(lambda kind: {**event, "type": kind})
)


@given(st.lists(EVENTS.map(json.dumps).map(str.encode) | st.binary(max_size=50), max_size=6))
def test_no_event_breaks_a_turn(lines: list[bytes]) -> None:
    """Any lines at all are read without an error, into text and counts that a frame can carry."""
    stream = Stream()
    for line in lines:
        stream.take(line).encode()
    if stream.usage is not None:
        read_token_use(json.loads(turn_failed("t", "", stream.usage))["usage"])
    if stream.result is not None:
        stream.result.text.encode()


def test_a_server_of_no_known_state_is_no_harm() -> None:
    """A server's state of another kind than a word says nothing about muster's tools."""
    stream = Stream()
    for status in (["failed"], {"failed": True}, None):
        servers = [{"name": "muster", "status": status}]
        event = {"type": "system", "subtype": "init", "mcp_servers": servers}
        assert stream.take(json.dumps(event).encode()) == ""
        assert not stream.door_is_away


def test_what_other_models_took_is_counted_too() -> None:
    """The result's count is over all models that the program asked, by the name of the one."""
    stream = Stream()
    message = {"id": "m", "model": "big", "content": [], "usage": {"input_tokens": 1}}
    spent = {"inputTokens": 10, "cacheReadInputTokens": 5, "cacheCreationInputTokens": 2}
    result = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "Done.",
        "modelUsage": {"big[1m]": {**spent, "outputTokens": 3}, "small": {"outputTokens": 4}},
    }
    for event in ({"type": "assistant", "message": message}, result):
        stream.take(json.dumps(event).encode())
    assert stream.usage == Usage(
        model="big", calls=1, input_tokens=17, cached_input_tokens=5, output_tokens=7
    )
