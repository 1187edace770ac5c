"""Words reach agents one turn at a time, among messages, and what became of each is written."""

from typing import Any

import pytest
import trio

from muster.chief import actor
from muster.chief.operations.conversations import TurnView
from muster.chief.turns import By, State
from muster.chief.words import Say, say
from muster.messages.rules import State as MessageState
from tests.support.builders import new_agent
from tests.support.desk import Desk, OpenDesk
from tests.support.server import ScriptedAgent
from tests.support.speaking import turns
from tests.support.waiting import dawdle, until


async def write(at: Desk, text: str = "hello", *, agent_id: int | None = None) -> None:
    """Say something at the server, as its owner would at a page."""
    command = Say(agent_id=agent_id or at.chief_id, text=text, by=By.OWNER)
    await at.server.node.db.run(at.owner, say, command)


async def take(agent: ScriptedAgent, ends: str) -> dict[str, Any]:
    """The next turn, whose text ends so; it is begun."""
    turn = await agent.next_frame("turn")
    assert ends in turn["text"], turn
    await agent.send("turn.started", turn_id=turn["turn_id"])
    return turn


async def finish(agent: ScriptedAgent, turn: dict[str, Any], text: str = "") -> None:
    """End a turn well."""
    await agent.send("turn.done", turn_id=turn["turn_id"], text=text)


async def words_of(at: Desk) -> list[TurnView]:
    """The turns of words, oldest first."""
    return [turn for turn in await turns(at.db, at.owner) if turn.message_id is None]


async def reach(at: Desk, *states: State) -> None:
    """Wait until the words said so far are in these states, oldest first."""

    async def there() -> bool:
        return [turn.state for turn in await words_of(at)] == list(states)

    await until(there)


async def settle_down(at: Desk, agent: ScriptedAgent) -> None:
    """Have a first turn: after it nothing looks for words that nobody told of."""
    await agent.next_frame("welcome")
    message_id = await at.post("first", body="The first.")
    await finish(agent, await take(agent, "The first."))
    await at.reaches(message_id, MessageState.DELIVERED)


async def test_words_are_a_turn_at_once(desk: OpenDesk) -> None:
    """A connected agent that is free gets them in its default conversation."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        await write(at)
        turn = await take(agent, "hello")
        await reach(at, State.DELIVERING)
        assert turn["title"] == "Owner"
        assert turn["turn_id"].startswith("words:")
        await agent.send("turn.delta", turn_id=turn["turn_id"], text="Let me see.\n")
        await finish(agent, turn, "Noon.")
        await reach(at, State.DELIVERED)
        assert [turn.answer for turn in await words_of(at)] == ["Let me see.\n\nNoon."]


async def test_words_wait_for_the_agent_to_connect(desk: OpenDesk) -> None:
    """They come after the welcome, one after the other, without a claim."""
    async with desk() as at:
        await write(at, "one")
        await write(at, "two")
        async with at.agent() as agent:
            await agent.next_frame("welcome")
            for text in ("one", "two"):
                await finish(agent, await take(agent, text))
            await reach(at, State.DELIVERED, State.DELIVERED)


async def test_words_wait_for_the_turn_in_hand(desk: OpenDesk) -> None:
    """Words that come during a message's turn are the next one."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        await at.post()
        running = await take(agent, "Lunch?")
        await write(at)
        await reach(at, State.QUEUED)
        await finish(agent, running)
        await finish(agent, await take(agent, "hello"))
        await reach(at, State.DELIVERED)


async def test_words_and_messages_take_turns(desk: OpenDesk) -> None:
    """A queue of messages holds words up for one turn, and words hold a message up for one."""
    async with desk() as at:
        ids = [await at.post(f"m{number}") for number in range(3)]
        async with at.agent() as agent:
            await agent.next_frame("welcome")
            assert (await at.claim()).status_code == 204
            running = await take(agent, f"[message_id {ids[0]}]")
            await write(at, "one")
            await write(at, "two")
            for text in ("one", f"[message_id {ids[1]}]", "two", f"[message_id {ids[2]}]"):
                await finish(agent, running)
                running = await take(agent, text)
            await finish(agent, running)
            await at.reaches(ids[2], MessageState.DELIVERED)


@pytest.mark.rule(71, 72, 220)
async def test_a_message_that_comes_during_words_waits_for_a_claim(desk: OpenDesk) -> None:
    """The chief is busy with words: the message stays queued, and a claim brings it."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        await write(at)
        running = await take(agent, "hello")
        message_id = await at.post()
        await dawdle(0.5, because="its hint has to meet the busy chief")
        await finish(agent, running)
        await reach(at, State.DELIVERED)
        await dawdle(0.2, because="it must not follow by itself")
        assert await at.state(message_id) is MessageState.QUEUED
        assert (await at.claim()).status_code == 204
        await finish(agent, await take(agent, "Lunch?"))
        await at.reaches(message_id, MessageState.DELIVERED)


async def test_a_busy_agent_is_offered_them_again(
    desk: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a `turn.busy` words wait a while, and are then offered once more."""
    monkeypatch.setattr(actor, "AGAIN_SECONDS", 0.2)
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        await write(at)
        turn = await agent.next_frame("turn")
        await agent.send("turn.busy", turn_id=turn["turn_id"])
        again = await take(agent, "hello")
        assert again["turn_id"] != turn["turn_id"]
        await finish(agent, again)
        await reach(at, State.DELIVERED)
        assert [turn.attempt for turn in await words_of(at)] == [2]


@pytest.mark.parametrize("how", ["failed", "busy-late", "gone", "deadline"])
async def test_a_bad_ending_is_unconfirmed_for_good(desk: OpenDesk, how: str) -> None:
    """After the words may have reached the agent they are never said again by themselves."""
    settings = {"MUSTER_TURN_DEADLINE": "1s"} if how == "deadline" else {}
    async with desk(**settings) as at:
        async with at.agent() as agent:
            await agent.next_frame("welcome")
            await write(at, "one")
            turn = await take(agent, "one")
            if how == "failed":
                await agent.send("turn.failed", turn_id=turn["turn_id"], error="no model")
            if how == "busy-late":
                await agent.send("turn.busy", turn_id=turn["turn_id"])
            if how == "deadline":
                await agent.next_frame("cancel")
            if how != "gone":
                await reach(at, State.UNCONFIRMED)
        await reach(at, State.UNCONFIRMED)
        async with at.agent() as agent:
            await agent.next_frame("welcome")
            await write(at, "two")
            await finish(agent, await take(agent, "two"))
            await reach(at, State.UNCONFIRMED, State.DELIVERED)


async def test_any_agent_is_told_words(desk: OpenDesk) -> None:
    """An agent that is no chief gets what is said to it, while the chief has a turn of its own."""
    async with desk() as at:
        other_id, token = await new_agent(at.db, at.owner, "other", chief=False)
        async with at.agent() as agent, ScriptedAgent(at.server.url, token) as other:
            await agent.next_frame("welcome")
            await other.next_frame("welcome")
            await write(at, "for the chief")
            running = await take(agent, "for the chief")
            await write(at, "for the other", agent_id=other_id)
            await finish(other, await take(other, "for the other"))
            await finish(agent, running)
            await reach(at, State.DELIVERED)


async def test_a_lost_hint_is_made_good(desk: OpenDesk) -> None:
    """When hints may have been lost, words that wait for a connected agent are found."""
    async with desk() as at, at.agent() as agent:
        await settle_down(at, agent)
        command = Say(agent_id=at.chief_id, text="hello", by=By.OWNER)
        await at.db.run(at.owner, say, command)  # its hint reaches no server
        await dawdle(0.1, because="nobody told the server")
        assert [turn.state for turn in await words_of(at)] == [State.QUEUED]
        at.server.node.fanout.resync()
        await finish(agent, await take(agent, "hello"))
        await reach(at, State.DELIVERED)


async def test_words_that_wait_are_seen_when_a_messages_turn_begins(desk: OpenDesk) -> None:
    """A turn's beginning looks for words too: they follow it, though their hint was lost."""
    async with desk() as at, at.agent() as agent:
        await settle_down(at, agent)
        command = Say(agent_id=at.chief_id, text="hello", by=By.OWNER)
        await at.db.run(at.owner, say, command)  # its hint reaches no server
        await at.post()
        await finish(agent, await take(agent, "Lunch?"))
        await finish(agent, await take(agent, "hello"))
        await reach(at, State.DELIVERED)


async def test_a_stop_settles_the_words_in_hand_and_begins_no_more(desk: OpenDesk) -> None:
    """A draining server tells the agent to stop, settles its turn, and leaves the rest waiting."""
    async with desk(MUSTER_DRAIN="0s") as at, at.agent() as agent:
        await agent.next_frame("welcome")
        await write(at, "one")
        turn = await take(agent, "one")
        await agent.send("turn.delta", turn_id=turn["turn_id"], text="Well")
        await write(at, "two")
        with trio.fail_after(5):
            await at.server.node.drain()
        assert await agent.close_code() == 1001
        await reach(at, State.UNCONFIRMED, State.QUEUED)
        assert (await words_of(at))[0].answer == "Well"
