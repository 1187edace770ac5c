"""Signing in with a real browser: by a passkey from first to last, and without any script."""

from datetime import timedelta

import pytest

from muster.accounts.operations import links
from tests.support.browser import Browser, Tab
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.person import PASSWORD, Person, add_person, open_for
from tests.support.server import running_server


@pytest.fixture
async def ada(db: SpiedDatabase) -> Person:
    """Somebody with a password."""
    return await add_person(db)


async def path_of_link(db: SpiedDatabase, person: Person) -> str:
    """The path of a new link."""
    link = await db.run(person.owner, links.make_link, None)
    return f"/setup?link={link.text}"


async def test_a_passkey_from_first_to_last(
    browser: Browser, db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """A passkey is made by a link, signs in, confirms, and stands in the settings."""
    async with running_server(db, cluster.app_url) as server:
        url = server.node.config.public_url
        async with browser.tab(url) as tab:
            await tab.add_authenticator()
            await tab.go(await path_of_link(db, ada))
            await tab.press("Go on with a passkey")
            await tab.reaches("/attention")
            await tab.press("Sign out")
            await tab.reaches("/sign-in")
            await tab.go("/sign-in?next=/settings")
            await tab.press("Sign in with a passkey")
            await tab.reaches("/settings")
            await tab.sees("First passkey")
            db.clock_offset += timedelta(hours=12)
            await tab.go("/settings")
            await tab.press("Confirm now")
            await tab.reaches("/step-up")
            await tab.press("Confirm with a passkey")
            await tab.reaches("/settings")
            assert "Confirm now" not in await tab.text()


async def test_a_passkey_is_made_once_a_device(
    browser: Browser, db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """A second passkey on one device is refused in words; with an old sign-in one confirms."""
    opened = await open_for(db, ada)
    async with running_server(db, cluster.app_url) as server:
        url = server.node.config.public_url
        async with browser.tab(url, session=opened.cookie) as tab:
            await tab.add_authenticator()
            await tab.go("/settings")
            await tab.fill("Name of a new passkey", "laptop")
            await tab.press("Add a passkey")
            await tab.sees("Remove", within="#passkeys")
            await tab.fill("Name of a new passkey", "again")
            await tab.press("Add a passkey")
            await tab.sees("This device has a passkey for this account already.")
            db.clock_offset += timedelta(hours=12)
            await tab.press("Add a passkey")
            await tab.sees("This needs a fresh sign-in", within="#passkeys")
            kept = await tab.do(lambda page: page.locator("#passkey-name").input_value())
            assert kept == "again"


async def test_a_cancelled_passkey_is_told(
    browser: Browser, db: SpiedDatabase, cluster: Cluster
) -> None:
    """With no passkey at hand a person is told so, and the password is still there."""
    async with (
        running_server(db, cluster.app_url) as server,
        browser.tab(server.node.config.public_url) as tab,
    ):
        await tab.add_authenticator()
        await tab.go("/sign-in")
        await tab.press("Sign in with a passkey")
        await tab.sees("The passkey was not used")
        await tab.fill("Password", "still there")


async def test_without_a_script(
    browser: Browser, db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """A browser without scripts signs in, confirms and makes a token by the password alone."""
    async with (
        running_server(db, cluster.app_url) as server,
        browser.tab(server.node.config.public_url, scripts=False) as tab,
    ):
        await tab.go("/settings")
        await tab.reaches("/sign-in")
        assert "passkey" not in (await tab.text()).lower()
        await tab.fill("Name", ada.name)
        await tab.fill("Password", PASSWORD)
        await tab.press("Sign in", within="main")
        await tab.reaches("/settings")
        db.clock_offset += timedelta(hours=12)
        await tab.fill("Name of a new token", "box")
        await tab.press("Make a token")
        await tab.sees("This needs a fresh sign-in", within="#tokens")
        kept = await tab.do(lambda page: page.get_by_label("Name of a new token").input_value())
        assert kept == "box"
        await tab.do(lambda page: page.locator("#token-confirm").fill(PASSWORD))
        await tab.press("Make a token")
        await tab.sees("It is shown this once")


@pytest.mark.parametrize(("width", "dark"), [(360, False), (1280, True)])
async def test_for_everybody(
    browser: Browser, db: SpiedDatabase, cluster: Cluster, ada: Person, *, width: int, dark: bool
) -> None:
    """On a phone and on a desk, light and dark, axe finds nothing serious and nothing overflows."""
    opened = await open_for(db, ada)
    link = await path_of_link(db, ada)
    async with running_server(db, cluster.app_url) as server:
        url = server.node.config.public_url
        async with browser.tab(url, width=width, dark=dark) as guest:
            for path in ("/sign-in", link, "/setup?link=none"):
                await _check(guest, path)
        async with browser.tab(url, width=width, dark=dark, session=opened.cookie) as tab:
            for path in ("/settings", "/step-up"):
                await _check(tab, path)


async def _check(tab: Tab, path: str) -> None:
    await tab.go(path)
    assert await tab.find_faults() == [], path
    assert await tab.overflow() == 0, path
