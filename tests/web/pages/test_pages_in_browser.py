"""The pages in a real browser: live, by keyboard, without scripts, on a phone and for everybody."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from muster.attention.operations import AskedBy, AskOwner, ask, get_ask
from muster.drafts.operations import Draft
from tests.support.browser import Browser, Tab
from tests.support.builders import make_draft, read_audit
from tests.support.owner_desk import OpenOwnerDesk, OwnerDesk

SIZES = [(360, 800, False), (1280, 900, False), (1280, 900, True)]


@asynccontextmanager
async def opened(
    browser: Browser, owner_desk: OpenOwnerDesk, *, width: int = 1280, scripts: bool = True
) -> AsyncIterator[tuple[OwnerDesk, Tab]]:
    """An owner's desk and a tab of theirs; what is done at the desk is told to the tab."""
    async with owner_desk() as at:
        url, cookie = at.server.node.config.public_url, at.visiting.session.cookie
        async with browser.tab(url, session=cookie, width=width, scripts=scripts) as tab:
            yield at, tab


async def asked(at: OwnerDesk, question: str, *answers: str) -> int:
    """An ask of the chief's, by the server's own database, so that open pages hear of it."""
    command = AskOwner(asked_by=AskedBy.CHIEF, question=question, answers=answers)
    made = await at.server.node.db.run(at.chief, ask, command)
    assert made is not None
    return made.id


async def drafted(at: OwnerDesk, reply: str) -> Draft:
    """A pending draft, likewise."""
    return await make_draft(at.server.node.db, at.chief, await at.message(), body=reply)


async def is_live(tab: Tab) -> None:
    """Wait until the tab's stream is open."""
    await tab.do(lambda page: page.locator('body[data-stream="open"]').wait_for())


async def test_a_page_shows_what_comes(browser: Browser, owner_desk: OpenOwnerDesk) -> None:
    """A draft and an ask that come appear by themselves, and so does the count of what waits."""
    async with opened(browser, owner_desk) as (at, tab):
        await tab.go("/attention?tab=drafts")
        await tab.sees("No reply awaits you")
        await is_live(tab)
        await drafted(at, "It came by itself.")
        await tab.sees("It came by itself.", within="#drafts")
        await tab.sees("1", within="#nav .count")
        await asked(at, "Shall I?")
        await tab.sees("2", within="#nav .count")


async def test_nothing_changes_under_ones_hands(
    browser: Browser, owner_desk: OpenOwnerDesk
) -> None:
    """A region in which somebody types stays, and says that something changed."""
    async with opened(browser, owner_desk) as (at, tab):
        await asked(at, "The first?")
        await tab.go("/attention?tab=asks")
        await is_live(tab)
        await tab.fill("Your answer", "half a sente")
        await asked(at, "The second?")
        await tab.sees("Something changed here.")
        assert "The second?" not in await tab.text("#asks")
        kept = await tab.do(lambda page: page.get_by_label("Your answer").input_value())
        assert kept == "half a sente"
        await tab.press("Show it")
        await tab.sees("The second?", within="#asks")


async def test_a_page_that_is_not_live_says_so(browser: Browser, owner_desk: OpenOwnerDesk) -> None:
    """While the stream is down there is a banner; when it is back, what was missed is shown."""
    async with opened(browser, owner_desk) as (at, tab):
        await tab.go("/attention?tab=drafts")
        await is_live(tab)
        await tab.do(lambda page: page.route("**/live?*", lambda route: route.abort()))
        at.server.node.live.end_sessions(at.owner.owner_id)
        await tab.sees("Not live since", within="#live-banner")
        await drafted(at, "It came meanwhile.")
        await tab.do(lambda page: page.unroute("**/live?*"))
        await tab.sees("It came meanwhile.", within="#drafts")
        await tab.do(lambda page: page.locator("#live-banner").wait_for(state="hidden"))


async def test_the_keyboard_leads_and_decides_nothing_by_itself(
    browser: Browser, owner_desk: OpenOwnerDesk
) -> None:
    """Chords lead to the pages; j finds a card, a its Approve, and only Enter approves."""
    async with opened(browser, owner_desk) as (at, tab):
        draft = await drafted(at, "By keys.")
        await tab.go("/messages")
        press = partial(_press, tab)
        await press("g", "a")
        await tab.reaches("/attention")
        await press("?")
        await tab.sees("go to its Approve or Answer", within="dialog[open]")
        await press("Escape", "j", "a")
        focus = await tab.do(lambda page: page.evaluate("document.activeElement.textContent"))
        assert focus == "Approve and send"
        assert await at.state(draft) == "pending"
        await press("Enter")
        await tab.sees("is approved", within=".banner")
        assert await at.state(draft) == "approved"
        for key, path in {
            "m": "/messages",
            "p": "/plugins",
            "u": "/audit",
            "s": "/settings",
        }.items():
            await press("g", key)
            await tab.reaches(path)


async def test_the_keys_are_off_where_one_types_and_by_choice(
    browser: Browser, owner_desk: OpenOwnerDesk
) -> None:
    """In a field a key is a letter; the settings turn all of them off."""
    async with opened(browser, owner_desk) as (_, tab):
        await tab.go("/audit")
        await _press(tab, "/", "g", "m")
        typed = await tab.do(lambda page: page.get_by_label("Action").input_value())
        assert (typed, await tab.where()) == ("gm", "/audit")
        await tab.go("/settings")
        await tab.do(lambda page: page.locator("#keys-on").uncheck())
        await tab.go("/audit")
        await _press(tab, "g", "m", "?")
        assert await tab.where() == "/audit"
        assert await tab.do(lambda page: page.locator("dialog[open]").count()) == 0
        await tab.go("/settings")
        await tab.do(lambda page: page.locator("#keys-on").check())
        await tab.go("/audit")
        await _press(tab, "g", "m")
        await tab.reaches("/messages")


@pytest.mark.rule(6)
async def test_a_double_click_decides_once(browser: Browser, owner_desk: OpenOwnerDesk) -> None:
    """Two clicks send one form, Back brings up no second one, and one row is written."""
    async with opened(browser, owner_desk) as (at, tab):
        draft = await drafted(at, "Only once.")
        await tab.go(f"/drafts/{draft.id}")
        await tab.do(lambda page: page.get_by_role("button", name="Approve and send").dblclick())
        await tab.sees("is approved", within=".banner")
        await tab.do(lambda page: page.go_back())
        await tab.sees("Withdraw the approval")
        assert len(await read_audit(at.db, at.owner, "plugin.draft.approved")) == 1


@pytest.mark.rule(6, 9, 259)
async def test_all_is_read_and_decided_without_scripts(
    browser: Browser, owner_desk: OpenOwnerDesk
) -> None:
    """On a phone without JavaScript a draft is approved, another rejected, an ask answered."""
    async with opened(browser, owner_desk, width=360, scripts=False) as (at, tab):
        first, second = await drafted(at, "The first."), await drafted(at, "The second.")
        ask_id = await asked(at, "Tea?", "Yes, please")
        await tab.go("/attention")
        await tab.press("Yes, please")
        await tab.press("Reply drafts 2")
        await tab.press("Approve and send", within=f"#draft-{first.id}")
        await tab.sees("is approved", within=".banner")
        await tab.press("Reject", within=f"#draft-{second.id}")
        await tab.press("Archived")
        await tab.sees(f"Draft {second.id}")
        assert (await at.state(first), await at.state(second)) == ("approved", "rejected")
        assert (await at.db.run(at.owner, get_ask, ask_id)).answer == "Yes, please"


@pytest.mark.parametrize(("width", "height", "dark"), SIZES)
async def test_every_page_is_for_everybody(
    browser: Browser, owner_desk: OpenOwnerDesk, width: int, height: int, *, dark: bool
) -> None:
    """Nothing that axe calls serious is nothing on any page, and none is wider than its window."""
    async with owner_desk() as at:
        draft = await at.draft(
            "caf\u00e9 " + "x" * 300, to=await at.message("y" * 300, sender="z" * 200)
        )
        decided = await at.draft()
        await at.decide(decided, "reject")
        ask_id = await asked(at, "Tea?", "Yes", "No " * 20)
        url, cookie = at.server.node.config.public_url, at.visiting.session.cookie
        async with browser.tab(url, session=cookie, width=width, height=height, dark=dark) as tab:
            for path in (
                "/attention?tab=asks", "/attention?tab=drafts", "/attention?tab=archived",
                f"/drafts/{draft.id}", f"/asks/{ask_id}", "/messages", "/messages?state=queued",
                f"/messages/{draft.message_id}", "/plugins", "/audit", "/audit?action=none",
            ):  # fmt: skip
                assert await tab.go(path) == 200
                assert await tab.find_faults() == [], path
                assert await tab.overflow() <= 0, path


async def _press(tab: Tab, *keys: str) -> None:
    for key in keys:
        await tab.do(lambda page, key=key: page.keyboard.press(key))  # type: ignore[misc]
