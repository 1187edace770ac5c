"""Somebody at the pages: a signed-in browser without the browser."""

import attrs
import httpx2

from muster.accounts.operations.sessions import Opened, OpenSession, open_session
from muster.principals import Owner
from tests.support.server import Server


@attrs.frozen(kw_only=True)
class Visiting:
    """A client with a session's cookie; it sends what a browser sends with a form of ours."""

    client: httpx2.AsyncClient
    session: Opened
    owner: Owner

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        """Ask for a page; redirects are not followed."""
        return await self.client.get(path, headers=headers)

    async def post(self, path: str, **fields: str) -> httpx2.Response:
        """Send a form from a page of the same origin; redirects are not followed."""
        return await self.client.post(path, data=fields)


def page_client(server: Server, *, cookie: str | None = None) -> httpx2.AsyncClient:
    """A client of the pages, by their public name."""
    public = server.node.config.public_url
    headers = {
        "Accept": "text/html",
        "Host": public.removeprefix("http://"),
        "Origin": public,
        "Sec-Fetch-Site": "same-origin",
    }
    if cookie is not None:
        headers["Cookie"] = f"muster_session={cookie}"
    return httpx2.AsyncClient(
        base_url=server.url, headers=headers, timeout=40, trust_env=False, verify=False
    )


async def sign_in(server: Server, owner: Owner) -> Visiting:
    """Open a session of the owner's; close `client` when it is done."""
    command = OpenSession(method="password", user_agent="tests", address="127.0.0.1")
    async with server.node.db.transaction(attrs.evolve(owner, via="browser")) as tx:
        session = await open_session(tx, command)
    return Visiting(client=page_client(server, cookie=session.cookie), session=session, owner=owner)
