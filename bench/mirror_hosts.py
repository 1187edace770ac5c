"""Light mirror hosts: the frames of `/mirror/v1/socket` over a plain socket, nothing mirrored.

A host tells what it is asked to tell, answers the heartbeat, and proves each paste at once.
"""

import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta

import attrs
import trio

from bench.agent import FrameSocket
from bench.people import Person, make_people
from bench.server import Server
from muster.mirror.operations.hosts import add_host
from muster.mirror.rules import HOSTS_MAX, AddHost
from muster.pg.query import Query

PATH = "/mirror/v1/socket"
ANSWER_SECONDS_MAX = 60.0
IDLE_FOR = timedelta(minutes=10)
CONNECTING = 20  # at once
FIND_MIRRORED = Query("""
    select id from mirrored where owner_id = %(owner_id)s and claude_session = %(name)s
""")


@attrs.frozen(kw_only=True)
class Machine:
    """A host of somebody's, and the sessions in its windows, one each."""

    person: Person
    host_id: int
    token: str = attrs.field(repr=False)
    sessions: Sequence[str]


@attrs.define(eq=False)
class Mirror:
    """A connected host. `pasted` is told of each paste that was proven, and of when."""

    machine: Machine
    socket: FrameSocket
    pasted: Callable[[int, float], None] = lambda _send_id, _at: None
    working: int | None = None  # the place of the one session that works; None while all are idle
    _seq: int = 0
    _bells: dict[int, Callable[[], None]] = attrs.field(factory=dict)
    _writing: trio.Lock = attrs.field(factory=trio.Lock)

    async def hello(self) -> None:
        """Say hello."""
        now = datetime.now(UTC).isoformat()
        await self._say("hello", host="bench", interactive=True, resume_spawn=False, now=now)

    async def tell_windows(self) -> None:
        """List all windows, and wait until they are written down."""
        now = datetime.now(UTC)
        idle_since = (now - IDLE_FOR).isoformat()
        windows = [
            window_frame(place, session, idle_since=None if place == self.working else idle_since)
            for place, session in enumerate(self.machine.sessions)
        ]
        told = trio.Event()
        seq = await self._say("windows", now=now.isoformat(), windows=windows, bell=told.set)
        with trio.fail_after(ANSWER_SECONDS_MAX):
            await told.wait()
        assert seq not in self._bells

    async def change(self) -> None:
        """Let the first session change its state, and wait until that is written down."""
        self.working = None if self.working is not None else 0
        await self.tell_windows()

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read until cancelled; started once muster has welcomed the host."""
        while True:
            frame = await self.socket.receive()
            match frame["type"]:
                case "ping":
                    async with self._writing:
                        await self.socket.send(type="pong")
                case "ack":
                    seq = frame["seq"]
                    assert isinstance(seq, int)
                    if (bell := self._bells.pop(seq, None)) is not None:
                        bell()
                case "welcome":
                    task_status.started()
                case "paste":
                    await self._prove(frame["send_id"])

    async def _prove(self, send_id: object) -> None:
        assert isinstance(send_id, int)

        def proven() -> None:
            self.pasted(send_id, time.perf_counter())

        await self._say("paste.done", send_id=send_id, outcome="pasted", detail="", bell=proven)

    async def _say(
        self, kind: str, *, bell: Callable[[], None] | None = None, **members: object
    ) -> int:
        self._seq += 1
        if bell is not None:
            self._bells[self._seq] = bell
        seq = self._seq
        async with self._writing:
            await self.socket.send(type=kind, seq=seq, **members)
        return seq


def window_frame(place: int, session: str, *, idle_since: str | None) -> dict[str, object]:
    """A window with one pane, as a host lists it; working unless it is idle since then."""
    pane = {
        "pane": f"%{place}",
        "active": True,
        "claude_session": session,
        "state": "working" if idle_since is None else "idle",
        "idle_since": idle_since,
        "cwd": "/srv/work/example",
        "repo": "example/work",
    }
    return {"window": f"@{place}", "title": f"main:{place}", "label": None, "panes": [pane]}


async def make_machines(server: Server, hosts: int, windows: int) -> list[Machine]:
    """New hosts with so many windows each, of as many new owners as that takes."""
    machines: list[Machine] = []
    for person in await make_people(server, -(-hosts // HOSTS_MAX)):
        count = min(HOSTS_MAX, hosts - len(machines))
        async with server.db.transaction(person.owner) as tx:
            added = [await add_host(tx, AddHost(name=f"box-{number}")) for number in range(count)]
        machines += [
            Machine(
                person=person,
                host_id=host.id,
                token=token,
                sessions=[str(uuid.uuid4()) for _ in range(windows)],
            )
            for host, token in added
        ]
    server.unsent.clear()
    return machines


@asynccontextmanager
async def mirroring(server: Server, machines: Sequence[Machine]) -> AsyncIterator[list[Mirror]]:
    """All of them connected, with their windows told, for the block."""
    limit = trio.CapacityLimiter(CONNECTING)
    async with AsyncExitStack() as stack, trio.open_nursery() as serving:
        mirrors: dict[int, Mirror] = {}

        async def greet(number: int, machine: Machine) -> None:
            async with limit:
                opening = FrameSocket.open(server.port, machine.token, PATH)
                mirror = Mirror(machine, await stack.enter_async_context(opening))
                await mirror.hello()
                await serving.start(mirror.serve)
                await mirror.tell_windows()
                mirrors[number] = mirror

        async with trio.open_nursery() as greeting:
            for number, machine in enumerate(machines):
                greeting.start_soon(greet, number, machine)
        yield [mirrors[number] for number in range(len(machines))]
        serving.cancel_scope.cancel()


async def find_mirrored_id(server: Server, machine: Machine, place: int = 0) -> int:
    """The row of a session that the host told."""
    async with server.db.transaction(machine.person.owner) as tx:
        found = await tx.scalar(FIND_MIRRORED, name=machine.sessions[place])
    assert isinstance(found, int)
    return found
