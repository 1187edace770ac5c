"""Step-up in place in a real browser: many cards on one page, by passkey and by password."""

from datetime import timedelta

import pytest

from muster.accounts.operations import links
from muster.principals import Agent
from tests.support.browser import Browser, Tab
from tests.support.builders import make_chief, make_draft, make_message, make_plugin, read_audit
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.person import PASSWORD, Person, add_person, open_for
from tests.support.server import running_server

LATER = timedelta(hours=13)


@pytest.fixture
async def ada(db: SpiedDatabase) -> Person:
    """Somebody with a password."""
    return await add_person(db)


async def draft_three(db: SpiedDatabase, ada: Person) -> list[int]:
    """Three drafts that await her."""
    chief: Agent = await make_chief(db, ada.owner)
    plugin = await make_plugin(db, ada.owner)
    found = []
    for number in range(3):
        message = await make_message(db, plugin, delivered_to=chief)
        found.append((await make_draft(db, chief, message, body=f"Reply {number}.")).id)
    return found


async def approved(db: SpiedDatabase, ada: Person) -> list[str]:
    """Which drafts were approved, in order."""
    return [row.subject for row in await read_audit(db, ada.owner, "plugin.draft.approved")]


async def check(tab: Tab) -> None:
    """Nothing serious for axe, and nothing wider than the window."""
    assert await tab.find_faults() == []
    assert await tab.overflow() <= 0


@pytest.mark.rule(6, 262)
async def test_a_passkey_confirms_at_the_card(
    browser: Browser, db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """Of three cards the one that is pressed, twice, is confirmed and approved, once."""
    ids = await draft_three(db, ada)
    link = await db.run(ada.owner, links.make_link, None)
    async with (
        running_server(db, cluster.app_url) as server,
        browser.tab(server.node.config.public_url, width=360) as tab,
    ):
        await tab.add_authenticator()
        await tab.go(f"/setup?link={link.text}")
        await tab.press("Go on with a passkey")
        await tab.reaches("/attention")
        db.clock_offset += LATER
        await tab.go("/attention?tab=drafts")
        await check(tab)
        name = "Approve and send with a passkey"
        card = f"#draft-{ids[1]}"
        await tab.do(lambda page: page.locator(card).get_by_role("button", name=name).dblclick())
        await tab.sees("is approved", within=".banner")
        await tab.do(lambda page: page.go_back())
        assert await approved(db, ada) == [f"draft:{ids[1]}"]
        # Fresh by now: the others need one press.
        assert "Password of" not in await tab.text("#drafts")
        await tab.press("Approve and send", within=f"#draft-{ids[0]}")
        await tab.sees("is approved", within=".banner")
        assert len(await approved(db, ada)) == 2
        # A page that was fresh when it was shown, and is not any more.
        await tab.go(f"/drafts/{ids[2]}")
        db.clock_offset += LATER
        await tab.press("Approve and send")
        await tab.sees("This needs a fresh sign-in")
        await tab.press(name)
        await tab.sees("is approved", within=".banner")
        assert len(await approved(db, ada)) == 3


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_password_confirms_at_the_card(
    browser: Browser, db: SpiedDatabase, cluster: Cluster, ada: Person, *, scripts: bool
) -> None:
    """A wrong password is told at its field, which has the focus; the right one approves."""
    ids = await draft_three(db, ada)
    opened = await open_for(db, ada)
    db.clock_offset += LATER
    async with running_server(db, cluster.app_url) as server:
        url = server.node.config.public_url
        async with browser.tab(url, session=opened.cookie, scripts=scripts) as tab:
            await tab.go("/attention?tab=drafts")
            field = f"#draft-{ids[1]}-confirm"
            await tab.do(lambda page: page.locator(field).fill("wrong horse"))
            await tab.press("Approve and send", within=f"#draft-{ids[1]}")
            await tab.sees("That is not your password", within=f"#draft-{ids[1]}")
            assert await tab.do(lambda page: page.locator(f"{field}:focus").count()) == 1
            assert await approved(db, ada) == []
            await tab.do(lambda page: page.locator(field).fill(PASSWORD))
            await tab.do(lambda page: page.locator(field).press("Enter"))
            await tab.sees("is approved", within=".banner")
            assert await approved(db, ada) == [f"draft:{ids[1]}"]


async def test_a_new_passkey_is_confirmed_in_its_form(
    browser: Browser, db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """A wrong password is told in the form before the device is asked; the right one goes on."""
    opened = await open_for(db, ada)
    db.clock_offset += LATER
    async with running_server(db, cluster.app_url) as server:
        url = server.node.config.public_url
        async with browser.tab(url, session=opened.cookie) as tab:
            await tab.add_authenticator()
            await tab.go("/settings")
            await check(tab)
            await tab.fill("Name of a new passkey", "laptop")
            for password, then in (("wrong horse", "That is not your password"), (PASSWORD, "")):
                await tab.do(lambda page, it=password: page.locator("#passkey-confirm").fill(it))  # type: ignore[misc]
                await tab.press("Add a passkey")
                await tab.sees(then or "Remove", within="#passkeys")
            assert "laptop" in await tab.text("#passkeys")
