"""Notifications in a real browser: subscribing, what the service worker shows, what a tab says."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from muster.principals import Owner
from tests.support.browser import Browser, Tab
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.push_desk import PushDesk, push_desk
from tests.support.server import Server, running_server
from tests.support.visitor import sign_in
from tests.support.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

PATIENCE = 10.0  # seconds, for what a browser does
# A headless Chromium has no push service: the test's own one is subscribed at in its place.
SUBSCRIBED = """
    const subscription = {
        endpoint: ENDPOINT,
        toJSON: () => ({endpoint: ENDPOINT, keys: KEYS}),
        unsubscribe: async () => sessionStorage.removeItem("subscribed"),
    };
    PushManager.prototype.subscribe = async (options) => {
        if (new Uint8Array(options.applicationServerKey).length !== 65) throw new Error("no key");
        sessionStorage.setItem("subscribed", "1");
        return subscription;
    };
    PushManager.prototype.getSubscription = async () =>
        sessionStorage.getItem("subscribed") ? subscription : null;
"""
SHOWN = """async () => (await (await navigator.serviceWorker.ready).getNotifications())
    .map((one) => [one.tag, one.title, one.body])"""


@attrs.frozen(kw_only=True)
class Place:
    """An owner at a running server, with the cookie of a session."""

    server: Server
    desk: PushDesk
    cookie: str

    @asynccontextmanager
    async def tab(self, browser: Browser, **how: Any) -> AsyncIterator[Tab]:
        """A tab of the owner's, in which notifications are allowed."""
        url = self.server.node.config.public_url
        async with browser.tab(url, session=self.cookie, **how) as tab:
            await tab.do(lambda page: page.context.grant_permissions(["notifications"]))
            await tab.do(self._subscribed)
            yield tab

    def _subscribed(self, page: "Page") -> None:
        given = self.desk.browser.subscription
        keys = json.dumps({"p256dh": given.p256dh, "auth": given.auth})
        script = SUBSCRIBED.replace("ENDPOINT", json.dumps(given.url)).replace("KEYS", keys)
        page.add_init_script(f"(() => {{{script}}})()")


@pytest.fixture
async def place(db: SpiedDatabase, cluster: Cluster, owner: Owner) -> AsyncIterator[Place]:
    """An owner at a running server."""
    async with (
        running_server(db, cluster.app_url) as server,
        push_desk(server.node.db, owner) as desk,
    ):
        visiting = await sign_in(server, owner)
        async with visiting.client:
            yield Place(server=server, desk=desk, cookie=visiting.session.cookie)


async def test_a_browser_subscribes_and_is_reached(place: Place, browser: Browser) -> None:
    """One press makes this browser a device, which knows itself, and a test arrives encrypted."""
    async with place.tab(browser) as tab:
        await tab.go("/settings")
        await tab.press("Notify this browser")
        await until(place.desk.devices, PATIENCE)
        await tab.sees("this one", within="#notifications")
        (device,) = await place.desk.devices()
        await tab.press(f"Push a test to {device.name}")
        (note,) = await place.desk.notes(1)
        assert note["title"] == "muster reaches this device"
        await place.desk.reaches("cleared")
        assert await tab.find_faults() == []
        await tab.press(f"Remove {device.name}")
        await tab.sees("No device is notified yet")
        left = await tab.do(lambda page: page.evaluate("sessionStorage.getItem('subscribed')"))
        assert left is None


@pytest.mark.parametrize("width", [360, 1280])
async def test_the_section_fits_and_is_accessible(
    place: Place, browser: Browser, width: int
) -> None:
    """With devices that work and that do not, nothing sticks out and axe finds nothing serious."""
    await place.desk.subscribe()
    await place.desk.subscribe_ntfy()
    await place.desk.subscribe_webhook()
    async with place.tab(browser, width=width, dark=width == 360) as tab:
        await tab.go("/settings")
        await tab.do(
            lambda page: page.eval_on_selector_all(
                "#notifications details", "all => all.forEach((one) => { one.open = true; })"
            )
        )
        assert await tab.overflow() == 0
        assert await tab.find_faults() == []


async def test_without_scripts_the_section_says_what_works(place: Place, browser: Browser) -> None:
    """Without JavaScript ntfy and webhooks can be added, and no button promises what it cannot."""
    async with place.tab(browser, scripts=False) as tab:
        await tab.go("/settings")
        section = await tab.text("#notifications")
        assert "Notifications of a browser need JavaScript" in section
        assert "Notify this browser" not in section


def deliver(note: dict[str, str]) -> Any:
    """Let a push arrive at the service worker of a page, as the browser would open it."""

    def job(page: "Page") -> None:
        registered: list[str] = []
        debugger = page.context.new_cdp_session(page)
        debugger.on(
            "ServiceWorker.workerRegistrationUpdated",
            lambda event: registered.extend(r["registrationId"] for r in event["registrations"]),
        )
        debugger.send("ServiceWorker.enable")
        page.evaluate("async () => { await navigator.serviceWorker.ready; }")
        origin = page.evaluate("location.origin")
        while not registered:
            page.wait_for_timeout(20)
        arrived = {"origin": origin, "registrationId": registered[-1], "data": json.dumps(note)}
        debugger.send("ServiceWorker.deliverPushMessage", arrived)
        debugger.detach()

    return job


async def test_the_service_worker_shows_and_closes(place: Place, browser: Browser) -> None:
    """A push is shown, a second of its tag takes its place, and one that clears closes it."""
    show = {"do": "show", "tag": "draft-1", "title": "A", "body": "B", "path": "/drafts/1"}
    async with place.tab(browser) as tab:
        await tab.go("/settings")
        await tab.press("Notify this browser")
        await tab.sees("this one", within="#notifications")

        async def shown(*expected: list[str]) -> None:
            async def there() -> bool:
                return bool(await tab.do(lambda page: page.evaluate(SHOWN)) == list(expected))

            await until(there, PATIENCE)

        await tab.do(deliver(show))
        await shown(["draft-1", "A", "B"])
        await tab.do(deliver(show | {"body": "C"}))
        await shown(["draft-1", "A", "C"])
        await tab.do(deliver({"do": "clear", "tag": "draft-2"}))
        await tab.do(deliver({"do": "clear", "tag": "draft-1"}))
        await shown()


async def test_a_tab_says_what_it_shows(place: Place, browser: Browser) -> None:
    """What a visible page shows is known to the server, as it changes, and no longer than that."""
    presence, owner_id = place.server.node.presence, place.desk.owner.owner_id
    first = await place.desk.draft()
    async with place.tab(browser) as tab:
        await tab.go("/attention?tab=drafts")
        await until(lambda: presence.shown(owner_id) == {("draft", first.id)}, PATIENCE)
        second = await place.desk.draft()
        both = {("draft", first.id), ("draft", second.id)}
        await until(lambda: presence.shown(owner_id) == both, PATIENCE)
        await tab.go("/settings")
        await until(
            lambda: presence.watches(owner_id) and not presence.shown(owner_id), PATIENCE
        )
    await until(lambda: not presence.watches(owner_id), PATIENCE)
