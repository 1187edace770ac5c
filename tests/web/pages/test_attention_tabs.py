"""The tabs of /attention: what stands under each, and the asks."""

import re
from datetime import timedelta

import pytest

from muster.attention.operations import AskedBy, AskOwner, AskView, ask, get_ask
from muster.messages.operations import get_message
from muster.principals import Agent, Muster
from tests.support.builders import make_draft, read_audit
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.owner_desk import OpenOwnerDesk, OwnerDesk, text_of

LEASE = timedelta(minutes=2, seconds=1)
LIFE = timedelta(days=7, seconds=1)


async def asked(at: OwnerDesk, question: str, *answers: str, about: int | None = None) -> int:
    """An open ask: the chief's, or muster's about a message."""
    asker: Agent | Muster = at.chief
    command = AskOwner(asked_by=AskedBy.CHIEF, question=question, answers=answers)
    if about is not None:
        asker = Muster(owner_id=at.owner.owner_id)
        command = AskOwner(
            asked_by=AskedBy.MUSTER, question=question, answers=answers, message_id=about,
            plugin_message_id=about,
        )  # fmt: skip
    made = await at.db.run(asker, ask, command)
    assert made is not None
    return made.id


async def look(at: OwnerDesk, ask_id: int) -> AskView:
    """The ask as it stands."""
    return await at.db.run(at.owner, get_ask, ask_id)


async def test_an_owner_without_work_is_told_what_comes(owner_desk: OpenOwnerDesk) -> None:
    """Each tab says what would stand there and where to go instead."""
    async with owner_desk() as at:
        assert "Nobody asks you anything" in await at.page("/attention")
        assert "No reply awaits you" in await at.page("/attention?tab=drafts")
        assert "Nothing is archived" in await at.page("/attention?tab=archived")
        assert 'class="count"' not in await at.page("/attention")


async def test_what_waits_is_counted_on_every_page(owner_desk: OpenOwnerDesk) -> None:
    """The number beside Attention is that of open asks and pending drafts, by the clock."""
    async with owner_desk() as at:
        await at.draft()
        await asked(at, "Shall I?")
        page = await at.page("/attention?tab=archived")
        assert re.findall(r'<b class="count">(\d+)', page) == ["2", "1", "1"]
        at.db.clock_offset = timedelta(days=1, seconds=1)
        page = await at.page("/attention?tab=archived")
        assert re.findall(r'<b class="count">(\d+)', page) == ["1", "1"]


@pytest.mark.rule(9, 259)
async def test_the_tab_with_work_comes_first(owner_desk: OpenOwnerDesk) -> None:
    """Without a tab in the address the asks are shown, or the drafts when only those wait."""
    async with owner_desk() as at:
        await at.draft()
        assert "<title>Reply drafts" in await at.page("/attention")
        await asked(at, "Shall I?")
        assert "<title>Asks" in await at.page("/attention")


@pytest.mark.rule(9, 259)
async def test_archived_tells_what_became_of_each(
    owner_desk: OpenOwnerDesk, db: SpiedDatabase
) -> None:
    """Every decided or ended draft stands under Archived in its state, due ones by the clock."""
    async with owner_desk() as at:
        ends = {}
        for state in ("sent", "failed", "rejected", "superseded", "expired", "unconfirmed"):
            ends[state] = draft = await at.draft(f"It is {state}.")
            if state in ("sent", "failed", "unconfirmed"):
                await at.decide(draft, "approve")
                await at.claim()
            if state in ("sent", "failed"):
                await at.report(draft, ok=state == "sent", detail="the upstream\u202e said")
            if state == "rejected":
                await at.decide(draft, "reject")
            if state == "superseded":
                message = await at.db.run(at.owner, get_message, draft.message_id)
                await make_draft(at.db, at.chief, message, body="A newer one.")
        page = text_of(await at.page("/attention?tab=archived"))
        assert f"Draft {ends['expired'].id}" not in page
        db.clock_offset = LEASE
        page = text_of(await at.page("/attention?tab=archived"))
        assert "its plugin collected it and never said whether it was sent" in page
        db.clock_offset = LIFE
        page = text_of(await at.page("/attention?tab=archived"))
        for state, draft in ends.items():
            assert re.search(rf"Draft {draft.id} {state} .*?It is {state}\.", page), state
        assert "the upstream\\u{202e} said" in page
        assert "No reply awaits you" in await at.page("/attention?tab=drafts")


async def test_the_archive_is_paged(owner_desk: OpenOwnerDesk) -> None:
    """It shows twenty drafts a page, newest first, and leads to the older ones."""
    async with owner_desk() as at:
        for number in range(21):
            await at.decide(await at.draft(f"Reply {number}."), "reject")
        first = await at.page("/attention?tab=archived")
        assert first.count('<article class="card"') == 20
        (older,) = re.findall(r'rel="next" href="([^"]+)"', first)
        second = await at.page(older.replace("&amp;", "&"))
        assert second.count('<article class="card"') == 1
        assert "Reply 0." in second
        assert 'rel="next"' not in second
        assert "Nothing is archived that old" in await at.page("/attention?tab=archived&before=1")


async def test_an_ask_is_answered_by_a_button_or_in_words(owner_desk: OpenOwnerDesk) -> None:
    """Its buttons and a free text answer it; the same words twice are one answer, others 409."""
    async with owner_desk() as at:
        first = await asked(at, "Tea or coffee?\u202e", "Tea", "Coffee & <b>milk</b>")
        second = await asked(at, "What else?")
        page = await at.page("/attention?tab=asks")
        assert 'value="Coffee &amp; &lt;b&gt;milk&lt;/b&gt;"' in page
        assert "\u202e" not in page
        for _ in range(2):
            answer = await at.visiting.post(f"/asks/{first}/answer", text="Tea")
            assert (answer.status_code, answer.headers["location"]) == (303, "/attention?tab=asks")
        assert (await at.visiting.post(f"/asks/{first}/answer", text="Milk")).status_code == 409
        await at.visiting.post(f"/asks/{second}/answer", text="  Nothing,\r\nthanks. ")
        assert (await look(at, first)).answer == "Tea"
        assert (await look(at, second)).answer == "Nothing,\nthanks."
        rows = await read_audit(at.db, at.owner, "ask.answered")
        assert [row.via for row in rows] == ["browser", "browser"]
        assert "Ended" not in await at.page("/attention?tab=asks")
        assert "Nothing,\nthanks." in await at.page(f"/asks/{second}")


@pytest.mark.rule(303)
async def test_an_ask_about_a_message_quotes_it_as_untrusted(owner_desk: OpenOwnerDesk) -> None:
    """What muster asks stands in an untrusted box; dismissed, its message stays unsettled."""
    async with owner_desk() as at:
        message = await at.message("<script>")
        ask_id = await asked(at, "From outside: <script>", "No action needed", about=message.id)
        page = await at.page("/attention?tab=asks")
        assert 'class="untrusted"' in page
        assert "From outside: &lt;script&gt;" in page
        assert f'href="/messages/{message.id}"' in page
        for _ in range(2):
            assert (await at.visiting.post(f"/asks/{ask_id}/dismiss")).status_code == 303
        assert (await look(at, ask_id)).state.value == "dismissed"
        assert not await read_audit(at.db, at.owner, "plugin.message.settled")


async def test_an_ask_is_its_owners(owner_desk: OpenOwnerDesk, db: SpiedDatabase) -> None:
    """Another owner's ask is 404 by every way; an empty answer is 400 and changes nothing."""
    async with owner_desk() as at:
        ask_id = await asked(at, "Shall I?")
        assert (await at.visiting.post(f"/asks/{ask_id}/answer", text=" ")).status_code == 400
        stranger = await add_owner(db)
        strangers = Muster(owner_id=stranger.owner_id)
        other = await db.run(
            strangers, ask, AskOwner(asked_by=AskedBy.MUSTER, question="Whose?", answers=("Mine",))
        )
        assert other is not None
        for verb in ("answer", "dismiss"):
            form = {"text": "Mine"}
            assert (await at.visiting.post(f"/asks/{other.id}/{verb}", **form)).status_code == 404
        assert (await at.visiting.get(f"/asks/{other.id}")).status_code == 404
        assert (await look(at, ask_id)).state.value == "open"
