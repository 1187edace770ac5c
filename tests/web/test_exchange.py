"""What a handler's answer looks like on the wire, and what becomes of one that breaks its word."""

import pytest
import trio
import trio.testing

from tests.support.small_apps import answer, capped, raw_app
from tests.support.waiting import until
from tests.support.wire import Floor, served
from web.asgi import Receive, Scope, Send

GET = b"GET /a HTTP/1.1\r\nHost: test\r\n\r\n"
LENGTH = b"Content-Length: 5\r\n\r\n"
Headers = list[tuple[bytes, bytes]]


async def _said(floor: Floor, request: bytes) -> bytes:
    """Everything that comes back until the server ends the connection."""
    client = await floor.open()
    await client.send(request)
    return await client.read_to_end()


def _answering(headers: Headers, *parts: bytes, status: int = 200) -> object:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return app


@pytest.mark.parametrize(
    "headers",
    [
        [(b"location", b"/\r\nset-cookie: a=b")],
        [(b"x\n", b"a")],
        [(b"x", b"a\rb")],
        [(b"content-length", b"five")],
    ],
)
async def test_a_header_that_would_be_two_is_a_crash(headers: Headers) -> None:
    """Nothing of such an answer is sent: the client gets a 500, and the crash is reported."""
    async with served(_answering(headers, b"hello")) as floor:  # type: ignore[arg-type]
        said = await _said(floor, GET)
        assert said.startswith(b"HTTP/1.1 500 ")
        assert b"set-cookie" not in said
        assert len(floor.reports) == 1


@pytest.mark.parametrize("parts", [(b"hell",), (b"hello", b"o")])
async def test_a_body_of_another_length_ends_the_connection(parts: tuple[bytes, ...]) -> None:
    """The client sees that something is missing, and never a byte too much."""
    app = _answering([(b"content-length", b"5")], *parts)
    async with served(app) as floor:  # type: ignore[arg-type]
        head, _, body = (await _said(floor, GET)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert body == parts[0]
        assert len(floor.reports) == 1


async def test_an_answer_without_a_length_comes_in_chunks() -> None:
    """To HTTP/1.0, which has none, it comes bare and the connection's end is its end."""
    async with served(_answering([], b"hel", b"", b"lo")) as floor:  # type: ignore[arg-type]
        client = await floor.open()
        for _ in range(2):
            await client.send(GET)
            assert (await client.answer()).body == b"hello"
        old = await _said(floor, b"GET / HTTP/1.0\r\n\r\n")
        assert old.endswith(b"\r\n\r\nhello")
        assert b"transfer-encoding" not in old
        assert b"connection: close" in old


async def test_no_body_follows_a_204() -> None:
    """Whatever the handler sends for one, the next answer begins right behind the head."""
    async with served(_answering([], b"hello", status=204)) as floor:  # type: ignore[arg-type]
        said = await _said(floor, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert said.startswith(b"HTTP/1.1 204 ")
        assert said.endswith(b"\r\n\r\n")
        assert b"transfer-encoding" not in said


async def test_a_handler_that_answers_nothing_is_a_500() -> None:
    """The client is not left waiting."""

    async def silent(_scope: Scope, _receive: Receive, _send: Send) -> None:
        await trio.lowlevel.checkpoint()

    async with served(silent) as floor:
        assert (await _said(floor, GET)).startswith(b"HTTP/1.1 500 ")


async def test_a_head_that_was_not_sent_gives_way_to_the_500() -> None:
    """A handler that crashes between its head and its body leaves nothing of the head."""

    async def half(_scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"5"), (b"x-early", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        raise LookupError

    async with served(half) as floor:
        said = await _said(floor, GET)
        assert said.startswith(b"HTTP/1.1 500 ")
        assert b"x-early" not in said
        assert len(floor.reports) == 1


async def test_a_100_comes_only_to_who_asked_and_only_when_the_body_is_wanted() -> None:
    """Whoever waits for it sends a body that is refused by its length in vain, so there is none."""
    post = (
        b"POST /echo HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    )
    async with served(capped(raw_app)) as floor:
        client = await floor.open()
        await client.send(post % 5)
        with trio.fail_after(5):
            told = bytes(await client.stream.receive_some())
        assert told == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"hello")
        assert (await client.answer()).body == b"hello"
        assert (await _said(floor, post % 999_999)).startswith(b"HTTP/1.1 413 ")


async def test_no_100_to_a_client_that_left_is_no_crash() -> None:
    """A handler that wants the body late finds that there is none, and nothing is reported."""
    late, heard = trio.Event(), trio.Event()

    async def slow(_scope: Scope, receive: Receive, _send: Send) -> None:
        await late.wait()
        assert (await receive())["type"] == "http.disconnect"
        heard.set()

    async with served(slow) as floor:
        client = await floor.open()
        await client.send(GET.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n" + LENGTH))
        await until(lambda: floor.counts.accepted == 1)
        await trio.testing.wait_all_tasks_blocked(0.05)
        client.reset()
        await trio.testing.wait_all_tasks_blocked(0.05)
        late.set()
        with trio.fail_after(4):
            await heard.wait()
        assert floor.reports == []


async def test_a_100_is_said_only_where_there_is_a_body() -> None:
    """Who announces an empty one gets the answer alone."""
    async with served(capped(raw_app)) as floor:
        empty = b"POST /echo HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\n"
        said = await _said(floor, empty + b"Connection: close\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 200 ")


async def test_a_body_of_tiny_chunks_keeps_nobody_waiting() -> None:
    """Thousands that came in one segment are read in turns with what else is to be done."""
    sent, over = trio.Event(), trio.Event()
    turns = {"at first": 0, "all": 0}

    async def reading(_scope: Scope, receive: Receive, send: Send) -> None:
        await sent.wait()
        turns["at first"] = turns["all"]
        while (await receive()).get("more_body"):
            pass
        over.set()
        await answer(send, b"ok")

    async with served(reading) as floor, trio.open_nursery() as nursery:
        client = await floor.open()
        head = b"POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
        await client.send(head + b"1\r\nx\r\n" * 5000 + b"0\r\n\r\n")
        sent.set()
        while not over.is_set():
            turns["all"] += 1
            await trio.lowlevel.checkpoint()
        assert turns["all"] - turns["at first"] > 1000
        assert (await client.answer(b"POST")).status == 200
        nursery.cancel_scope.cancel()


async def test_a_method_is_not_repaired() -> None:
    """A proxy that guards POST does not guard `post`, so it must not be one."""
    seen: list[str] = []

    async def noting(scope: Scope, _receive: Receive, send: Send) -> None:
        seen.append(scope["method"])
        await answer(send, b"ok")

    async with served(noting) as floor:
        await _said(floor, b"post / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
    assert seen == ["post"]


async def test_a_body_in_chunks_is_read_to_its_end_however_it_is_cut() -> None:
    """Each byte may come alone; trailers are dropped, and the next request is the next."""
    body = b"5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nX: a\r\n\r\n"
    whole = b"POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n" + body
    async with served(capped(raw_app)) as floor:
        client = await floor.open()
        for byte in whole:
            await client.send(bytes([byte]))
            await trio.lowlevel.checkpoint()
        assert (await client.answer(b"POST")).body == b"hello!"
        assert await client.healthy()


async def test_requests_that_were_sent_ahead_keep_nobody_waiting() -> None:
    """A client that sends a thousand at once is served in turns with the others."""
    order: list[str] = []

    async def noting(scope: Scope, _receive: Receive, send: Send) -> None:
        order.append(scope["path"])
        await answer(send, b"ok")

    async with served(noting) as floor:
        many, other = await floor.open(), await floor.open()
        assert await other.healthy()
        await many.send(GET * 1000)
        await other.send(GET.replace(b"/a", b"/b"))
        assert (await other.answer()).status == 200
        assert "/b" in order[:900]
        many.reset()
