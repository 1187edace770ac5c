"""`paste`: a text is queued for a session that is idle, and is pasted and proven.

The queueing is a command's: a connection of its own queues, commits, and tells the server by one
NOTIFY. What is timed is from there to the acknowledgement at the host that its proof is written
down; the host proves at once, so that no terminal's time is within. Beside it the bare driver does
the same: it queues and notifies, hears that on a second connection, and offers and settles on a
third.
"""

import functools
from collections.abc import Sequence

import attrs
import trio

from bench.arithmetic import Target
from bench.load import share
from bench.mirror_hosts import Machine, Mirror, find_mirrored_id, make_machines, mirroring
from bench.recording import Recording, Trip, count, play, prepare_ids, recording
from bench.report import Outcome
from bench.rounds import Figures, Stopwatch, Variant, compare
from bench.scale import Scale
from bench.server import Server
from muster.mirror.operations.pasting import Offer, Settle, offer, settle
from muster.mirror.operations.queue import QueueText, queue_text
from muster.mirror.send_rules import Send
from muster.outcomes import Hint, HintKind
from muster.pg.database import Database
from muster.pg.driver import Connection
from muster.pg.listener import CHANNEL, notify
from muster.principals import Muster

SESSIONS = (8, 1)  # that are pasted into at once
QUICK_SESSIONS = (2, 1)
STEPUP_SECONDS = 12 * 3600
TEXT = "The figures are ready. Please look at them, and say whether noon works for you."
ANSWER_SECONDS_MAX = 30.0
TIMES_MAX = 4.0  # of the bare driver's, whose commits wait for the same disk


@attrs.define
class Aim:
    """One session, and who waits for the proof of a text of it."""

    machine: Machine
    mirrored_id: int
    _proven: dict[int, float] = attrs.field(factory=dict)
    _bell: trio.Event = attrs.field(factory=trio.Event)

    def pasted(self, send_id: int, at: float) -> None:
        """The host was told that its proof is written down."""
        self._proven[send_id] = at
        self._bell.set()

    async def proven_at(self, send_id: int) -> float:
        """Wait for that."""
        with trio.fail_after(ANSWER_SECONDS_MAX):
            while send_id not in self._proven:
                self._bell = trio.Event()
                await self._bell.wait()
        return self._proven.pop(send_id)

    async def paste(self, server: Server) -> None:
        """Queue one text and see it through."""
        send = await _queue(server.db, self)
        await server.tell()
        await self.proven_at(send.id)


async def run(server: Server, scale: Scale) -> Outcome:
    """Measure one session at a time, and several at once."""
    await prepare_ids(server.cluster.admin_url)
    rows: list[Figures] = []
    targets: list[Target] = []
    async with recording(server.app_url) as recorder:
        for sessions in scale.pick(SESSIONS, QUICK_SESSIONS):
            figures = await _measure(server, sessions, scale, recorder)
            rows = [*figures, *rows]
            if sessions == 1:
                served, bare = figures
                for what, value in (
                    ("p50", served.p50_ms / bare.p50_ms),
                    ("p99", served.p99_ms / bare.p99_ms),
                ):
                    targets.append(
                        Target(
                            what=f"a paste, {what}", value=value, limit=TIMES_MAX,
                            unit="of the bare driver's",
                        )
                    )  # fmt: skip
    return Outcome(figures=rows, targets=targets, notes=["the host proves each paste at once"])


async def _measure(
    server: Server, sessions: int, scale: Scale, recorder: Recording
) -> list[Figures]:
    machines = await make_machines(server, sessions, 1)
    others = await make_machines(server, sessions, 1)
    pastes = scale.pick(40, 4) * sessions
    async with mirroring(server, machines) as mirrors, mirroring(server, others) as beside:
        aims = [await _aim(server, mirror) for mirror in mirrors]
        recorded = [await _record(recorder, await _aim(server, mirror)) for mirror in beside]
        server.unsent.clear()

        async def served(watch: Stopwatch, _round: int) -> list[float]:
            async def one(client: int, _number: int) -> None:
                await aims[client].paste(server)

            return await share(watch, one, operations=pastes, clients=sessions)

        variants = [
            Variant(
                name=f"queued to proven, {sessions} at once",
                clients=sessions,
                run=served,
                pid=server.pid,
            ),
            Variant(
                name=f"bare driver, the same trips, {sessions}",
                clients=sessions,
                run=functools.partial(_driven, server, recorded, pastes),
                pid=None,
                baseline=True,
                facts=count(recorded[0].all),
            ),
        ]
        return await compare(
            variants, rounds=scale.rounds, cluster=server.cluster, folder=server.disk
        )


async def _aim(server: Server, mirror: Mirror) -> Aim:
    aim = Aim(mirror.machine, await find_mirrored_id(server, mirror.machine))
    mirror.pasted = aim.pasted
    return aim


async def _queue(db: Database, aim: Aim) -> Send:
    command = QueueText(mirrored_id=aim.mirrored_id, text=TEXT, signed_in_at=None)
    return await db.run(aim.machine.person.owner, queue_text, command)


@attrs.frozen(kw_only=True)
class Bare:
    """The trips of one paste, by who makes them."""

    queue: tuple[Trip, ...]
    notify: tuple[Trip, ...]
    offer: tuple[Trip, ...]
    settle: tuple[Trip, ...]

    @property
    def all(self) -> tuple[Trip, ...]:
        """All of them."""
        return (*self.queue, *self.notify, *self.offer, *self.settle)


async def _record(recorder: Recording, aim: Aim) -> Bare:
    """Record one paste of a session; its host hears nothing of it."""
    owner_id = aim.machine.person.owner.owner_id
    muster, host_id = Muster(owner_id=owner_id), aim.machine.host_id
    hint = Hint(kind=HintKind.SEND_QUEUED, owner_id=owner_id, id=0)
    handed = Offer(
        mirrored_id=aim.mirrored_id, host_id=host_id, epoch=1, stepup_window_seconds=STEPUP_SECONDS
    )
    sends: list[Send] = []

    async def take(db: Database) -> None:
        sends.append(await _queue(db, aim))

    async def hand_out(db: Database) -> None:
        assert await db.run(muster, offer, handed) is not None

    async def tell(db: Database) -> None:
        await notify(db, [hint])

    async def prove(db: Database) -> None:
        send_id = sends[-1].id
        command = Settle(send_id=send_id, host_id=host_id, epoch=1, outcome="pasted", detail="")
        await db.run(muster, settle, command)

    return Bare(
        queue=await recorder.take(take),
        notify=await recorder.take(tell),
        offer=await recorder.take(hand_out),
        settle=await recorder.take(prove),
    )


async def _driven(
    server: Server, recorded: Sequence[Bare], pastes: int, watch: Stopwatch, _round: int
) -> list[float]:
    connections = [[await Connection.open(server.app_url) for _ in range(3)] for _ in recorded]
    heard = [await hearing.notifications(CHANNEL) for _, hearing, _ in connections]

    async def one(client: int, _number: int) -> None:
        queueing, _, pasting = connections[client]
        bare = recorded[client]
        await play(queueing, (*bare.queue, *bare.notify), {})
        await heard[client]()
        await play(pasting, (*bare.offer, *bare.settle), {})

    try:
        return await share(watch, one, operations=pastes, clients=len(recorded))
    finally:
        for connection in (one for three in connections for one in three):
            connection.close()
