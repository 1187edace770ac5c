"""A newcomer's first ten minutes in a real browser, and again narrow and without scripts."""

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta

import attrs
import pytest

from muster.principals import Node
from muster.push import operations as push
from tests.support.browser import Browser, Tab
from tests.support.cluster import OwnDatabase
from tests.support.newcomer import PASSWORD, Chief, Empty, chief_of, cookie_of, empty_server
from tests.support.page_list import list_pages
from tests.support.push_service import Browser as Device
from tests.support.push_service import browser_of, push_service

WINDOW = "10m"  # how long a sign-in is fresh
LATER = timedelta(minutes=11)
# What a browser with a push service would answer: headless Chromium has none.
SUBSCRIBE = """
const told = %s;
PushManager.prototype.subscribe = async () => ({endpoint: told.endpoint, toJSON: () => told});
PushManager.prototype.getSubscription = async () => null;
"""
# What is to be seen at pages beside what their paths alone show.
MORE = (
    *("/attention?tab=drafts", "/attention?tab=archived", "/tasks?status=all"),
    *("/messages?state=delivered", "/docs/plugins"),
)
MISSING = (
    *("/nowhere", "/docs/1", "/setup"),
    *("/sessions/1", "/sessions/1/screen", "/routes/1"),  # a newcomer mirrors nothing yet
)


@attrs.frozen(kw_only=True)
class Way:
    """How somebody signs in, and proves anew that it is they who approve."""

    sign_in: Callable[[Tab], Awaitable[None]]
    approve: Callable[[Tab], Awaitable[None]]


async def _sign_in_by_passkey(tab: Tab) -> None:
    await tab.press("Go on with a passkey")


async def _approve_by_passkey(tab: Tab) -> None:
    await tab.press("Approve and send with a passkey")


async def _sign_in_by_password(tab: Tab) -> None:
    await tab.fill("Password", PASSWORD)
    await tab.press("Go on with the password")


async def _approve_by_password(tab: Tab) -> None:
    await tab.fill("Password of ada", PASSWORD)
    await tab.press("Approve and send")


PASSKEY = Way(sign_in=_sign_in_by_passkey, approve=_approve_by_passkey)
BY_PASSWORD = Way(sign_in=_sign_in_by_password, approve=_approve_by_password)


@pytest.mark.rule(6, 8, 9, 11)
async def test_the_first_ten_minutes(browser: Browser, own_database: OwnDatabase) -> None:
    """By passkey, from the one-time address to a reply that is sent, a task, an ask and a push."""
    async with (
        empty_server(own_database, MUSTER_STEPUP_WINDOW=WINDOW) as empty,
        push_service() as pushes,
    ):
        device = browser_of(pushes)
        url = empty.server.node.config.public_url
        async with browser.tab(url) as tab:
            await tab.add_authenticator()
            await tab.do(lambda page: page.add_init_script(_subscription(device)))
            await tab.do(lambda page: page.context.grant_permissions(["notifications"]))
            await _begin(tab, empty, PASSKEY)
            await tab.go("/settings")
            await tab.do(lambda page: page.fill("#browser-name", "Desk"))
            await tab.press("Notify this browser")
            await tab.press("Push a test to Desk")
            (tested,) = await pushes.received(1)
            key = (await empty.db.run(Node(), push.push_key, None)).public_key
            assert device.open(tested, key)["do"] == "show"
            session = await cookie_of(tab)
        await _look_at_all(browser, empty, session)


async def test_the_first_ten_minutes_without_scripts(
    browser: Browser, own_database: OwnDatabase
) -> None:
    """By password and forms alone the same is done, and no page is wider than 360 pixels."""
    async with empty_server(own_database, MUSTER_STEPUP_WINDOW=WINDOW) as empty:
        url = empty.server.node.config.public_url
        async with browser.tab(url, width=360, height=800, scripts=False) as tab:
            await _begin(tab, empty, BY_PASSWORD)
            for path in _pages(empty):
                await tab.go(path)
                assert await tab.overflow() <= 0, path


async def _begin(tab: Tab, empty: Empty, way: Way) -> None:
    """Open the account, make a plugin, and decide what the chief brings."""
    await tab.go(empty.setup)
    await tab.fill("Name", "ada")
    await way.sign_in(tab)
    await tab.reaches("/attention")
    await tab.press("Plugins")
    await tab.fill("Name", "mail")
    await tab.fill("Label", "Mail")
    await tab.fill("Data scope", "my mail")
    await tab.press("Make the plugin")
    token = await tab.text("#token")
    await tab.press("I have it")
    assert token not in await tab.text()
    desk = await empty.desk(tab, token)
    async with chief_of(desk) as chief:
        empty.db.clock_offset += LATER
        await _answer_a_message(tab, chief, way)
        await _ungate_a_task(tab, chief)
        await _answer_an_ask(tab, chief)


async def _answer_a_message(tab: Tab, chief: Chief, way: Way) -> None:
    """The reply is approved behind step-up, collected, sent, and seen on the message's way."""
    desk = chief.desk
    message_id = await desk.post()
    turn = await chief.turn()
    await chief.call("reply_draft", message_id=message_id, body="Thanks, noon works.")
    await chief.done(turn)
    await tab.go("/attention?tab=drafts")
    await tab.sees("Thanks, noon works.")
    await way.approve(tab)
    await tab.sees("its plugin collects it")
    claimed = (await desk.claim()).json()
    assert claimed["body"] == "Thanks, noon works."
    assert (await desk.report(claimed["draft_id"], ok=True)).status_code == 200
    await tab.go(f"/messages/{message_id}")
    way_of_it = await tab.text(".timeline")
    told = ("Stored", "Handed to helper", "written by your chief", "approved", "collected", "sent")
    places = [way_of_it.index(word) for word in told]
    assert places == sorted(places), way_of_it


async def _ungate_a_task(tab: Tab, chief: Chief) -> None:
    """A message that asks for work becomes a task that nobody starts before the owner says so."""
    message_id = await chief.desk.post("m2", body="Please fix the gate.")
    turn = await chief.turn()
    task = {"title": "Fix the gate", "body": "It is stuck.", "message_id": message_id}
    await chief.call("task_create_gated", **task)
    await chief.done(turn)
    await tab.go("/tasks")
    await tab.press("Fix the gate")
    await tab.sees("Nothing starts work on this task")
    await tab.press("Remove the gate")
    await tab.reaches("/tasks/1")
    assert "Nothing starts work" not in await tab.text()


async def _answer_an_ask(tab: Tab, chief: Chief) -> None:
    """The chief's question is answered by a button, and the answer is a turn of its own."""
    await chief.call("attention_ask", question="Shall I book a table?", answers=["Yes", "No"])
    await tab.go("/attention?tab=asks")
    await tab.sees("Shall I book a table?")
    await tab.press("Yes")
    turn = await chief.turn()
    assert "Yes" in turn["text"]
    await chief.done(turn)


async def _look_at_all(browser: Browser, empty: Empty, session: str) -> None:
    """What axe finds on every page, in the light and wide, in the dark and narrow."""
    found = {}
    url = empty.server.node.config.public_url
    for width, dark in ((1280, False), (360, True)):
        async with browser.tab(url, width=width, dark=dark, session=session) as tab:
            for path in _pages(empty):
                assert await tab.go(path) == (404 if path in MISSING else 200), path
                found[path, width] = await tab.find_faults()
        async with browser.tab(url, width=width, dark=dark) as tab:
            await tab.go("/sign-in")
            found["/sign-in", width] = await tab.find_faults()
    assert {place: faults for place, faults in found.items() if faults} == {}


def _pages(empty: Empty) -> list[str]:
    """Every page: each thing of the newcomer's is the first of its kind, whose number is 1."""
    gets = [path for method, path in list_pages(empty.server) if method == "GET"]
    paths = [path for path in gets if "/export." not in path and path not in ("/", "/sign-in")]
    return [*dict.fromkeys((*paths, *MORE, *MISSING))]


def _subscription(device: Device) -> str:
    given = device.subscription
    keys = {"p256dh": given.p256dh, "auth": given.auth}
    return SUBSCRIBE % json.dumps({"endpoint": given.url, "keys": keys})
