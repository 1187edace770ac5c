"""One accepted socket of the host: hello, welcome, then both ways until it closes.

Nothing but `hello` is said before `welcome` came. Each thing that was not acknowledged on an
earlier connection is said again on this one (outbox.py).
"""

import attrs
import trio

from muster.clients.dial import Closed
from muster.clients.frames import Unknown
from muster.clients.mirror import frames
from muster.clients.mirror.desk import Desk
from muster.clients.mirror.frames import Said
from muster.clients.mirror.model import Lines
from muster.clients.mirror.outbox import Outbox
from muster.clients.mirror.paste import Order
from muster.clients.mirror.watch import utc_now
from muster.clients.wires import Wire

HEARTBEATS_MISSED_MAX = 3


@attrs.define(kw_only=True, eq=False)
class Connection:
    """One accepted socket, from `hello` to its close."""

    wire: Wire
    hello: Said
    outbox: Outbox
    desk: Desk
    lines: Lines
    _welcomed: trio.Event = attrs.field(factory=trio.Event)

    async def serve(self) -> Closed:
        """Speak and heed until the connection ends, and say how."""
        self.outbox.begin_anew()
        self.desk.end_looks()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._speak)
            closed = await self.wire.read(self._heed)
            nursery.cancel_scope.cancel()
        return closed

    async def _speak(self) -> None:
        await self.wire.send(self.hello.encode(self.outbox.take_number(), utc_now().isoformat()))
        await self._welcomed.wait()
        while True:
            frame = self.outbox.next(utc_now())
            if frame is None:
                await self.outbox.wake.wait()
            else:
                await self.wire.send(frame)

    async def _heed(self, raw: str | bytes) -> None:
        match frame := frames.decode(raw):
            case frames.Welcome():
                self.wire.silence_seconds = HEARTBEATS_MISSED_MAX * frame.heartbeat_seconds
                if not self._welcomed.is_set():
                    self.lines("connected", host_id=frame.host_id, name=frame.name)
                self._welcomed.set()
            case frames.PasteFrame():
                self.desk.paste(
                    Order(
                        send_id=frame.send_id,
                        window=frame.window,
                        pane=frame.pane,
                        claude_session=frame.claude_session,
                        text=frame.text,
                        sha256=frame.sha256,
                        proof_seconds=frame.proof_seconds,
                    )
                )
            case frames.ResumeFrame():
                self.desk.resume(frame.resume_id, frame.claude_session)
            case frames.WatchFrame():
                self.desk.watch(frame.pane, frame.seconds)
            case frames.Ack():
                self.outbox.acknowledge(frame.seq)
            case frames.Ping():
                await self.wire.send(frames.pong())
            case Unknown():
                pass
