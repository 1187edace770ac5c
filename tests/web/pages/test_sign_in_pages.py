"""Signing in at the pages: what a browser gets, and what it is told when it gets nothing."""

from datetime import timedelta

import httpx2
import pytest

from muster.accounts.operations.sessions import list_sessions
from muster.accounts.rules.attempts import ACCOUNT_FAILURES_MAX
from muster.principals import Owner
from tests.support.builders import disable
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.person import PASSWORD, Person, add_person
from tests.support.server import Server, running_server
from tests.support.visitor import page_client, sign_in


async def send(
    server: Server, name: str, password: str, *, wanted: str = "/", cookie: str | None = None
) -> httpx2.Response:
    """Send the sign-in form."""
    async with page_client(server, cookie=cookie) as client:
        fields = {"name": name, "password": password, "next": wanted}
        return await client.post("/sign-in", data=fields)


@pytest.fixture
async def ada(db: SpiedDatabase) -> Person:
    """Somebody with a password."""
    return await add_person(db)


async def test_a_password_opens_a_session(db: SpiedDatabase, cluster: Cluster, ada: Person) -> None:
    """The right password leads on with a cookie that scripts and other sites cannot use."""
    async with running_server(db, cluster.app_url) as server:
        answer = await send(server, ada.name, PASSWORD, wanted="/settings?x=1")
        assert (answer.status_code, answer.headers["location"]) == (303, "/settings?x=1")
        told = answer.headers.get_list("set-cookie")
        (session,) = [one for one in told if one.startswith("muster_session=")]
        assert {"HttpOnly", "Path=/", "SameSite=Lax"} <= set(session.split("; "))
        assert "Secure" not in session
        cookie = session.partition("=")[2].partition(";")[0]
        async with page_client(server, cookie=cookie) as client:
            assert (await client.get("/settings")).status_code == 200


async def test_over_https_the_cookie_is_the_hosts_own(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """With an https public URL the cookie is Secure, and no other host can have set it."""
    url = "https://muster.example.test"
    async with running_server(db, cluster.app_url, MUSTER_PUBLIC_URL=url) as server:
        headers = {"Host": "muster.example.test", "Origin": url}
        async with page_client(server) as client:
            fields = {"name": ada.name, "password": PASSWORD}
            answer = await client.post("/sign-in", data=fields, headers=headers)
            told = answer.headers.get_list("set-cookie")
            (session,) = [one for one in told if one.startswith("__Host-muster_session=")]
            assert {"Secure", "HttpOnly", "Path=/"} <= set(session.split("; "))
            assert "Domain" not in session
            cookie = session.partition(";")[0]
            shown = await client.get("/settings", headers=headers | {"Cookie": cookie})
            assert shown.status_code == 200
            plain = cookie.removeprefix("__Host-")
            led = await client.get("/settings", headers=headers | {"Cookie": plain})
            assert led.status_code == 303


async def test_nothing_tells_who_has_an_account(
    db: SpiedDatabase, cluster: Cluster, ada: Person, owner: Owner
) -> None:
    """A wrong password, an unknown name, a disabled and a passwordless account look the same."""
    gone = await add_person(db)
    await disable(db, gone.owner)
    async with running_server(db, cluster.app_url) as server:
        tried = [
            (ada.name, "wrong-password"),
            ("nobody-at-all", "wrong-password"),
            (gone.name, PASSWORD),
            (f"user-{owner.owner_id}", "no login"),
            ("", "x"),
            ("a\1b", "x" * 2000),
        ]
        answers = [await send(server, name, password) for name, password in tried]
        assert {answer.status_code for answer in answers} == {401}
        assert not any("set-cookie" in answer.headers for answer in answers)
        pages = {
            answer.text.replace(f'value="{name}"', "")
            for answer, (name, _) in zip(answers[:4], tried[:4], strict=True)
        }
        assert len(pages) == 1
        assert "open no account here" in pages.pop()


async def test_a_guest_is_not_told_how_much_goes_on(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """The id of the newest event counts them all, so it stands only on a page of somebody's."""
    async with running_server(db, cluster.app_url) as server:
        assert "data-live-id" not in (await send(server, ada.name, "wrong-password")).text
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            assert 'data-live-id="' in (await visiting.client.get("/settings")).text


async def test_attempts_end(db: SpiedDatabase, cluster: Cluster, ada: Person) -> None:
    """After too many failures even the right password waits, for as long as it is told."""
    async with running_server(db, cluster.app_url) as server:
        for _ in range(ACCOUNT_FAILURES_MAX):
            assert (await send(server, ada.name, "wrong-password")).status_code == 401
        answer = await send(server, ada.name, PASSWORD)
        assert answer.status_code == 429
        wait = int(answer.headers["retry-after"])
        assert 800 < wait <= 900
        db.clock_offset += timedelta(seconds=wait - 30)
        assert (await send(server, ada.name, PASSWORD)).status_code == 429
        db.clock_offset += timedelta(seconds=31)
        assert (await send(server, ada.name, PASSWORD)).status_code == 303


@pytest.mark.parametrize(
    "wanted", ["//elsewhere.test", "https://elsewhere.test", "/\\elsewhere.test", "x", "/a\tb", ""]
)
async def test_it_leads_nowhere_else(
    db: SpiedDatabase, cluster: Cluster, ada: Person, wanted: str
) -> None:
    """What is no path of ours leads to the first page."""
    async with running_server(db, cluster.app_url) as server:
        answer = await send(server, ada.name, PASSWORD, wanted=wanted)
        assert answer.headers["location"] == "/"


async def test_a_second_sign_in_ends_the_first(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """A browser that signs in again gets another session, and its old cookie opens nothing."""
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            answer = await send(server, ada.name, PASSWORD, cookie=visiting.session.cookie)
            assert answer.status_code == 303
            assert (await visiting.get("/settings")).status_code == 303
        async with db.transaction(ada.owner) as tx:
            (session,) = await list_sessions(tx)
        assert session.id != visiting.session.session_id


async def test_sign_out(db: SpiedDatabase, cluster: Cluster, ada: Person) -> None:
    """Signing out ends the session on the server, not only in the browser."""
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            assert (await visiting.get("/sign-out")).status_code == 405
            answer = await visiting.post("/sign-out")
            assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
            assert "Max-Age=0" in answer.headers["set-cookie"]
            assert (await visiting.get("/settings")).status_code == 303


async def test_another_sites_form_signs_nobody_in(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """A sign-in form that another site sent is refused before anything is compared."""
    async with running_server(db, cluster.app_url) as server, page_client(server) as client:
        fields = {"name": ada.name, "password": PASSWORD}
        headers = {"Sec-Fetch-Site": "cross-site"}
        answer = await client.post("/sign-in", data=fields, headers=headers)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
