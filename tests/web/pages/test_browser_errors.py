"""What a browser says in its own words is never shown: a sentence that says what to do is."""

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import Browser, Tab
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.owner_desk import OpenOwnerDesk
from tests.support.person import PASSWORD, add_person
from tests.support.server import running_server

if TYPE_CHECKING:
    from playwright.sync_api import Page

RAW = "its own words"


async def fails(tab: Tab, what: str, name: str) -> None:
    """From now on the page's `what` is refused by the browser with an error of this name."""
    error = f"new DOMException({RAW!r}, {name!r})"
    script = f"{what} = async () => {{ throw {error}; }};"
    await tab.do(lambda page: page.add_init_script(script))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("NotAllowedError", "Allow notifications in the site's settings"),
        ("AbortError", "did not reach its push service"),
        ("NotSupportedError", "has no push service"),
        ("OperationError", "Reload the page and press the button again"),
    ],
)
async def test_a_browser_that_cannot_subscribe_says_what_to_do(
    browser: Browser, owner_desk: OpenOwnerDesk, name: str, sentence: str
) -> None:
    """Each refusal of the browser is told as a sentence, and nothing of its words stands there."""
    async with owner_desk() as at:
        url, cookie = at.server.node.config.public_url, at.visiting.session.cookie
        async with browser.tab(url, session=cookie) as tab:
            await tab.do(lambda page: page.context.grant_permissions(["notifications"]))
            await fails(tab, "PushManager.prototype.subscribe", name)
            await tab.go("/settings")
            await tab.press("Notify this browser")
            await tab.sees(sentence, within="[data-push-fault]")
            assert RAW not in await tab.text("#notifications")
            assert await tab.find_faults() == []


async def test_a_blocked_page_says_where_it_is_allowed(
    browser: Browser, owner_desk: OpenOwnerDesk
) -> None:
    """Without the permission the section tells where to give it."""
    async with owner_desk() as at:
        url, cookie = at.server.node.config.public_url, at.visiting.session.cookie
        async with browser.tab(url, session=cookie) as tab:
            script = "Notification.requestPermission = async () => 'denied';"
            await tab.do(lambda page: page.add_init_script(script))
            await tab.go("/settings")
            await tab.press("Notify this browser")
            await tab.sees("beside the address", within="[data-push-fault]")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("NotAllowedError", "cancelled, or took too long"),
        ("SecurityError", "Open muster by its own address"),
        ("UnknownError", "Try again, or another device"),
        ("", "muster did not answer"),
    ],
)
async def test_a_passkey_that_fails_says_what_to_do(
    browser: Browser, db: SpiedDatabase, cluster: Cluster, name: str, sentence: str
) -> None:
    """What the browser or the way to muster refused is told as a sentence of muster's."""
    await add_person(db, password=PASSWORD)
    async with (
        running_server(db, cluster.app_url) as server,
        browser.tab(server.node.config.public_url) as tab,
    ):
        await fails(tab, "CredentialsContainer.prototype.get", name or "UnknownError")
        if not name:
            await tab.do(partial(_cut_off, "**/sign-in/options"))
        await tab.go("/sign-in")
        await tab.press("Sign in with a passkey")
        await tab.sees(sentence, within="[data-passkey-fault]")
        assert RAW not in await tab.text("main")


async def test_what_cannot_be_copied_is_marked(browser: Browser, owner_desk: OpenOwnerDesk) -> None:
    """Where the browser forbids it the token is marked, and the button says how to go on."""
    async with owner_desk() as at:
        url, cookie = at.server.node.config.public_url, at.visiting.session.cookie
        async with browser.tab(url, session=cookie) as tab:
            await fails(tab, "Clipboard.prototype.writeText", "NotAllowedError")
            await tab.go("/settings")
            await tab.fill("Name of a new token", "laptop")
            await tab.press("Make a token")
            await tab.press("Copy")
            await tab.sees("Marked: copy it with Ctrl-C")
            marked = await tab.do(lambda page: page.evaluate("String(getSelection())"))
            assert marked.startswith("mst_")


def _cut_off(address: str, page: "Page") -> None:
    page.route(address, lambda route: route.abort())
