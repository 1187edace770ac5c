"""`POST /api/plugin-threads`: a session's hook binds the thread that its send started."""

from collections.abc import AsyncIterator, Sequence

import attrs
import pytest

from muster.credentials.operations.personal import add_personal
from muster.credentials.rules import AddPersonal, Scope
from muster.pg.query import Query
from muster.principals import Owner
from muster.routes.operations.threads import find_thread
from tests.support.builders import read_audit
from tests.support.cluster import Cluster, SpiedDatabase, add_owner
from tests.support.desk import error_of
from tests.support.mirror_host import ScriptedHost, new_host, new_session
from tests.support.server import Server, running_server

HOOK = "a-hook-token-of-32-characters-or-more"
PATH = "/api/plugin-threads"
COUNT = Query("select count(*) from plugin_threads where owner_id = %(owner_id)s")


@attrs.frozen(kw_only=True)
class Threads:
    """A server with routing on, and a host that shows `session` to it."""

    db: SpiedDatabase
    owner: Owner
    server: Server
    token: str
    host: ScriptedHost
    session: str

    async def bind(self, token: str | None = None, **fields: object) -> tuple[int, bytes]:
        """Report a thread of the session's, or of what `fields` say; the answer."""
        body = {"thread": "t-1", "claude_session": self.session} | fields
        async with self.server.client(token or self.token) as client:
            answer = await client.post(PATH, json=body)
        return answer.status_code, answer.content

    async def whose(self, thread: str = "t-1") -> str | None:
        """The session that a thread is bound to."""
        async with self.db.transaction(self.owner) as tx:
            bound = await find_thread(tx, thread)
        return None if bound is None else bound.claude_session


@pytest.fixture
async def threads(cluster: Cluster, db: SpiedDatabase, owner: Owner) -> AsyncIterator[Threads]:
    """The owner's server and host."""
    settings = {
        "MUSTER_SESSION_ROUTING": "1",
        "MUSTER_HOOK_TOKEN": HOOK,
        "MUSTER_HOOK_OWNER": f"user-{owner.owner_id}",
    }
    _, host_token = await new_host(db, owner)
    _, token = await db.run(owner, add_personal, AddPersonal(name="laptop", scope=Scope.WRITE))
    async with (
        running_server(db, cluster.app_url, **settings) as server,
        ScriptedHost(server.url, host_token) as host,
    ):
        session = new_session()
        await server.node.heartbeat.beat()  # hosts are online once their server is known to live
        await host.hello()
        await host.show(session)
        yield Threads(db=db, owner=owner, server=server, token=token, host=host, session=session)


@pytest.mark.rule(348)
async def test_the_first_report_binds_and_stays(threads: Threads) -> None:
    """201 and then 200, both without a body; a later session's report changes nothing."""
    other = new_session()
    await threads.host.show(threads.session, other)
    assert await threads.bind() == (201, b"")
    assert await threads.bind() == (200, b"")
    assert await threads.bind(claude_session=other, token=HOOK) == (200, b"")
    assert await threads.whose() == threads.session
    (bound,) = await read_audit(threads.db, threads.owner, "plugin_thread.")
    assert bound.data == {"thread": "t-1", "claude_session": threads.session}


@pytest.mark.rule(348)
async def test_a_session_that_no_online_window_shows_binds_nothing(threads: Threads) -> None:
    """409 for one that was never seen and for one whose window is gone; a bound thread is 200."""
    gone = threads.session
    assert (await threads.bind(thread="t-2"))[0] == 201
    await threads.host.show(new_session())
    for session in (new_session(), gone):
        async with threads.server.client(threads.token) as client:
            body = {"thread": "t-1", "claude_session": session}
            answer = await client.post(PATH, json=body)
        assert (answer.status_code, error_of(answer)["code"]) == (409, "session_offline")
    assert await threads.whose() is None
    assert (await threads.bind(thread="t-2"))[0] == 200


@pytest.mark.rule(348)
@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"thread": ""}, "thread"),
        ({"thread": "a b"}, "thread"),
        ({"thread": "x" * 201}, "thread"),
        ({"claude_session": "session-1"}, "claude_session"),
        ({"claude_session": None}, "claude_session"),
        ({"more": 1}, "more"),
    ],
)
async def test_a_report_that_breaks_a_rule_is_refused(
    threads: Threads, fields: dict[str, object], field: str
) -> None:
    """400 names the field, and nothing is bound."""
    async with threads.server.client(threads.token) as client:
        body = {"thread": "t-1", "claude_session": threads.session} | fields
        answer = await client.post(PATH, json=body)
    assert (answer.status_code, error_of(answer)["field"]) == (400, field)
    async with threads.db.transaction(threads.owner) as tx:
        assert await tx.scalar(COUNT) == 0


@pytest.mark.rule(348)
async def test_a_thread_is_its_owners(threads: Threads) -> None:
    """Another owner may bind a thread of the same name, to a session of theirs alone."""
    assert (await threads.bind())[0] == 201
    other = await add_owner(threads.db)
    _, token = await threads.db.run(other, add_personal, AddPersonal(name="a", scope=Scope.WRITE))
    assert (await threads.bind(token=token))[0] == 409
    async with threads.db.transaction(other) as tx:
        assert await find_thread(tx, "t-1") is None


@pytest.mark.rule(348)
@pytest.mark.parametrize(
    "settings", [(), (("MUSTER_SESSION_ROUTING", "1"), ("MUSTER_PLUGINS", "0"))]
)
async def test_while_routing_is_off_there_is_no_such_route(
    cluster: Cluster, db: SpiedDatabase, owner: Owner, settings: Sequence[tuple[str, str]]
) -> None:
    """404, whoever asks: routing needs its setting and plugins."""
    _, token = await db.run(owner, add_personal, AddPersonal(name="laptop", scope=Scope.WRITE))
    body = {"thread": "t-1", "claude_session": new_session()}
    async with (
        running_server(db, cluster.app_url, **dict(settings)) as server,
        server.client(token) as client,
    ):
        answer = await client.post(PATH, json=body)
    assert answer.status_code == 404
