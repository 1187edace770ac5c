"""Who may knock at /api/*: a person's own token, and on some routes the shared hook token."""

from datetime import timedelta

import pytest

from muster.credentials.operations import issue
from muster.credentials.operations.personal import add_personal, list_personal, revoke_personal
from muster.credentials.rules import AddPersonal, Issue, ListPersonal, RevokePersonal, Scope
from muster.errors import Forbidden, Refused, Unauthorized
from muster.ids import CredentialKind
from muster.node.sweeps import write_last_seen
from muster.principals import Owner
from tests.support.builders import disable, new_agent, new_plugin
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.person import Person, add_person
from tests.support.server import Server, running_server
from tests.support.visitor import sign_in
from web.auth import prove_api

HOOK = "hook-secret-" + "0123456789" * 3


def bearing(*tokens: str) -> list[tuple[bytes, bytes]]:
    """The headers of a request with these tokens."""
    return [(b"authorization", f"Bearer {token}".encode()) for token in tokens]


async def token_of(
    db: SpiedDatabase,
    person: Person,
    scope: Scope = Scope.WRITE,
    *,
    name: str = "laptop",
    expires_seconds: int | None = None,
) -> str:
    """A new personal token's text."""
    command = AddPersonal(name=name, scope=scope, expires_seconds=expires_seconds)
    _, text = await db.run(person.owner, add_personal, command)
    return text


async def knock(
    server: Server, *tokens: str, hook: bool = True, write: bool = True
) -> Owner | type[Exception]:
    """Who comes in; the class of the refusal else."""
    try:
        return await prove_api(server.node, bearing(*tokens), hook=hook, write=write)
    except (Unauthorized, Refused) as refusal:
        return type(refusal)


@pytest.fixture
async def ada(db: SpiedDatabase) -> Person:
    """Somebody."""
    return await add_person(db)


async def test_a_token_acts_as_its_owner(db: SpiedDatabase, cluster: Cluster, ada: Person) -> None:
    """A personal token is its owner, under its name; the scheme's spelling does not matter."""
    text = await token_of(db, ada)
    async with running_server(db, cluster.app_url) as server:
        expected = Owner(owner_id=ada.owner.owner_id, via="token laptop")
        assert await knock(server, text) == expected
        lower = [(b"Authorization", f"bearer  {text} ".encode())]
        assert await prove_api(server.node, lower, hook=False, write=True) == expected
        await write_last_seen(server.node.db, server.node.seen)
    (token,) = await db.run(ada.owner, list_personal, ListPersonal())
    assert token.last_seen_at is not None


async def test_a_token_that_reads_changes_nothing(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """A token of scope read is refused where something is written, with 403 and code scope."""
    text = await token_of(db, ada, Scope.READ)
    async with running_server(db, cluster.app_url) as server:
        assert isinstance(await knock(server, text, write=False), Owner)
        with pytest.raises(Forbidden) as caught:
            await prove_api(server.node, bearing(text), hook=False, write=True)
        assert caught.value.code == "scope"
        async with server.client(text) as client:
            assert (await client.get("/api/tasks")).status_code == 200
            refused = await client.post("/api/tasks", json={"title": "x"})
            assert (refused.status_code, refused.json()["code"]) == (403, "scope")


async def test_a_token_ends(db: SpiedDatabase, cluster: Cluster, ada: Person) -> None:
    """A token that expired, was revoked, or whose owner is disabled opens nothing, at once."""
    brief = await token_of(db, ada, name="brief", expires_seconds=60)
    long = await token_of(db, ada, name="long")
    kept = await token_of(db, ada, name="kept")
    async with running_server(db, cluster.app_url) as server:
        assert isinstance(await knock(server, brief), Owner)
        db.clock_offset += timedelta(seconds=61)
        assert await knock(server, brief) is Unauthorized
        await db.run(ada.owner, revoke_personal, RevokePersonal(name="long"))
        assert await knock(server, long) is Unauthorized
        assert isinstance(await knock(server, kept), Owner)
        await disable(db, ada.owner)
        assert await knock(server, kept) is Unauthorized
    assert [one.name for one in await db.run(ada.owner, list_personal, ListPersonal())] == [
        "kept",
        "brief",
    ]


async def test_no_other_kind_opens_the_api(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """Every other credential is 401, beside a live session's cookie too; so is the cookie alone."""
    _, plugin = await new_plugin(db, ada.owner)
    _, agent = await new_agent(db, ada.owner)
    odd = await db.run(ada.owner, issue, Issue(kind=CredentialKind.MIRROR_HOST, holder_id=1))
    own = await token_of(db, ada)
    tokens = [plugin, agent, odd.token.text, own + "x", own.removeprefix("mst_"), HOOK, "x"]
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            assert (await visiting.get("/settings")).status_code == 200
            assert (await visiting.get("/api/tasks")).status_code == 401
            for token in tokens:
                answer = await visiting.get("/api/tasks", Authorization=f"Bearer {token}")
                assert answer.status_code == 401, token
                assert answer.headers["content-type"] == "application/json"
            fine = await visiting.get("/api/tasks", Authorization=f"Bearer {own}")
            assert fine.status_code == 200
        assert await knock(server, own, own) is Unauthorized
        assert await knock(server) is Unauthorized


async def test_a_personal_token_opens_no_other_door(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """A personal token and the hook token are 401 at the doors of plugins and agents."""
    own = await token_of(db, ada)
    settings = {"MUSTER_HOOK_TOKEN": HOOK, "MUSTER_HOOK_OWNER": ada.name}
    async with running_server(db, cluster.app_url, **settings) as server:
        for token in (own, HOOK):
            async with server.client(token) as client:
                body = {"external_id": "1", "body": "b"}
                assert (await client.post("/plugin/v1/messages", json=body)).status_code == 401
                assert (await client.post("/mcp", json={})).status_code == 401
                assert (await client.get("/live")).status_code == 401


async def test_the_hook_token(db: SpiedDatabase, cluster: Cluster, ada: Person) -> None:
    """The shared token acts as its owner on the hook routes and is 401 on all others."""
    settings = {"MUSTER_HOOK_TOKEN": HOOK, "MUSTER_HOOK_OWNER": ada.name}
    async with running_server(db, cluster.app_url, **settings) as server:
        assert await knock(server, HOOK) == Owner(owner_id=ada.owner.owner_id, via="hook")
        assert await knock(server, HOOK, hook=False) is Unauthorized
        assert await knock(server, HOOK + "x") is Unauthorized
        assert await knock(server, HOOK[:-1]) is Unauthorized
        assert await knock(server, HOOK, HOOK) is Unauthorized
        assert isinstance(await knock(server, await token_of(db, ada)), Owner)
        await disable(db, ada.owner)
        assert await knock(server, HOOK) is Refused


async def test_a_hook_owner_that_is_nobody(db: SpiedDatabase, cluster: Cluster) -> None:
    """Whoever has the hook token is told that its owner does not exist; nobody else is."""
    settings = {"MUSTER_HOOK_TOKEN": HOOK, "MUSTER_HOOK_OWNER": "nobody-of-this-name"}
    async with running_server(db, cluster.app_url, **settings) as server:
        with pytest.raises(Refused) as caught:
            await prove_api(server.node, bearing(HOOK), hook=True, write=True)
        assert caught.value.code == "hook_owner_unknown"
        assert await knock(server, "x" * 40) is Unauthorized
