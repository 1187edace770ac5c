"""One WebSocket from its first frame to its close, whatever is said on it.

A frame is never cancelled half-written (that would garble the stream), so each is sent under a
shield with a deadline of its own; past it the connection counts as lost.
"""

from collections.abc import Awaitable, Callable

import attrs
import trio
import trio_websocket

from muster.clients.dial import GOODBYE_SECONDS, Close, Closed, closed_by
from muster.clients.frames import FrameError

SEND_SECONDS = 10.0
WELCOME_SECONDS = 30.0


@attrs.define(kw_only=True, eq=False)
class Wire:
    """A client's end of a socket. Silence for `silence_seconds` means that the server is gone."""

    socket: trio_websocket.WebSocketConnection
    silence_seconds: float = WELCOME_SECONDS
    _lost: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    async def read(self, heed: Callable[[str | bytes], Awaitable[None]]) -> Closed:
        """Hand each frame to `heed` until the connection ends, and say how.

        A FrameError of `heed` closes it with 4400.
        """
        with self._lost:
            return await self._read(heed)
        return Closed(code=Close.LOST, reason="a frame could not be sent in time")

    async def _read(self, heed: Callable[[str | bytes], Awaitable[None]]) -> Closed:
        while True:
            raw: str | bytes | None = None
            try:
                with trio.move_on_after(self.silence_seconds):
                    raw = await self.socket.get_message()
                if raw is None:
                    return await self._close(Close.HEARTBEAT_MISSED, "the server fell silent")
                await heed(raw)
            except trio_websocket.ConnectionClosed as error:
                if error.reason is None:
                    return Closed(code=Close.LOST, reason="")
                return closed_by(error.reason.code, error.reason.reason)
            except FrameError as error:
                return await self._close(Close.BAD_FRAME, f"not a frame: {error}")

    async def send(self, frame: str) -> None:
        """Send one whole frame. What can't be sent ends `read`, and nothing is raised here."""
        with trio.CancelScope(shield=True) as sending:
            sending.deadline = trio.current_time() + SEND_SECONDS
            try:
                await self.socket.send_message(frame)
            except trio_websocket.ConnectionClosed:
                return  # the reader meets the same end and says why
        if sending.cancelled_caught:
            self._lost.cancel()

    async def _close(self, code: Close, reason: str) -> Closed:
        with trio.move_on_after(GOODBYE_SECONDS):
            await self.socket.aclose(
                code=code, reason=reason.encode()[:120].decode(errors="ignore")
            )
        return Closed(code=code, reason=reason)
