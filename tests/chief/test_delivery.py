"""Messages reach the chief one turn at a time, and what became of each is written down."""

import pytest
import trio

from muster.agents.operations import accept_gateway, retire_agent
from muster.agents.rules import Accept, RetireAgent
from muster.chief import operations
from muster.messages.rules import State
from muster.principals import Muster
from tests.support.builders import get_message, read_audit
from tests.support.desk import OpenDesk
from tests.support.server import call_tool
from tests.support.waiting import dawdle, until


@pytest.mark.rule(33, 211, 215, 216, 217, 223)
async def test_a_stored_message_is_a_turn_at_once(desk: OpenDesk) -> None:
    """A new message is the connected chief's turn: delivering before it, delivered after."""
    async with desk() as at, at.agent() as agent:
        welcome = await agent.next_frame("welcome")
        assert welcome["name"] == "helper"
        message_id = await at.post(subject="Hello")
        turn = await agent.next_frame("turn")
        assert await at.state(message_id) is State.DELIVERING
        assert turn["title"] == "Mail"
        assert f"[message_id {message_id}] from Ada" in turn["text"]
        await agent.send("turn.started", turn_id=turn["turn_id"])
        await agent.send("turn.done", turn_id=turn["turn_id"], text="")
        await at.reaches(message_id, State.DELIVERED)
        (row,) = await read_audit(at.db, at.owner, "plugin.delivered")
        assert row.data["state"] == "delivered"
        assert "recovered" not in row.data


@pytest.mark.rule(211)
async def test_a_plugin_has_one_conversation_named_after_its_label(desk: OpenDesk) -> None:
    """Turns for one plugin's messages carry one conversation."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        conversations = set()
        for number in range(2):
            message_id = await at.post(f"m{number}")
            turn = await agent.next_frame("turn")
            conversations.add((turn["conversation"], turn["title"]))
            await agent.send("turn.done", turn_id=turn["turn_id"], text="")
            await at.reaches(message_id, State.DELIVERED)
        assert len(conversations) == 1


@pytest.mark.rule(72, 220)
async def test_only_a_claim_retries_what_is_queued(desk: OpenDesk) -> None:
    """A message stored while the chief is away stays queued until a claim begins."""
    async with desk() as at:
        message_id = await at.post()
        async with at.agent() as agent:
            await agent.next_frame("welcome")
            await dawdle(0.3, because="nothing may happen until a claim begins")
            assert await at.state(message_id) is State.QUEUED
            assert (await at.claim()).status_code == 204
            turn = await agent.next_frame("turn")
            await agent.send("turn.done", turn_id=turn["turn_id"], text="")
            await at.reaches(message_id, State.DELIVERED)


@pytest.mark.rule(70, 71, 73, 74)
async def test_a_claim_hands_over_the_queue_oldest_first(desk: OpenDesk) -> None:
    """A claim answers at once while the queue goes to the chief one turn after the other."""
    async with desk() as at:
        message_ids = [await at.post(f"m{number}") for number in range(3)]
        async with at.agent() as agent:
            await agent.next_frame("welcome")
            assert (await at.claim()).status_code == 204
            for message_id in message_ids:
                turn = await agent.next_frame("turn")
                assert f"[message_id {message_id}]" in turn["text"]
                assert (await at.claim()).status_code == 204
                await agent.send("turn.done", turn_id=turn["turn_id"], text="")
            await at.reaches(message_ids[-1], State.DELIVERED)
            assert len(await read_audit(at.db, at.owner, "plugin.delivered")) == 3


@pytest.mark.rule(70, 73)
async def test_a_claim_that_waits_retries_when_it_begins(desk: OpenDesk) -> None:
    """The queue goes to the chief while the claim is still parked, not when its wait is over."""
    async with desk() as at:
        message_id = await at.post()
        async with at.agent() as agent, trio.open_nursery() as nursery:
            await agent.next_frame("welcome")
            nursery.start_soon(at.claim, 25)
            turn = await agent.next_frame("turn")
            assert at.server.node.waiters.plugin_ids() != []
            await agent.send("turn.done", turn_id=turn["turn_id"], text="")
            await at.reaches(message_id, State.DELIVERED)
            nursery.cancel_scope.cancel()


@pytest.mark.rule(71)
async def test_a_retry_stops_at_the_first_that_the_chief_turns_away(desk: OpenDesk) -> None:
    """After a `turn.busy` the message and all behind it wait for the next claim."""
    async with desk() as at:
        first, second = await at.post("m1"), await at.post("m2")
        async with at.agent() as agent:
            await agent.next_frame("welcome")
            await at.claim()
            turn = await agent.next_frame("turn")
            await agent.send("turn.busy", turn_id=turn["turn_id"])
            await at.reaches(first, State.QUEUED)
            await dawdle(0.2, because="nothing may be handed over before the next claim")
            left = [await get_message(at.db, at.owner, each) for each in (first, second)]
            assert [(each.state, each.attempts) for each in left] == [
                (State.QUEUED, 1),
                (State.QUEUED, 0),
            ]


@pytest.mark.rule(71, 72, 220)
async def test_a_busy_chief_leaves_a_message_queued_and_unnamed(desk: OpenDesk) -> None:
    """A message that comes during a turn stays queued, names no chief and leaves no audit row."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        first = await at.post("m1")
        turn = await agent.next_frame("turn")
        second = await at.post("m2")
        await at.claim()
        await agent.send("turn.done", turn_id=turn["turn_id"], text="")
        await at.reaches(first, State.DELIVERED)
        await dawdle(0.2, because="the second must not follow by itself")
        message = await get_message(at.db, at.owner, second)
        assert (message.state, message.agent_id, message.attempts) == (State.QUEUED, None, 0)
        assert len(await read_audit(at.db, at.owner, "plugin.delivered")) == 1


@pytest.mark.rule(74)
async def test_a_late_hint_hands_nothing_over_again(desk: OpenDesk) -> None:
    """The hint of a message that was handed over meanwhile begins no turn, and breaks nothing."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        turn = await agent.next_frame("turn")
        gateway = at.server.node.gateways.find(at.chief_id)
        assert gateway is not None
        late = operations.Begin(agent_id=at.chief_id, epoch=gateway.epoch, message_id=message_id)
        principal = Muster(owner_id=at.owner.owner_id)
        assert await at.db.run(principal, operations.begin, late) is None
        assert await at.state(message_id) is State.DELIVERING
        await agent.send("turn.done", turn_id=turn["turn_id"], text="")
        await at.reaches(message_id, State.DELIVERED)
        assert await at.db.run(principal, operations.begin, late) is None
        assert await at.state(message_id) is State.DELIVERED


@pytest.mark.rule(220)
async def test_an_agent_that_answers_busy_was_not_handed_the_message(desk: OpenDesk) -> None:
    """`turn.busy` puts the message back into the queue without an audit row."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        turn = await agent.next_frame("turn")
        await agent.send("turn.busy", turn_id=turn["turn_id"])
        await at.reaches(message_id, State.QUEUED)
        assert (await get_message(at.db, at.owner, message_id)).agent_id is None
        assert await read_audit(at.db, at.owner, "plugin.delivered") == []


@pytest.mark.rule(218, 219)
@pytest.mark.parametrize("ending", ["failed", "busy-late", "gone", "deadline"])
async def test_a_bad_ending_is_unconfirmed_for_good(desk: OpenDesk, ending: str) -> None:
    """After the text may have reached the chief every bad ending is unconfirmed, for good."""
    settings = {"MUSTER_TURN_DEADLINE": "1s"} if ending == "deadline" else {}
    async with desk(**settings) as at:
        async with at.agent() as agent:
            await agent.next_frame("welcome")
            message_id = await at.post()
            turn = await agent.next_frame("turn")
            await agent.send("turn.started", turn_id=turn["turn_id"])
            if ending == "failed":
                await agent.send("turn.failed", turn_id=turn["turn_id"], error="no model")
            if ending == "busy-late":
                await agent.send("turn.busy", turn_id=turn["turn_id"])
            if ending == "deadline":
                await agent.next_frame("cancel")
            if ending != "gone":
                await at.reaches(message_id, State.UNCONFIRMED)
        await at.reaches(message_id, State.UNCONFIRMED)
        async with at.agent() as agent:
            await agent.next_frame("welcome")
            await at.claim()
            second = await at.post("m2")
            turn = await agent.next_frame("turn")
            assert f"[message_id {second}]" in turn["text"]
        (row, *_) = await read_audit(at.db, at.owner, "plugin.delivered")
        assert row.data["state"] == "unconfirmed"
        assert row.subject == f"message:{message_id}"


@pytest.mark.rule(221, 222, 223)
async def test_the_next_delivery_settles_what_a_stop_left(desk: OpenDesk) -> None:
    """After a stop in mid-turn the message stays delivering until the chief gets another one."""
    async with desk() as at:
        left = await at.post("m1")
        principal = Muster(owner_id=at.owner.owner_id)
        accept = Accept(agent_id=at.chief_id, node="killed")
        epoch = await at.db.run(principal, accept_gateway, accept)
        begin = operations.Begin(agent_id=at.chief_id, epoch=epoch, message_id=left)
        assert await at.db.run(principal, operations.begin, begin) is not None
        # Here the process is killed: nobody settles the turn.
        async with at.agent() as agent:
            await agent.next_frame("welcome")
            await at.claim()
            await dawdle(0.2, because="a connection and a claim must not settle it")
            assert await at.state(left) is State.DELIVERING
            await at.post("m2")
            turn = await agent.next_frame("turn")
            assert await at.state(left) is State.UNCONFIRMED
            await agent.send("turn.done", turn_id=turn["turn_id"], text="")

            async def settled() -> bool:
                return len(await read_audit(at.db, at.owner, "plugin.delivered")) == 2

            await until(settled)
        recovered, delivered = await read_audit(at.db, at.owner, "plugin.delivered")
        assert recovered.subject == f"message:{left}"
        assert recovered.data["recovered"] is True
        assert "recovered" not in delivered.data


@pytest.mark.rule(216, 252)
async def test_the_chief_can_draft_on_the_turn_that_delivers(desk: OpenDesk) -> None:
    """While the turn runs, reply_draft takes the message as delivered to this chief."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        turn = await agent.next_frame("turn")
        result = await call_tool(
            at.server, at.chief_token, "reply_draft", message_id=message_id, body="Noon works."
        )
        assert not result.get("isError"), result
        assert result["structuredContent"]["status"] == "pending"
        await agent.send("turn.done", turn_id=turn["turn_id"], text="")
        await at.reaches(message_id, State.DELIVERED)


async def test_a_newer_connection_takes_over(desk: OpenDesk) -> None:
    """A second connection closes the first with 4409, and the turn in hand there is unconfirmed."""
    async with desk() as at, at.agent() as first:
        await first.next_frame("welcome")
        message_id = await at.post()
        turn = await first.next_frame("turn")
        async with at.agent() as second:
            await second.next_frame("welcome")
            assert await first.close_code() == 4409
            await at.reaches(message_id, State.UNCONFIRMED)
            await second.send("turn.done", turn_id=turn["turn_id"], text="late")
            other = await at.post("m2")
            turn = await second.next_frame("turn")
            await second.send("turn.done", turn_id=turn["turn_id"], text="")
            await at.reaches(other, State.DELIVERED)
            assert await at.state(message_id) is State.UNCONFIRMED


async def test_a_retired_agent_is_closed_4401_at_once(desk: OpenDesk) -> None:
    """Retiring the agent ends its connection, and its token opens no new one."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        await at.server.node.db.run(at.owner, retire_agent, RetireAgent(name="helper"))
        assert await agent.close_code() == 4401
        async with at.agent() as again:
            assert await again.close_code() == 4401


async def test_a_stop_closes_agents_1001_and_settles_their_turn(desk: OpenDesk) -> None:
    """A draining server waits for the turn, then closes the socket and settles it unconfirmed."""
    async with desk(MUSTER_DRAIN="0s") as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        await agent.next_frame("turn")
        with trio.fail_after(3):
            await at.server.node.drain()
        assert await agent.close_code() == 1001
        await at.reaches(message_id, State.UNCONFIRMED)


async def test_a_draining_server_begins_no_turn_and_answers_claims_at_once(desk: OpenDesk) -> None:
    """While it drains, a claim answers 204 without its wait and messages stay queued."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        at.server.node.draining = True
        at.server.node.waiters.drain()
        message_id = await at.post()
        with trio.fail_after(2):
            assert (await at.claim(25)).status_code == 204
        assert await at.state(message_id) is State.QUEUED


async def test_posts_without_a_connected_agent_start_nothing(desk: OpenDesk) -> None:
    """Many posts and claims of an owner whose agents are away start no delivery at all."""
    async with desk() as at:
        for number in range(3):
            await at.post(f"m{number}")
            await at.claim()
        assert not any(f"owner:{at.owner.owner_id}" in path for path in at.server.node.tree.paths())
