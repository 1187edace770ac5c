"""A storm over a real muster, from an empty folder to the verdict."""

import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import attrs
import trio

from bench.chaos.approver import decide_forever
from bench.chaos.books import Books, read_books
from bench.chaos.cast import make_agents, make_clients
from bench.chaos.children import Child, ServerChild, environment, free_port, muster
from bench.chaos.forms import Form
from bench.chaos.keeper import Keeper
from bench.chaos.ledger import Ledger, What, read_all
from bench.chaos.nemeses import Blow, Nemeses, Plan
from bench.chaos.outage import Outages, measure_outages
from bench.chaos.parties import MESSAGES_PER_PLUGIN, Party, Registered, make_parties, share
from bench.chaos.rows import LEFT, UNSENT, Rows, count, read_rows
from bench.chaos.texts import make_message
from bench.chaos.tricklers import trickle
from bench.chaos.verdict import Verdict, judge
from muster.clients.plugin import PluginClient
from muster.drafts.rules import LEASE
from muster.errors import Unavailable
from muster.node.sweeps import lapse_leases
from muster.outcomes import Hint
from muster.pg.boot import open_store
from muster.pg.database import Database
from muster.pg.embedded import Embedded

POSTS_SECONDS_MAX = 600.0
CALM_SECONDS_MAX = 120.0
NUDGE_SECONDS = 15.0
QUIET_SECONDS = 4.0
POLL_SECONDS = 0.5
LAPSE_ROUNDS_MAX = 1000

Say = Callable[[str], None]


@attrs.frozen(kw_only=True)
class Outcome:
    """Everything that a storm has to tell."""

    verdict: Verdict
    outages: Outages
    blows: list[Blow]
    deaths: Counter[str]
    seconds: float
    trickled: Counter[str] = attrs.field(factory=Counter)


@asynccontextmanager
async def storm_folder() -> AsyncIterator[Path]:
    """A folder for a storm; nothing is left of it."""
    folder = Path(tempfile.mkdtemp(prefix="muster-chaos-"))
    try:
        # As root the database runs as another user, who has to get here.
        os.chmod(folder, 0o711)  # noqa: PTH101 - a path object here is taken for blocking work
        yield folder
    finally:
        shutil.rmtree(folder)


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[ServerChild]:
    """`muster serve` with its own PostgreSQL; it is killed at the end if it still runs."""
    port = free_port()
    settings = {
        "MUSTER_BIND": f"127.0.0.1:{port}",
        "MUSTER_DATA_DIR": str(folder / "data"),
        "MUSTER_PLUGINS": "1",
        "MUSTER_LOG": "warning",
    }
    server = ServerChild(
        command=muster("serve"), environ=environment(settings), folder=folder, name="server",
        port=port,
    )  # fmt: skip
    try:
        await server.start()
        yield server
    finally:
        await server.kill()


@attrs.define(kw_only=True)
class Storm:
    """One storm and its cast."""

    form: Form
    folder: Path
    say: Say
    server: ServerChild
    db: Database
    hints: list[Hint]
    cluster: Embedded
    parties: list[Party]
    shared: list[Party]
    ledger: Ledger
    keeper: Keeper = attrs.field(factory=Keeper)
    trickled: Counter[str] = attrs.field(factory=Counter)

    async def run(self) -> Outcome:
        """Let everybody work while the nemeses do, wait until it is calm, and judge."""
        began = time.monotonic()
        plan = Plan(
            kills=self.form.kills, stop_seconds=self.form.stop_seconds, minutes=self.form.minutes
        )
        agents = make_agents(self.folder, self.server.url, [*self.parties, *self.shared])
        clients = make_clients(
            self.form, self.folder, self.server.port,
            own=_plugins(self.parties), shared=_plugins(self.shared),
        )  # fmt: skip
        nemeses = Nemeses(
            plan=plan, random=random.Random(f"nemeses {self.form.seed}"), server=self.server,
            cluster=self.cluster, clients=[*agents, *clients], say=self.say,
        )  # fmt: skip
        try:
            async with trio.open_nursery() as nursery:
                for child in (*agents, *clients):
                    nursery.start_soon(self.keeper.keep, child)
                nursery.start_soon(self._approve)
                async with trio.open_nursery() as trickling:
                    self._trickle(trickling)
                    await nemeses.run()
                    trickling.cancel_scope.cancel()
                self.say("the nemeses are done; everything calms down")
                await self._posts_are_answered()
                calm_at = time.monotonic()
                self.say("every post is answered")
                await self._nothing_is_left()
                self.say("nothing waits any more")
                await self._nobody_writes()
                self.say("no result is reported any more")
                await self.keeper.close()
                nursery.cancel_scope.cancel()
        finally:
            await self.keeper.kill_all()
        books = self._read_books()
        rows = await self._read_rows()
        verdict = judge(books, rows, _turns(agents))
        verdict.odd += self.keeper.faults
        verdict.figures["starts of the server that were cut short"] = len(nemeses.failed_starts)
        verdict.odd += _crashes(self.server)
        return Outcome(
            verdict=verdict,
            outages=measure_outages(
                books.successes, nemeses.blows, began=min(books.successes), ended=calm_at
            ),
            blows=nemeses.blows,
            deaths=books.deaths,
            trickled=self.trickled,
            seconds=time.monotonic() - began,
        )

    async def _approve(self) -> None:
        owners = [party.owner for party in (*self.parties, *self.shared)]
        chance = random.Random(f"owner {self.form.seed}")
        await decide_forever(self.db, self.hints, owners, self.ledger, chance)

    def _trickle(self, nursery: trio.Nursery) -> None:
        for number in range(self.form.tricklers):
            token = self.parties[0].plugins[0].token
            chance = random.Random(f"trickler {number} {self.form.seed}")
            nursery.start_soon(trickle, self.server.port, token, chance, self.trickled)

    async def _posts_are_answered(self) -> None:
        """Wait for every planned post; what is missing after the deadline is for the verdict."""
        wanted = sum(one.messages for party in (*self.parties, *self.shared)
                     for one in party.plugins)  # fmt: skip
        with trio.move_on_after(POSTS_SECONDS_MAX):
            while not self.keeper.faults:
                if len(self._read_books().posted) >= wanted:
                    return
                await trio.sleep(2)

    async def _nothing_is_left(self) -> None:
        """Wait until no message waits and no reply does; a new message settles an old turn."""
        with trio.move_on_after(CALM_SECONDS_MAX):
            for number in range(100):
                for party in (*self.parties, *self.shared):
                    await self._post_last(party, number)
                with trio.move_on_after(NUDGE_SECONDS):
                    while True:
                        if not await self._left():
                            return
                        await trio.sleep(POLL_SECONDS)

    async def _post_last(self, party: Party, number: int) -> None:
        if number and not await self._left_of(party):
            return
        plugin = party.plugins[number % len(party.plugins)]
        external_id = f"{plugin.name}-last-{number}"
        async with PluginClient(self.server.url, plugin.token) as client:
            self.ledger.write(What.INTENT, plugin.name, external_id=external_id)
            posted = await client.post(make_message(external_id))
        self.ledger.write(What.POSTED, plugin.name, external_id=external_id, id=posted.id)

    async def _left(self) -> bool:
        return any([await self._left_of(party) for party in (*self.parties, *self.shared)])

    async def _left_of(self, party: Party) -> bool:
        try:
            return any([await count(self.db, party.owner, query) for query in (LEFT, UNSENT)])
        except Unavailable:
            return True

    async def _nobody_writes(self) -> None:
        """Wait until the ledgers stand still: every result that will be reported is."""
        before, since = -1, time.monotonic()
        with trio.move_on_after(CALM_SECONDS_MAX):
            while time.monotonic() - since < QUIET_SECONDS:
                size = len(self._read_books().recorded)
                if size != before:
                    before, since = size, time.monotonic()
                await trio.sleep(POLL_SECONDS)

    def _read_books(self) -> Books:
        return read_books(read_all(self.folder.glob("*.ledger")))

    async def _read_rows(self) -> list[Rows]:
        # Two minutes pass: what a claim still holds without a result is unconfirmed now.
        self.db.clock_offset = LEASE + timedelta(seconds=1)
        owners = [party.owner for party in (*self.parties, *self.shared)]
        for _ in range(LAPSE_ROUNDS_MAX):
            await lapse_leases(self.db)
            rows = [await read_rows(self.db, owner) for owner in owners]
            held = [one for each in rows for one in each.drafts
                    if one.claimed and one.state.value == "approved"]  # fmt: skip
            if not held:
                break
        return rows


async def run_storm(form: Form, say: Say) -> Outcome:
    """Make everything, let the storm pass, and leave nothing behind."""
    async with storm_folder() as folder, serving(folder) as server:
        hints: list[Hint] = []
        async with open_store(
            database_url=None, database_app_url=None, data_dir=folder / "data",
            publish=hints.extend,
        ) as (db, facts):  # fmt: skip
            assert facts.cluster is not None
            parties = await make_parties(db, share(form.messages, form.owners), prefix="own")
            plugins = form.shared // MESSAGES_PER_PLUGIN
            counts = [[MESSAGES_PER_PLUGIN] * len(one) for one in _split(plugins, 5)]
            shared = await make_parties(db, counts, prefix="shared")
            (folder / "state").mkdir()
            with Ledger(folder / "storm.ledger") as ledger:
                storm = Storm(
                    form=form, folder=folder, say=say, server=server, db=db, hints=hints,
                    cluster=facts.cluster, parties=parties, shared=shared, ledger=ledger,
                )  # fmt: skip
                return await storm.run()


def _plugins(parties: Iterable[Party]) -> list[Registered]:
    return [plugin for party in parties for plugin in party.plugins]


def _split(count: int, size: int) -> list[range]:
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def _turns(agents: Iterable[Child]) -> list[str]:
    return [
        event["turn_id"]
        for agent in agents
        for event in agent.all_events()
        if event["event"] == "turn.started"
    ]


def _crashes(server: ServerChild) -> list[str]:
    """What crashed in the server, but for an actor that found the database gone."""
    return [
        f"the server: {line['path']} crashed: {line['error']}"
        for line in server.complaints()
        if line["event"] == "crashed" and "Unavailable" not in line["error"]
    ]
