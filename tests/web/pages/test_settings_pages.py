"""`/settings`, `/step-up` and `/setup` by forms alone, as a browser without scripts sends them."""

import re
from datetime import timedelta

import pytest

from muster.accounts.operations import links
from muster.accounts.operations.sessions import list_sessions
from muster.credentials.operations.personal import list_personal
from muster.credentials.rules import ListPersonal, Scope
from tests.support.builders import disable
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.person import PASSWORD, Person, add_person, open_for
from tests.support.server import running_server
from tests.support.visitor import page_client, sign_in

SECTIONS = ("passkeys", "password", "sessions", "tokens", "agents", "time-zone")


@pytest.fixture
async def ada(db: SpiedDatabase) -> Person:
    """Somebody with a password."""
    return await add_person(db)


async def test_all_sections_stand_on_one_page(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """Each section has a heading, and an empty one says what to do next."""
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            page = (await visiting.get("/settings")).text
    assert all(f'<section id="{name}"' in page for name in SECTIONS)
    assert "muster agent add helper --chief" in page
    assert "You have no passkey yet." in page
    assert "style=" not in page
    assert "onclick" not in page


async def test_a_token_is_shown_once(db: SpiedDatabase, cluster: Cluster, ada: Person) -> None:
    """A personal token is shown by the answer to its form alone, and revoked by another."""
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            made = await visiting.post("/settings/tokens", name="box", scope="read", expires="7d")
            assert made.status_code == 200
            (text,) = re.findall(r">(mst_[^<]+)<", made.text)
            assert made.headers["cache-control"] == "no-store"
            page = (await visiting.get("/settings")).text
            assert text not in page
            assert ">box<" in page
            async with db.transaction(ada.owner) as tx:
                (token,) = await list_personal(tx, ListPersonal())
            assert token.scope is Scope.READ
            assert token.expires_at == token.created_at + timedelta(days=7)
            again = await visiting.post("/settings/tokens", name="box", expires="never")
            assert again.status_code == 409
            for bad in ({"name": "A b"}, {"name": "ok", "expires": "soon"}):
                assert (await visiting.post("/settings/tokens", **bad)).status_code == 400
            assert (await visiting.post("/settings/tokens/box/revoke")).status_code == 303
            assert (await visiting.post("/settings/tokens/box/revoke")).status_code == 404


async def test_sessions_are_listed_and_ended(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """One session, all others, and all are ended by their forms."""
    others = [await open_for(db, ada) for _ in range(3)]
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            page = (await visiting.get("/settings")).text
            assert page.count("this one") == 1
            path = f"/settings/sessions/{others[0].session_id}/end"
            assert path in page
            assert (await visiting.post(path)).headers["location"] == "/settings#sessions"
            assert len(await _live(db, ada)) == 3
            await visiting.post("/settings/sessions/end-others")
            assert await _live(db, ada) == [visiting.session.session_id]
            assert (await visiting.post("/settings/sessions/x/end")).status_code == 404
            gone = await visiting.post("/settings/sign-out-everywhere")
            assert gone.headers["location"] == "/sign-in"
            assert await _live(db, ada) == []
            assert (await visiting.get("/settings")).status_code == 303


async def _live(db: SpiedDatabase, person: Person) -> list[int]:
    async with db.transaction(person.owner) as tx:
        return [one.id for one in await list_sessions(tx)]


async def test_times_follow_the_zone(db: SpiedDatabase, cluster: Cluster, ada: Person) -> None:
    """Times are shown in the zone that was chosen; what is no zone is refused."""
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            assert ' UTC"' in (await visiting.get("/settings")).text
            await visiting.post("/settings/time-zone", time_zone="Asia/Tokyo")
            page = (await visiting.get("/settings")).text
            assert ' JST"' in page
            assert ' UTC"' not in page
            bad = await visiting.post("/settings/time-zone", time_zone="Nowhere/Land")
            assert bad.status_code == 400


RISKY: tuple[tuple[str, dict[str, str]], ...] = (
    ("/settings/tokens", {"name": "late", "expires": "never"}),
    ("/settings/password", {"password": "a new password"}),
    ("/settings/passkeys/1/revoke", {}),
)


@pytest.mark.rule(262)
@pytest.mark.parametrize(("path", "fields"), RISKY, ids=[path for path, _ in RISKY])
async def test_ways_in_need_a_fresh_sign_in(
    db: SpiedDatabase, cluster: Cluster, ada: Person, path: str, fields: dict[str, str]
) -> None:
    """With an old sign-in a form comes back to be confirmed, and does nothing until it is."""
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            db.clock_offset += timedelta(hours=12)
            answer = await visiting.post(path, **fields)
            assert answer.status_code == 409
            assert 'name="confirm_password"' in answer.text
            assert f'action="{path}"' in answer.text
            wrong = await visiting.post(path, confirm_password="wrong-password", **fields)
            assert wrong.status_code == 401
            assert "That is not your password" in wrong.text
            async with db.transaction(ada.owner) as tx:
                assert await list_personal(tx, ListPersonal()) == []
            right = await visiting.post(path, confirm_password=PASSWORD, **fields)
            assert right.status_code in (200, 303, 404)
            assert "confirm_password" not in (await visiting.get("/settings")).text


@pytest.mark.rule(262)
async def test_the_window_is_a_setting(db: SpiedDatabase, cluster: Cluster, ada: Person) -> None:
    """MUSTER_STEPUP_WINDOW says how long a sign-in is fresh."""
    async with running_server(db, cluster.app_url, MUSTER_STEPUP_WINDOW="5m") as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            db.clock_offset += timedelta(minutes=4)
            first = await visiting.post("/settings/tokens", name="one", expires="never")
            assert first.status_code == 200
            db.clock_offset += timedelta(minutes=1)
            second = await visiting.post("/settings/tokens", name="two", expires="never")
            assert second.status_code == 409


async def test_the_way_back_is_ours(db: SpiedDatabase, cluster: Cluster, ada: Person) -> None:
    """The step-up leads back to a path of ours, whatever an address or a form says."""
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            page = await visiting.get("/step-up?next=//evil.test")
            assert 'name="next" value="/"' in page.text
            assert 'href="//evil.test' not in page.text
            wrong = await visiting.post("/step-up", password="wrong-password", next="/settings")
            assert wrong.status_code == 401
            assert "open no account here" in wrong.text
            assert 'name="next" value="/settings"' in wrong.text
            done = await visiting.post("/step-up", password=PASSWORD, next="https://evil.test")
            assert done.headers["location"] == "/"


async def test_a_session_in_use_is_renewed(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """After a minute a page writes that the session is in use and hands its cookie out anew."""
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            assert "set-cookie" not in (await visiting.get("/settings")).headers
            db.clock_offset += timedelta(seconds=61)
            renewed = (await visiting.get("/settings")).headers["set-cookie"]
            assert renewed.startswith(f"muster_session={visiting.session.cookie};")
            assert "set-cookie" not in (await visiting.get("/settings")).headers
            db.clock_offset += timedelta(seconds=61)
            out = (await visiting.post("/sign-out")).headers.get_list("set-cookie")
            assert [one.partition(";")[0] for one in out] == ["muster_session="]


async def test_setup_without_a_script(db: SpiedDatabase, cluster: Cluster, ada: Person) -> None:
    """A link's page takes a password by a form; mistakes are told there, and a used link's end."""
    link = (await db.run(ada.owner, links.make_link, None)).text
    async with running_server(db, cluster.app_url) as server, page_client(server) as client:
        gone = await client.get("/setup?link=nothing")
        assert (gone.status_code, "This link is over" in gone.text) == (404, True)
        assert (await client.get("/setup")).status_code == 404
        page = await client.get(f"/setup?link={link}")
        assert page.text.count("<option") > 100
        form = {"link": link, "for": ada.name, "password": "short", "time_zone": "UTC"}
        short = await client.post("/setup", data=form)
        assert short.status_code == 400
        assert "must be 8 to 1024 characters" in short.text
        assert f'value="{link}"' in short.text
        done = await client.post("/setup", data=form | {"password": "long enough"})
        assert (done.status_code, done.headers["location"]) == (303, "/")
        assert (await client.get(f"/setup?link={link}")).status_code == 404


async def test_a_disabled_visitor_is_led_out(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """The pages of a disabled account shut at once, and its link is over."""
    link = (await db.run(ada.owner, links.make_link, None)).text
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            await disable(db, ada.owner)
            assert (await visiting.get("/settings")).status_code == 303
            assert (await visiting.post("/settings/tokens", name="x")).status_code == 303
            assert (await visiting.get(f"/setup?link={link}")).status_code == 404
