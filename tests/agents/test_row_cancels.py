"""Administrative verbs, cancelled at every step: wholly there or wholly not."""

import itertools

from actors.testing import cancel_at_every_step
from muster.agents.operations import add_agent, find_chief_id, list_agents
from muster.agents.rules import AddAgent, ListAgents
from muster.pg.audit import list_audit
from muster.pg.query import Query
from muster.plugins.operations import add_plugin, list_plugins, revoke_plugin
from muster.plugins.rules import AddPlugin, ListPlugins, RevokePlugin
from muster.principals import Owner
from tests.support.cluster import SpiedDatabase

COUNT_LIVE_CREDENTIALS = Query("""
    select count(*) from credentials where owner_id = %(owner_id)s and revoked_at is null
""")


async def count_records(db: SpiedDatabase, owner: Owner) -> tuple[int, int]:
    """How many live credentials and audit rows the owner has."""
    async with db.transaction(owner) as tx:
        return await tx.scalar(COUNT_LIVE_CREDENTIALS), len(await list_audit(tx, 500))


async def test_adding_a_plugin_is_all_or_nothing(db: SpiedDatabase, owner: Owner) -> None:
    """A plugin is there with its token and its audit row, or none of the three is."""
    numbers = itertools.count()

    async def add() -> None:
        command = AddPlugin(name=f"p{next(numbers)}", label="L", scope="s")
        await db.run(owner, add_plugin, command)

    async def check(completed: bool) -> None:
        there = len(await db.run(owner, list_plugins, ListPlugins()))
        assert await count_records(db, owner) == (there, there)
        seen.append(there)
        if completed:
            assert there == seen[-2] + 1

    seen = [0]
    assert await cancel_at_every_step(add, check) >= 4


async def test_revoking_a_plugin_is_all_or_nothing(db: SpiedDatabase, owner: Owner) -> None:
    """A plugin is revoked with its token, its audit row and its hint, or lives with its token."""
    numbers = itertools.count()

    async def add_and_revoke() -> None:
        name = f"p{next(numbers)}"
        await db.run(owner, add_plugin, AddPlugin(name=name, label="L", scope="s"))
        await db.run(owner, revoke_plugin, RevokePlugin(name=name))

    async def check(completed: bool) -> None:
        del completed
        views = await db.run(owner, list_plugins, ListPlugins(revoked_too=True))
        ended = [view for view in views if view.revoked_at is not None]
        assert await count_records(db, owner) == (
            len(views) - len(ended),
            len(views) + len(ended),
        )
        assert {hint.id for hint in db.published} == {view.id for view in ended}

    assert await cancel_at_every_step(add_and_revoke, check) >= 8


async def test_moving_the_chief_leaves_one(db: SpiedDatabase, owner: Owner) -> None:
    """At whatever step a move of the chief ends, there is one chief."""
    await db.run(owner, add_agent, AddAgent(name="first", chief=True))
    numbers = itertools.count()

    async def move() -> None:
        command = AddAgent(name=f"a{next(numbers)}", chief=True, replace=True)
        await db.run(owner, add_agent, command)

    async def check(completed: bool) -> None:
        del completed
        views = await db.run(owner, list_agents, ListAgents())
        assert [view.chief for view in views].count(True) == 1
        async with db.transaction(owner) as tx:
            chief_id = await find_chief_id(tx)
        # Ids grow: the one that came last is the chief.
        assert chief_id == max(view.id for view in views)

    assert await cancel_at_every_step(move, check) >= 4
