"""The card of a reply draft: what it shows, and what its forms may and may not do."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest

from muster.accounts.operations.signing import set_time_zone
from muster.messages.rules import Message
from muster.principals import Owner
from tests.support.builders import (
    get_message,
    make_chief,
    make_draft,
    make_message,
    make_plugin,
    read_audit,
    revoke,
)
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.owner_desk import OpenOwnerDesk, OwnerDesk, reply_of, text_of
from tests.support.visitor import page_client
from web.pages.words import spelled

STEP_UP_WINDOW = timedelta(hours=12)
LEASE = timedelta(minutes=2, seconds=1)


@pytest.mark.rule(6, 59, 259, 260, 261)
async def test_a_card_shows_the_message_and_the_reply(owner_desk: OpenOwnerDesk) -> None:
    """The message stands escaped in its untrusted box, the reply beside it with its length."""
    async with owner_desk() as at:
        message = await at.message("<script>alert(1)</script></pre>", sender="Ada <b>")
        await at.draft("Thanks.\nAda", to=message)
        page = await at.page("/attention?tab=drafts")
        assert 'class="untrusted"' in page
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;&lt;/pre&gt;" in page
        told = text_of(page)
        assert "unverified sender" in told
        assert "Ada <b> (UNVERIFIED: the plugin could not prove this sender;" in told
        assert "11 characters" in told
        assert "Approve and send" in told


@pytest.mark.rule(259)
@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Kiritimati"])
async def test_the_ends_of_time_are_shown(owner_desk: OpenOwnerDesk, zone: str) -> None:
    """A message of the year 1, or of 9999, spoils no page of an owner in any zone."""
    async with owner_desk() as at:
        await at.db.run(at.owner, set_time_zone, zone)
        for end in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)):
            message = await at.message(received_at=end)
            await at.draft(to=message)
            assert f" {end.year} " in await at.page(f"/messages/{message.id}")
        assert " 9999 " in await at.page("/attention?tab=drafts")


@pytest.mark.rule(56, 59)
async def test_a_verified_sender_is_shown_unmarked(owner_desk: OpenOwnerDesk) -> None:
    """A sender that the plugin proved carries no mark, whatever they call themselves."""
    async with owner_desk() as at:
        await at.draft(to=await at.message(sender="Ada", sender_verified=True))
        assert "verified" not in text_of(await at.page("/attention?tab=drafts")).lower()


@pytest.mark.rule(261)
async def test_what_is_spelled_out_differs_from_what_was_typed(owner_desk: OpenOwnerDesk) -> None:
    r"""é is \u{e9} in an element of its own; \u{e9} typed in ASCII has another markup and text."""
    async with owner_desk() as at:
        spelled = await at.draft("caf\u00e9")
        typed = await at.draft("caf\\u{e9}")
        one = reply_of(await at.page(f"/drafts/{spelled.id}"))
        other = reply_of(await at.page(f"/drafts/{typed.id}"))
        assert one == (
            'caf<span class="esc" role="img"'
            ' aria-label="latin small letter e with acute">\\u{e9}</span>'
        )
        assert 'class="esc"' not in other
        assert text_of(one) == "caf\\u{e9}"
        assert text_of(other) == "caf\\\u27e8typed\u27e9u{e9}"


@pytest.mark.rule(261)
async def test_nothing_invisible_rides_along(owner_desk: OpenOwnerDesk) -> None:
    """Whatever the reply holds, its card shows printable ASCII and nothing else."""
    async with owner_desk() as at:
        reply = "Hi \U0001f600\U0001f600\U0001f600\U0001f600 \u05d0\u0301x\n\n\tend  "
        draft = await at.draft(reply)
        markup = reply_of(await at.page(f"/drafts/{draft.id}"))
        assert all(letter == "\n" or " " <= letter <= "~" for letter in markup)
        assert markup.count("\\n</span>\n") == 2
        assert "4 characters spelled out" in markup
        assert f"{len(reply)} characters" in text_of(await at.page(f"/drafts/{draft.id}"))


@pytest.mark.rule(261)
def test_each_character_is_plain_or_spelled_out() -> None:
    """What no screen lets in, too, is spelled out unless it is printable ASCII."""
    numbers = (*range(0x300), *range(0x2000, 0x2100), 0xD800, 0xFEFF, 0xFFFF, 0x10FFFF)
    short = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\u27e8typed\u27e9", " ": " "}
    for letter in map(chr, numbers):
        plain = letter if "!" <= letter <= "~" else f"\\u{{{ord(letter):x}}}"
        shown = unescape(re.sub(r"<[^>]*>", "", spelled(letter))).removesuffix("\n")
        assert shown == short.get(letter, plain)


HOSTILE = [
    "\u202eevil\u202c \u2066x\u2069 a\u200bb\u2060c\ufeff",
    "</pre></section></article><form action=//evil.test>",
    "{{ 7*7 }} {% raw %} ${x} &amp; &#0; <!--",
    "'\" onmouseover=alert(1) x='",
    "\u2028\u2029\x0b\x1b[31m\x9b",
    "\U000e0041\ufff9\u115f\u3164 \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    "x" * 16384,
    "\u00e9" * 8192,
]


@pytest.mark.rule(57, 260)
@pytest.mark.parametrize("body", HOSTILE)
async def test_a_hostile_message_stays_in_its_box(owner_desk: OpenOwnerDesk, body: str) -> None:
    """No text of a sender opens a tag, turns the line around or hides what it says."""
    async with owner_desk() as at:
        message = await at.message(body, sender=body[:200], subject=body[:200])
        draft = await at.draft(to=message)
        for path in ("/attention?tab=drafts", f"/drafts/{draft.id}"):
            page = await at.page(path)
            assert page.count("<pre") == page.count("</pre>") == 2
            assert "<form action=//evil" not in page
            assert not set(page) & set("\u202e\u202c\u2066\u2069\u200b\u2060\ufeff\u2028\x0b\x1b")
            assert page.count("(UNVERIFIED: the plugin could not prove this sender;") == 1


@pytest.mark.rule(6, 8, 259, 262, 270)
async def test_an_approval_is_done_once(owner_desk: OpenOwnerDesk) -> None:
    """Approve and send leads back to the list; a second click is 409 and changes nothing."""
    async with owner_desk() as at:
        draft = await at.draft()
        first = await at.decide(draft, "approve")
        assert (first.status_code, first.headers["location"]) == (
            303,
            f"/attention?tab=drafts&decided={draft.id}",
        )
        assert "is approved; its plugin collects it" in text_of(
            await at.page(first.headers["location"])
        )
        second = await at.decide(draft, "approve")
        assert second.status_code == 409
        assert "Withdraw the approval" in text_of(second.text)
        (row,) = await read_audit(at.db, at.owner, "plugin.draft.approved")
        assert (row.via, row.data["decided_via"]) == ("browser", "browser")
        assert await at.state(draft) == "approved"


@pytest.mark.rule(262, 263)
async def test_an_old_sign_in_confirms_first(owner_desk: OpenOwnerDesk, db: SpiedDatabase) -> None:
    """With a sign-in of more than 12 hours approving asks to confirm; rejecting does not."""
    async with owner_desk() as at:
        db.clock_offset = STEP_UP_WINDOW + timedelta(minutes=1)
        draft, other = await at.draft(), await at.draft()
        page = await at.page(f"/drafts/{draft.id}")
        assert f"/drafts/{draft.id}/approve" in page
        assert "/step-up" not in page
        answer = await at.decide(draft, "approve")
        assert answer.status_code == 409
        assert "This needs a fresh sign-in" in answer.text
        assert await at.state(draft) == "pending"
        assert (await at.decide(other, "reject")).status_code == 303
        assert await at.state(other) == "rejected"


@pytest.mark.rule(262)
async def test_the_window_is_a_setting(owner_desk: OpenOwnerDesk, db: SpiedDatabase) -> None:
    """MUSTER_STEPUP_WINDOW says how old a sign-in may be."""
    async with owner_desk(MUSTER_STEPUP_WINDOW="1m") as at:
        draft = await at.draft()
        db.clock_offset = timedelta(seconds=61)
        assert (await at.decide(draft, "approve")).status_code == 409
        db.clock_offset = timedelta(seconds=30)
        assert (await at.decide(draft, "approve")).headers["location"].startswith("/attention")


@pytest.mark.rule(263, 264, 270)
async def test_an_approval_is_withdrawn_until_it_is_collected(owner_desk: OpenOwnerDesk) -> None:
    """What no plugin has collected can be taken back from the card; after that it is 409."""
    async with owner_desk() as at:
        draft = await at.draft()
        await at.decide(draft, "approve")
        page = text_of(await at.page("/attention?tab=drafts"))
        assert "Approved and on its way" in page
        assert "Withdraw the approval" in page
        assert (await at.decide(draft, "reject")).status_code == 303
        (row,) = await read_audit(at.db, at.owner, "plugin.draft.rejected")
        assert row.data["withdrawn"] is True
        other = await at.draft()
        await at.decide(other, "approve")
        assert await at.claim() == other.id
        late = await at.decide(other, "reject")
        assert late.status_code == 409
        assert "Withdraw the approval" not in text_of(late.text)
        assert await at.state(other) == "approved"


@pytest.mark.rule(259)
async def test_a_form_of_another_text_is_refused(owner_desk: OpenOwnerDesk) -> None:
    """A digest of another text is 409 with the fresh card; none at all is 400."""
    async with owner_desk() as at:
        draft = await at.draft("Thanks, noon works.")
        for verb in ("approve", "reject"):
            other = await at.decide(draft, verb, body_sha256="0" * 64)
            assert other.status_code == 409
            assert "Thanks, noon works." in other.text
            assert draft.body_sha256.hex() in other.text
            assert (await at.decide(draft, verb, body_sha256="")).status_code == 400
            assert (await at.decide(draft, verb, draft_id="1")).status_code == 404
        assert await at.state(draft) == "pending"


@pytest.mark.rule(259)
async def test_a_superseded_draft_is_shown_as_it_is_now(owner_desk: OpenOwnerDesk) -> None:
    """A card that is older than a newer draft answers 409 and names the newer one."""
    async with owner_desk() as at:
        old = await at.draft("The first.")
        message = await message_of(at, old.message_id)
        new = await at.draft("The second.", to=message)
        for verb in ("approve", "reject"):
            answer = await at.decide(old, verb)
            assert answer.status_code == 409
            assert f'<a href="/drafts/{new.id}">draft {new.id}</a>' in answer.text
        assert await at.state(new) == "pending"


@pytest.mark.rule(89, 265)
async def test_a_card_warns_of_an_earlier_reply(
    owner_desk: OpenOwnerDesk, db: SpiedDatabase
) -> None:
    """While an earlier reply is unconfirmed, by the clock too, a pending card warns of both."""
    async with owner_desk() as at:
        old = await at.draft("The first.")
        message = await message_of(at, old.message_id)
        await at.decide(old, "approve")
        await at.claim()
        db.clock_offset = LEASE
        new = await make_draft(at.db, at.chief, message, body="The second.")
        page = await at.page(f"/drafts/{new.id}")
        assert "The sender may get both." in page
        assert f'<a href="/drafts/{old.id}">' in page
        await at.decide(new, "reject")
        assert "The sender may get both." not in await at.page(f"/drafts/{new.id}")
        newer = await make_draft(at.db, at.chief, message, body="The third.")
        assert "The sender may get both." in await at.page(f"/drafts/{newer.id}")
        await at.report(old, ok=False)
        assert "The sender may get both." not in await at.page(f"/drafts/{newer.id}")


@pytest.mark.rule(6)
async def test_a_reply_by_a_revoked_plugin_has_no_approval(owner_desk: OpenOwnerDesk) -> None:
    """When its plugin is revoked a card says so and offers to reject alone; approving is 409."""
    async with owner_desk() as at:
        draft = await at.draft()
        await revoke(at.db, at.owner, at.plugin)
        page = text_of(await at.page("/attention?tab=drafts"))
        assert "Its plugin is revoked" in page
        assert "Approve and send" not in page
        answer = await at.decide(draft, "approve")
        assert answer.status_code == 409
        assert "The plugin of this message is revoked." in answer.text


@pytest.mark.rule(6, 259)
async def test_a_card_is_its_owners(owner_desk: OpenOwnerDesk, db: SpiedDatabase) -> None:
    """Another owner's draft is 404 by every way, a guest is led to sign-in, and nothing changes."""
    async with owner_desk() as at:
        stranger = await add_owner(db)
        draft = await strangers_draft(at, stranger)
        assert (await at.visiting.get(f"/drafts/{draft}")).status_code == 404
        assert (await at.visiting.get(f"/attention?decided={draft}")).status_code == 404
        form = {"draft_id": str(draft), "body_sha256": "0" * 64}
        for verb in ("approve", "reject"):
            assert (await at.visiting.post(f"/drafts/{draft}/{verb}", **form)).status_code == 404
            async with page_client(at.server) as guest:
                answer = await guest.post(f"/drafts/{draft}/{verb}", data=form)
                assert answer.headers["location"].startswith("/sign-in")
        for nothing in ("0", "x", "9" * 30, "-1", "1.0"):
            assert (await at.visiting.get(f"/drafts/{nothing}")).status_code == 404


@pytest.mark.rule(6)
async def test_a_form_of_another_site_decides_nothing(owner_desk: OpenOwnerDesk) -> None:
    """A form that does not come from a page of ours is refused."""
    async with owner_desk() as at:
        draft = await at.draft()
        at.visiting.client.headers["Sec-Fetch-Site"] = "cross-site"
        assert (await at.decide(draft, "approve")).status_code == 403
        assert await at.state(draft) == "pending"


async def message_of(at: OwnerDesk, message_id: int) -> Message:
    """The message of that id."""
    return await get_message(at.db, at.owner, message_id)


async def strangers_draft(at: OwnerDesk, stranger: Owner) -> int:
    """A pending draft of somebody else's."""
    chief = await make_chief(at.db, stranger)
    message = await make_message(at.db, await make_plugin(at.db, stranger), delivered_to=chief)
    return (await make_draft(at.db, chief, message)).id
