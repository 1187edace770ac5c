"""Why a turn failed is written down, and changes no rule."""

from typing import Any

import pytest
import trio

from muster.chief.operations.history import find_last_failure, look_at_message
from muster.chief.operations.retry import RetryMessage, retry_message
from muster.chief.turns import By
from muster.chief.turns import State as TurnState
from muster.chief.words import Say, say
from muster.failure import Cause, Failure
from muster.messages.rules import Fail, State
from muster.principals import Owner
from tests.support.builders import make_chief, read_audit
from tests.support.cluster import SpiedDatabase
from tests.support.desk import Desk, OpenDesk
from tests.support.speaking import begin, connect, end, speak, turns
from tests.support.waiting import until

HOSTILE = "<b>no</b> ink\x1b[2J\x00\n" + "x" * 2000


async def why(at: Desk, message_id: int) -> Failure | None:
    """Why the message's newest turn failed, as its row and the story of its page say."""
    found = await at.db.run(at.owner, find_last_failure, message_id)
    story = await at.db.run(at.owner, look_at_message, message_id)
    assert story.last_turn is not None
    assert story.last_turn.failure == found
    return found


async def audited(at: Desk, message_id: int) -> dict[str, Any]:
    """The data of the message's newest settled row."""
    rows = await read_audit(at.db, at.owner, "plugin.delivered")
    *_, row = [row for row in rows if row.subject == f"message:{message_id}"]
    return dict(row.data)


@pytest.mark.rule(218)
async def test_what_the_agent_said_of_its_failure_is_kept(desk: OpenDesk) -> None:
    """One bounded line of it stands in the turn's row and in the audit row."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        turn = await agent.next_frame("turn")
        await agent.send("turn.failed", turn_id=turn["turn_id"], error=HOSTILE)
        await at.reaches(message_id, State.UNCONFIRMED)
        failure = await why(at, message_id)
        assert failure is not None
        assert failure.cause is Cause.REPORTED
        assert failure.error is not None
        assert failure.error.startswith("<b>no</b> ink[2J xxx")
        assert failure.error.endswith(" more characters)")
        assert len(failure.error) <= 500
        assert (await audited(at, message_id))["failure"] == failure.document


@pytest.mark.rule(218)
async def test_a_reason_has_nothing_handed_over_again(desk: OpenDesk) -> None:
    """With a reason it waits for its owner as before; a retry that is done leaves none."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        turn = await agent.next_frame("turn")
        await agent.send("turn.failed", turn_id=turn["turn_id"], error="try again, please")
        await at.reaches(message_id, State.UNCONFIRMED)
        await at.claim()
        second = await at.post("m2")
        turn = await agent.next_frame("turn")
        assert turn["turn_id"] == f"message:{second}:1"
        assert await at.state(message_id) is State.UNCONFIRMED
        await agent.send("turn.done", turn_id=turn["turn_id"], text="")
        await at.reaches(second, State.DELIVERED)
        assert await why(at, message_id) == Failure(cause=Cause.REPORTED, error="try again, please")
        await at.server.node.db.run(at.owner, retry_message, RetryMessage(message_id=message_id))
        turn = await agent.next_frame("turn")
        assert "try again, please" not in turn["text"]
        await agent.send("turn.done", turn_id=turn["turn_id"], text="")
        await at.reaches(message_id, State.DELIVERED)
        assert await why(at, message_id) is None
        assert "failure" not in await audited(at, message_id)


async def test_a_deadline_is_the_reason_whatever_the_agent_says(desk: OpenDesk) -> None:
    """A turn over its deadline names it, beside what the agent said when it was told to stop."""
    async with desk(MUSTER_TURN_DEADLINE="1s") as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        turn = await agent.next_frame("turn")
        with trio.fail_after(10):
            await agent.next_frame("cancel")
        await agent.send("turn.failed", turn_id=turn["turn_id"], error="told to stop")
        await at.reaches(message_id, State.UNCONFIRMED)
        assert await why(at, message_id) == Failure(cause=Cause.DEADLINE, error="told to stop")


async def test_a_lost_socket_is_a_reason(desk: OpenDesk) -> None:
    """An agent that goes away in the middle of its turn leaves that as the reason."""
    async with desk() as at:
        async with at.agent() as agent:
            await agent.next_frame("welcome")
            message_id = await at.post()
            await agent.next_frame("turn")
        await at.reaches(message_id, State.UNCONFIRMED)
        assert await why(at, message_id) == Failure(cause=Cause.LOST)
        assert (await audited(at, message_id))["failure"] == {"cause": "lost", "error": None}


async def test_a_stop_is_a_reason(desk: OpenDesk) -> None:
    """An agent that a draining server tells to stop did not fail by itself."""
    async with desk(MUSTER_DRAIN="0s") as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        turn = await agent.next_frame("turn")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(at.server.node.drain)
            await agent.next_frame("cancel")
            await agent.send("turn.failed", turn_id=turn["turn_id"], error="cut")
            assert await agent.close_code() == 1001
        await at.reaches(message_id, State.UNCONFIRMED)
        assert await why(at, message_id) == Failure(cause=Cause.STOPPED, error="cut")


async def test_words_have_a_reason_too(desk: OpenDesk) -> None:
    """What became of the owner's own words is told in the same way, in row and audit."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        command = Say(agent_id=at.chief_id, text="hello", by=By.OWNER)
        await at.server.node.db.run(at.owner, say, command)
        turn = await agent.next_frame("turn")
        await agent.send("turn.failed", turn_id=turn["turn_id"], error="no ink")

        async def ended() -> bool:
            return (await turns(at.db, at.owner))[0].state is TurnState.UNCONFIRMED

        await until(ended)
        failure = Failure(cause=Cause.REPORTED, error="no ink")
        assert (await turns(at.db, at.owner))[0].failure == failure
        (row,) = await read_audit(at.db, at.owner, "conversation.delivered")
        assert row.data["failure"] == failure.document


async def test_what_a_killed_process_left_says_so(db: SpiedDatabase, owner: Owner) -> None:
    """Words that nobody settled are unconfirmed by the next turn, and the reason is that."""
    chief = await make_chief(db, owner)
    for text in ("one", "two"):
        await speak(db, owner, chief, text, by=By.OWNER)
    epoch = await connect(db, chief)
    assert await begin(db, chief, epoch) is not None
    later = await connect(db, chief)
    spoken = await begin(db, chief, later)
    assert spoken is not None
    await end(db, chief, spoken.turn.id, Fail(epoch=later))
    left, unknown = await turns(db, owner)
    assert left.failure == Failure(cause=Cause.UNRECORDED)
    assert (unknown.state, unknown.failure) == (TurnState.UNCONFIRMED, None)
