"""Frames, close codes and the heartbeat, between a real WebSocket client and our server."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, open_websocket

from tests.support.waiting import until
from tests.support.wire import Floor, served
from web.asgi import Message, Receive, Scope, Send
from web.errors import refuse_socket
from web.line import Limits
from web.sockets import FRAME_BYTES_MAX, CloseCode, Socket, SocketClosed, keep_heartbeat

HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
Talk = Callable[[Socket], Awaitable[None]]


class Ending:
    """How the server's side of a conversation ended."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.reason: SocketClosed | None = None


@asynccontextmanager
async def talking(
    talk: Talk, *, limits: Limits | None = None
) -> AsyncIterator[tuple[Floor, Ending]]:
    """Serve sockets that run `talk` after the handshake."""
    ending = Ending()

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        socket = Socket(receive, send)
        try:
            await socket.accept()
            await talk(socket)
        except SocketClosed as closed:
            ending.reason = closed
        finally:
            ending.over.set()

    async with served(app, limits=limits) as floor:
        yield floor, ending
        assert floor.reports == []


async def test_a_segment_of_pings_keeps_nobody_waiting() -> None:
    """Thousands that came at once are answered in turns with what else is to be done."""
    sent, over = trio.Event(), trio.Event()
    turns = {"at first": 0, "all": 0}

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["type"] == "websocket.connect"
        await sent.wait()
        turns["at first"] = turns["all"]
        await send({"type": "websocket.accept"})
        assert (await receive())["text"] == "hi"
        over.set()

    async with served(app) as floor:
        client = await floor.open()
        await client.send(HANDSHAKE + b"\x89\x80\0\0\0\0" * 5000 + b"\x81\x82\0\0\0\0hi")
        sent.set()
        while not over.is_set():
            turns["all"] += 1
            await trio.lowlevel.checkpoint()
        assert turns["all"] - turns["at first"] >= 10
        client.leave()


@asynccontextmanager
async def connected(floor: Floor) -> AsyncIterator[WebSocketConnection]:
    """Connect a client."""
    with trio.fail_after(5):
        async with open_websocket("127.0.0.1", floor.port, "/", use_ssl=False) as client:
            try:
                yield client
            finally:
                # The library leaves the TCP stream open when it was the server that closed.
                with trio.move_on_after(1):
                    await client.aclose()
                assert isinstance(client._stream, trio.SocketStream)
                client._stream.socket.close()


async def _echo(socket: Socket) -> None:
    while True:
        await socket.send_frame(await socket.receive_frame())


async def _close_of(client: WebSocketConnection) -> tuple[int, str | None]:
    try:
        while True:
            await client.get_message()
    except ConnectionClosed as closed:
        reason = closed.reason
    assert reason is not None
    return reason.code, reason.reason


async def test_frames_go_both_ways() -> None:
    """A frame is a JSON object with a type, and arrives as it was sent."""
    async with talking(_echo) as (floor, _), connected(floor) as client:
        frame = {"type": "turn.delta", "text": "é \u2028 \U0001f600", "n": 1.5, "of": [None, True]}
        await client.send_message(json.dumps(frame))
        assert json.loads(await client.get_message()) == frame


@pytest.mark.parametrize(
    "message",
    [
        "",
        "nonsense",
        "[]",
        "null",
        "{}",
        '{"type": 1}',
        '{"type": "a"} {}',
        '{"type": NaN}',
        r'{"type": "\ud800"}',
        '{"type": "a", "deep": ' + "[" * 100_000 + "]" * 100_000 + "}",
        b'{"type": "a"}',
        '{"type": "a", "t": "' + "é" * (FRAME_BYTES_MAX // 2) + '"}',
    ],
    ids=lambda message: message[:16],
)
async def test_a_malformed_frame_closes_4400(message: str | bytes) -> None:
    """What is not a frame ends the socket, and both sides know why."""
    async with talking(_echo) as (floor, ending), connected(floor) as client:
        await client.send_message(message)
        code, reason = await _close_of(client)
        assert (code, bool(reason)) == (CloseCode.BAD_FRAME, True)
        await ending.over.wait()
        assert ending.reason is not None
        assert ending.reason.code == CloseCode.BAD_FRAME


async def test_a_message_over_the_wires_limit_closes_1009() -> None:
    """More characters than a frame may have bytes do not even reach the handler."""
    async with talking(_echo) as (floor, ending), connected(floor) as client:
        await client.send_message("x" * (FRAME_BYTES_MAX + 1))
        assert (await _close_of(client))[0] == 1009
        await ending.over.wait()
        assert ending.reason is not None


async def test_the_largest_frame_passes() -> None:
    """256 KiB to the byte are a frame."""
    head = '{"type":"a","t":"'
    async with talking(_echo) as (floor, _), connected(floor) as client:
        message = head + "x" * (FRAME_BYTES_MAX - len(head) - 2) + '"}'
        await client.send_message(message)
        assert await client.get_message() == message


@pytest.mark.parametrize("code", CloseCode)
async def test_each_close_code_reaches_a_client_that_is_sending(code: CloseCode) -> None:
    """A close is not lost to the frames that are still on their way to us."""

    async def refuse(socket: Socket) -> None:
        await socket.close(code, "because " + "é" * 100)
        await socket.close(CloseCode.CRASHED, "a later one does nothing")

    async with talking(refuse) as (floor, _), connected(floor) as client:
        with suppress(ConnectionClosed):
            for _ in range(20):
                await client.send_message('{"type": "eager"}' + " " * 10_000)
        told, reason = await _close_of(client)
        assert told == code
        assert reason is not None
        assert reason.startswith("because é")


async def test_concurrent_senders_do_not_mix() -> None:
    """Many tasks may send at once; each frame arrives whole and each sender's in order."""

    async def chorus(socket: Socket) -> None:
        async def sing(singer: int) -> None:
            for verse in range(20):
                text = f"{singer}" * 5_000
                await socket.send_frame({"type": "v", "of": singer, "verse": verse, "text": text})

        async with trio.open_nursery() as nursery:
            for singer in range(8):
                nursery.start_soon(sing, singer)
        await socket.close(1000)

    async with talking(chorus) as (floor, _), connected(floor) as client:
        heard: dict[int, list[int]] = {}
        for _ in range(160):
            frame = json.loads(await client.get_message())
            assert set(frame["text"]) == {str(frame["of"])}
            heard.setdefault(frame["of"], []).append(frame["verse"])
        assert heard == {singer: list(range(20)) for singer in range(8)}


async def test_a_vanished_client_ends_the_receiver() -> None:
    """A client that is gone without a close is a SocketClosed 1006."""
    async with talking(_echo) as (floor, ending), connected(floor) as client:
        await client.send_message('{"type": "a"}')
        await client.get_message()
        await client._stream.aclose()
        with trio.fail_after(4):
            await ending.over.wait()
        assert ending.reason is not None
        assert ending.reason.code == 1006
        await until(lambda: floor.counts.open == 0, 4.0)


async def test_a_send_loop_ends_when_its_peer_is_gone() -> None:
    """A sender that never receives learns it from its sends; it doesn't spin for ever."""

    async def chatter(socket: Socket) -> None:
        while True:
            await socket.send_frame({"type": "tick"})

    async with talking(chatter) as (floor, ending):
        # A library's client waits for room in its own queue, and would not always leave.
        client = await floor.open()
        await client.send(HANDSHAKE)
        assert await client.stream.receive_some()
        client.leave()
        with trio.fail_after(4):
            await ending.over.wait()
        assert ending.reason is not None
        assert ending.reason.code == 1006


async def test_a_peer_that_does_not_read_is_dropped() -> None:
    """A write has a deadline on the wire, and the sender is told."""

    async def flood(socket: Socket) -> None:
        while True:
            await socket.send_frame({"type": "a", "text": "x" * 200_000})

    async with talking(flood, limits=Limits(write_seconds=0.2)) as (floor, ending):
        client = await floor.open()
        await client.send(
            b"GET / HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        with trio.fail_after(4):
            await ending.over.wait()
        assert floor.counts.slow_readers == 1
        await until(lambda: floor.counts.open == 0, 4.0)


async def test_a_silent_peer_is_pinged_and_then_closed_4408() -> None:
    """Pings go out each interval; without any frame the deadline closes the socket."""

    async def listen(socket: Socket) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_beat(socket, interval=0.05, deadline=0.3))
            with suppress(SocketClosed):
                await socket.receive_frame()
            assert socket.closed

    async with talking(listen) as (floor, ending), connected(floor) as client:
        began = trio.current_time()
        assert json.loads(await client.get_message()) == {"type": "ping"}
        assert (await _close_of(client))[0] == CloseCode.HEARTBEAT_MISSED
        assert 0.25 < trio.current_time() - began < 4.0
        with trio.fail_after(4):
            await ending.over.wait()


async def test_any_frame_keeps_a_socket_alive() -> None:
    """A peer that answers pings outlives its deadline many times over."""

    async def listen(socket: Socket) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_beat(socket, interval=0.02, deadline=0.2))
            with suppress(SocketClosed):
                while True:
                    await socket.receive_frame()

    async with talking(listen) as (floor, ending), connected(floor) as client:
        with trio.move_on_after(0.6):
            while True:
                assert json.loads(await client.get_message()) == {"type": "ping"}
                await client.send_message('{"type": "pong"}')
        assert not ending.over.is_set()


async def test_a_handshake_can_be_refused_with_an_answer() -> None:
    """A door may answer with an HTTP error in JSON instead of accepting."""

    async def refuse(_scope: Scope, _receive: Receive, send: Send) -> None:
        await refuse_socket(send, 404, "not_found", "There is no such socket.")

    async with served(refuse) as floor:
        client = await floor.open()
        await client.send(
            b"GET / HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        refused = await client.answer()
        assert refused.status == 404
        assert refused.body == b'{"error":"There is no such socket.","code":"not_found"}'


async def test_a_crashing_socket_closes_1011() -> None:
    """A crash in a socket's handler is one report, and the client is told to come again."""

    async def crash(_scope: Scope, receive: Receive, send: Send) -> None:
        await Socket(receive, send).accept()
        raise LookupError

    async with served(crash) as floor:
        async with connected(floor) as client:
            assert (await _close_of(client))[0] == CloseCode.CRASHED
        assert [where for _, where in floor.reports] == ["handler socket /"]


async def test_a_send_that_waits_too_long_for_its_turn_ends_the_socket(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The deadline of a send also covers the senders in front of it."""

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        if message["type"] == "websocket.send":
            await trio.sleep_forever()

    socket = Socket(receive, send, write_seconds=5.0)
    await socket.accept()
    endings: list[int] = []

    async def say() -> None:
        try:
            await socket.send_frame({"type": "a"})
        except SocketClosed as closed:
            endings.append(closed.code)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(say)
        nursery.start_soon(say)
    assert endings == [1006, 1006]
    assert trio.current_time() < 6.0
    assert socket.closed


def _beat(socket: Socket, *, interval: float, deadline: float) -> Callable[[], Awaitable[None]]:
    return partial(keep_heartbeat, socket, interval_seconds=interval, deadline_seconds=deadline)
