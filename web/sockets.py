"""The floor under our two WebSockets: JSON frames `{"type": ...}`, close codes and a heartbeat.

A socket's handler is raw ASGI with a nursery of its own: one task receives, the actor sends, one
task keeps the heartbeat. Frames count as heard when `receive_frame` takes them, so the receiving
task must not do slow work between two of them.

    open  --close(), a bad frame, a missed heartbeat, the peer leaves-->  closed (for good)

Once closed, every call but `close` raises SocketClosed, at a checkpoint: no loop spins on a peer
that is gone. A write in progress is ended by the wire's own deadline (`web.line`); the deadline
here also covers waiting for the senders in front.
"""

from collections.abc import Mapping
from enum import IntEnum

import msgspec
import trio

from web.asgi import PeerGone, Receive, Send

FRAME_BYTES_MAX = 256 * 1024
CLOSE_SECONDS = 5.0
REASON_BYTES_MAX = 123


class CloseCode(IntEnum):
    """Why muster closes a socket; 4401 and 4403 tell the client not to try again."""

    SHUTDOWN = 1001
    CRASHED = 1011
    BAD_FRAME = 4400
    BAD_TOKEN = 4401
    NOT_ALLOWED = 4403
    HEARTBEAT_MISSED = 4408
    SUPERSEDED = 4409
    SLOW_DOWN = 4429


class SocketClosed(ConnectionError):
    """The socket is over; `code` is the close code of whoever closed it, 1006 for a lost peer."""

    def __init__(self, code: int, reason: str = "") -> None:
        super().__init__(f"{code} {reason}".rstrip())
        self.code = code
        self.reason = reason


class Socket:
    """A WebSocket of frames; one task may receive, any number may send."""

    def __init__(self, receive: Receive, send: Send, *, write_seconds: float = 30.0) -> None:
        self._receive = receive
        self._send = send
        self._write_seconds = write_seconds
        self._sending = trio.Lock()
        self._closed: SocketClosed | None = None
        self._over = trio.Event()
        self._receiving: trio.CancelScope | None = None
        self._last_heard = trio.current_time()

    @property
    def closed(self) -> bool:
        """Whether the socket is over."""
        return self._closed is not None

    @property
    def last_heard(self) -> float:
        """The time, on Trio's clock, of the last frame taken."""
        return self._last_heard

    async def accept(self) -> None:
        """Complete the handshake; SocketClosed if the client has left already."""
        message = await self._receive()
        if message["type"] != "websocket.connect":
            raise self._end(message.get("code", 1006))
        await self._write({"type": "websocket.accept"})
        self._last_heard = trio.current_time()

    async def receive_frame(self) -> dict[str, object]:
        """Return the next frame: a JSON object with a string `type`.

        A malformed one (binary, not JSON, no type, over 256 KiB) closes the socket with 4400.
        """
        message = None
        with trio.CancelScope() as self._receiving:
            if self._closed is not None:
                self._receiving.cancel()
            message = await self._receive()
        self._receiving = None
        if message is None:
            assert self._closed is not None
            raise self._closed
        if message["type"] == "websocket.disconnect":
            raise self._end(message.get("code", 1006), message.get("reason") or "")
        self._last_heard = trio.current_time()
        frame = _parse(message.get("text"))
        if isinstance(frame, str):
            await self.close(CloseCode.BAD_FRAME, frame)
            raise SocketClosed(CloseCode.BAD_FRAME, frame)
        return frame

    async def send_frame(self, frame: Mapping[str, object]) -> None:
        """Send one frame after those of earlier senders; SocketClosed once the peer is gone."""
        await self._write({"type": "websocket.send", "text": msgspec.json.encode(frame).decode()})

    async def close(self, code: int, reason: str = "") -> None:
        """Close the socket; the first close counts, a later one does nothing.

        The reason is cut to what a close frame can carry, 123 bytes of UTF-8.
        """
        if self._closed is not None:
            await trio.lowlevel.checkpoint()
            return
        self._end(code, reason)
        cut = reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore")
        with trio.move_on_after(CLOSE_SECONDS):
            async with self._sending:
                try:
                    await self._send({"type": "websocket.close", "code": int(code), "reason": cut})
                except PeerGone:
                    return

    async def wait_closed(self) -> None:
        """Return once the socket is over, whoever ended it."""
        await self._over.wait()

    async def _write(self, message: dict[str, object]) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        with trio.move_on_after(self._write_seconds):
            async with self._sending:
                if self._closed is not None:
                    raise self._closed
                try:
                    await self._send(message)
                except PeerGone:
                    raise self._end(1006) from None
                return
        raise self._end(1006, "the peer does not read")

    def _end(self, code: int, reason: str = "") -> SocketClosed:
        if self._closed is None:
            self._closed = SocketClosed(code, reason)
            self._over.set()
            if self._receiving is not None:
                self._receiving.cancel()
        return self._closed


async def keep_heartbeat(
    socket: Socket, *, interval_seconds: float = 15.0, deadline_seconds: float = 45.0
) -> None:
    """Send a ping each interval; close with 4408 once no frame came for the deadline.

    Any frame counts as a sign of life. Returns when the socket is over, so that it can't hide the
    reason from the task that receives.
    """
    next_ping = trio.current_time() + interval_seconds
    while not socket.closed:
        silent_at = socket.last_heard + deadline_seconds
        with trio.move_on_at(min(next_ping, silent_at)):
            await socket.wait_closed()
            return
        now = trio.current_time()
        if now >= socket.last_heard + deadline_seconds:
            await socket.close(CloseCode.HEARTBEAT_MISSED, "no frame came in time")
            return
        if now >= next_ping:
            next_ping = now + interval_seconds
            try:
                await socket.send_frame({"type": "ping"})
            except SocketClosed:
                return


class Beating:
    """A socket whose reader keeps the heartbeat itself, which needs neither a task nor a nursery.

    Pings go out, and the deadline counts, while somebody waits for a frame: a reader that is slow
    between two frames, or writes one down while the database is away, is no silent peer.
    """

    def __init__(self, socket: Socket, *, interval_seconds: float, deadline_seconds: float) -> None:
        self._socket = socket
        self._interval_seconds = interval_seconds
        self._deadline_seconds = deadline_seconds
        self._next_ping = trio.current_time() + interval_seconds

    async def receive_frame(self) -> dict[str, object]:
        """As Socket.receive_frame; 4408 once no frame came for the deadline."""
        silent_at = trio.current_time() + self._deadline_seconds
        while True:
            with trio.move_on_at(min(self._next_ping, silent_at)):
                return await self._socket.receive_frame()
            now = trio.current_time()
            if now >= silent_at:
                missed = SocketClosed(CloseCode.HEARTBEAT_MISSED, "no frame came in time")
                await self._socket.close(missed.code, missed.reason)
                raise missed
            self._next_ping = now + self._interval_seconds
            await self._socket.send_frame({"type": "ping"})

    async def send_frame(self, frame: Mapping[str, object]) -> None:
        """As Socket.send_frame."""
        await self._socket.send_frame(frame)


def _parse(text: str | None) -> dict[str, object] | str:
    """Return the frame, or the sentence that says what is wrong with it."""
    if text is None:
        return "frames are text"
    # A character has one byte at least, so most frames need no second copy to be measured.
    if len(text) > FRAME_BYTES_MAX or len(text.encode()) > FRAME_BYTES_MAX:
        return f"a frame has at most {FRAME_BYTES_MAX} bytes"
    try:
        frame = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return "the frame is not JSON"
    if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
        return "a frame is an object with a type"
    return frame
