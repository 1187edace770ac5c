"""Every route there is, with every kind of credential there is, all of them alive.

The doors of programs say themselves what they take (`About.takes`); what says nothing is open to
everybody, or is a page, which takes a browser's session and nothing else.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import httpx2
import pytest
import trio
from trio_websocket import ConnectionClosed, open_websocket_url

from muster.credentials.operations.personal import add_personal
from muster.credentials.rules import AddPersonal
from muster.ids import CredentialKind
from muster.principals import Owner
from tests.support.builders import new_agent, new_plugin
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.desk import error_of
from tests.support.mirror_host import new_host
from tests.support.page_list import list_pages
from tests.support.server import Server, call_mcp, running_server
from tests.support.visitor import Visiting, page_client, sign_in
from web.about import Taken
from web.app import routes_of

HOOK = "a-secret-of-this-machine-" + "h" * 20
SOCKET = "/agent/v1/socket"
MIRROR = "/mirror/v1/socket"
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
OTHERS = ("/mcp", "/mirror/mcp", "/live")  # doors beside the table
# Of kinds that are not built yet, by their prefixes.
UNBUILT = ("mskey_", "msac_", "msls_", "mscr_", "msat_", "msrt_", "msla_")


@attrs.frozen(kw_only=True)
class House:
    """A server and one live credential of each kind, of one owner."""

    server: Server
    client: httpx2.AsyncClient
    visiting: Visiting
    tokens: dict[str, str]

    @property
    def pages(self) -> list[tuple[str, str]]:
        """Each page's method and path, with 1 for what stands in it."""
        return list_pages(self.server)

    @property
    def programs(self) -> list[tuple[str, str, frozenset[str]]]:
        """Each other route, and the kinds that open it; none of them: it is open to all."""
        return [
            (
                route.method,
                route.path.replace("{id}", "1"),
                frozenset(taken.value for taken in route.about.takes) if route.about else _NOBODY,
            )
            for route in routes_of(self.server.node)
        ]

    async def ask(self, method: str, path: str, *tokens: str, session: bool) -> httpx2.Response:
        """Ask by the public name, as a page of ours would, with these tokens and the cookie."""
        headers = [("Authorization", f"Bearer {token}") for token in tokens]
        if session:
            headers.append(("Cookie", f"muster_session={self.visiting.session.cookie}"))
        # A body that no route takes: what a door lets in changes nothing.
        content = b"[]" if method in ("POST", "PUT", "PATCH") else None
        return await self.client.request(method, path, headers=headers, content=content)


_NOBODY: frozenset[str] = frozenset()
_PERSON_AND_HOOK = frozenset({Taken.PERSONAL.value, Taken.HOOK.value})
# Pages of somebody who is not signed in yet.
_FOR_GUESTS = frozenset(
    {"/sign-in", "/sign-in/options", "/sign-in/passkey", "/setup", "/setup/options"}
    | {"/docs", "/docs/api", "/docs/1"}
)


@asynccontextmanager
async def open_house(db: SpiedDatabase, cluster: Cluster, owner: Owner) -> AsyncIterator[House]:
    """Serve with everything on."""
    _, plugin = await new_plugin(db, owner)
    _, agent = await new_agent(db, owner)
    _, personal = await db.run(owner, add_personal, AddPersonal(name="mine"))
    _, host = await new_host(db, owner)
    settings = {"MUSTER_HOOK_TOKEN": HOOK, "MUSTER_HOOK_OWNER": f"user-{owner.owner_id}"}
    async with running_server(db, cluster.app_url, **settings) as server:
        visiting = await sign_in(server, owner)
        async with visiting.client, page_client(server) as client:
            tokens = {
                "plugin": plugin,
                "agent": agent,
                "personal": personal,
                "hook": HOOK,
                "host": host,
            }
            yield House(server=server, client=client, visiting=visiting, tokens=tokens)


@pytest.mark.rule(13, 14)
async def test_a_plugin_token_is_turned_away_everywhere_else(
    db: SpiedDatabase, cluster: Cluster, owner: Owner
) -> None:
    """Beside a live session, and beside any other live token, `mpl_` is 401 on the whole table."""
    async with open_house(db, cluster, owner) as house:
        plugin = house.tokens["plugin"]
        routes = [(method, path) for method, path, _ in house.programs] + house.pages
        routes += [(method, path) for path in OTHERS for method in ("GET", "POST")]
        tried = [route for route in routes if not route[1].startswith("/plugin/v1/")]
        some = {"/attention", "/api/tasks", "/healthz", "/mcp", "/mirror/mcp", "/live", "/sign-in"}
        assert some < {path for _, path in tried}
        for method, path in tried:
            answer = await house.ask(method, path, plugin, session=True)
            assert answer.status_code == 401, (method, path)
            assert error_of(answer)["code"] == "credential_not_allowed"
        for kind in ("agent", "personal", "hook", "host"):
            for tokens in ((plugin, house.tokens[kind]), (house.tokens[kind], plugin)):
                answer = await house.ask("GET", "/api/tasks", *tokens, session=True)
                assert error_of(answer)["code"] == "credential_not_allowed", kind
        async with house.server.client(plugin) as client:
            answer = await client.get(SOCKET, headers=UPGRADE)
        assert error_of(answer)["code"] == "credential_not_allowed"


@pytest.mark.rule(10, 13, 15)
async def test_each_door_of_programs_takes_its_own_kinds_alone(
    db: SpiedDatabase, cluster: Cluster, owner: Owner
) -> None:
    """Another kind, and none, is 401 there also beside a live session; its own kinds are let in."""
    async with open_house(db, cluster, owner) as house:
        own = ("/api/", "/plugin/v1/")
        doors = {takes for _, path, takes in house.programs if path.startswith(own)}
        assert doors == {frozenset({"plugin"}), frozenset({"personal"}), _PERSON_AND_HOOK}
        strangers = {prefix: prefix + "a" * 43 for prefix in UNBUILT}
        for method, path, takes in house.programs:
            for kind, token in {**house.tokens, **strangers}.items():
                answer = await house.ask(method, path, token, session=True)
                if takes and kind not in takes:
                    assert answer.status_code == 401, (method, path, kind)
                    error_of(answer)
                elif takes:
                    assert answer.status_code not in (401, 403), (method, path, kind)
                elif kind != "plugin":
                    assert answer.status_code < 400 or "/static/1" in path, (method, path, kind)
            nobody = await house.ask(method, path, session=True)
            assert (nobody.status_code == 401) is bool(takes), (method, path)


@pytest.mark.rule(15)
async def test_the_agents_doors_take_agents_alone(
    db: SpiedDatabase, cluster: Cluster, owner: Owner
) -> None:
    """/mcp and the gateway's socket refuse every other kind, and a session too."""
    async with open_house(db, cluster, owner) as house:
        agent = house.tokens["agent"]
        others = [house.tokens[kind] for kind in ("personal", "hook", "host")]
        for token in (*others, *(prefix + "a" * 43 for prefix in UNBUILT)):
            assert (await house.ask("POST", "/mcp", token, session=True)).status_code == 401
            assert await _open_socket(house, token) == "closed 4401"
        assert (await house.ask("POST", "/mcp", session=True)).status_code == 401
        assert await _open_socket(house, None) == "closed 4401"
        assert await _open_socket(house, agent) == "welcome"
        assert (await call_mcp(house.server, agent, "tools/list", {}))["tools"]


async def test_the_hosts_doors_take_hosts_alone(
    db: SpiedDatabase, cluster: Cluster, owner: Owner
) -> None:
    """/mirror/mcp and the mirror's socket refuse every other kind, and a session too."""
    async with open_house(db, cluster, owner) as house:
        others = [house.tokens[kind] for kind in ("agent", "personal", "hook")]
        for token in (*others, *(prefix + "a" * 43 for prefix in UNBUILT)):
            assert (await house.ask("POST", "/mirror/mcp", token, session=True)).status_code == 401
            assert await _open_socket(house, token, MIRROR) == "closed 4401"
        assert (await house.ask("POST", "/mirror/mcp", session=True)).status_code == 401
        assert await _open_socket(house, None, MIRROR) == "closed 4401"
        let_in = await house.ask("POST", "/mirror/mcp", house.tokens["host"], session=False)
        assert (let_in.status_code, error_of(let_in)["code"]) == (409, "no_session")


async def test_a_page_takes_a_session_alone(
    db: SpiedDatabase, cluster: Cluster, owner: Owner
) -> None:
    """A token changes nothing of what a guest is answered; with a session each page is there."""
    async with open_house(db, cluster, owner) as house:
        for method, path in house.pages:
            nobody = await house.ask(method, path, session=False)
            for kind in ("agent", "personal", "hook", "host"):
                answer = await house.ask(method, path, house.tokens[kind], session=False)
                told = (answer.status_code, answer.headers.get("location"))
                assert told == (nobody.status_code, nobody.headers.get("location")), (path, kind)
            if path in _FOR_GUESTS:
                continue
            assert nobody.status_code == 303, (method, path)
            assert nobody.headers["location"].startswith("/sign-in?next="), (method, path)
            if method == "GET":
                answer = await house.ask(method, path, session=True)
                assert "/sign-in" not in answer.headers.get("location", ""), path
                assert answer.status_code in (200, 303, 404), (path, answer.status_code)
        for kind in ("agent", "personal", "hook", "host"):
            answer = await house.ask("GET", "/live", house.tokens[kind], session=False)
            assert answer.status_code == 401, kind


def test_every_kind_that_there_is_is_tried() -> None:
    """A new kind of credential is tried on every door, or this fails."""
    tried = {CredentialKind.PLUGIN, CredentialKind.AGENT, CredentialKind.PERSONAL}
    tried |= {CredentialKind.MIRROR_HOST}
    assert {kind.value for kind in CredentialKind} - {kind.value for kind in tried} <= {*UNBUILT}


async def _open_socket(house: House, token: str | None, path: str = SOCKET) -> str:
    """What a socket says beside a live session: its first frame, or its close."""
    headers = [(b"Cookie", f"muster_session={house.visiting.session.cookie}".encode())]
    if token is not None:
        headers.append((b"Authorization", f"Bearer {token}".encode()))
    url = house.server.url.replace("http://", "ws://") + path
    async with open_websocket_url(url, extra_headers=headers) as socket:
        try:
            return str(json.loads(await socket.get_message())["type"])
        except ConnectionClosed:
            assert socket.closed is not None
            return f"closed {socket.closed.code}"
        finally:
            # After a close by the server the library leaves its end of the stream open.
            await trio.aclose_forcefully(socket._stream)
