"""The pages of sessions in a real browser: live, by keyboard, and without scripts on a phone."""

from datetime import UTC, datetime

from tests.support.browser import Browser
from tests.support.mirrored_desk import MirroredDesk, mirrored
from tests.support.owner_desk import OpenOwnerDesk
from tests.support.waiting import until


async def screen(m: MirroredDesk, text: str) -> None:
    """The host tells what the terminal shows."""
    seen = {"pane": "%1", "text": text, "at": datetime.now(UTC).isoformat()}
    await m.host.until_acknowledged(await m.host.say("screen", **seen))


async def test_the_list_shows_what_comes(browser: Browser, owner_desk: OpenOwnerDesk) -> None:
    """What a session does, is about and has in its queue appears by itself."""
    async with mirrored(owner_desk) as m:
        url, cookie = m.at.server.node.config.public_url, m.at.visiting.session.cookie
        async with browser.tab(url, session=cookie) as tab:
            await tab.go("/sessions")
            await tab.sees("working", within="#sessions")
            await tab.do(lambda page: page.locator('body[data-stream="open"]').wait_for())
            await m.host.show(m.name, state="waiting")
            await tab.sees("waiting", within="#sessions")
            await m.focus("Mend the gate")
            await tab.sees("Mend the gate", within="#sessions")
            await m.send("go on")
            await tab.sees("1", within='#sessions td[data-label="Queue"]')
            await m.host.show()
            await tab.sees("No window shows a session", within="#sessions")


async def test_a_session_is_worked_on_by_keyboard(
    browser: Browser, owner_desk: OpenOwnerDesk
) -> None:
    """A chord leads there, o opens a session, and Enter sends; its terminal is shown anew."""
    async with mirrored(owner_desk) as m:
        url, cookie = m.at.server.node.config.public_url, m.at.visiting.session.cookie
        async with browser.tab(url, session=cookie) as tab:
            await tab.go("/tasks")
            for key in ("g", "w"):
                await tab.do(lambda page, key=key: page.keyboard.press(key))  # type: ignore[misc]
            await tab.reaches("/sessions")
            for key in ("j", "o"):
                await tab.do(lambda page, key=key: page.keyboard.press(key))  # type: ignore[misc]
            await tab.reaches(m.path)
            await tab.sees("has not told what it shows yet")
            await screen(m, "$ make\nall is well")
            await tab.sees("all is well", within="#screen")
            await screen(m, "$ make test\n12 passed")
            await tab.sees("12 passed", within="#screen")
            await tab.fill("Send a text", "go on")
            await tab.do(lambda page: page.keyboard.press("Tab"))
            await tab.do(lambda page: page.keyboard.press("Enter"))
            await tab.sees("It waits for its session to be idle: it works.", within="#queue")
            await m.host.show(m.name, state="idle", idle_seconds=3600)
            order = await m.host.hear("paste")
            await m.paste_done(order["send_id"], "pasted")
            await tab.sees("on box: the session itself showed it", within="#receipts")
            assert await tab.find_faults() == []


async def test_without_scripts_on_a_phone(browser: Browser, owner_desk: OpenOwnerDesk) -> None:
    """A text is queued and cancelled by forms alone, and nothing is wider than the window."""
    async with mirrored(owner_desk) as m:
        url, cookie = m.at.server.node.config.public_url, m.at.visiting.session.cookie
        async with browser.tab(url, session=cookie, width=360, height=800, scripts=False) as tab:
            await tab.go("/sessions")
            assert await tab.overflow() <= 0
            await tab.press("main:1")
            await tab.fill("Send a text", "x" * 200)
            await tab.press("Put it into the queue")
            await tab.sees("It waits for its session to be idle: it works.")
            assert await tab.overflow() <= 0
            (send,) = await m.texts()
            await tab.press(f"Cancel text {send.id}")
            await tab.sees("Nothing waits for this session.")
            await until(lambda: m.texts(ended=True))
            await tab.go("/routes")
            assert await tab.overflow() <= 0
