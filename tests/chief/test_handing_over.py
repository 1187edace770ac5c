"""What a turn is given, to whom, and what keeps a message from being handed over."""

import re

import pytest
import trio

from muster.agents.operations import accept_gateway, add_agent
from muster.agents.rules import Accept, AddAgent
from muster.chief import operations
from muster.chief.tools import FOR_ALL, STANDING_INSTRUCTIONS, TOOLS, Call, ReplyDraft, reply_draft
from muster.errors import Refused
from muster.messages import operations as messages
from muster.messages.rules import State
from muster.principals import Agent, Muster, Owner
from tests.support.barrier import somebody_waits
from tests.support.builders import (
    disable,
    get_message,
    make_agent,
    make_chief,
    make_message,
    make_plugin,
    new_agent,
    new_plugin,
    read_audit,
    revoke,
)
from tests.support.cluster import SpiedDatabase
from tests.support.desk import Desk, OpenDesk
from tests.support.server import ScriptedAgent, call_mcp, call_tool
from tests.support.waiting import until


async def take_turn(at: Desk, agent: ScriptedAgent, message_id: int) -> dict[str, str]:
    """The frame of the next turn, which is this message's, carried through."""
    turn = await agent.next_frame("turn")
    assert f"[message_id {message_id}]" in turn["text"]
    await agent.send("turn.done", turn_id=turn["turn_id"], text="")
    await at.reaches(message_id, State.DELIVERED)
    return turn


@pytest.mark.rule(211, 213)
async def test_each_plugin_has_its_conversation_and_each_turn_its_nonce(desk: OpenDesk) -> None:
    """Two plugins have two conversations, each under its label; no two turns share a marker."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        turns = [await take_turn(at, agent, await at.post(f"m{number}")) for number in range(2)]
        _, other = await new_plugin(at.db, at.owner, "forum")
        async with at.server.client(other) as client:
            answer = await client.post(
                "/plugin/v1/messages", json={"external_id": "m1", "body": "Lunch?"}
            )
        turns.append(await take_turn(at, agent, answer.json()["id"]))
        assert [turn["title"] for turn in turns] == ["Mail", "Mail", "Forum"]
        assert len({turn["conversation"] for turn in turns}) == 2
        marker = re.compile("^<<<message ([0-9a-f]{16})$", re.MULTILINE)
        assert len({nonce for turn in turns for nonce in marker.findall(turn["text"])}) == 3


@pytest.mark.rule(212)
async def test_the_turn_tells_when_the_plugin_received_it(desk: OpenDesk) -> None:
    """The from line has the plugin's `received_at`, or else the time at which muster stored it."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        told = await at.post("m1", received_at="2001-02-03T04:05:06+01:00")
        assert "· received 2001-02-03T03:05:06Z" in (await take_turn(at, agent, told))["text"]
        untold = await at.post("m2")
        stored = (await get_message(at.db, at.owner, untold)).created_at
        turn = await take_turn(at, agent, untold)
        assert f"· received {stored:%Y-%m-%dT%H:%M:%S}Z" in turn["text"]


@pytest.mark.rule(211)
async def test_a_message_that_comes_as_a_turn_is_written_down_is_next(desk: OpenDesk) -> None:
    """A chief that answered is not busy: what comes before its answer is stored is handed over."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        first = await at.post("m1")
        turn = await agent.next_frame("turn")
        gateway = at.server.node.gateways.find(at.chief_id)
        assert gateway is not None
        async with at.db.transaction(Muster(owner_id=at.owner.owner_id)) as tx:
            await messages.lock_message(tx, first)  # the answer can't be stored before this ends
            await agent.send("turn.done", turn_id=turn["turn_id"], text="")
            await until(lambda: gateway.can_take_turn)
            second = await at.post("m2")
        await at.reaches(first, State.DELIVERED)
        await take_turn(at, agent, second)


async def hand_over(db: SpiedDatabase, chief: Agent, message_id: int | None) -> bool:
    """Begin a delivery on a new connection of this agent; whether something was handed over."""
    muster = Muster(owner_id=chief.owner_id)
    accept = Accept(agent_id=chief.agent_id, node="one")
    epoch = await db.run(muster, accept_gateway, accept)
    begin = operations.Begin(agent_id=chief.agent_id, epoch=epoch, message_id=message_id)
    return await db.run(muster, operations.begin, begin) is not None


@pytest.mark.rule(220)
async def test_nothing_is_handed_over_for_those_who_are_gone(
    db: SpiedDatabase, owner: Owner
) -> None:
    """A revoked plugin's message, a plain agent and a disabled account begin no turn."""
    chief, plain = await make_chief(db, owner), await make_agent(db, owner)
    gone, plugin = await make_plugin(db, owner), await make_plugin(db, owner)
    orphan, message = await make_message(db, gone), await make_message(db, plugin)
    await revoke(db, owner, gone)
    assert not await hand_over(db, chief, orphan.id)
    assert not await hand_over(db, plain, message.id)
    await disable(db, owner)
    for message_id in (message.id, None):
        assert not await hand_over(db, chief, message_id)
    for each in (orphan, message):
        stored = await get_message(db, owner, each.id)
        assert (stored.state, stored.agent_id, stored.attempts) == (State.QUEUED, None, 0)


@pytest.mark.rule(220)
async def test_an_older_connection_begins_no_turn(db: SpiedDatabase, owner: Owner) -> None:
    """Only the connection that the chief opened last is handed a message."""
    chief = await make_chief(db, owner)
    message = await make_message(db, await make_plugin(db, owner))
    muster = Muster(owner_id=owner.owner_id)
    accept = Accept(agent_id=chief.agent_id, node="one")
    epochs = [await db.run(muster, accept_gateway, accept) for _ in range(2)]
    for epoch, taken in zip(epochs, (False, True), strict=True):
        begin = operations.Begin(agent_id=chief.agent_id, epoch=epoch, message_id=message.id)
        assert (await db.run(muster, operations.begin, begin) is not None) is taken


@pytest.mark.rule(221, 222)
async def test_another_chiefs_delivery_settles_nothing_of_the_former(
    db: SpiedDatabase, owner: Owner
) -> None:
    """What a stop left delivering to a former chief remains so when its successor gets a turn."""
    plugin, former = await make_plugin(db, owner), await make_chief(db, owner)
    left, message = await make_message(db, plugin), await make_message(db, plugin)
    assert await hand_over(db, former, left.id)
    row, _ = await db.run(owner, add_agent, AddAgent(name="next", chief=True, replace=True))
    successor = Agent(owner_id=owner.owner_id, agent_id=row.id, name="next", credential_id=0)
    assert await hand_over(db, successor, message.id)
    stored = await get_message(db, owner, left.id)
    assert (stored.state, stored.agent_id) == (State.DELIVERING, former.agent_id)
    assert await read_audit(db, owner, "plugin.delivered") == []


@pytest.mark.rule(252)
async def test_a_successor_cannot_draft_on_its_predecessors_message(desk: OpenDesk) -> None:
    """Only the chief that a message was handed to drafts on it, and only while it is the chief."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        turn = await agent.next_frame("turn")
        _, token = await at.db.run(
            at.owner, add_agent, AddAgent(name="next", chief=True, replace=True)
        )
        for each, refused in ((at.chief_token, "no_tool"), (token, "not_found")):
            result = await call_tool(
                at.server, each, "reply_draft", message_id=message_id, body="hello"
            )
            assert result["structuredContent"]["refused"] == refused
        await agent.send("turn.done", turn_id=turn["turn_id"], text="")
        await at.reaches(message_id, State.DELIVERED)


@pytest.mark.rule(250)
async def test_the_tool_asks_once_more_who_is_chief(db: SpiedDatabase, owner: Owner) -> None:
    """An agent that ceased to be the chief since the tool was offered is refused by the tool."""
    former = await make_chief(db, owner)
    message = await make_message(db, await make_plugin(db, owner), delivered_to=former)
    await db.run(owner, add_agent, AddAgent(name="next", chief=True, replace=True))
    call = Call(arguments=ReplyDraft(message_id=message.id, body="hello"), deny_words=frozenset())
    with pytest.raises(Refused) as refusal:
        await db.run(former, reply_draft, call)
    assert refusal.value.code == "not_chief"


@pytest.mark.rule(239, 240, 241, 250, 296)
@pytest.mark.parametrize("plugins", ["1", "0"])
async def test_tools_and_instructions_are_the_chiefs_while_plugins_are_on(
    desk: OpenDesk, plugins: str
) -> None:
    """With plugins off neither tools for messages nor instructions; another agent never has."""
    async with desk(MUSTER_PLUGINS=plugins, MUSTER_SESSION_ROUTING="1") as at:
        _, other = await new_agent(at.db, at.owner, "other", chief=False)
        for token, chief in ((at.chief_token, True), (other, False)):
            has = chief and plugins == "1"
            async with ScriptedAgent(at.server.url, token) as agent:
                welcome = await agent.next_frame("welcome")
            assert welcome["instructions"] == (STANDING_INSTRUCTIONS if has else "")
            tools = (await call_mcp(at.server, token, "tools/list", {}))["tools"]
            names = {tool["name"] for tool in tools}
            assert names == {tool.name for tool in (TOOLS if has else FOR_ALL)}
            called = await call_tool(at.server, token, "reply_draft", message_id=1, body="x")
            assert called["structuredContent"]["refused"] == ("not_found" if has else "no_tool")


@pytest.mark.rule(211)
async def test_a_new_chief_does_not_wait_for_the_former_ones_turn(desk: OpenDesk) -> None:
    """With --replace in mid-turn the next message goes to the new chief at once."""
    async with desk() as at, at.agent() as former:
        await former.next_frame("welcome")
        held = await at.post("m1")
        turn = await former.next_frame("turn")
        command = AddAgent(name="next", chief=True, replace=True)
        _, token = await at.server.node.db.run(at.owner, add_agent, command)
        async with ScriptedAgent(at.server.url, token) as successor:
            await successor.next_frame("welcome")
            await take_turn(at, successor, await at.post("m2"))
        assert await at.state(held) is State.DELIVERING
        await former.send("turn.done", turn_id=turn["turn_id"], text="")
        await at.reaches(held, State.DELIVERED)


async def test_a_replaced_chiefs_delivery_holds_no_message(db: SpiedDatabase, owner: Owner) -> None:
    """A delivery that waited while the chief was replaced takes nothing, and locks nothing."""
    chief = await make_chief(db, owner)
    message = await make_message(db, await make_plugin(db, owner))
    muster = Muster(owner_id=owner.owner_id)
    replaced, begun, looked = trio.Event(), trio.Event(), trio.Event()

    async def begin_late() -> None:
        async with db.transaction(muster) as tx:
            command = operations.Begin(agent_id=chief.agent_id, epoch=0)
            assert await operations.begin(tx, command) is None
            assert replaced.is_set()
            begun.set()
            await looked.wait()

    async with trio.open_nursery() as nursery:
        async with db.transaction(owner) as tx:
            await add_agent(tx, AddAgent(name="newer", chief=True, replace=True))
            nursery.start_soon(begin_late)
            await until(lambda: somebody_waits(db))
            replaced.set()
        with trio.fail_after(3):
            await begun.wait()
            async with db.transaction(muster) as tx:
                assert await messages.lock_message(tx, message.id) is not None
        looked.set()
