"""`sessions`: hosts that are connected and still, 2,000 of one window each and 20 of 100.

Told are the memory of a socket, how much of a core the server takes while nothing happens but the
heartbeat (less what it takes with no host, measured right before), and how many statements about
hosts and what they told it asks of PostgreSQL meanwhile, which is none. What is timed is a list in
which one session has changed its state: from the host's frame to the acknowledgement that it is
written down. Beside it the bare driver makes the same trips.
"""

import functools
import re
from collections.abc import Sequence

import attrs
import trio

from bench.arithmetic import Target
from bench.load import play_all, share
from bench.mirror_hosts import Machine, Mirror, make_machines, mirroring
from bench.parking import until_quiet
from bench.processes import cpu_us, memory_kibibytes
from bench.recording import Recording, Trip, count, play, recording
from bench.report import Outcome
from bench.rounds import Figures, Stopwatch, Variant, compare
from bench.scale import Scale
from bench.server import Server
from bench.statements import log_statements
from muster.mirror.operations.hosts import accept_host
from muster.mirror.operations.windows import store_windows
from muster.mirror.rules import AcceptHost, Pane, PaneState, StoreWindows, Window
from muster.pg.database import Database
from muster.pg.driver import Connection
from muster.principals import Muster

CLIENTS = 8
MEMORY_KIB_MAX = 36.0
CORE_PERCENT_MAX = 3.0
IDLE_SECONDS = 60.0  # four heartbeats
QUICK_IDLE_SECONDS = 1.0
_OF_HOSTS = re.compile(r"\b(?:hosts|windows|panes|mirrored|focus_titles)\b")
_STATEMENT = re.compile(r"(?:execute|statement)[^:]*: ")


@attrs.frozen(kw_only=True)
class Level:
    """So many hosts of so many windows each."""

    hosts: int
    windows: int

    @property
    def name(self) -> str:
        """As the table has it."""
        return f"{self.hosts:,} hosts of {self.windows:,}"


LEVELS = (Level(hosts=2000, windows=1), Level(hosts=20, windows=100))
QUICK_LEVELS = (Level(hosts=20, windows=1), Level(hosts=8, windows=10))


@attrs.frozen(kw_only=True)
class Idle:
    """What the server did in a while of nothing: of one core, and of PostgreSQL."""

    core_percent: float
    statements: float  # a second
    of_hosts: int  # statements that speak of hosts, and of what they told


async def run(server: Server, scale: Scale) -> Outcome:
    """Measure both levels."""
    rows: list[Figures] = []
    targets: list[Target] = []
    async with recording(server.app_url) as recorder:
        for level in scale.pick(LEVELS, QUICK_LEVELS):
            figures, met = await _measure(server, level, scale, recorder)
            rows += figures
            targets += met
    notes = ["idle: with the heartbeat alone, less what the server takes with no host at all"]
    return Outcome(figures=rows, targets=targets, notes=notes)


async def _measure(
    server: Server, level: Level, scale: Scale, recorder: Recording
) -> tuple[list[Figures], list[Target]]:
    machines = await make_machines(server, level.hosts, level.windows)
    driven = await _record(server, level, recorder)
    await until_quiet(server)
    alone = await _be_idle(server, scale)
    before, how = memory_kibibytes(server.pid)
    async with mirroring(server, machines) as mirrors:
        await until_quiet(server)
        after, _ = memory_kibibytes(server.pid)
        kibibytes = (after - before) / level.hosts
        idle = await _be_idle(server, scale)
        figures = await _compare(server, level, scale, mirrors, driven)
    core = max(0.0, idle.core_percent - alone.core_percent)
    facts = {
        f"KiB a host ({how})": kibibytes,
        "KiB a window": kibibytes / level.windows,
        "% of a core while idle": core,
        "% of a core with no host": alone.core_percent,
        "statements a second while idle": idle.statements,
        "statements a second with no host": alone.statements,
    }
    targets = [
        Target(
            what=f"{level.name}, idle", value=core, limit=CORE_PERCENT_MAX, unit="% of a core"
        ),
        Target(
            what=f"{level.name}, statements of hosts while idle", value=idle.of_hosts, limit=0,
            unit="statements", bound="exactly",
        ),
    ]  # fmt: skip
    if level.windows == 1:
        memory = Target(what="memory a socket", value=kibibytes, limit=MEMORY_KIB_MAX, unit="KiB")
        targets = [memory, *targets]
    return [attrs.evolve(figures[0], facts=facts), *figures[1:]], targets


async def _be_idle(server: Server, scale: Scale) -> Idle:
    """Watch the server while nobody asks anything of it."""
    seconds = scale.pick(IDLE_SECONDS, QUICK_IDLE_SECONDS)
    async with log_statements(server) as logged:
        began, spent = trio.current_time(), cpu_us(server.pid)
        await trio.sleep(seconds)
        spent, took = cpu_us(server.pid) - spent, trio.current_time() - began
        told = [line for line in logged().splitlines() if _STATEMENT.search(line)]
    return Idle(
        core_percent=spent / 1e4 / took,
        statements=len(told) / took,
        of_hosts=sum(bool(_OF_HOSTS.search(line)) for line in told),
    )


async def _compare(
    server: Server, level: Level, scale: Scale, mirrors: Sequence[Mirror], driven: "list[Driven]"
) -> list[Figures]:
    clients = min(CLIENTS, level.hosts)
    lists = scale.pick(400, 16)

    async def served(watch: Stopwatch, number: int) -> list[float]:
        async def one(client: int, operation: int) -> None:
            # A client has hosts of its own: a host tells one list at a time.
            mine = mirrors[client::clients]
            await mine[(number * lists + operation) // clients % len(mine)].change()

        return await share(watch, one, operations=lists, clients=clients)

    async def bare(watch: Stopwatch, _round: int) -> list[float]:
        async def one(connection: Connection, number: int) -> None:
            await driven[number % clients].play(connection)

        return await play_all(
            watch, server.app_url, one, operations=lists, clients=min(clients, len(driven))
        )

    variants = [
        Variant(
            name=f"a list told, {level.name}", clients=clients, run=served, pid=server.pid
        ),
        Variant(
            name=f"bare driver, the same trips, {level.windows:,}",
            clients=clients,
            run=bare,
            pid=None,
            baseline=True,
            facts=count(driven[0].trips[0]),
        ),
    ]  # fmt: skip
    return await compare(variants, rounds=scale.rounds, cluster=server.cluster, folder=server.disk)


@attrs.define
class Driven:
    """The trips of two lists of one host, which take turns, so that each changes something."""

    trips: tuple[tuple[Trip, ...], tuple[Trip, ...]]
    _next: int = 0

    async def play(self, connection: Connection) -> None:
        """Make those of the next."""
        self._next += 1
        await play(connection, self.trips[self._next % 2], {})


async def _record(server: Server, level: Level, recorder: Recording) -> list[Driven]:
    machines = await make_machines(server, min(CLIENTS, level.hosts), level.windows)
    recorded = []
    for machine in machines:
        principal = Muster(owner_id=machine.person.owner.owner_id)
        accept = AcceptHost(
            host_id=machine.host_id,
            node="bench",
            machine="bench",
            interactive=True,
            resume_spawn=False,
        )
        await server.db.run(principal, accept_host, accept)
        both = [_list_of(machine, works=works) for works in (False, True)]
        for command in both:  # the sessions are known, as they mostly are
            await server.db.run(principal, store_windows, command)
        trips = [
            await recorder.take(functools.partial(_store, principal=principal, command=command))
            for command in both
        ]
        recorded.append(Driven((trips[0], trips[1])))
    server.unsent.clear()
    return recorded


async def _store(db: Database, *, principal: Muster, command: StoreWindows) -> None:
    await db.run(principal, store_windows, command)


def _list_of(machine: Machine, *, works: bool) -> StoreWindows:
    windows = [
        Window(
            tmux_window=f"@{place}",
            title=f"main:{place}",
            label=None,
            panes=[
                Pane(
                    tmux_pane=f"%{place}",
                    active=True,
                    claude_session=session,
                    state=PaneState.WORKING if works and place == 0 else PaneState.IDLE,
                    idle_seconds=None if works and place == 0 else 600.0,
                    cwd="/srv/work/example",
                    repo="example/work",
                )
            ],
        )
        for place, session in enumerate(machine.sessions)
    ]
    return StoreWindows(host_id=machine.host_id, epoch=1, windows=windows)
