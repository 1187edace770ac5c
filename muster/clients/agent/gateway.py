"""The runner's side of the agent gateway: one socket, one turn in hand, back after every loss.

Theory. A connection is `connecting`, then `welcomed`, then closed for a reason. Three reasons end
the runner: the token is bad, the agent may not, or another runner took over (two runners that
fight for one agent would supersede each other for ever). Every other one is waited out.

A turn is in hand from the `turn` frame until its backend has ended. What can race:

- A second `turn` while one is in hand is answered `turn.busy`: nothing was handed over.
- `cancel` unwinds the backend before the next frame is read, so that a turn sent right after it
  finds the runner free.
- The connection is lost in mid-turn: the backend is cancelled and nothing is answered later. The
  server has called the turn unconfirmed by then; an answer on a newer connection would be noise.
- The runner is stopped in mid-turn: `turn.failed` still goes out, under a short shield.

Rejected: finishing a turn after its connection is gone, and a queue of turns. The server's queue
is the only one.
"""

import functools
import ssl
from collections.abc import Callable, Mapping

import attrs
import httpx2
import trio
import trio_websocket

from muster.clients.agent import frames
from muster.clients.agent.backend import (
    DEFAULT_CONVERSATION,
    Backend,
    Tools,
    Turn,
    TurnError,
    TurnId,
    Usage,
)
from muster.clients.agent.mcp import McpTools
from muster.clients.coming_back import Backoff, come_back
from muster.clients.dial import Closed, converse, socket_url
from muster.clients.frames import Unknown
from muster.clients.wires import Wire

UNWIND_SECONDS = 5.0  # a backend that ignores a cancel for longer delays pings no further
HEARTBEATS_MISSED_MAX = 3
PATH = "/agent/v1/socket"

Report = Callable[[str, Mapping[str, object]], None]


@attrs.define(kw_only=True, eq=False)
class _Hand:
    """The turn in hand: cancel through `scope`, `ended` is set once its answer is out."""

    turn_id: TurnId
    usage: Usage | None = None
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    ended: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(kw_only=True, eq=False)
class Connection:
    """One accepted socket, from its first frame to its close."""

    wire: Wire
    backend: Backend
    tools: Tools
    report: Report
    instructions: str = ""
    hand: _Hand | None = None

    async def serve(self) -> Closed:
        """Read frames until the connection ends, and say how."""
        async with trio.open_nursery() as nursery:
            closed = await self.wire.read(functools.partial(self._heed, nursery))
            nursery.cancel_scope.cancel()
        return closed

    async def _heed(self, nursery: trio.Nursery, raw: str | bytes) -> None:
        match frame := frames.decode(raw):
            case frames.Welcome():
                self.instructions = frame.instructions
                self.wire.silence_seconds = HEARTBEATS_MISSED_MAX * frame.heartbeat_seconds
                self.report("connected", {"agent_id": frame.agent_id, "name": frame.name})
            case frames.TurnFrame():
                await self._take(frame, nursery)
            case frames.Cancel():
                if self.hand is not None and self.hand.turn_id == frame.turn_id:
                    self.hand.scope.cancel()
                    with trio.move_on_after(UNWIND_SECONDS):
                        await self.hand.ended.wait()
            case frames.Ping():
                await self.wire.send(frames.pong())
            case Unknown():
                pass

    async def _take(self, frame: frames.TurnFrame, nursery: trio.Nursery) -> None:
        async def say(text: str) -> None:
            await self.wire.send(frames.turn_delta(frame.turn_id, text))

        def count(usage: Usage) -> None:
            hand.usage = usage if hand.usage is None else hand.usage + usage

        def report(event: str, facts: Mapping[str, object]) -> None:
            self.report(event, {"turn_id": frame.turn_id, **facts})

        hand = _Hand(turn_id=frame.turn_id)
        turn = Turn(
            turn_id=frame.turn_id,
            text=frame.text,
            deadline_seconds=frame.deadline_seconds,
            conversation=frame.conversation or DEFAULT_CONVERSATION,
            title=frame.title,
            instructions=self.instructions,
            say=say,
            count=count,
            report=report,
        )
        if self.hand is not None or not self.backend.takes(turn):
            self.report("turn.busy", {"turn_id": frame.turn_id})
            await self.wire.send(frames.turn_busy(frame.turn_id))
            return
        self.hand = hand
        nursery.start_soon(self._work, turn, hand)

    async def _work(self, turn: Turn, hand: _Hand) -> None:
        answer, event = "the runner was stopped in the middle of the turn", "turn.failed"
        try:
            with hand.scope:
                self.report("turn.started", {"turn_id": turn.turn_id})
                await self.wire.send(frames.turn_started(turn.turn_id))
                with trio.move_on_after(turn.deadline_seconds) as limit:
                    answer, event = await self._ask(turn)
                if limit.cancelled_caught:
                    answer = f"the turn did not end within its {turn.deadline_seconds:g} s"
            if hand.scope.cancelled_caught:
                answer = "the turn was cancelled"
        finally:
            spent = {} if hand.usage is None else {"usage": attrs.asdict(hand.usage)}
            self.report(event, {"turn_id": turn.turn_id, "text": answer, **spent})
            done = event == "turn.done"
            encode = frames.turn_done if done else frames.turn_failed
            # Free before the answer is out: the next turn may follow it at once.
            self.hand = None
            await self.wire.send(encode(turn.turn_id, answer, hand.usage))
            hand.ended.set()

    async def _ask(self, turn: Turn) -> tuple[str, str]:
        try:
            return await self.backend.turn(turn, self.tools), "turn.done"
        except TurnError as error:
            return str(error), "turn.failed"


@attrs.define(kw_only=True, eq=False)
class Gateway:
    """Keeps `backend` connected to the muster at `url` as the agent of `token`."""

    url: str
    token: str = attrs.field(repr=False)
    backend: Backend
    report: Report
    backoff: Backoff = attrs.field(factory=Backoff)

    async def run(self) -> Closed:
        """Serve turns until cancelled; returns only what no retry mends (a reason of FINAL)."""
        tls = ssl.create_default_context() if self.url.startswith("https:") else None
        # Proxies of the environment are left out on both ways: the socket knows none.
        async with httpx2.AsyncClient(verify=tls or False, trust_env=False) as http:
            connect = functools.partial(self._connect, http, tls)
            return await come_back(connect, self.backoff, self.report)

    async def _connect(self, http: httpx2.AsyncClient, tls: ssl.SSLContext | None) -> Closed:
        async def serve(socket: trio_websocket.WebSocketConnection) -> Closed:
            connection = Connection(
                wire=Wire(socket=socket),
                backend=self.backend,
                tools=McpTools(http=http, url=self.url, token=self.token),
                report=self.report,
            )
            return await connection.serve()

        return await converse(socket_url(self.url, PATH), self.token, tls, serve)
