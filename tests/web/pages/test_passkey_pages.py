"""Passkeys at the pages, over a real socket: setting up, signing in and confirming by one."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx2
import pytest

from muster.accounts.operations import links
from muster.accounts.operations.passkeys import list_passkeys
from tests.support.authenticator import RIGHT, Authenticator, Faults
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.person import PASSWORD, Person, add_person
from tests.support.server import Server, running_server
from tests.support.visitor import page_client


@pytest.fixture
async def ada(db: SpiedDatabase) -> Person:
    """Somebody with a password."""
    return await add_person(db)


@asynccontextmanager
async def browsing(db: SpiedDatabase, cluster: Cluster) -> AsyncIterator[tuple[Server, "Browsing"]]:
    """A server, and a browser that keeps its cookies."""
    async with running_server(db, cluster.app_url) as server, page_client(server) as client:
        public = server.node.config.public_url
        yield server, Browsing(client, Authenticator(origin=public))


class Browsing:
    """A browser with an authenticator: it does what the script of the pages does."""

    def __init__(self, client: httpx2.AsyncClient, key: Authenticator) -> None:
        self.client = client
        self.key = key
        self._jar: dict[str, str] = {}

    async def send(self, path: str, **fields: str) -> httpx2.Response:
        """Send a form with the cookies, and keep those that come."""
        cookies = "; ".join(f"{name}={value}" for name, value in self._jar.items())
        headers = {"Cookie": cookies, "Referer": f"{self.client.headers['origin']}/settings"}
        return self._keep(await self.client.post(path, data=fields, headers=headers))

    async def get(self, path: str) -> httpx2.Response:
        """Ask for a page with the cookies."""
        cookies = "; ".join(f"{name}={value}" for name, value in self._jar.items())
        return self._keep(await self.client.get(path, headers={"Cookie": cookies}))

    async def use(self, place: str, faults: Faults = RIGHT, /, **fields: str) -> httpx2.Response:
        """Ask at `place` for the question, and answer it there."""
        asked = await self.send(f"{place}/options", **fields)
        assert asked.status_code == 200, asked.text
        assert asked.headers["content-type"] == "application/json"
        answer = self.key.use(json.loads(asked.text), faults)
        return await self.send(f"{place}/passkey", passkey=answer, **fields)

    async def make(self, place: str, faults: Faults = RIGHT, /, **fields: str) -> httpx2.Response:
        """Ask at `place` for a new passkey, and hand it over there."""
        asked = await self.send(f"{place}/options", **fields)
        assert asked.status_code == 200, asked.text
        answer = self.key.make(json.loads(asked.text), faults)
        return await self.send(place, passkey=answer, **fields)

    def _keep(self, answer: httpx2.Response) -> httpx2.Response:
        self.client.cookies.clear()
        for told in answer.headers.get_list("set-cookie"):
            name, _, rest = told.partition("=")
            self._jar[name] = rest.partition(";")[0]
        return answer


async def link_for(db: SpiedDatabase, person: Person) -> str:
    """The path of a new link."""
    return (await db.run(person.owner, links.make_link, None)).text


async def test_from_a_link_to_a_confirmation(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """A passkey is made by a link, signs in without a name, and confirms an old sign-in."""
    link = await link_for(db, ada)
    async with browsing(db, cluster) as (_, browser):
        page = await browser.get(f"/setup?link={link}")
        assert f"Welcome back, {ada.name}" in page.text
        fields = {"link": link, "passkey_name": "laptop", "time_zone": "Asia/Tokyo"}
        made = await browser.make("/setup", **fields)
        assert (made.status_code, made.headers["location"]) == (303, "/")
        shown = await browser.get("/settings")
        assert "laptop" in shown.text
        assert "<option selected>Asia/Tokyo</option>" in shown.text
        assert (await browser.send("/sign-out")).status_code == 303
        assert (await browser.get("/settings")).status_code == 303
        entered = await browser.use("/sign-in", next="/settings")
        assert (entered.status_code, entered.headers["location"]) == (303, "/settings")
        db.clock_offset += timedelta(hours=12)
        assert "Confirm now" in (await browser.get("/settings")).text
        refused = await browser.use("/step-up", Faults(unverified=True), next="/settings")
        assert refused.status_code == 401
        assert "Confirm now" in (await browser.get("/settings")).text
        confirmed = await browser.use("/step-up", next="/settings")
        assert (confirmed.status_code, confirmed.headers["location"]) == (303, "/settings")
        assert "Confirm now" not in (await browser.get("/settings")).text


@pytest.mark.parametrize(
    "faults",
    [
        Faults(origin="http://evil.test"),
        Faults(host="evil.test"),
        Faults(unverified=True),
        Faults(other_key=True),
    ],
)
async def test_a_wrong_answer_shows_the_form_again(
    db: SpiedDatabase, cluster: Cluster, ada: Person, faults: Faults
) -> None:
    """A passkey's answer that is wrong opens nothing, and a person is told on the same page."""
    async with browsing(db, cluster) as (_, browser):
        await browser.make("/setup", link=await link_for(db, ada), passkey_name="k",
                           time_zone="UTC")  # fmt: skip
        await browser.send("/sign-out")
        answer = await browser.use("/sign-in", faults, next="/settings")
        assert answer.status_code == 401
        assert "This passkey opens no account here." in answer.text
        assert 'value="/settings"' in answer.text
        assert (await browser.get("/settings")).status_code == 303


async def test_an_answer_is_good_once(db: SpiedDatabase, cluster: Cluster, ada: Person) -> None:
    """An answer that is sent again, with the same cookie, opens nothing."""
    async with browsing(db, cluster) as (server, browser):
        await browser.make("/setup", link=await link_for(db, ada), passkey_name="k",
                           time_zone="UTC")  # fmt: skip
        asked = await browser.send("/sign-in/options")
        cookie = browser._jar["muster_ceremony"]
        answer = browser.key.use(json.loads(asked.text))
        assert (await browser.send("/sign-in/passkey", passkey=answer)).status_code == 303
        async with page_client(server) as other:
            headers = {"Cookie": f"muster_ceremony={cookie}"}
            again = await other.post("/sign-in/passkey", data={"passkey": answer}, headers=headers)
            assert again.status_code == 400
            assert "too old: try again" in again.text


async def test_another_passkey_needs_a_fresh_sign_in(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """When the sign-in is old, neither the question nor the answer for a new passkey is taken."""
    async with browsing(db, cluster) as (_, browser):
        await browser.send("/sign-in", name=ada.name, password=PASSWORD)
        asked = await browser.send("/settings/passkeys/options")
        answer = browser.key.make(json.loads(asked.text))
        db.clock_offset += timedelta(hours=12)
        refused = await browser.send("/settings/passkeys/options")
        assert refused.status_code == 409
        assert 'data-code="step_up_needed"' in refused.text
        late = await browser.send("/settings/passkeys", passkey=answer, name="late")
        assert late.status_code == 409
        assert 'value="late"' in late.text
        async with db.transaction(ada.owner) as tx:
            assert await list_passkeys(tx) == []


async def test_the_pages_have_what_a_script_needs(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """What needs a script is hidden until it runs, and the page works with the password alone."""
    async with browsing(db, cluster) as (_, browser):
        page = (await browser.get("/sign-in?next=/audit")).text
        assert "data-passkey-start hidden" in page
        assert "/static/passkeys.js" in page
        assert 'autocomplete="current-password"' in page
        script = await browser.get(page.split('src="')[-1].split('"')[0])
        assert script.status_code == 200
