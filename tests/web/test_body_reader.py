"""The body is read before its handler starts, within a cap and a time."""

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.support.wire import Floor, served
from web.asgi import ASGIApp, Message, Receive, Scope, Send
from web.body_reader import body_reader

CAP = 1000
POST = b"POST /a HTTP/1.1\r\nHost: test\r\n"


async def echo(_scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the body, which must come as one message."""
    message = await receive()
    assert not message["more_body"]
    headers = [(b"content-length", b"%d" % len(message["body"]))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": message["body"]})


def reader(app: ASGIApp = echo, seconds: float = 0.3) -> ASGIApp:
    """Return `app` behind a reader whose cap is for POST /a alone."""
    caps = {("POST", "/a"): CAP}
    return body_reader(
        app,
        cap_for=lambda *route: caps.get(route, 0),
        waits_at=lambda _: True,
        whole_body_seconds=seconds,
    )


def plain(body: bytes) -> bytes:
    """Return a request with a length."""
    return POST + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunked(body: bytes) -> bytes:
    """Return a request in chunks of 100 bytes."""
    parts = [body[at : at + 100] for at in range(0, len(body), 100)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


async def _status(floor: Floor, request: bytes) -> int:
    client = await floor.open()
    await client.send(request)
    return (await client.answer(b"POST")).status


@pytest.mark.parametrize("framed", [plain, chunked])
async def test_the_cap_is_exact(framed: object) -> None:
    """A body of exactly the cap passes whole, one byte more is 413 and closes the connection."""
    assert callable(framed)
    async with served(reader()) as floor:
        client = await floor.open()
        await client.send(framed(b"x" * CAP))
        assert (await client.answer(b"POST")).body == b"x" * CAP
        await client.send(framed(b"x" * (CAP + 1)))
        refused = await client.answer(b"POST")
        assert (refused.status, refused.headers[b"connection"]) == (413, b"close")
        assert (
            refused.body
            == b'{"error":"The body may have 1000 bytes here.","code":"body_too_large"}'
        )
        assert await client.read_to_end() == b""


async def test_the_cap_is_of_the_route() -> None:
    """Another path has another cap."""
    async with served(reader()) as floor:
        assert await _status(floor, plain(b"x")) == 200
        assert await _status(floor, plain(b"x").replace(b"/a ", b"/b ")) == 413


async def test_an_announced_excess_is_refused_before_it_is_sent() -> None:
    """The length in the head is enough for a 413."""
    async with served(reader(seconds=30.0)) as floor:
        assert await _status(floor, POST + b"Content-Length: 1001\r\n\r\n") == 413


async def test_a_late_body_is_408() -> None:
    """Bytes that trickle do not extend the time for the whole."""
    async with served(reader()) as floor:
        client = await floor.open()
        await client.send(POST + b"Content-Length: 900\r\n\r\n")
        async with trio.open_nursery() as nursery:

            async def trickle() -> None:
                while True:
                    await client.send(b"x")
                    await trio.testing.wait_all_tasks_blocked(0.02)

            nursery.start_soon(trickle)
            late = await client.answer(b"POST")
            nursery.cancel_scope.cancel()
        assert (late.status, late.headers[b"connection"]) == (408, b"close")
        assert b'"code":"request_timeout"' in late.body


async def test_malformed_chunks_are_400_and_no_handler_starts() -> None:
    """The client that is still there is told; the handler never sees half a body."""
    started: list[str] = []

    async def never(scope: Scope, _receive: Receive, _send: Send) -> None:
        started.append(scope["path"])

    async with served(reader(never)) as floor:
        client = await floor.open()
        await client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n")
        refused = await client.answer(b"POST")
        assert refused.status == 400
        assert b'"code":"malformed_request"' in refused.body
    assert started == []
    assert floor.reports == []


async def test_a_client_that_leaves_before_its_body_starts_no_handler() -> None:
    """A request is a whole request or none."""
    started: list[str] = []

    async def never(scope: Scope, _receive: Receive, _send: Send) -> None:
        started.append(scope["path"])

    async with served(reader(never)) as floor:
        client = await floor.open()
        await client.send(POST + b"Content-Length: 900\r\n\r\nhello")
        client.reset()
        assert await _status(floor, plain(b"x" * 2000)) == 413
    assert started == []
    assert floor.reports == []


async def test_sockets_and_bodiless_requests_pass_untouched() -> None:
    """What has no body costs nothing: the handler gets the server's own receive."""
    seen: list[Receive] = []

    async def look(_scope: Scope, receive: Receive, _send: Send) -> None:
        seen.append(receive)

    async def receive() -> Message:
        raise AssertionError("nobody asked")

    async def send(_message: Message) -> None:
        raise AssertionError("nobody answered")

    for scope in (
        {"type": "websocket", "headers": [(b"content-length", b"5")]},
        {"type": "http", "method": "GET", "path": "/", "headers": []},
        {"type": "http", "method": "GET", "path": "/", "headers": [(b"content-length", b"0")]},
    ):
        await reader(look)(scope, receive, send)
    assert seen == [receive] * 3


@given(st.lists(st.binary(max_size=400), max_size=6))
def test_any_split_of_a_body_is_replayed_whole(parts: list[bytes]) -> None:
    """However the body is cut, the handler sees it as one piece, or the client a 413."""
    pieces: list[Message] = [
        {"type": "http.request", "body": part, "more_body": True} for part in parts
    ]
    messages = iter([*pieces, {"type": "http.request"}])
    sent: list[Message] = []

    async def receive() -> Message:
        return next(messages)

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"transfer-encoding", b"chunked")]
    scope = {"type": "http", "method": "POST", "path": "/a", "headers": headers}
    trio.run(reader(), scope, receive, send)
    whole = b"".join(parts)
    if len(whole) <= CAP:
        assert (sent[0]["status"], sent[1]["body"]) == (200, whole)
    else:
        assert sent[0]["status"] == 413
