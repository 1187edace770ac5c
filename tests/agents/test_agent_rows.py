"""Agents on the database: the one chief, retiring, and the epochs of gateways."""

from datetime import timedelta

import pytest

from muster.agents.operations import (
    accept_gateway,
    add_agent,
    find_agent,
    find_chief_id,
    find_epoch,
    list_agents,
    lock_chief,
    release_gateway,
    retire_agent,
)
from muster.agents.rules import (
    NODE_ALIVE_SECONDS,
    Accept,
    AddAgent,
    ListAgents,
    Release,
    RetireAgent,
)
from muster.errors import Conflict, Invalid, NotFound, Unauthorized
from muster.node.nodes import ALIVE_SECONDS, beat, leave
from muster.outcomes import HintKind
from muster.pg.audit import list_audit
from muster.principals import Muster, Node, Owner
from tests.support.barrier import collide
from tests.support.cluster import SpiedDatabase, add_owner

CHIEF = AddAgent(name="helper", chief=True)


async def actions(db: SpiedDatabase, owner: Owner) -> list[str]:
    """The owner's audit actions, oldest first."""
    async with db.transaction(owner) as tx:
        return [row.action for row in reversed(await list_audit(tx))]


async def chief_name(db: SpiedDatabase, owner: Owner) -> str | None:
    """Who the owner's chief is."""
    async with db.transaction(owner) as tx:
        chief = await lock_chief(tx)
        assert (chief.id if chief else None) == await find_chief_id(tx)
        return chief.name if chief else None


async def test_a_chief_is_added(db: SpiedDatabase, owner: Owner) -> None:
    """A chief that muster makes is provisioned and found as the owner's chief."""
    agent, token = await db.run(owner, add_agent, CHIEF)
    assert token.startswith("mag_")
    assert (agent.chief, agent.provisioned, agent.epoch, agent.node) == (True, True, 0, None)
    assert await chief_name(db, owner) == "helper"
    assert await actions(db, owner) == ["agent.added"]
    assert [(hint.kind, hint.id) for hint in db.published] == [(HintKind.AGENT_CHANGED, agent.id)]


async def test_a_plain_agent_is_no_chief(db: SpiedDatabase, owner: Owner) -> None:
    """An agent that is added without --chief takes no messages and is not provisioned."""
    agent, _ = await db.run(owner, add_agent, AddAgent(name="helper"))
    assert (agent.chief, agent.provisioned) == (False, False)
    assert await chief_name(db, owner) is None


async def test_there_is_one_chief(db: SpiedDatabase, owner: Owner) -> None:
    """A second chief is a conflict that writes nothing, unless it is to replace the first."""
    first, _ = await db.run(owner, add_agent, CHIEF)
    with pytest.raises(Conflict) as caught:
        await db.run(owner, add_agent, AddAgent(name="other", chief=True))
    assert caught.value.code == "chief_exists"
    async with db.transaction(owner) as tx:
        assert await find_agent(tx, "other") is None
    db.published.clear()
    command = AddAgent(name="other", chief=True, replace=True)
    second, _ = await db.run(owner, add_agent, command)
    assert await chief_name(db, owner) == "other"
    async with db.transaction(owner) as tx:
        former = await find_agent(tx, "helper")
    assert former is not None
    assert not former.chief
    assert former.retired_at is None
    assert await actions(db, owner) == ["agent.added", "agent.added", "agent.chief_moved"]
    assert {hint.id for hint in db.published} == {first.id, second.id}


async def test_replacing_nobody(db: SpiedDatabase, owner: Owner) -> None:
    """--replace without a chief to replace adds the chief and records no move."""
    await db.run(owner, add_agent, AddAgent(name="helper", chief=True, replace=True))
    assert await chief_name(db, owner) == "helper"
    assert await actions(db, owner) == ["agent.added"]


async def test_a_live_name_is_taken(db: SpiedDatabase, owner: Owner) -> None:
    """A name is taken while its agent lives; taking it moves no chief."""
    await db.run(owner, add_agent, CHIEF)
    with pytest.raises(Conflict) as caught:
        await db.run(owner, add_agent, AddAgent(name="helper", chief=True, replace=True))
    assert caught.value.code == "name_taken"
    assert await chief_name(db, owner) == "helper"
    await db.run(await add_owner(db), add_agent, CHIEF)
    with pytest.raises(Invalid):
        await db.run(owner, add_agent, AddAgent(name="He"))


async def test_two_chiefs_at_once(db: SpiedDatabase, owner: Owner) -> None:
    """Of two that add a chief at the same time, one does and one is told of it."""
    one, two = AddAgent(name="one", chief=True), AddAgent(name="two", chief=True)
    outcomes = await collide(
        db, (owner, lambda tx: add_agent(tx, one)), (owner, lambda tx: add_agent(tx, two))
    )
    assert [getattr(o, "code", None) for o in outcomes if isinstance(o, Conflict)] == [
        "chief_exists"
    ]
    assert await chief_name(db, owner) in ("one", "two")


async def test_two_that_replace_the_chief(db: SpiedDatabase, owner: Owner) -> None:
    """Two that replace the chief take turns: the later one is the chief, all three live."""
    await db.run(owner, add_agent, CHIEF)
    one = AddAgent(name="one", chief=True, replace=True)
    two = AddAgent(name="two", chief=True, replace=True)
    outcomes = await collide(
        db, (owner, lambda tx: add_agent(tx, one)), (owner, lambda tx: add_agent(tx, two))
    )
    assert not [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
    views = await db.run(owner, list_agents, ListAgents())
    assert len(views) == 3
    assert len([view for view in views if view.chief]) == 1
    assert not next(view for view in views if view.name == "helper").chief


async def test_one_name_added_by_many(db: SpiedDatabase, owner: Owner) -> None:
    """Of several that add one name at the same time, exactly one gets it."""
    command = AddAgent(name="helper")
    outcomes = await collide(db, *[(owner, lambda tx: add_agent(tx, command))] * 5)
    assert len([outcome for outcome in outcomes if isinstance(outcome, Conflict)]) == 4


async def test_retiring(db: SpiedDatabase, owner: Owner) -> None:
    """Retiring ends an agent, frees its name and the chief's place, and tells the servers."""
    first, _ = await db.run(owner, add_agent, CHIEF)
    db.published.clear()
    ended = await db.run(owner, retire_agent, RetireAgent(name="helper"))
    assert ended.retired_at is not None
    assert [(hint.kind, hint.id) for hint in db.published] == [(HintKind.AGENT_CHANGED, first.id)]
    assert await chief_name(db, owner) is None
    with pytest.raises(NotFound):
        await db.run(owner, retire_agent, RetireAgent(name="helper"))
    second, _ = await db.run(owner, add_agent, CHIEF)
    assert second.id != first.id
    assert [view.id for view in await db.run(owner, list_agents, ListAgents())] == [second.id]
    everyone = await db.run(owner, list_agents, ListAgents(retired_too=True))
    assert [view.id for view in everyone] == [first.id, second.id]
    assert await actions(db, owner) == ["agent.added", "agent.retired", "agent.added"]


async def test_gateways_have_growing_epochs(db: SpiedDatabase, owner: Owner) -> None:
    """Each gateway socket gets the next epoch; only the newest one's release frees the row."""
    agent, _ = await db.run(owner, add_agent, CHIEF)
    muster = Muster(owner_id=owner.owner_id)
    db.published.clear()
    epochs = [
        await db.run(muster, accept_gateway, Accept(agent_id=agent.id, node=node))
        for node in ("north", "south")
    ]
    assert epochs == [1, 2]
    assert [(hint.kind, hint.id) for hint in db.published] == [
        (HintKind.AGENT_CHANGED, agent.id)
    ] * 2
    await db.run(muster, release_gateway, Release(agent_id=agent.id, epoch=1))
    async with db.transaction(owner) as tx:
        row = await find_agent(tx, "helper")
        assert row is not None
        assert (row.epoch, row.node) == (2, "south")
        assert row.connected_at is not None
        assert await find_epoch(tx, agent.id) == 2
    await db.run(muster, release_gateway, Release(agent_id=agent.id, epoch=2))
    async with db.transaction(owner) as tx:
        row = await find_agent(tx, "helper")
        assert row is not None
        assert (row.epoch, row.node, row.connected_at) == (2, None, None)
    assert await actions(db, owner) == ["agent.added"]


async def test_an_agent_of_a_killed_server_is_not_connected(
    db: SpiedDatabase, owner: Owner
) -> None:
    """A listing believes a row for as long as the server that it names says that it is alive."""
    agent, _ = await db.run(owner, add_agent, CHIEF)
    muster = Muster(owner_id=owner.owner_id)
    node = f"north-{agent.id}"

    async def connected() -> bool:
        (view,) = await db.run(owner, list_agents, ListAgents())
        return view.is_connected

    assert NODE_ALIVE_SECONDS == ALIVE_SECONDS
    assert not await connected()
    await db.run(Node(), beat, node)
    await db.run(muster, accept_gateway, Accept(agent_id=agent.id, node=node))
    assert await connected()
    db.clock_offset += timedelta(seconds=NODE_ALIVE_SECONDS)
    assert not await connected()
    await db.run(Node(), beat, node)
    assert await connected()
    await db.run(Node(), leave, node)
    assert not await connected()


async def test_sockets_that_open_at_once(db: SpiedDatabase, owner: Owner) -> None:
    """Sockets of one agent that open at the same time get epochs of their own."""
    agent, _ = await db.run(owner, add_agent, CHIEF)
    accept = Accept(agent_id=agent.id, node="north")
    muster = Muster(owner_id=owner.owner_id)
    outcomes = await collide(db, *[(muster, lambda tx: accept_gateway(tx, accept))] * 6)
    assert sorted(epoch for epoch in outcomes if isinstance(epoch, int)) == [1, 2, 3, 4, 5, 6]


async def test_a_retired_agent_has_no_gateway(db: SpiedDatabase, owner: Owner) -> None:
    """A retired agent's socket is turned away, as is one for somebody else's agent."""
    agent, _ = await db.run(owner, add_agent, CHIEF)
    accept = Accept(agent_id=agent.id, node="north")
    other = await add_owner(db)
    with pytest.raises(Unauthorized):
        await db.run(Muster(owner_id=other.owner_id), accept_gateway, accept)
    await db.run(owner, retire_agent, RetireAgent(name="helper"))
    with pytest.raises(Unauthorized):
        await db.run(Muster(owner_id=owner.owner_id), accept_gateway, accept)
    async with db.transaction(owner) as tx:
        assert await find_epoch(tx, agent.id) is None
