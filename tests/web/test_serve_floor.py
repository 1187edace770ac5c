"""The accept loop: crashes, limits, leaving clients and the way it ends."""

import resource
import socket
from functools import partial

import pytest
import trio

from muster.errors import Conflict, Invalid
from tests.support.small_apps import answer, capped, quart_app, raw_app
from tests.support.waiting import until
from tests.support.wire import RawClient, served
from web.asgi import PeerGone, Receive, Scope, Send
from web.line import Limits
from web.serve import serve

PARK = b"GET /park HTTP/1.1\r\nHost: test\r\n\r\n"
CRASH = b"GET /crash HTTP/1.1\r\nHost: test\r\n\r\n"
HEAD_OF_A_POST = b"POST /refuse HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\n"


async def test_a_taken_port_is_told() -> None:
    """A port that somebody else listens on is a conflict before the server has started."""
    async with served(raw_app) as floor, trio.open_nursery() as nursery:
        second = partial(
            serve,
            raw_app,
            host="127.0.0.1",
            port=floor.port,
            report=lambda _crash, _where: None,
            shutdown=trio.Event(),
        )
        with pytest.raises(Conflict, match=rf"127\.0\.0\.1:{floor.port} is in use"):
            await nursery.start(second)


@pytest.mark.parametrize(
    ("host", "shown"), [("192.0.2.1", "192.0.2.1:0"), ("2001:db8::1", "[2001:db8::1]:0")]
)
async def test_an_address_of_another_machine_is_told(host: str, shown: str) -> None:
    """An address that this machine does not have is refused with a sentence that names it."""
    with pytest.raises(Invalid) as refused:
        await serve(
            raw_app,
            host=host,
            port=0,
            report=lambda _crash, _where: None,
            shutdown=trio.Event(),
        )
    assert refused.value.code == "bad_configuration"
    assert f"The address {shown} of MUSTER_BIND" in refused.value.sentence


async def test_a_crashing_handler_is_one_report_and_one_500() -> None:
    """The client is told in JSON, the crash is reported once by its cause, others are served."""
    async with served(capped(raw_app)) as floor:
        client = await floor.open()
        await client.send(CRASH)
        told = await client.answer()
        assert told.status == 500
        assert b'"code":"internal_error"' in told.body
        [(crash, where)] = floor.reports
        assert isinstance(crash, LookupError)
        assert where == "handler GET /crash"
        assert await (await floor.open()).healthy()


async def test_a_crash_in_mid_answer_ends_the_connection() -> None:
    """Half an answer is never passed off as a whole one."""

    async def half(_scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"10")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise LookupError

    async with served(half) as floor:
        client = await floor.open()
        await client.send(PARK)
        assert (await client.read_to_end()).endswith(b"\r\n\r\nhalf")
        assert len(floor.reports) == 1


@pytest.mark.parametrize("kind", ["raw", "quart"])
async def test_a_refusal_before_the_body_keeps_the_connection(kind: str) -> None:
    """Head and body in two segments: the refusal arrives, and the next request is answered."""
    async with served(capped(quart_app() if kind == "quart" else raw_app)) as floor:
        client = await floor.open()
        for _ in range(20):
            await client.send(HEAD_OF_A_POST)
            await trio.testing.wait_all_tasks_blocked(0.005)
            await client.send(b"hello")
            refused = await client.answer(b"POST")
            assert (refused.status, b'"unauthorized"' in refused.body) == (401, True)
            assert await client.healthy()


async def test_a_parked_handler_learns_that_its_client_left() -> None:
    """`receive` gives http.disconnect at once, also behind a body, and gives it again."""
    seen: list[str] = []

    async def park(_scope: Scope, receive: Receive, _send: Send) -> None:
        seen.extend([(await receive())["type"] for _ in range(4)])

    for leave in (RawClient.leave, RawClient.reset):
        seen.clear()
        async with served(capped(park)) as floor:
            client = await floor.open()
            await client.send(HEAD_OF_A_POST + b"hello")
            await until(lambda: floor.counts.open)
            leave(client)
            await until(lambda: len(seen) == 4, 4.0)
            assert seen == ["http.request", *["http.disconnect"] * 3]
            await until(lambda: floor.counts.open == 0, 4.0)
            assert floor.reports == []


async def test_quart_cancels_a_parked_handler_whose_client_left() -> None:
    """Quart-Trio's handler is cancelled where it waits, and its cleanup runs."""
    ended = trio.Event()
    async with served(capped(quart_app(ended.set))) as floor:
        client = await floor.open()
        await client.send(PARK)
        await until(lambda: floor.counts.open)
        assert not ended.is_set()
        client.leave()
        with trio.fail_after(4):
            await ended.wait()
        assert floor.reports == []


async def test_a_half_closed_client_gets_its_answer() -> None:
    """A client that ended its side right behind its request is still answered."""
    async with served(capped(raw_app)) as floor:
        client = await floor.open()
        await client.send(HEAD_OF_A_POST + b"hello")
        await client.half_close()
        assert (await client.read_to_end()).startswith(b"HTTP/1.1 401 ")


async def test_a_stream_ends_with_its_reader() -> None:
    """A send loop raises PeerGone once its client has left, and nothing is reported."""
    ended = trio.Event()

    async def events(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            while True:
                await send({"type": "http.response.body", "body": b": tick\n\n", "more_body": True})
        except PeerGone:
            ended.set()
            raise

    async with served(events) as floor:
        client = await floor.open()
        await client.send(PARK)
        await client.stream.receive_some(1)
        client.reset()
        with trio.fail_after(4):
            await ended.wait()
        assert floor.reports == []


@pytest.mark.parametrize("kind", ["raw", "quart"])
async def test_an_idle_connection_ends_after_its_time(kind: str) -> None:
    """A kept connection is closed when it stays idle, after an answer too."""
    app = capped(quart_app() if kind == "quart" else raw_app)
    async with served(app, limits=Limits(idle_seconds=0.1)) as floor:
        fresh = await floor.open()
        assert await fresh.read_to_end() == b""
        used = await floor.open()
        assert await used.healthy()
        assert await used.read_to_end() == b""


@pytest.mark.parametrize("kind", ["raw", "quart"])
async def test_a_client_that_left_is_forgotten_at_once(kind: str) -> None:
    """Its connection doesn't stay for the rest of the idle time."""
    async with served(capped(quart_app() if kind == "quart" else raw_app)) as floor:
        client = await floor.open()
        assert await client.healthy()
        client.leave()
        await until(lambda: floor.counts.open == 0, 4.0)


async def test_more_connections_than_the_limit_are_closed_and_counted() -> None:
    """The one too many is closed at once, reported once, and there is room again afterwards."""
    async with served(raw_app, limits=Limits(connections_max=2)) as floor:
        first, second = await floor.open(), await floor.open()
        assert await first.healthy()
        assert await second.healthy()
        for _ in range(3):
            assert (await (await floor.open()).read_to_end()) in {b"", b"<reset>"}
        assert floor.counts.refused_full == 3
        assert [where for _, where in floor.reports] == ["accept loop is full"]
        first.leave()
        await until(lambda: floor.counts.open == 1)
        assert await (await floor.open()).healthy()


async def test_accepting_survives_a_process_without_descriptors() -> None:
    """EMFILE pauses the accept loop; the waiting client is served once there is room."""
    async with served(raw_app) as floor:
        assert await (await floor.open()).healthy()
        client = trio.socket.socket()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        spare = socket.socket()
        try:
            # The limit is the lowest number that is not given out: no further file can be opened.
            resource.setrlimit(resource.RLIMIT_NOFILE, (spare.fileno(), hard))
            spare.close()
            await client.connect(("127.0.0.1", floor.port))
            await until(lambda: floor.counts.accept_pauses >= 2)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            spare.close()
        late = RawClient(trio.SocketStream(client))
        assert await late.healthy()
        assert [where for _, where in floor.reports] == ["accept loop pauses"]
        late.leave()


async def test_shutdown_lets_a_request_in_hand_finish() -> None:
    """The port is closed at once, the answer still arrives, and then the server is over."""
    go = trio.Event()
    entered = trio.Event()

    async def slow(_scope: Scope, _receive: Receive, send: Send) -> None:
        entered.set()
        await go.wait()
        await answer(send, b"done")

    async with served(slow, grace_seconds=2.0) as floor:
        client = await floor.open()
        await client.send(PARK)
        await entered.wait()
        floor.shutdown.set()
        await trio.testing.wait_all_tasks_blocked(0.01)
        with pytest.raises(OSError, match="connect"):
            await floor.open()
        go.set()
        assert (await client.answer()).body == b"done"
        await until(lambda: floor.counts.open == 0, 4.0)


async def test_a_cancel_ends_it_in_the_middle_of_a_write() -> None:
    """A supervisor that cancels the server does not wait for a client that doesn't read."""
    async with trio.open_nursery() as nursery:
        port = await nursery.start(
            partial(
                serve,
                raw_app,
                host="127.0.0.1",
                port=0,
                report=lambda _crash, _where: None,
                shutdown=trio.Event(),
            )
        )
        client = RawClient(await trio.open_tcp_stream("127.0.0.1", port))
        await client.send(b"GET /endless HTTP/1.1\r\nHost: test\r\n\r\n")
        await client.stream.receive_some(1)
        await trio.testing.wait_all_tasks_blocked(0.05)
        nursery.cancel_scope.cancel()
        started = trio.current_time()
    assert trio.current_time() - started < 4.0
    client.leave()


async def test_a_handler_cancelled_in_its_send_leaves_no_half_answer() -> None:
    """What the parser counts as sent is sent, and the connection serves the next request."""
    whole = b"x" * 8_000_000

    async def hurried(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/healthz":
            await raw_app(scope, receive, send)
            return
        with trio.CancelScope() as scope_of_send:
            scope_of_send.cancel()
            await answer(send, whole)

    async with served(hurried) as floor:
        client = await floor.open()
        await client.send(PARK)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert (await client.answer()).body == whole
        assert await client.healthy()


@pytest.mark.parametrize("kind", ["raw", "quart"])
async def test_idle_connections_do_not_use_up_the_grace(kind: str) -> None:
    """With nothing in hand the server is over at once, however many clients keep connections."""
    app = capped(quart_app() if kind == "quart" else raw_app)
    async with served(app, grace_seconds=5.0) as floor:
        silent, used = await floor.open(), await floor.open()
        assert await used.healthy()
        floor.shutdown.set()
        assert await silent.read_to_end() == b""
        assert await used.read_to_end() == b""
        await until(lambda: floor.counts.open == 0, 4.0)
