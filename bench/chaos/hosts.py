"""The storm over mirror hosts: texts that wait in queues, and hosts that die with them in hand.

Two owners have hosts in two processes; the server, PostgreSQL and the hosts are killed while texts
are queued, cancelled, typed and proven. The owner says of an unconfirmed text what the ledgers
say, after a while in which its host could still prove it. At the end no text may have been typed
twice, each that was typed is pasted, and none waits.
"""

import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress

import attrs
import trio

from bench.chaos.cast import client
from bench.chaos.children import Child
from bench.chaos.host_child import sessions_of
from bench.chaos.ledger import Line, What, read_all
from bench.chaos.nemeses import Nemeses, Plan
from bench.chaos.orders import Orders, PluginOrder
from bench.chaos.outage import measure_outages
from bench.chaos.parties import Party, make_parties
from bench.chaos.scene import Say, Scene, open_scene
from bench.chaos.storm import Outcome
from bench.chaos.verdict import Verdict
from muster.errors import MusterError, Unavailable
from muster.mirror.operations.hosts import add_host
from muster.mirror.operations.queue import CancelSend, QueueText, cancel_send, queue_text
from muster.mirror.operations.unconfirmed import resolve_send
from muster.mirror.rules import AddHost
from muster.mirror.send_rules import ResolveSend, SendState
from muster.pg.listener import notify
from muster.pg.query import Query

OWNERS = 2
HOSTS_EACH = 2
SESSIONS_EACH = 3
DEADLY = 0.01
TEXT_SECONDS = (0.05, 0.5)
CANCELS = 0.05
PATIENCE_SECONDS = 4.0  # of an owner, until a text is said to be typed or not
CALM_SECONDS_MAX = 240.0
POLL_SECONDS = 0.5

SENDS = Query("select id, state from sends where owner_id = %(owner_id)s order by id")
FIND_MIRRORED = Query("""
    select id from mirrored where owner_id = %(owner_id)s and claude_session = %(name)s
""")
OVER = (SendState.PASTED, SendState.LOST, SendState.CANCELLED, SendState.REFUSED)


@attrs.frozen(kw_only=True)
class SendRow:
    """What is judged of a text."""

    id: int
    state: SendState = attrs.field(converter=SendState)


@attrs.frozen(kw_only=True)
class Housed:
    """An owner's hosts, as they are ordered."""

    party: Party
    hosts: list[PluginOrder]


@attrs.define(kw_only=True)
class HostStorm:
    """One storm over mirror hosts."""

    minutes: float
    seed: int
    scene: Scene
    housed: list[Housed]
    _doubted: dict[int, float] = attrs.field(factory=dict)

    async def run(self) -> Outcome:
        """Queue texts while everything is killed, wait until it is calm, and judge."""
        began = time.monotonic()
        scene = self.scene
        clients = [self._client(number) for number in range(len(self.housed))]
        nemeses = Nemeses(
            plan=Plan(kills=int(self.minutes * 60 / 3) + 1, minutes=self.minutes, clients=10),
            random=random.Random(f"nemeses {self.seed}"), server=scene.server,
            cluster=scene.cluster, clients=clients, say=scene.say,
        )  # fmt: skip
        try:
            async with trio.open_nursery() as nursery:
                for child in clients:
                    nursery.start_soon(scene.keeper.keep, child)
                for one in self.housed:
                    nursery.start_soon(self._resolve_forever, one)
                async with trio.open_nursery() as work:
                    for one in self.housed:
                        work.start_soon(self._queue_forever, one)
                    await nemeses.run()
                    work.cancel_scope.cancel()
                scene.say("the nemeses are done; everything calms down")
                calm_at = time.monotonic()
                await self._until_over()
                await scene.keeper.close()
                nursery.cancel_scope.cancel()
        finally:
            await scene.keeper.kill_all()
        lines = self._lines()
        rows = [row for one in self.housed for row in await self._rows(one)]
        verdict = judge_sends(lines, rows)
        verdict.odd += scene.keeper.faults + await scene.stop_server()
        verdict.figures["starts of the server that were cut short"] = len(nemeses.failed_starts)
        return Outcome(
            verdict=verdict,
            outages=measure_outages(
                [line.at for line in lines if line.what is What.RESULT], nemeses.blows,
                began=began, ended=calm_at,
            ),
            blows=nemeses.blows,
            deaths=Counter(line.detail for line in lines if line.what is What.DEATH),
            seconds=time.monotonic() - began,
        )  # fmt: skip

    def _client(self, number: int) -> Child:
        orders = Orders(
            name=f"hosts{number}", port=self.scene.server.port, seed=self.seed,
            folder=str(self.scene.folder), plugins=self.housed[number].hosts, active=0,
            every_seconds=0, deadly=DEADLY,
        )  # fmt: skip
        orders.write()
        return client("host_child", orders)

    def _lines(self) -> list[Line]:
        return read_all(self.scene.folder.glob("*.ledger"))

    async def _rows(self, one: Housed) -> list[SendRow]:
        async with self.scene.db.transaction(one.party.owner) as tx:
            return await tx.all(SENDS, SendRow)

    async def _queue_forever(self, one: Housed) -> None:
        """Be an owner who queues texts, and takes some of them back."""
        chance = random.Random(f"{one.party.name} {self.seed}")
        sessions = [session for host in one.hosts for session in sessions_of(host)]
        while True:
            await trio.sleep(chance.uniform(*TEXT_SECONDS))
            with suppress(MusterError):
                await self._queue_one(one, chance.choice(sessions), chance)

    async def _queue_one(self, one: Housed, session: str, chance: random.Random) -> None:
        db, owner = self.scene.db, one.party.owner
        async with db.transaction(owner) as tx:
            mirrored_id = await tx.scalar(FIND_MIRRORED, name=session)
        if mirrored_id is None:
            return  # no host has shown it yet
        command = QueueText(mirrored_id=mirrored_id, text="go on", signed_in_at=None)
        send = await db.run(owner, queue_text, command)
        self.scene.ledger.write(What.POSTED, one.party.name, id=send.id)
        await self._tell_server()
        if chance.random() < CANCELS:
            await db.run(owner, cancel_send, CancelSend(send_id=send.id))

    async def _resolve_forever(self, one: Housed) -> None:
        """Be an owner who looks at the session, and then says what became of a text."""
        while True:
            await trio.sleep(POLL_SECONDS)
            with suppress(MusterError):
                await self._resolve_all(one)

    async def _resolve_all(self, one: Housed) -> None:
        now = time.monotonic()
        doubted = [row.id for row in await self._rows(one) if row.state is SendState.UNCONFIRMED]
        due = [
            send_id
            for send_id in doubted
            if now - self._doubted.setdefault(send_id, now) > PATIENCE_SECONDS
        ]
        if not due:
            return
        typed = {line.id for line in self._lines() if line.what is What.SENT}
        for send_id in due:
            command = ResolveSend(send_id=send_id, arrived=send_id in typed)
            await self.scene.db.run(one.party.owner, resolve_send, command)
        await self._tell_server()

    async def _tell_server(self) -> None:
        told, self.scene.hints[:] = list(self.scene.hints), []
        await notify(self.scene.db, told)

    async def _until_over(self) -> None:
        """Wait until no text waits; what still does is for the verdict."""
        with trio.move_on_after(CALM_SECONDS_MAX):
            while True:
                with suppress(Unavailable):
                    rows = [row for one in self.housed for row in await self._rows(one)]
                    if all(row.state in OVER for row in rows):
                        return
                await trio.sleep(POLL_SECONDS)


def judge_sends(lines: Iterable[Line], rows: Sequence[SendRow]) -> Verdict:
    """Hold what was typed, by the ledgers, against what became of each text by its row."""
    lines = list(lines)
    typed = Counter(line.id for line in lines if line.what is What.SENT)
    proven = {line.id for line in lines if line.what is What.RESULT and line.detail == "pasted"}
    posted = {line.id for line in lines if line.what is What.POSTED}
    known = {row.id: row.state for row in rows}
    verdict = Verdict(odd=[f"{line.by}: text {line.id} {line.detail}"
                           for line in lines if line.what is What.ODD])  # fmt: skip
    verdict.sent_twice = [f"text {one} was typed {times} times"
                          for one, times in typed.items() if times > 1]  # fmt: skip
    verdict.lost = [f"text {one} was queued and is gone" for one in sorted(posted - set(known))]
    for one, state in known.items():
        match state:
            case SendState.UNCONFIRMED:
                verdict.unknown.append(f"text {one} is unconfirmed")
            case SendState.QUEUED | SendState.OFFERED:
                verdict.lost.append(f"text {one} is {state.value} still")
            case SendState.PASTED if not typed[one]:
                verdict.lost.append(f"text {one} is pasted, and no host typed it")
            case SendState.PASTED:
                pass
            case _ if typed[one]:
                verdict.odd.append(f"text {one} was typed and is {state.value}")
            case _:
                pass
    pasted = {one for one, state in known.items() if state is SendState.PASTED}
    verdict.odd += [f"text {one} was proven and is {known.get(one)}"
                    for one in sorted(proven - pasted)]  # fmt: skip
    states = Counter(state.value for state in known.values())
    verdict.figures = {
        "texts queued": len(known),
        **{f"texts {name}": times for name, times in sorted(states.items())},
        "texts typed": len(typed),
        "texts turned away by hosts": sum(line.what is What.FAILED for line in lines),
    }
    return verdict


async def run_host_storm(*, minutes: float, seed: int, say: Say) -> Outcome:
    """Make everything, let the storm pass, and leave nothing behind."""
    async with open_scene(say) as scene:
        housed = []
        for party in await make_parties(scene.db, [[0]] * OWNERS, prefix="own"):
            async with scene.db.transaction(party.owner) as tx:
                names = [f"box-{number}" for number in range(HOSTS_EACH)]
                tokens = [(await add_host(tx, AddHost(name=name)))[1] for name in names]
            hosts = [
                PluginOrder(name=f"{party.name}-{name}", token=token, count=SESSIONS_EACH)
                for name, token in zip(names, tokens, strict=True)
            ]
            housed.append(Housed(party=party, hosts=hosts))
        storm = HostStorm(minutes=minutes, seed=seed, scene=scene, housed=housed)
        return await storm.run()
