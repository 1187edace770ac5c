"""/chief: which agent it is, what was said, and a box whose text is never lost."""

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from muster.chief.operations.conversations import (
    PAGE_TURNS,
    LookAtConversation,
    TurnView,
    look_at_chief,
    look_at_conversation,
)
from muster.chief.turns import WORDS_BYTES_MAX, By, State
from muster.chief.words import Say, say
from muster.messages import rules as message_rules
from muster.principals import Owner
from tests.support.cluster import Cluster, SpiedDatabase, add_owner
from tests.support.desk import Desk, OpenDesk
from tests.support.server import ScriptedAgent, running_server
from tests.support.visitor import Visiting, sign_in
from tests.support.waiting import until


@attrs.frozen(kw_only=True)
class Seat:
    """A desk, and its owner at the pages."""

    at: Desk
    visit: Visiting

    async def page(self, path: str) -> str:
        """A page's text, once it is answered 200."""
        answer = await self.visit.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    async def write(self, text: str) -> str:
        """Write to the chief; where one is led."""
        answer = await self.visit.post("/chief", text=text)
        assert answer.status_code == 303, answer.text
        return answer.headers["location"].partition("#")[0]

    async def turns(self, path: str) -> list[TurnView]:
        """The turns of the conversation at a path."""
        command = LookAtConversation(conversation_id=int(path.rpartition("/")[2]))
        page = await self.at.db.run(self.at.owner, look_at_conversation, command)
        return page.turns


@asynccontextmanager
async def seated(desk: OpenDesk) -> AsyncIterator[Seat]:
    """Sit at a desk and be signed in."""
    async with desk() as at:
        visit = await sign_in(at.server, at.owner)
        async with visit.client:
            yield Seat(at=at, visit=visit)


async def test_without_a_chief_the_page_says_how_to_make_one(
    db: SpiedDatabase, owner: Owner, cluster: Cluster
) -> None:
    """An owner without a chief is told the command, and words are refused with what was typed."""
    async with running_server(db, cluster.app_url) as server:
        visit = await sign_in(server, owner)
        async with visit.client:
            assert "muster agent add" in (await visit.get("/chief")).text
            answer = await visit.post("/chief", text="is <b>anybody</b> there?")
            assert answer.status_code == 409
            assert "no chief" in answer.text
            assert "is &lt;b&gt;anybody&lt;/b&gt; there?</textarea>" in answer.text


async def test_words_written_at_the_page_are_said_and_answered(desk: OpenDesk) -> None:
    """What the owner writes is a turn of the chief's, and its page shows both sides as text."""
    async with seated(desk) as seat, seat.at.agent() as agent:
        await agent.next_frame("welcome")
        path = await seat.write("What <i>now</i>?\r\nSay.")
        turn = await agent.next_frame("turn")
        assert turn["text"] == "muster: your owner writes to you.\n\nWhat <i>now</i>?\nSay."
        now = await seat.page("/chief")
        assert "busy" in now
        assert "helper" in now
        running = await seat.page(path)
        assert "What &lt;i&gt;now&lt;/i&gt;?" in running
        assert f'data-turn="{(await seat.turns(path))[0].id}"' in running
        await agent.send("turn.done", turn_id=turn["turn_id"], text="<script>Lunch.</script>")

        async def done() -> bool:
            return (await seat.turns(path))[0].state is State.DELIVERED

        await until(done)
        ended = await seat.page(path)
        assert "&lt;script&gt;Lunch.&lt;/script&gt;" in ended
        assert "<script>Lunch" not in ended
        assert "free" in await seat.page("/chief")


@pytest.mark.parametrize(
    ("text", "status", "sentence"),
    [
        ("é" * (WORDS_BYTES_MAX // 2 + 1), 400, "too long"),
        ("x" * 200_000, 400, "too long"),
        ("  \n ", 400, "no words"),
    ],
)
async def test_a_refusal_gives_what_was_typed_back(
    desk: OpenDesk, text: str, status: int, sentence: str
) -> None:
    """Words that cannot be sent come back in the form, with the reason, and nothing is stored."""
    async with seated(desk) as seat:
        answer = await seat.visit.post("/chief", text=text)
        assert answer.status_code == status
        assert sentence in answer.text
        assert f"{text.strip()}</textarea>" in answer.text
        assert "Nothing was said yet" in await seat.page("/chief")


async def test_a_form_that_is_sent_twice_is_said_once(desk: OpenDesk) -> None:
    """A double click or Back says nothing twice; the same words on a page made later are new."""
    async with seated(desk) as seat:
        made_at = _made_at(await seat.page("/chief"))

        async def send() -> None:
            answer = await seat.visit.post("/chief", text="Buy milk.", made_at=made_at)
            assert answer.status_code == 303, answer.text

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            nursery.start_soon(send)
        await send()
        where = (
            (await seat.visit.post("/chief", text="Buy milk.", made_at=made_at))
            .headers["location"]
            .partition("#")[0]
        )
        assert [turn.words for turn in await seat.turns(where)] == ["Buy milk."]
        later = _made_at(await seat.page(where))
        await seat.visit.post("/chief", text="Buy milk.", made_at=later)
        assert len(await seat.turns(where)) == 2


async def test_a_page_that_was_made_at_no_time_sends_nothing(desk: OpenDesk) -> None:
    """A form whose page names no time is refused, and what was typed is given back."""
    async with seated(desk) as seat:
        answer = await seat.visit.post("/chief", text="Buy milk.", made_at="yesterday")
        assert answer.status_code == 400
        assert "Buy milk." in answer.text


def _made_at(page: str) -> str:
    found = re.search(r'name="made_at" value="([^"]+)"', page)
    assert found is not None
    return html.unescape(found[1])


async def test_a_plugins_conversation_links_its_messages_and_quotes_none(desk: OpenDesk) -> None:
    """A plugin's conversation is named after its label and shows no text of a message."""
    async with seated(desk) as seat, seat.at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await seat.at.post(body="SECRET WORDS", subject="OUTSIDE SUBJECT")
        turn = await agent.next_frame("turn")
        await agent.send("turn.done", turn_id=turn["turn_id"], text="Nothing to do.")
        await seat.at.reaches(message_id, message_rules.State.DELIVERED)
        listed = await seat.page("/chief")
        (line,) = (await seat.at.db.run(seat.at.owner, look_at_chief, None)).conversations
        assert (line.kind, line.title, line.message_id) == ("plugin", "Mail", message_id)
        page = await seat.page(f"/chief/{line.id}")
        for shown in (listed, page):
            assert f'href="/messages/{message_id}"' in shown
            assert "Nothing to do." in shown
            assert "SECRET WORDS" not in shown
            assert "OUTSIDE SUBJECT" not in shown


async def test_an_unconfirmed_turn_says_what_it_means(desk: OpenDesk) -> None:
    """Words whose turn was cut off are shown as such, and that they are not said again."""
    async with seated(desk) as seat:
        async with seat.at.agent() as agent:
            await agent.next_frame("welcome")
            path = await seat.write("hello")
            turn = await agent.next_frame("turn")
            await agent.send("turn.delta", turn_id=turn["turn_id"], text="Well")

        async def settled() -> bool:
            return (await seat.turns(path))[0].state is State.UNCONFIRMED

        await until(settled)
        page = await seat.page(path)
        assert "not said again by itself" in page
        assert "Well" in page
        assert "not since" in await seat.page("/chief")


async def test_a_conversation_is_paged_backwards(desk: OpenDesk) -> None:
    """A page holds the newest turns, the newest last; older ones are a link away."""
    async with seated(desk) as seat:
        for number in range(PAGE_TURNS + 2):
            command = Say(agent_id=seat.at.chief_id, text=f"word {number}.", by=By.MUSTER)
            await seat.at.db.run(seat.at.owner, say, command)
        (line,) = (await seat.at.db.run(seat.at.owner, look_at_chief, None)).conversations
        newest = await seat.page(f"/chief/{line.id}")
        assert newest.index("word 2.") < newest.index(f"word {PAGE_TURNS + 1}.")
        assert "word 1." not in newest
        older_than = (await seat.turns(f"/chief/{line.id}"))[0].id
        assert f"?before={older_than}" in newest
        older = await seat.page(f"/chief/{line.id}?before={older_than}")
        assert "word 0." in older
        assert "word 1." in older
        assert "word 2." not in older


async def test_anothers_conversation_is_not_there(desk: OpenDesk) -> None:
    """A conversation of another owner is 404, as is what is no id."""
    async with seated(desk) as seat:
        path = await seat.write("hello")
        stranger = await sign_in(seat.at.server, await add_owner(seat.at.db))
        async with stranger.client:
            assert (await stranger.get(path)).status_code == 404
        assert (await seat.visit.get("/chief/none")).status_code == 404


async def test_pages_hear_what_the_agent_says_as_it_says_it(desk: OpenDesk) -> None:
    """An open page is passed each piece with its place, and told when the turn has ended."""
    async with seated(desk) as seat, seat.at.agent() as agent:
        await agent.next_frame("welcome")
        live = seat.at.server.node.live
        with live.listening(seat.at.owner.owner_id, seat.visit.session.session_id) as listener:
            path = await seat.write("hello")
            turn = await agent.next_frame("turn")
            listener.take()
            for text in ("One", ", two", "\0, three"):
                await agent.send("turn.delta", turn_id=turn["turn_id"], text=text)
            heard = ""
            (shown,) = await seat.turns(path)

            async def whole() -> bool:
                nonlocal heard
                for event in listener.take()[1]:
                    if event.name == "turn.delta":
                        assert event.data["turn"] == shown.id
                        assert event.data["at"] == len(heard)
                        heard += str(event.data["text"])
                return heard == "One, two\ufffd, three"

            await until(whole)
            await agent.send("turn.done", turn_id=turn["turn_id"], text="three")
            number = int(path.rpartition("/")[2])

            async def told() -> bool:
                return any(
                    (event.name, event.data) == ("conversation", {"id": number})
                    for event in listener.take()[1]
                )

            await until(told)


async def test_an_agents_coming_and_going_is_told_to_pages(desk: OpenDesk) -> None:
    """Open pages are told that an agent connected, and that it left."""
    async with seated(desk) as seat:
        live = seat.at.server.node.live
        with live.listening(seat.at.owner.owner_id, seat.visit.session.session_id) as listener:

            def told() -> bool:
                event = {"id": seat.at.chief_id}
                return any((e.name, e.data) == ("agent", event) for e in listener.take()[1])

            async with ScriptedAgent(seat.at.server.url, seat.at.chief_token) as agent:
                await agent.next_frame("welcome")
                await until(told)
                assert "since" in await seat.page("/chief")
            await until(told)
