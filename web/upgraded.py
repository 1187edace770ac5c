"""A connection that became a WebSocket: Hypercorn code for it, and what a client can break mended.

Hypercorn 0.18 (tests/web pins each of these):

- lets an undecodable header, or a frame in the handshake's segment, escape as an exception. Here
  the first is 400, and early frames wait for the handshake.
- blocks in handing "the client has left" to a handler whose queue is full, and then for ever.
  Here the end is the queue's closing: it never blocks, and every later `receive` gives it again.
- drops what a handler sends to a WebSocket that has ended, so a send loop never learns of it.
  Here it raises PeerGone.
- goes on collecting a message that was already too large, and inflates compressed ones without a
  limit. Here the first ends the connection and compression is not offered.
- takes all frames of a segment at once, and 64 KiB are 10,000 pings, which is half a second. Here
  others have their turn between small portions.

The handler has a task of its own: one reads, the other may send at any time.
"""

import functools
from typing import Any, cast

import trio
from hypercorn.config import Config
from hypercorn.protocol.events import (
    Body,
    Data,
    EndBody,
    EndData,
    Event,
    Request,
    Response,
    StreamClosed,
)
from hypercorn.protocol.ws_stream import ASGIWebsocketState, WSStream
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState
from wsproto.events import CloseConnection
from wsproto.events import Event as FrameEvent
from wsproto.frame_protocol import CloseReason

from actors import sole_error
from web.asgi import ASGIApp, Message, PeerGone, ReportCrash, Scope
from web.exchange import make_head
from web.heads import Head, Header, Refusal
from web.line import CHUNK_BYTES, Line

STREAM_ID = 1
PORTION_BYTES = 2048


async def serve_socket(
    app: ASGIApp,
    head: Head,
    line: Line,
    first: bytes,
    *,
    client: Any,
    server: Any,
    message_bytes_max: int,
    report: ReportCrash,
) -> None:
    """Serve the WebSocket that `head` asks for until either side ends it; `first` came behind it.

    Raises Refusal for a handshake that is none.
    """
    if not _is_sound_handshake(head):
        raise Refusal(400)
    line.wants_linger = True
    config = _config(message_bytes_max)
    async with _Handlers(line, report) as handlers:
        sending = _Sending(line)
        stream = _Websocket(
            cast("AppWrapper", app),
            config,
            WorkerContext(None),
            handlers,
            False,  # no TLS
            client,
            server,
            sending.send,
            STREAM_ID,
        )
        sending.stream = stream
        await stream.handle(_request(head))
        data = first
        while True:
            await _feed(stream, data)
            try:
                data = await line.receive_some(CHUNK_BYTES)
            except (trio.ClosedResourceError, trio.BrokenResourceError):
                break
            if not data:
                break
        await stream.handle(StreamClosed(stream_id=STREAM_ID))


async def _feed(stream: WSStream, data: bytes) -> None:
    for at in range(0, len(data), PORTION_BYTES):
        if at:
            await trio.lowlevel.checkpoint()
        await stream.handle(Data(stream_id=STREAM_ID, data=data[at : at + PORTION_BYTES]))


@functools.lru_cache
def _config(message_bytes_max: int) -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = None
    config.websocket_max_message_size = message_bytes_max
    return config


def _request(head: Head) -> Request:
    return Request(
        stream_id=STREAM_ID,
        headers=[item for item in head.headers if item[0] != b"sec-websocket-extensions"],
        http_version=head.version.decode(),
        method=head.method.decode(),
        raw_path=head.raw_path + (b"?" + head.query if head.query else b""),
        state=ConnectionState(cast("Any", {})),
    )


def _is_sound_handshake(head: Head) -> bool:
    named = dict(head.headers)
    return (
        head.version == b"1.1"
        and head.length == 0
        and b"sec-websocket-key" in named
        and named.get(b"sec-websocket-version") == b"13"
        and all(
            value.isascii() for name, value in head.headers if name.startswith((b"sec-", b"conn"))
        )
    )


class _Sending:
    """Where the stream's events become bytes."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._held_head = b""
        self.stream: WSStream | None = None

    async def send(self, event: Event) -> None:
        match event:
            case Response():
                # A refusal waits for its body, so that it is one write.
                self._held_head = _head(event.status_code, event.headers)
                if event.status_code < 200:
                    await self._write(b"")
            case Body() | Data():
                await self._write(event.data)
            case EndBody() if self._held_head:
                await self._write(b"")
            case EndBody() | EndData():
                return
            case StreamClosed():
                await self._close()
            case _:
                raise AssertionError(f"a WebSocket sends no {event}")

    async def _write(self, data: bytes) -> None:
        data, self._held_head = self._held_head + data, b""
        try:
            await self._line.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await self._close()

    async def _close(self) -> None:
        self._line.hang_up()
        assert self.stream is not None
        await self.stream.handle(StreamClosed(stream_id=STREAM_ID))


def _head(status: int, headers: list[Header]) -> bytes:
    lines = [b"%b: %b\r\n" % header for header in headers]
    if status >= 200:
        lines += [b"connection: close\r\n"]
    return make_head(status, lines)


class _Websocket(WSStream):
    """A WebSocket that takes early frames, ends with its peer and never inflates."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._settled = trio.Event()

    async def handle(self, event: Event) -> None:
        if isinstance(event, Data):
            await self._settled.wait()
            if self.state is not ASGIWebsocketState.CONNECTED:
                return
        elif isinstance(event, StreamClosed):
            self._settled.set()
        await super().handle(event)

    async def app_send(self, message: Any) -> None:
        if self.closed and message is not None:
            await trio.lowlevel.checkpoint()
            raise PeerGone
        await super().app_send(message)
        if message is None or self.state is not ASGIWebsocketState.HANDSHAKE:
            self._settled.set()

    async def _send_wsproto_event(self, event: FrameEvent) -> None:
        await super()._send_wsproto_event(event)
        too_big = CloseReason.MESSAGE_TOO_BIG
        if isinstance(event, CloseConnection) and event.code == too_big:
            await self.send(StreamClosed(stream_id=self.stream_id))


class _Inbox:
    """What the handler receives: a bounded queue; its end is its closing, which never blocks."""

    def __init__(self, size: int) -> None:
        self._into, self._out = trio.open_memory_channel[Message](size)
        self._ending: Message = {"type": "websocket.disconnect"}

    async def put(self, message: Message) -> None:
        if message["type"] == "websocket.disconnect":
            self._ending = message
            self._into.close()
            return
        try:
            await self._into.send(message)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            return  # the client has left, or the handler is over: nobody wants it

    async def receive(self) -> Message:
        try:
            return await self._out.receive()
        except trio.EndOfChannel:
            return dict(self._ending)

    def close(self) -> None:
        self._out.close()


class _Handlers(TaskGroup):
    """The handler's task; what it raises is one report, and the socket ends."""

    def __init__(self, line: Line, report: ReportCrash) -> None:
        super().__init__()
        self._line = line
        self._report = report

    async def spawn_app(self, app: Any, config: Config, scope: Any, send: Any) -> Any:
        """Start the handler; returns the call that hands it what its client sent."""
        inbox = _Inbox(config.max_app_queue_size)
        assert self._nursery is not None
        self._nursery.start_soon(self._run, app, scope, inbox, send)
        return inbox.put

    async def _run(self, app: ASGIApp, scope: Scope, inbox: _Inbox, send: Any) -> None:
        async def guarded_send(message: Message) -> None:
            if self._line.closing:
                # A loop that sends to nobody would otherwise never reach a checkpoint.
                await trio.lowlevel.checkpoint()
                raise PeerGone
            await send(message)

        try:
            await app(scope, inbox.receive, guarded_send)
        except* PeerGone:
            pass
        except* Exception as crash:  # noqa: BLE001 -- a handler is a supervised child
            self._report(sole_error(crash), f"handler socket {scope['path']}")
        finally:
            inbox.close()
        await send(None)
