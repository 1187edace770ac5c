"""The two roads of `/mcp`: both say the same, and the short one takes only what is plain."""

import json
from typing import Any

import httpx2
import pytest

from tests.support.desk import Desk, OpenDesk
from tests.support.server import MCP_HEADERS
from web.mcp.short import CallTool, ListTools, read_plain

PLAIN = [(b"accept", b"application/json, text/event-stream")]
LIST: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
CALL: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": "a",
    "method": "tools/call",
    "params": {"name": "reply_draft", "arguments": {"message_id": 1, "body": "hello"}},
}


def called(**params: Any) -> dict[str, Any]:
    """A call with these parameters."""
    return {**CALL, "params": params}


async def ask(at: Desk, body: dict[str, Any], **headers: str) -> httpx2.Response:
    """Send one request to the door."""
    async with at.server.client(at.chief_token) as client:
        return await client.post("/mcp", json=body, headers=MCP_HEADERS | headers)


@pytest.mark.parametrize(
    "body",
    [
        LIST,
        {**LIST, "id": "x", "params": {}},
        {**LIST, "params": {"_meta": {"progressToken": 3}}},
        CALL,
        {**CALL, "id": 2**60},
        called(name="reply_draft", arguments={"message_id": "1"}),
        called(name="reply_draft", arguments={"message_id": 1, "body": "a\0b"}),
        called(name="reply_draft", arguments=None),
        called(name="reply_draft"),
        called(name=""),
        called(name="no such tool \U0001f600", arguments={}),
        called(name="reply_draft", arguments={"message_id": 1, "body": "x"}, _meta={}),
    ],
)
async def test_both_roads_answer_the_same(desk: OpenDesk, body: dict[str, Any]) -> None:
    """A member that the protocol does not know changes the road and nothing of the answer."""
    assert read_plain(PLAIN, json.dumps(body).encode()) is not None
    longer = {**body, "unknown": True}
    assert read_plain(PLAIN, json.dumps(longer).encode()) is None
    async with desk() as at:
        short, library = await ask(at, body), await ask(at, longer)
        assert (short.status_code, short.json()) == (library.status_code, library.json())
        for answer in (short, library):
            assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        json.dumps([LIST]).encode(),
        json.dumps({**LIST, "method": "ping"}).encode(),
        json.dumps({**LIST, "method": "initialize"}).encode(),
        json.dumps({**LIST, "id": None}).encode(),
        json.dumps({**LIST, "id": 1.5}).encode(),
        json.dumps({**LIST, "id": True}).encode(),
        json.dumps({**LIST, "jsonrpc": "1.0"}).encode(),
        json.dumps({**LIST, "params": {"cursor": "x"}}).encode(),
        json.dumps({**LIST, "params": []}).encode(),
        json.dumps({**LIST, "params": None}).encode(),
        json.dumps({"jsonrpc": "2.0", "method": "tools/list"}).encode(),
        json.dumps({**CALL, "params": {}}).encode(),
        json.dumps(called(name=1)).encode(),
        json.dumps(called(name="x", arguments=[])).encode(),
        json.dumps(called(name="x", task={"ttl": 1})).encode(),
        json.dumps(called(name="x", _meta={"other": 1})).encode(),
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list"} x',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\\ud800"}}',
        b'{"jsonrpc":"2.0","id":' + b"[" * 100_000,
    ],
    ids=lambda body: repr(body[:60]),
)
def test_what_is_not_plain_is_the_librarys(body: bytes) -> None:
    """Other methods, notifications, batches, unknown members and broken JSON."""
    assert read_plain(PLAIN, body) is None


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"accept", b"application/json")],
        [(b"accept", b"text/event-stream")],
        [(b"accept", b"*/*")],
        [*PLAIN, (b"mcp-protocol-version", b"1999-01-01")],
        [
            *PLAIN,
            (b"mcp-protocol-version", b"2025-06-18"),
            (b"mcp-protocol-version", b"2025-06-18"),
        ],
        [*PLAIN, (b"mcp-session-id", b"x")],
        [*PLAIN, (b"origin", b"http://test")],
    ],
)
def test_unusual_headers_lead_to_the_library(headers: list[tuple[bytes, bytes]]) -> None:
    """What the door's Accept and version rules make of them is the library's to say."""
    assert read_plain(headers, json.dumps(LIST).encode()) is None


def test_plain_requests_are_read() -> None:
    """Both methods, each version that begins with a handshake, and none at all."""
    for version in (b"2024-11-05", b"2025-03-26", b"2025-06-18", b"2025-11-25"):
        headers = [*PLAIN, (b"mcp-protocol-version", version)]
        assert isinstance(read_plain(headers, json.dumps(LIST).encode()), ListTools)
    call = read_plain(PLAIN, json.dumps(CALL).encode())
    assert isinstance(call, CallTool)
    assert (call.id, call.params.name) == ("a", "reply_draft")
    assert call.arguments == {"message_id": 1, "body": "hello"}


async def test_the_protocols_own_methods_are_answered(desk: OpenDesk) -> None:
    """A ping, a notification, an unknown method, a batch and a wrong Accept."""
    async with desk() as at:
        assert (await ask(at, {**LIST, "method": "ping"})).json()["result"] == {}
        noted = await ask(at, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (noted.status_code, noted.content) == (202, b"")
        unknown = await ask(at, {**LIST, "method": "resources/list"})
        assert unknown.json()["error"]["code"] == -32601
        assert (await ask(at, [LIST])).status_code == 400  # type: ignore[arg-type]
        assert (await ask(at, LIST, Accept="text/html")).status_code == 406
        assert (await ask(at, CALL, Accept="text/html")).status_code == 406
