"""A connection that became a WebSocket: wsproto's frames, in the one task of the connection.

There are thousands of sockets that say next to nothing, so each costs as little as it can: the
handler is this task, and what its client sends is read when it asks for it. What follows from that,
and what a client may not break (tests/web pins each):

- Nobody reads while the handler does not: pings are answered, and a client that left is noticed, by
  the next receive. A send to one that left raises PeerGone once the wire tells.
- Frames that come before the handshake was answered wait for it.
- After the end every receive gives the disconnect again, and every send raises PeerGone.
- A message that is too large ends the connection at once; compression is not offered, for it would
  be inflated without a limit.
- 64 KiB are 10,000 pings, which is half a second: others have their turn between small portions.

Rejected: Hypercorn's WSStream, which needs a task, a queue and a nursery more for each socket, and
of which all of the above had to be mended.
"""

from collections import deque
from typing import Any

import trio
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Message, Ping, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, generate_accept_token

from actors import sole_error
from web.asgi import ASGIApp, PeerGone, ReportCrash, Scope
from web.asgi import Message as AppMessage
from web.exchange import make_head
from web.heads import Head, Header, Refusal
from web.line import CHUNK_BYTES, Line

PORTION_BYTES = 2048
EARLY_BYTES_MAX = 256 * 1024
_ASGI = {"spec_version": "2.3", "version": "3.0"}
_UPGRADE = (b"upgrade: WebSocket\r\n", b"connection: Upgrade\r\n")
_GONE = (trio.ClosedResourceError, trio.BrokenResourceError)


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

    Raises Refusal for a handshake that is none. What the handler raises is one report.
    """
    scope, key = _handshake(head, client, server)
    line.wants_linger = True
    socket = _Upgraded(line, key, first, message_bytes_max)
    try:
        await app(scope, socket.receive, socket.send)
    except* PeerGone:
        pass
    except* Exception as crash:  # noqa: BLE001 -- a handler is a supervised child
        report(sole_error(crash), f"handler socket {scope['path']}")
    await socket.finish()


def _is_sound_handshake(head: Head, named: dict[bytes, bytes]) -> bool:
    return (
        head.version == b"1.1"
        and head.length == 0
        and b"sec-websocket-key" in named
        and named.get(b"sec-websocket-version") == b"13"
        and named.get(b"upgrade", b"").lower() == b"websocket"
        and all(
            value.isascii() for name, value in head.headers if name.startswith((b"sec-", b"conn"))
        )
    )


def _handshake(head: Head, client: Any, server: Any) -> tuple[Scope, bytes]:
    """What the handler is told of a handshake, and its key."""
    named = dict(head.headers)
    if not _is_sound_handshake(head, named):
        raise Refusal(400)
    return _scope(head, named, client, server), named[b"sec-websocket-key"]


def _scope(head: Head, named: dict[bytes, bytes], client: Any, server: Any) -> Scope:
    offered = named.get(b"sec-websocket-protocol", b"").decode()
    return {
        "type": "websocket",
        "asgi": _ASGI,
        "scheme": "ws",
        "http_version": head.version.decode(),
        "path": head.path,
        "raw_path": head.raw_path,
        "query_string": head.query,
        "root_path": "",
        "headers": [item for item in head.headers if item[0] != b"sec-websocket-extensions"],
        "client": client,
        "server": server,
        "state": {},
        "subprotocols": [one.strip() for one in offered.split(",") if one.strip()],
        "extensions": {"websocket.http.response": {}},
    }


class _Upgraded:
    """What the handler receives from and sends to."""

    __slots__ = (
        "_ending",
        "_frames",
        "_head",
        "_inbox",
        "_key",
        "_line",
        "_message_max",
        "_parts",
        "_parts_length",
        "_told",
        "_unread",
    )

    def __init__(self, line: Line, key: bytes, first: bytes, message_max: int) -> None:
        self._line = line
        self._key = key
        self._unread = first
        self._message_max = message_max
        self._frames: Connection | None = None  # once the handshake was answered
        self._told = False  # of the connect
        self._ending: AppMessage | None = None
        self._inbox: deque[AppMessage] | None = None
        self._parts: list[str | bytes] | None = None
        self._parts_length = 0
        self._head = b""  # of an answer instead of a handshake, that waits for its body

    async def receive(self) -> AppMessage:
        """The next message of ASGI; the disconnect, again and again, after the end."""
        if not self._told:
            self._told = True
            await trio.lowlevel.checkpoint()
            return {"type": "websocket.connect"}
        while True:
            if self._inbox:
                await trio.lowlevel.checkpoint()
                return self._next()
            if self._ending is not None:
                await trio.lowlevel.checkpoint()
                return dict(self._ending)
            await self._read()

    def _next(self) -> AppMessage:
        assert self._inbox is not None
        message = self._inbox.popleft()
        if not self._inbox:
            self._inbox = None  # an empty deque is 600 bytes, in each of thousands of sockets
        return message

    async def _read(self) -> None:
        """Take what is there, in small portions, or wait for more."""
        if self._frames is not None and self._unread:
            data, self._unread = self._unread[:PORTION_BYTES], self._unread[PORTION_BYTES:]
            await self._feed(self._frames, data)
            if self._unread:
                await trio.lowlevel.checkpoint()
            return
        try:
            data = await self._line.receive_some(CHUNK_BYTES)
        except _GONE:
            data = b""
        self._unread += data
        if not data or len(self._unread) > EARLY_BYTES_MAX:
            self._end(CloseReason.ABNORMAL_CLOSURE)

    async def _feed(self, frames: Connection, data: bytes) -> None:
        frames.receive_data(data)
        for event in frames.events():
            match event:
                case Message():
                    await self._take(frames, event)
                case Ping():
                    await self._write(frames.send(event.response()))
                case CloseConnection():
                    await self._closed(frames, event)
                case _:
                    pass  # a pong
            if self._ending is not None:
                return

    async def _take(self, frames: Connection, event: "Message[Any]") -> None:
        self._parts_length += len(event.data)
        if self._parts_length > self._message_max:
            too_big = CloseConnection(code=CloseReason.MESSAGE_TOO_BIG)
            await self._write(frames.send(too_big))
            self._end(CloseReason.MESSAGE_TOO_BIG)
        elif event.message_finished and self._parts is None:
            self._deliver(event, event.data)
        else:
            self._parts = self._parts or []
            self._parts.append(event.data)
            if event.message_finished:
                empty = "" if isinstance(event, TextMessage) else b""
                self._deliver(event, empty.join(self._parts))  # type: ignore[arg-type]

    def _deliver(self, event: Event, data: "str | bytes | bytearray") -> None:
        self._parts, self._parts_length = None, 0
        is_text = isinstance(event, TextMessage)
        message: AppMessage = {
            "type": "websocket.receive",
            "text": data if is_text else None,
            "bytes": None if is_text else bytes(data),  # type: ignore[arg-type]
        }
        if self._inbox is None:
            self._inbox = deque()
        self._inbox.append(message)

    async def _closed(self, frames: Connection, event: CloseConnection) -> None:
        """The client closes, or sent what is no frame: tell it so, and end."""
        answer: Event = event
        if frames.state is ConnectionState.REMOTE_CLOSING:
            answer = event.response()
        if frames.state is not ConnectionState.CLOSED:
            await self._write(frames.send(answer))
        self._end(event.code, event.reason)

    async def send(self, message: AppMessage) -> None:
        """Send a message of ASGI. Raises PeerGone after the end."""
        if self._ending is not None or self._line.closing:
            # A loop that sends to nobody would otherwise never reach a checkpoint.
            await trio.lowlevel.checkpoint()
            raise PeerGone
        match message["type"], self._frames:
            case "websocket.accept", None:
                await self._accept(message)
            case "websocket.send", Connection() as frames:
                text = message.get("text")
                event: Event = TextMessage(data=text) if text is not None else BytesMessage(
                    data=message["bytes"]
                )  # fmt: skip
                await self._write(frames.send(event))
            case "websocket.close", Connection() as frames:
                code = int(message.get("code", CloseReason.NORMAL_CLOSURE))
                reason = message.get("reason") or ""
                await self._write(frames.send(CloseConnection(code=code, reason=reason)))
                self._end(CloseReason.NORMAL_CLOSURE)
            case "websocket.close", None:
                await self._refuse(403)
            case "websocket.http.response.start", None:
                self._head = _head(message["status"], list(message["headers"]))
            case "websocket.http.response.body", None if self._head:
                await self._write(self._head + message.get("body", b""))
                self._head = b""
                if not message.get("more_body", False):
                    self._end(CloseReason.NORMAL_CLOSURE)
            case _:
                raise AssertionError(f"a WebSocket sends no {message['type']} now")

    async def _accept(self, message: AppMessage) -> None:
        lines = [*_UPGRADE, b"sec-websocket-accept: %b\r\n" % generate_accept_token(self._key)]
        if (protocol := message.get("subprotocol")) is not None:
            lines.append(b"sec-websocket-protocol: %b\r\n" % protocol.encode())
        lines += [b"%b: %b\r\n" % header for header in message.get("headers") or ()]
        self._frames = Connection(ConnectionType.SERVER)
        await self._write(make_head(101, lines))

    async def finish(self) -> None:
        """The handler is over: who was not told of an end is told now."""
        if self._ending is not None or self._line.closing:
            return
        if self._frames is None:
            await self._refuse(500)
            return
        try:
            broken = CloseConnection(code=CloseReason.INTERNAL_ERROR)
            await self._write(self._frames.send(broken))
        except LocalProtocolError:
            pass  # the client is closing
        self._end(CloseReason.INTERNAL_ERROR)

    async def _refuse(self, status: int) -> None:
        await self._write(_head(status, [(b"content-length", b"0")]))
        self._end(CloseReason.NORMAL_CLOSURE)

    async def _write(self, data: bytes) -> None:
        try:
            await self._line.send_all(data)
        except _GONE:
            self._end(CloseReason.ABNORMAL_CLOSURE)

    def _end(self, code: int, reason: str | None = None) -> None:
        if self._ending is None:
            self._ending = {"type": "websocket.disconnect", "code": int(code), "reason": reason}
        self._unread = b""
        self._line.hang_up()


def _head(status: int, headers: list[Header]) -> bytes:
    lines = [b"%b: %b\r\n" % header for header in headers]
    return make_head(status, [*lines, b"connection: close\r\n"])
