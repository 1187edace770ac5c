"""What no browser sends: texts that could not be stored, and addresses that could not be said."""

import httpx2

from muster.principals import Owner
from tests.support.cluster import OwnDatabase, SpiedDatabase
from tests.support.page_list import list_pages
from tests.support.server import running_server
from tests.support.visitor import page_client, sign_in


async def test_no_form_carries_a_nul(db: SpiedDatabase, cluster: OwnDatabase, owner: Owner) -> None:
    """A field with a NUL is refused by every form there is, and reaches no statement."""
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, owner)
        async with visiting.client:
            for method, path in list_pages(server):
                if method == "POST":
                    answer = await visiting.post(path, name="a\0b", text="words")
                    assert answer.status_code == 400, path
                    assert "NUL" in answer.text, path


async def test_no_address_breaks_the_way_to_the_public_name(
    db: SpiedDatabase, cluster: OwnDatabase
) -> None:
    """Lines within a path are no lines of the answer that leads elsewhere; what was asked stays."""
    asked = "/drafts/%0D%0AX-Own:%20y%25%3F%23%C3%A9"
    async with running_server(db, cluster.app_url) as server:
        public = server.node.config.public_url
        async with server.client() as elsewhere, page_client(server) as client:
            for method, path, query in (
                ("GET", asked, "?tab=%0D%0A"),
                ("POST", f"{asked}/approve", ""),
                ("GET", "/docs/%0D%0A", ""),
            ):
                answer = await elsewhere.request(method, httpx2.URL(f"{server.url}{path}{query}"))
                assert answer.headers["location"] == f"{public}{path}{query}"
                assert "x-own" not in answer.headers
            led = await client.get(f"{asked}?a=%26")
            (wanted,) = httpx2.URL(led.headers["location"]).params.get_list("next")
            assert wanted == f"{asked}?a=%26"
