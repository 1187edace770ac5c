"""Why a turn failed, on the message's page and in the conversation: the agent's words as text."""

import re

import pytest

from muster.chief.turns import State as TurnState
from muster.messages.rules import State
from tests.support.desk import Desk, OpenDesk
from tests.support.owner_desk import text_of
from tests.support.server import ScriptedAgent
from tests.support.speaking import turns
from tests.support.visitor import Visiting, sign_in
from tests.support.waiting import until

HOSTILE = "no <script>ink</script>\u202e\n" + "x" * 600
IS_FAILED = "helper said that its turn failed. It may have acted on this"


async def read(visit: Visiting, path: str) -> str:
    """A page's text, once it is answered 200."""
    answer = await visit.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


async def fail(at: Desk, agent: ScriptedAgent) -> int:
    """Post a message whose turn the agent says has failed; its id."""
    await agent.next_frame("welcome")
    message_id = await at.post()
    turn = await agent.next_frame("turn")
    await agent.send("turn.failed", turn_id=turn["turn_id"], error=HOSTILE)
    await at.reaches(message_id, State.UNCONFIRMED)
    return message_id


def boxed(page: str) -> str:
    """What stands in the box of the agent's words."""
    (box,) = re.findall(
        r'<section class="reply" aria-label="Why the turn failed, in the words of helper">'
        r"(.*?)</section>",
        page,
        re.DOTALL,
    )
    return str(box)


@pytest.mark.rule(218)
async def test_a_message_says_why_its_turn_failed(desk: OpenDesk) -> None:
    """The chief's word on it stands in a box of its own, and nobody claims not to know it."""
    async with desk() as at, at.agent() as agent:
        message_id = await fail(at, agent)
        visit = await sign_in(at.server, at.owner)
        async with visit.client:
            page = await read(visit, f"/messages/{message_id}")
            told = text_of(page)
            assert f"{IS_FAILED} message before that. It is not handed over again" in told
            assert "Nobody knows" not in told
            assert "helper said that its turn failed." in told.partition("The turn ended")[2]
            assert "no &lt;script&gt;ink&lt;/script&gt;" in boxed(page)
            assert "\\u{202e}" in boxed(page)
            assert "more characters)" in boxed(page)
            assert "<script>ink" not in page


async def test_a_lost_turn_says_so_and_quotes_nobody(desk: OpenDesk) -> None:
    """Of a connection that ended, that is told, and that nobody knows what the chief had."""
    async with desk() as at:
        async with at.agent() as agent:
            await agent.next_frame("welcome")
            message_id = await at.post()
            await agent.next_frame("turn")
        await at.reaches(message_id, State.UNCONFIRMED)
        visit = await sign_in(at.server, at.owner)
        async with visit.client:
            told = text_of(await read(visit, f"/messages/{message_id}"))
            lost = "The connection to helper ended in the middle of the turn."
            assert f"{lost} Nobody knows whether your chief had this message." in told
            assert "on why it failed" not in told


async def test_a_conversation_says_why_a_turn_failed(desk: OpenDesk) -> None:
    """A message's turn and the owner's own words show the same, as text."""
    async with desk() as at, at.agent() as agent:
        await fail(at, agent)
        visit = await sign_in(at.server, at.owner)
        async with visit.client:
            await visit.post("/chief", text="hello")
            turn = await agent.next_frame("turn")
            await agent.send("turn.failed", turn_id=turn["turn_id"], error=HOSTILE)

            async def both() -> bool:
                found = await turns(at.db, at.owner)
                return [turn.state for turn in found] == [TurnState.UNCONFIRMED] * 2

            await until(both)
            listed = await read(visit, "/chief")
            paths = set(re.findall(r'href="(/chief/\d+)', listed))
            assert len(paths) == 2
            for path in paths:
                page = await read(visit, path)
                assert f"{IS_FAILED} before that. It is not " in text_of(page)
                assert "Nobody knows" not in page
                assert "no &lt;script&gt;ink&lt;/script&gt;" in boxed(page)
