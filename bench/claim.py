"""`claim`: an owner approves, and a parked claim answers; with 1, 200 and 2,000 claims parked.

The approval is a command's: a connection of its own approves, commits, and tells the server by one
NOTIFY. What is timed is from that commit to the answer at the plugin's socket, so the NOTIFY's own
commit, the listener, the wake, the claim and its commit are within. Beside it the bare driver does
the same: it notifies, hears it on a second connection and claims on a third.

Parked claims go on as plugins do: each one that is answered is begun again, and every 25 s each
comes back for nothing, spread over time.
"""

import functools
import itertools
import resource
import time
from collections.abc import Callable, Sequence

import attrs
import trio

from bench.arithmetic import Target, percentile
from bench.filing import file_for_all
from bench.parking import Parking, parked, until_quiet
from bench.people import Person, Plug, make_people
from bench.processes import memory_kibibytes
from bench.recording import Recording, Trip, play, prepare_ids, recording
from bench.report import Outcome
from bench.rounds import Figures, Stopwatch, Variant, compare
from bench.scale import Scale
from bench.server import Server
from muster.drafts.operations import Approve, ClaimNext, approve, claim_next
from muster.outcomes import Hint, HintKind
from muster.pg.database import Database
from muster.pg.driver import Connection
from muster.pg.listener import CHANNEL, notify

LEVELS = (2000, 200, 1)  # the most first: memory that was used once is not given back
QUICK_LEVELS = (40, 8, 1)
CLAIMS_PER_PLUGIN = 10
FILES_BESIDE = 200  # descriptors that a process needs besides its sockets
PAUSE_SECONDS = 0.01
LOOKED_SECONDS_MAX = 120.0
_LOOKS = "skip locked"  # what no other statement than a claim's has

Draft = tuple[Person, int]


@attrs.define(kw_only=True)
class Level:
    """So many parked claims; the drafts that approvals of the server and of the driver take."""

    claims: int
    approvals: int
    people: Sequence[Person]
    served: list[Draft]
    driven: list[Draft]
    answered: list[Draft] = attrs.field(factory=list)
    totals: list[float] = attrs.field(factory=list)
    refused: int = 0  # claims that were answered 503 meanwhile

    @property
    def name(self) -> str:
        """As the table has it."""
        return f"wake, {self.claims:,} parked"

    def choices(self) -> list[Callable[[], Plug]]:
        """Whose each parked claim is: by turns, and a single one's the next approval's.

        One plugin alone may not post as many messages as a single claim is to wait for.
        """
        if self.claims == 1:
            return [lambda: (self.served or self.answered)[-1][0].plugs[0]]
        plugs = [person.plugs[0] for person in self.people]
        turns = itertools.islice(itertools.cycle(plugs), self.claims)
        return [functools.partial(_itself, plug) for plug in turns]


async def run(server: Server, scale: Scale) -> Outcome:
    """Measure each level, from the most claims to one."""
    await prepare_ids(server.cluster.admin_url)
    rows: list[Figures] = []
    targets: list[Target] = []
    notes = [
        "wake: from the approval's commit to the claim's answer; whole: with the approval",
        "rates and CPU of both have the approval and a pause in them: they are no capacity",
    ]
    levels = _levels(scale, notes)
    async with recording(server.app_url) as recorder:
        for claims in levels:
            level = await _prepare(server, claims, scale)
            kibibytes, how, woken = await _weigh_and_count(server, level)
            figures = await _measure(server, level, scale, recorder)
            facts = {
                "whole p50 ms": percentile(sorted(level.totals), 50) * 1000,
                "whole p99 ms": percentile(sorted(level.totals), 99) * 1000,
                "claims woken per approval": woken,
                "claims answered 503": level.refused,
            }
            if claims == levels[0]:  # fewer are lost in what a server takes and gives back anyway
                facts[f"KiB a parked claim ({how})"] = kibibytes
            rows = [attrs.evolve(figures[0], facts=facts), *figures[1:], *rows]
            targets = [Target(
                what=f"claims woken per approval, {claims:,} parked", value=woken, limit=1,
                unit="claims", bound="exactly",
            ), *targets]  # fmt: skip
            if claims == levels[0]:
                targets += _targets(level, figures[0], kibibytes)
    return Outcome(figures=rows, targets=targets, notes=notes)


def _itself(plug: Plug) -> Plug:
    return plug


def _targets(level: Level, figures: Figures, kibibytes: float) -> list[Target]:
    return [
        Target(what=f"{level.name}, p50", value=figures.p50_ms, limit=3, unit="ms"),
        Target(what=f"{level.name}, p99", value=figures.p99_ms, limit=10, unit="ms"),
        Target(what="memory a parked claim", value=kibibytes, limit=36, unit="KiB"),
    ]


def _levels(scale: Scale, notes: list[str]) -> tuple[int, ...]:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    levels = scale.pick(LEVELS, QUICK_LEVELS)
    fitting = tuple(min(claims, files - FILES_BESIDE) for claims in levels)
    if fitting != levels:
        notes.append(f"only {files} open files are allowed: {fitting} claims instead of {levels}")
    return fitting


async def _prepare(server: Server, claims: int, scale: Scale) -> Level:
    """People and drafts enough for the count, the warming round and the rounds of both variants."""
    approvals = scale.pick(20, 5)
    needed = approvals * (scale.rounds + 2)
    plugins = max(1, claims // CLAIMS_PER_PLUGIN)
    # A chief has at most 20 drafts pending and a plugin 60 posts an hour.
    waiting = await make_people(server, max(plugins, -(-needed // 20)))
    others = await make_people(server, -(-needed // 20))
    return Level(
        claims=claims,
        approvals=approvals,
        people=waiting,
        served=await file_for_all(server, waiting, -(-needed // len(waiting))),
        driven=await file_for_all(server, others, -(-needed // len(others))),
    )


async def _weigh_and_count(server: Server, level: Level) -> tuple[float, str, float]:
    """The memory of a parked claim, and how many claims one approval wakes.

    Every look for a reply runs one statement that nothing else runs; PostgreSQL writes down all
    statements meanwhile. A claim looks once when it begins, and then whenever it is woken.
    """
    admin = await Connection.open(server.cluster.admin_url)
    await until_quiet(server)
    before, how = memory_kibibytes(server.pid)
    await _log_statements(admin, "all")
    looked = _count_looks(server)
    try:
        async with parked(server, level.choices(), spread=False) as parking:
            await _until_looked(server, parking, looked)
            after, _ = memory_kibibytes(server.pid)
            for _ in range(level.approvals):
                await _approve_one(server, parking, level)
            await _until_looked(server, parking, looked + level.approvals)
            woken = _count_looks(server) - looked - parking.claims_begun
            await parking.report_all(server.port)
    finally:
        await _log_statements(admin, "none")
        admin.close()
    return (after - before) / level.claims, how, woken / level.approvals


async def _until_looked(server: Server, parking: Parking, besides: int) -> None:
    """Wait until every claim has looked once, `besides` other looks aside, and no more come."""
    looks = -1
    with trio.fail_after(LOOKED_SECONDS_MAX):
        while looks < besides + parking.claims_begun or looks != _count_looks(server):
            looks = _count_looks(server)
            await until_quiet(server)


def _count_looks(server: Server) -> int:
    return server.cluster.places.log.read_text(errors="replace").count(_LOOKS)


async def _log_statements(admin: Connection, which: str) -> None:
    await admin.script(f"alter system set log_statement = '{which}'")
    await admin.script("select pg_reload_conf()")
    with trio.fail_after(10):
        told = ""
        while told != which:
            await trio.sleep(PAUSE_SECONDS)
            told = await admin.scalar("select current_setting('log_statement')", {})
    await trio.sleep(10 * PAUSE_SECONDS)  # the other sessions hear of it in the same moment


async def _approve_one(server: Server, parking: Parking, level: Level) -> float:
    """Approve as a command does; how long the claim took to answer after the commit."""
    person, draft_id = level.served.pop()
    level.answered.append((person, draft_id))
    began = time.perf_counter()
    await server.db.run(person.owner, approve, Approve(draft_id=draft_id))
    committed = time.perf_counter()
    await server.tell()
    answered = await parking.answered_at(draft_id)
    level.totals.append(answered - began)
    await trio.sleep(PAUSE_SECONDS)
    return answered - committed


async def _measure(
    server: Server, level: Level, scale: Scale, recorder: Recording
) -> list[Figures]:
    bare = await _record(server, level, recorder)
    level.totals.clear()
    async with parked(server, level.choices(), spread=True) as parking:

        async def served(watch: Stopwatch, _round: int) -> list[float]:
            with watch:
                times = [await _approve_one(server, parking, level) for _ in range(level.approvals)]
            await parking.report_all(server.port)
            return times

        variants = [
            Variant(name=level.name, clients=level.claims, run=served, pid=server.pid),
            Variant(
                name="bare driver: notify, hear, claim",
                clients=1,
                run=functools.partial(_driven, server, level, bare),
                pid=None,
                baseline=True,
            ),
        ]
        figures = await compare(
            variants, rounds=scale.rounds, cluster=server.cluster, folder=server.disk
        )
        level.refused = parking.refused
        return figures


@attrs.frozen
class Bare:
    """A NOTIFY and a claim of one person's plugin, to be made again."""

    notify: tuple[Trip, ...]
    claim: tuple[Trip, ...]


async def _record(server: Server, level: Level, recorder: Recording) -> dict[int, Bare]:
    """Record one of each for each person whose drafts the driver takes."""
    recorded: dict[int, Bare] = {}
    for person, draft_id in level.driven[:]:
        owner_id = person.owner.owner_id
        if owner_id in recorded:
            continue
        level.driven.remove((person, draft_id))
        await server.db.run(person.owner, approve, Approve(draft_id=draft_id))
        plug = person.plugs[0].principal
        hint = Hint(kind=HintKind.DRAFT_CLAIMABLE, owner_id=owner_id, id=plug.plugin_id)

        async def tell(db: Database, hint: Hint = hint) -> None:
            await notify(db, [hint])

        async def take(db: Database, person: Person = person) -> None:
            await db.run(person.plugs[0].principal, claim_next, ClaimNext())

        recorded[owner_id] = Bare(await recorder.take(tell), await recorder.take(take))
    server.unsent.clear()
    return recorded


async def _driven(
    server: Server, level: Level, recorded: dict[int, Bare], watch: Stopwatch, _round: int
) -> list[float]:
    telling, hearing, claiming = [await Connection.open(server.app_url) for _ in range(3)]
    heard = await hearing.notifications(CHANNEL)
    times = []
    try:
        with watch:
            for _ in range(level.approvals):
                person, draft_id = level.driven.pop()
                await server.db.run(person.owner, approve, Approve(draft_id=draft_id))
                server.unsent.clear()
                bare, began = recorded[person.owner.owner_id], time.perf_counter()
                await play(telling, bare.notify, {})
                await heard()
                await play(claiming, bare.claim, {})
                times.append(time.perf_counter() - began)
                await trio.sleep(PAUSE_SECONDS)
    finally:
        for connection in (telling, hearing, claiming):
            connection.close()
    return times
