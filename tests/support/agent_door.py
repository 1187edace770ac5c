"""An agent gateway that a test plays: it accepts runners, sends frames and reads theirs."""

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
import trio_websocket

from muster.clients.agent.backend import Backend, Tools, Turn, TurnError
from muster.clients.agent.gateway import Gateway
from muster.clients.coming_back import Backoff
from muster.clients.dial import Closed

TOKEN = "mag_secret-of-the-test"
QUICK = Backoff(least_seconds=0.01, most_seconds=0.05)
DEADLINE_SECONDS = 10


@attrs.define
class Peer:
    """The server's end of one connection."""

    socket: trio_websocket.WebSocketConnection
    headers: dict[bytes, bytes]
    path: str

    async def send(self, kind: str, **members: object) -> None:
        """Send a frame of the server."""
        await self.socket.send_message(json.dumps({"type": kind, **members}))

    async def receive(self) -> dict[str, Any]:
        """Wait for the runner's next frame."""
        with trio.fail_after(DEADLINE_SECONDS):
            frame: dict[str, Any] = json.loads(await self.socket.get_message())
            return frame

    async def welcome(self, heartbeat_seconds: float = 15) -> None:
        """Greet the runner as the agent helper."""
        await self.send(
            "welcome",
            agent_id=3,
            name="helper",
            instructions="Be kind.",
            heartbeat_seconds=heartbeat_seconds,
        )

    async def turn(self, turn_id: str, text: str = "hello", deadline_seconds: float = 60) -> None:
        """Hand the runner a turn."""
        await self.send(
            "turn",
            turn_id=turn_id,
            conversation="plugin:1",
            title="Mail",
            text=text,
            deadline_seconds=deadline_seconds,
        )

    async def close_code(self) -> int:
        """Wait for the runner's close frame."""
        with trio.fail_after(DEADLINE_SECONDS):
            while self.socket.closed is None:
                with contextlib.suppress(trio_websocket.ConnectionClosed):
                    await self.socket.get_message()
        return self.socket.closed.code


@attrs.define
class Door:
    """A gateway that accepts, or refuses with `status`, whoever knocks."""

    url: str = ""
    status: int | None = None
    knocks: int = 0
    peers: Any = attrs.field(factory=lambda: trio.open_memory_channel[Peer](4))

    async def answer(self, request: trio_websocket.WebSocketRequest) -> None:
        """Serve one knock."""
        self.knocks += 1
        if self.status is not None:
            await request.reject(self.status, body=b'{"error": "no", "code": "no"}')
            return
        socket = await request.accept()
        await self.peers[0].send(Peer(socket, dict(request.headers), request.path))
        await trio.sleep_forever()

    async def accept(self) -> Peer:
        """Wait for the next connection."""
        with trio.fail_after(DEADLINE_SECONDS):
            peer: Peer = await self.peers[1].receive()
            return peer


@attrs.define
class Scripted(Backend):
    """Does as the turn's text says, and keeps what it saw."""

    seen: list[Turn] = attrs.field(factory=list)
    cancelled: list[str] = attrs.field(factory=list)
    release: trio.Event = attrs.field(factory=trio.Event)

    def takes(self, turn: Turn) -> bool:
        """All but a turn that says busy."""
        return turn.text != "busy"

    async def turn(self, turn: Turn, _tools: Tools) -> str:
        """Do what the turn's text says."""
        self.seen.append(turn)
        match turn.text:
            case "fail":
                raise TurnError("it cannot be done")
            case "wait":
                try:
                    await self.release.wait()
                finally:
                    if not self.release.is_set():
                        await self._tidy_up()
                        self.cancelled.append(turn.turn_id)
            case "long":
                return "\x01" * 400_000
            case "again":
                turn.report("model.retry", {"reason": "busy", "seconds": 1.5})
            case "crash":
                raise ZeroDivisionError
        await turn.say("thinking")
        return f"did {turn.text}"

    async def _tidy_up(self) -> None:
        with trio.CancelScope(shield=True):
            for _step in range(200):  # for longer than a frame takes
                await trio.lowlevel.checkpoint()


@attrs.define
class Running:
    """A runner in a nursery: its door, its backend, what it reported and how it ended."""

    door: Door
    backend: Scripted
    reports: list[tuple[str, Mapping[str, object]]]
    scope: trio.CancelScope
    ended: trio.Event = attrs.field(factory=trio.Event)
    closed: Closed | None = None

    async def finish(self) -> Closed | None:
        """Wait for the runner to end, and say how."""
        with trio.fail_after(DEADLINE_SECONDS):
            await self.ended.wait()
        return self.closed


@asynccontextmanager
async def runner(**door: Any) -> AsyncIterator[Running]:
    """A gateway on 127.0.0.1 and a runner that connects to it."""
    listening = Door(**door)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(
            trio_websocket.serve_websocket, listening.answer, "127.0.0.1", 0, None
        )
        listening.url = f"http://127.0.0.1:{server.port}"
        running = Running(listening, Scripted(), [], trio.CancelScope())
        gateway = Gateway(
            url=listening.url,
            token=TOKEN,
            backend=running.backend,
            report=lambda event, facts: running.reports.append((event, facts)),
            backoff=QUICK,
        )

        async def run() -> None:
            with running.scope:
                running.closed = await gateway.run()
            running.ended.set()

        nursery.start_soon(run)
        yield running
        running.scope.cancel()
        await running.finish()
        nursery.cancel_scope.cancel()
