"""How pages are reached: by whom, from where, under which name."""

import pytest

from muster.principals import Owner
from tests.support.cluster import OwnDatabase, SpiedDatabase
from tests.support.server import running_server
from tests.support.visitor import page_client, sign_in


async def test_a_guest_is_led_to_sign_in(db: SpiedDatabase, cluster: OwnDatabase) -> None:
    """Without a session a page leads to sign-in and says where to come back to."""
    async with running_server(db, cluster.app_url) as server, page_client(server) as client:
        answer = await client.get("/")
        assert answer.status_code == 303
        assert answer.headers["location"] == "/sign-in?next=/"


async def test_a_session_opens_the_pages(
    db: SpiedDatabase, cluster: OwnDatabase, owner: Owner
) -> None:
    """A live session's cookie opens a page, and every answer carries the strict policy."""
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, owner)
        async with visiting.client:
            answer = await visiting.get("/")
            assert (answer.status_code, answer.headers["location"]) == (303, "/attention")
            assert "script-src 'self'" in answer.headers["content-security-policy"]
            assert "unsafe" not in answer.headers["content-security-policy"]


async def test_another_name_is_led_to_the_public_one(
    db: SpiedDatabase, cluster: OwnDatabase
) -> None:
    """A page asked for by an address is redirected to the public URL, with its query."""
    async with running_server(db, cluster.app_url) as server, server.client() as client:
        answer = await client.get("/?tab=drafts")
        assert answer.status_code == 307
        assert answer.headers["location"] == f"{server.node.config.public_url}/?tab=drafts"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://elsewhere.test"},
        {"Origin": "null"},
    ],
)
async def test_unknown_paths_and_methods_are_refused_as_pages(
    db: SpiedDatabase, cluster: OwnDatabase, headers: dict[str, str]
) -> None:
    """A person is told 404 and 405 by a page, whatever else their browser says of itself."""
    async with running_server(db, cluster.app_url) as server, page_client(server) as client:
        missing = await client.get("/nowhere", headers=headers)
        assert missing.status_code == 404
        assert missing.headers["content-type"].startswith("text/html")
        wrong = await client.post("/", headers=headers)
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD")
