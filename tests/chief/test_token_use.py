"""The tokens that a turn took are written down with how it ended."""

from typing import Any

import pytest
import trio

from muster.messages.operations import find_token_use
from muster.messages.rules import State
from muster.token_use import TokenUse
from tests.support.builders import make_message, make_plugin, read_audit
from tests.support.desk import Desk, OpenDesk

USAGE: dict[str, Any] = {
    "model": "some-model",
    "calls": 2,
    "input_tokens": 1300,
    "cached_input_tokens": 200,
    "output_tokens": 40,
}


async def recorded(at: Desk, message_id: int) -> object:
    """The usage in the message's one settled row, which is what an operation finds."""
    rows = await read_audit(at.db, at.owner, "plugin.delivered")
    (row,) = [row for row in rows if row.subject == f"message:{message_id}"]
    use = await at.db.run(at.owner, find_token_use, message_id)
    assert use == (TokenUse(**USAGE) if "usage" in row.data else None)
    return row.data.get("usage")


@pytest.mark.rule(223)
@pytest.mark.parametrize(
    ("kind", "state"),
    [("turn.done", State.DELIVERED), ("turn.failed", State.UNCONFIRMED)],
)
@pytest.mark.parametrize("counted", [True, False])
async def test_a_settled_turn_has_its_tokens(
    desk: OpenDesk, kind: str, state: State, counted: bool
) -> None:
    """What the agent counted stands in the audit row, delivered or not, and nothing invented."""
    spent = {"usage": USAGE} if counted else {}
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        turn = await agent.next_frame("turn")
        await agent.send(kind, turn_id=turn["turn_id"], text="", error="", **spent)
        await at.reaches(message_id, state)
        assert await recorded(at, message_id) == spent.get("usage")


async def test_a_turn_over_its_deadline_has_its_tokens(desk: OpenDesk) -> None:
    """An agent that answers the cancel has its tokens recorded, and the turn is unconfirmed."""
    async with desk(MUSTER_TURN_DEADLINE="1s") as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        turn = await agent.next_frame("turn")
        with trio.fail_after(10):
            await agent.next_frame("cancel")
        await agent.send("turn.failed", turn_id=turn["turn_id"], error="late", usage=USAGE)
        await at.reaches(message_id, State.UNCONFIRMED)
        assert await recorded(at, message_id) == USAGE


async def test_an_agent_that_ignores_the_cancel_is_not_waited_for(desk: OpenDesk) -> None:
    """The turn of a silent agent is settled a moment after its deadline, and the next can begin."""
    async with desk(MUSTER_TURN_DEADLINE="1s") as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        await agent.next_frame("turn")
        with trio.fail_after(10):
            await at.reaches(message_id, State.UNCONFIRMED)
        assert await recorded(at, message_id) is None
        assert "turn_id" in await agent.next_frame("cancel")
        await at.post("m2")
        assert "turn_id" in await agent.next_frame("turn")


async def test_a_malformed_count_closes_the_socket(desk: OpenDesk) -> None:
    """A count that is no count is a bad frame; its turn is unconfirmed and counts nothing."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        turn = await agent.next_frame("turn")
        wrong = USAGE | {"calls": -1}
        await agent.send("turn.done", turn_id=turn["turn_id"], text="", usage=wrong)
        assert await agent.close_code() == 4400
        await at.reaches(message_id, State.UNCONFIRMED)
        assert await recorded(at, message_id) is None


async def test_a_message_that_waits_tells_no_tokens(desk: OpenDesk) -> None:
    """A message that was not settled has no count."""
    async with desk() as at:
        message = await make_message(at.db, await make_plugin(at.db, at.owner, "post"))
        assert await at.db.run(at.owner, find_token_use, message.id) is None


async def test_a_turn_that_a_stop_cuts_off_tells_what_it_took(desk: OpenDesk) -> None:
    """An agent that is told to stop by a draining server still has its tokens recorded."""
    async with desk(MUSTER_DRAIN="0s") as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        turn = await agent.next_frame("turn")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(at.server.node.drain)
            await agent.next_frame("cancel")
            await agent.send("turn.failed", turn_id=turn["turn_id"], error="cut", usage=USAGE)
            assert await agent.close_code() == 1001
        await at.reaches(message_id, State.UNCONFIRMED)
        assert await recorded(at, message_id) == USAGE
