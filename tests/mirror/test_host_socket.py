"""Hosts at their socket: hello, lists, acknowledgements, epochs, and pastes out of the queue."""

from collections.abc import AsyncIterator

import attrs
import pytest

from muster.mirror.operations.hosts import list_hosts, retire_host
from muster.mirror.operations.sends import enqueue
from muster.mirror.rules import ListHosts, RetireHost
from muster.mirror.send_rules import Enqueue
from muster.pg.query import Query
from muster.principals import Owner
from tests.support.builders import read_audit
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.mirror_host import ScriptedHost, find_mirrored, new_host, new_session
from tests.support.server import Server, running_server
from tests.support.waiting import until

SENDS = Query("""
    select state, why from sends where owner_id = %(owner_id)s order by id
""")
PANES = Query("""
    select p.tmux_pane, p.state, m.claude_session
    from panes p left join mirrored m on m.id = p.mirrored_id
    where p.owner_id = %(owner_id)s order by p.tmux_pane
""")


@attrs.frozen(kw_only=True)
class SendSeen:
    """A row of the queue."""

    state: str
    why: str | None


@attrs.frozen(kw_only=True)
class PaneSeen:
    """A pane as it is stored."""

    tmux_pane: str
    state: str
    claude_session: str | None


@pytest.fixture
async def server(cluster: Cluster, db: SpiedDatabase) -> AsyncIterator[Server]:
    """A server whose sessions are pasted into once they were idle for a second."""
    async with running_server(db, cluster.app_url, MUSTER_SEND_QUEUE_IDLE="1s") as running:
        yield running


async def sends(db: SpiedDatabase, owner: Owner) -> list[SendSeen]:
    """The owner's queue as it is."""
    async with db.transaction(owner) as tx:
        return await tx.all(SENDS, SendSeen)


async def test_a_host_is_online_while_its_socket_is(
    db: SpiedDatabase, owner: Owner, server: Server
) -> None:
    """What a host lists is written down and acknowledged, and it is offline once it is gone."""
    _, token = await new_host(db, owner)
    one, two = new_session(), new_session()
    async with ScriptedHost(server.url, token) as host:
        await host.hello()
        await host.show(one, two, state="working")
        await host.show(two)
        async with db.transaction(owner) as tx:
            panes = await tx.all(PANES, PaneSeen)
        assert panes == [PaneSeen(tmux_pane="%1", state="idle", claude_session=two)]
        (listed,) = await db.run(owner, list_hosts, ListHosts())
        assert (listed.machine, listed.interactive, listed.epoch) == ("box.test", True, 1)

    async def is_gone() -> bool:
        return (await db.run(owner, list_hosts, ListHosts()))[0].node is None

    await until(is_gone)


async def test_a_newer_socket_takes_the_place_of_an_older_one(
    db: SpiedDatabase, owner: Owner, server: Server
) -> None:
    """The older is closed 4409, and a retired host's socket 4401."""
    _, token = await new_host(db, owner)
    async with ScriptedHost(server.url, token) as older:
        await older.hello()
        async with ScriptedHost(server.url, token) as newer:
            await newer.hello()
            assert await older.close_code() == 4409
            await server.node.db.run(owner, retire_host, RetireHost(name="box"))
            assert await newer.close_code() == 4401
    async with ScriptedHost(server.url, token) as late:
        assert await late.close_code() == 4401


async def test_the_first_frame_is_hello(db: SpiedDatabase, owner: Owner, server: Server) -> None:
    """Another first frame, and a malformed one later, close the socket 4400."""
    _, token = await new_host(db, owner)
    async with ScriptedHost(server.url, token) as host:
        await host.say("windows", now="2026-01-01T00:00:00Z", windows=[])
        assert await host.close_code() == 4400
    async with ScriptedHost(server.url, token) as host:
        await host.hello()
        await host.say("windows", now="2026-01-01T00:00:00Z", windows="none")
        assert await host.close_code() == 4400


@pytest.mark.rule(313)
async def test_a_queued_text_is_pasted_once_the_session_is_idle(
    db: SpiedDatabase, owner: Owner, server: Server
) -> None:
    """It waits while the session works, goes to its pane when it has been idle, and is proven."""
    _, token = await new_host(db, owner)
    session = new_session()
    async with ScriptedHost(server.url, token) as host:
        await host.hello()
        await host.show(session, state="working")
        mirrored = await find_mirrored(db, owner, session)
        await server.node.db.run(owner, enqueue, Enqueue(mirrored_id=mirrored, text="go on"))
        await host.show(session, state="waiting")
        await host.show(session, idle_seconds=0.0)
        paste = await host.hear("paste")
        assert (paste["pane"], paste["claude_session"]) == ("%1", session)
        assert paste["text"] == "go on"
        seq = await host.say("paste.done", send_id=paste["send_id"], outcome="pasted", detail="")
        await host.until_acknowledged(seq)
    assert await sends(db, owner) == [SendSeen(state="pasted", why=None)]
    assert [row.action for row in await read_audit(db, owner, "send.")] == ["send.pasted"]


async def test_a_paste_that_never_began_is_offered_again(
    db: SpiedDatabase, owner: Owner, server: Server
) -> None:
    """A host that turned a text away gets it once more; one that was cut off does not."""
    _, token = await new_host(db, owner)
    session = new_session()
    async with ScriptedHost(server.url, token) as host:
        await host.hello()
        await host.show(session)
        mirrored = await find_mirrored(db, owner, session)
        await server.node.db.run(owner, enqueue, Enqueue(mirrored_id=mirrored, text="one"))
        await server.node.db.run(owner, enqueue, Enqueue(mirrored_id=mirrored, text="two"))
        first = await host.hear("paste")
        await host.say("paste.done", send_id=first["send_id"], outcome="not_begun", detail="busy")
        again = await host.hear("paste")
        assert again["send_id"] == first["send_id"]

    async def is_unconfirmed() -> bool:
        return (await sends(db, owner))[0].state == "unconfirmed"

    await until(is_unconfirmed)
    assert (await sends(db, owner))[1].state == "queued"
    async with ScriptedHost(server.url, token) as host:
        await host.hello()
        await host.show(session)
        seq = await host.say("paste.done", send_id=first["send_id"], outcome="pasted", detail="")
        await host.until_acknowledged(seq)
        assert (await host.hear("paste"))["text"] == "two"
    assert (await sends(db, owner))[0].state == "pasted"
