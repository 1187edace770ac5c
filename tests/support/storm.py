"""A storm: owners, their plugins and chiefs at a real server, while a test breaks things.

`Storm.run` lets everybody work while `breaking` does its worst, then lets the load end, sends one
last message for each owner (which settles what was left `delivering`), waits until nothing is under
way, and judges every row (tests/support/verdict.py).
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import attrs
import trio

from bench.chaos.rows import LEFT, UNSENT, count, read_rows
from bench.chaos.scene import DATABASE_GONE
from muster.drafts.rules import LEASE
from muster.node.sweeps import lapse_leases
from muster.outcomes import Hint
from muster.pg.database import Database
from muster.pg.query import Query
from muster.principals import Owner
from tests.support.builders import new_agent, new_plugin
from tests.support.chaos import Child, ServerChild, agent_child
from tests.support.cluster import add_owner
from tests.support.load import Book, Phase, PluginUnderLoad, approve_all
from tests.support.program import Program
from tests.support.verdict import judge, judge_listings
from tests.support.waiting import until
from tests.support.wild_chief import TurnLog, WildChief, read_turns

PLUGINS = 2  # of each owner
CLAIMS = 2  # loops of each plugin
CALM_SECONDS = 40.0
RULES = '[[rule]]\nreply = "Noon works, number {message_id}."\n'


@attrs.frozen(kw_only=True)
class Party:
    """One owner with plugins and a chief."""

    owner: Owner
    plugins: list[PluginUnderLoad]
    read_chief: Callable[[], TurnLog]

    @property
    def name(self) -> str:
        """The account's name."""
        return f"user-{self.owner.owner_id}"


@attrs.define(kw_only=True)
class Storm:
    """Who takes part: one owner with a chief of the test's own, one with `muster agent run`."""

    server: ServerChild
    db: Database
    hints: list[Hint]
    program: Program
    phase: Phase
    random: random.Random
    parties: list[Party]
    wild: WildChief
    agent: Child

    async def run(
        self, breaking: Callable[[], Awaitable[None]], *, messages: int, every_seconds: float
    ) -> None:
        """Work and break, then calm down and judge. `messages` are those of one plugin."""
        plugins = [plugin for party in self.parties for plugin in party.plugins]
        owners = [party.owner for party in self.parties]
        await self.agent.start()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(approve_all, self.db, self.hints, owners, self.phase)
                nursery.start_soon(self.wild.run)
                for plugin in plugins:
                    for _ in range(CLAIMS):
                        nursery.start_soon(plugin.claim_replies)
                async with trio.open_nursery() as load:
                    for plugin in plugins:
                        load.start_soon(plugin.post_messages, messages, every_seconds)
                    await breaking()
                    self.phase.calm.set()
                await self._calm_down()
                self.phase.closed.set()
                # It would else listen until the server's next ping.
                self.wild.drop()
        finally:
            await self.agent.kill()
        await self._judge()

    async def _calm_down(self) -> None:
        before = self.wild.connections
        self.wild.drop()
        await until(lambda: self.wild.connections > before, CALM_SECONDS)
        await until(lambda: _is_connected(self.agent), CALM_SECONDS)
        for party in self.parties:
            for plugin in party.plugins:
                await plugin.post_again()
            await party.plugins[0].post(f"{party.plugins[0].book.name}-last")
        for party in self.parties:
            for query in (LEFT, UNSENT):
                await self._none(party.owner, query)

    async def _none(self, owner: Owner, query: Query) -> None:
        async def none() -> bool:
            return await count(self.db, owner, query) == 0

        await until(none, CALM_SECONDS)

    async def _judge(self) -> None:
        # Two minutes pass: what a claim still holds without a result is unconfirmed now.
        self.db.clock_offset = LEASE + timedelta(seconds=1)
        await lapse_leases(self.db)
        self.db.clock_offset = timedelta(0)
        for party in self.parties:
            for plugin in party.plugins:
                await plugin.report_late()
            rows = await read_rows(self.db, party.owner)
            judge(rows, [plugin.book for plugin in party.plugins], party.read_chief())
            judge_listings(self.program, party.name, rows)
        # An actor that finds the database gone may end with that, and is started again.
        crashes = [one for one in self.server.complaints() if one["event"] == "crashed"]
        assert [one for one in crashes if not one["error"].startswith(DATABASE_GONE)] == []


@asynccontextmanager
async def gathered(
    server: ServerChild,
    db: Database,
    hints: list[Hint],
    *,
    program: Program,
    folder: Path,
    seed: int,
) -> AsyncIterator[Storm]:
    """Make the accounts, plugins and chiefs of a storm; `hints` are those that `db` publishes."""
    phase = Phase()
    people: list[tuple[Owner, list[PluginUnderLoad], str]] = []
    for which in ("wild", "script"):
        owner = await add_owner(db)
        _, token = await new_agent(db, owner)
        plugins = []
        for number in range(PLUGINS):
            name = f"{which}-{number}"
            _, plugin_token = await new_plugin(db, owner, name)
            book = Book(name=name, token=plugin_token)
            plugins.append(PluginUnderLoad(server, book, phase, seed))
        people.append((owner, plugins, token))
    wild = WildChief(server.url, people[0][2], phase, seed)
    agent = agent_child(program, folder, url=server.url, token=people[1][2], script=RULES)
    logs: list[Callable[[], TurnLog]] = [
        lambda: wild.log,
        lambda: read_turns(agent.all_events()),
    ]
    yield Storm(
        server=server,
        db=db,
        hints=hints,
        program=program,
        phase=phase,
        random=random.Random(seed),
        parties=[
            Party(owner=owner, plugins=plugins, read_chief=log)
            for (owner, plugins, _), log in zip(people, logs, strict=True)
        ],
        wild=wild,
        agent=agent,
    )


def _is_connected(agent: Child) -> bool:
    events = [each["event"] for each in agent.events()]
    told = [each for each in events if each in ("connected", "disconnected")]
    return bool(told) and told[-1] == "connected"
