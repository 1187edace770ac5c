"""A connected agent that is to prove itself while the database cannot answer."""

from contextlib import AsyncExitStack

import pytest

from muster.agents.operations import retire_agent
from muster.agents.rules import RetireAgent
from muster.connections import actor
from muster.messages.rules import State
from muster.pg import pool
from tests.support.desk import OpenDesk
from tests.support.waiting import until


@pytest.mark.rule(217)
async def test_a_turn_goes_on_while_the_database_cannot_be_asked(
    desk: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doubt about a connection waits for the database, and the turn in hand is not lost by it."""
    monkeypatch.setattr(actor, "DOUBT_SECONDS", 0.05)
    async with desk() as opened, opened.agent() as chief:
        await chief.next_frame("welcome")
        message_id = await opened.post()
        turn = await chief.next_frame("turn")
        node = opened.server.node

        def doubts() -> int:
            return sum("still in doubt" in report.reason for report in node.log.recent())

        async with AsyncExitStack() as held:
            for _ in range(opened.db.pool.size):
                await held.enter_async_context(opened.db.pool.permit())
            monkeypatch.setattr(pool, "WAIT_SECONDS", 0.05)
            node.fanout.resync()
            await until(lambda: doubts() >= 2)
        await chief.send("turn.done", turn_id=turn["turn_id"], text="")
        await opened.reaches(message_id, State.DELIVERED)
        assert node.gateways.find(opened.chief_id) is not None


async def test_a_token_that_was_withdrawn_meanwhile_still_ends_the_connection(
    desk: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the database answers again, an agent that may no longer be connected is closed 4401."""
    monkeypatch.setattr(actor, "DOUBT_SECONDS", 0.05)
    async with desk() as opened, opened.agent() as chief:
        await chief.next_frame("welcome")
        node = opened.server.node
        command = RetireAgent(name="helper")
        await opened.db.run(opened.owner, retire_agent, command)  # its hint reaches no server
        async with AsyncExitStack() as held:
            for _ in range(opened.db.pool.size):
                await held.enter_async_context(opened.db.pool.permit())
            monkeypatch.setattr(pool, "WAIT_SECONDS", 0.05)
            node.fanout.resync()
            await until(
                lambda: any("still in doubt" in report.reason for report in node.log.recent())
            )
        assert await chief.close_code() == 4401
