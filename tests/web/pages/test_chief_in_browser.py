"""/chief in a real browser: a turn appears as it runs, as text, and the box needs no script."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest

from tests.support.browser import Browser, Tab
from tests.support.desk import Desk, OpenDesk
from tests.support.visitor import sign_in
from tests.support.waiting import until

SIZES = [(360, False), (1280, False), (1280, True)]
HOSTILE = "<img src=x onerror=alert(1)><b>Noon</b>"


@attrs.frozen(kw_only=True)
class Sitting:
    """A desk, and a tab of its owner's."""

    at: Desk
    tab: Tab


@asynccontextmanager
async def opened(
    browser: Browser,
    desk: OpenDesk,
    *,
    width: int = 1280,
    dark: bool = False,
    scripts: bool = True,
) -> AsyncIterator[Sitting]:
    """Sit at a desk with a tab open."""
    async with desk() as at:
        visit = await sign_in(at.server, at.owner)
        await visit.client.aclose()
        url, cookie = at.server.node.config.public_url, visit.session.cookie
        async with browser.tab(url, session=cookie, width=width, dark=dark, scripts=scripts) as tab:
            yield Sitting(at=at, tab=tab)


async def is_live(tab: Tab) -> None:
    """Wait until the tab's stream is open."""
    await tab.do(lambda page: page.locator('body[data-stream="open"]').wait_for())


async def test_a_turn_appears_as_it_runs(browser: Browser, desk: OpenDesk) -> None:
    """What the chief says comes piece by piece, is never more than text, and stays at the end."""
    async with opened(browser, desk) as sitting, sitting.at.agent() as agent:
        tab = sitting.tab
        await agent.next_frame("welcome")
        await tab.go("/chief")
        await tab.fill("Write to your chief", "When do we meet?")
        await tab.press("Send")
        turn = await agent.next_frame("turn")
        await tab.sees("When do we meet?")
        await is_live(tab)
        await agent.send("turn.delta", turn_id=turn["turn_id"], text="Let me look. ")
        await tab.sees("Let me look.", within="[data-turn]")
        await agent.send("turn.delta", turn_id=turn["turn_id"], text=HOSTILE)
        await tab.sees(HOSTILE, within="[data-turn]")
        assert await tab.do(lambda page: page.locator("[data-turn] *").count()) == 0
        await agent.send("turn.done", turn_id=turn["turn_id"], text="Noon.")
        await tab.sees("delivered")
        text = await tab.text("#turns")
        assert HOSTILE in text
        assert "Noon." in text
        assert await tab.do(lambda page: page.locator("[data-turn]").count()) == 0


async def test_a_page_that_opens_late_shows_that_it_missed_something(
    browser: Browser, desk: OpenDesk
) -> None:
    """Text that came before the page stands as an ellipsis, until the turn has ended."""
    async with opened(browser, desk) as sitting, sitting.at.agent() as agent:
        tab, live = sitting.tab, sitting.at.server.node.live
        await agent.next_frame("welcome")
        await tab.go("/chief")
        await tab.fill("Write to your chief", "Well?")
        await tab.press("Send")
        turn = await agent.next_frame("turn")
        await is_live(tab)
        await tab.go("/messages")
        await agent.send("turn.delta", turn_id=turn["turn_id"], text="early")
        await tab.go("/chief")
        await tab.press("You and helper")
        await is_live(tab)
        await until(lambda: live.listens(sitting.at.owner.owner_id))
        await agent.send("turn.delta", turn_id=turn["turn_id"], text=" late")
        await tab.sees("… late", within="[data-turn]")
        await agent.send("turn.done", turn_id=turn["turn_id"], text="early late")
        await tab.sees("early late", within="#turns")


async def test_the_chiefs_state_is_live(browser: Browser, desk: OpenDesk) -> None:
    """That the chief connects, gets busy and leaves shows by itself."""
    async with opened(browser, desk) as sitting:
        await sitting.tab.go("/chief")
        await sitting.tab.sees("never yet", within="#chief-now")
        await is_live(sitting.tab)
        async with sitting.at.agent() as agent:
            await agent.next_frame("welcome")
            await sitting.tab.sees("free", within="#chief-now")
            await sitting.at.post()
            await agent.next_frame("turn")
            await sitting.tab.sees("busy", within="#chief-now")
        await sitting.tab.sees("not since", within="#chief-now")


async def test_the_box_needs_no_script(browser: Browser, desk: OpenDesk) -> None:
    """Without scripts words are sent, refused words come back, and the answer is read."""
    async with (
        opened(browser, desk, scripts=False, width=360) as sitting,
        sitting.at.agent() as agent,
    ):
        tab = sitting.tab
        await agent.next_frame("welcome")
        await tab.go("/chief")
        await tab.fill("Write to your chief", "é" * 9000)
        await tab.press("Send")
        await tab.sees("This is too long")
        box = "Write to your chief"
        kept = await tab.do(lambda page: page.get_by_label(box).input_value())
        assert kept == "é" * 9000
        await tab.fill(box, "Noon?")
        await tab.press("Send")
        turn = await agent.next_frame("turn")
        await agent.send("turn.done", turn_id=turn["turn_id"], text="Noon it is.")

        async def answered() -> bool:
            await tab.go("/chief")
            return "Noon it is." in await tab.text()

        await until(answered)


@pytest.mark.parametrize(("width", "dark"), SIZES)
async def test_everybody_can_use_the_pages(
    browser: Browser, desk: OpenDesk, width: int, dark: bool
) -> None:
    """Nothing that axe calls serious, and nothing wider than the window, full and empty."""
    async with opened(browser, desk, width=width, dark=dark) as sitting:
        tab, at = sitting.tab, sitting.at
        await tab.go("/chief")
        await no_fault(tab)
        async with at.agent() as agent:
            await agent.next_frame("welcome")
            await at.post(body="x" * 3000)
            turn = await agent.next_frame("turn")
            await agent.send("turn.done", turn_id=turn["turn_id"], text="y" * 3000)
            await tab.fill("Write to your chief", "z" * 3000)
            await tab.press("Send")
            await agent.next_frame("turn")
            await no_fault(tab)
            await tab.go("/chief")
            await no_fault(tab)
        await tab.go("/chief")
        await tab.press("Mail")
        await no_fault(tab)
        await tab.go("/chief")
        await tab.fill("Write to your chief", " ")
        await tab.press("Send")
        await tab.sees("no words in this")
        await no_fault(tab)


async def no_fault(tab: Tab) -> None:
    """The page that is shown has no grave fault and fits its window."""
    assert await tab.find_faults() == []
    assert await tab.overflow() <= 0
