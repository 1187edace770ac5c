"""`/live` across a real socket."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from muster.accounts.operations import disable_user
from muster.accounts.operations.sessions import sign_out_everywhere
from muster.accounts.rules import Disable
from muster.pg.driver import Connection
from muster.principals import Owner
from tests.support.cluster import OwnDatabase, SpiedDatabase
from tests.support.server import Server, running_server
from tests.support.visitor import page_client, sign_in
from web import live


class Stream:
    """An open stream, read as far as a test wants."""

    def __init__(self, peer: trio.SocketStream) -> None:
        self._peer = peer
        self._text = ""

    async def until(self, wanted: str) -> str:
        """What was sent up to `wanted` and since the last call; all that is left, at the end."""
        with trio.fail_after(10):
            while wanted not in self._text:
                more = await self._peer.receive_some()
                if not more:
                    break
                self._text += more.decode()
        told, found, self._text = self._text.partition(wanted)
        return told + found


@asynccontextmanager
async def listening(
    server: Server, cookie: str, *, last_id: str = "", path: str = "/live"
) -> AsyncIterator[Stream]:
    """Ask for the stream as a browser does."""
    peer = await trio.open_tcp_stream("127.0.0.1", server.port)
    async with peer:
        last = f"Last-Event-ID: {last_id}\r\n" if last_id else ""
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: muster_session={cookie}\r\n"
        await peer.send_all(f"{head}{last}\r\n".encode())
        stream = Stream(peer)
        await stream.until("retry: ")
        yield stream


async def test_a_guest_gets_no_stream(db: SpiedDatabase, cluster: OwnDatabase) -> None:
    """Without a session there is nothing to hear."""
    async with running_server(db, cluster.app_url) as server, page_client(server) as client:
        assert (await client.get("/live")).status_code == 401
        assert (await client.post("/live")).status_code == 405


async def test_a_change_is_told_with_an_id_and_replayed(
    db: SpiedDatabase, cluster: OwnDatabase, owner: Owner
) -> None:
    """A change reaches an open page with an id, and a page that reconnects gets what followed."""
    async with running_server(db, cluster.app_url) as server:
        cookie = (await sign_in(server, owner)).session.cookie
        async with listening(server, cookie) as stream:
            server.node.live.tell(owner.owner_id, "draft", {"id": 17})
            told = await stream.until('"id":17')
        assert "event: draft" in told
        _, _, told_id = told.partition("id: ")
        server.node.live.tell(owner.owner_id, "ask", {"id": 18})
        async with listening(server, cookie, last_id=told_id.split("\n")[0]) as stream:
            replayed = await stream.until('"id":18')
        assert "event: ask" in replayed
        assert '"id":17' not in replayed
        async with listening(server, cookie, last_id="another-1") as stream:
            assert "event: resync" in await stream.until("event: resync")


async def test_a_disabled_account_ends_its_streams(
    db: SpiedDatabase, cluster: OwnDatabase, owner: Owner
) -> None:
    """A stream ends when its owner is disabled, and does not come back."""
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, owner)
        async with visiting.client as client:
            async with listening(server, visiting.session.cookie) as stream:
                await server.node.db.run(owner, disable_user, Disable())
                assert (await stream.until("\r\n0\r\n\r\n")).endswith("\r\n0\r\n\r\n")
            assert (await client.get("/live")).status_code == 401


async def test_a_stopping_server_ends_its_streams(
    db: SpiedDatabase, cluster: OwnDatabase, owner: Owner
) -> None:
    """A drain ends what is open at once and opens nothing new."""
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, owner)
        async with visiting.client as client:
            async with listening(server, visiting.session.cookie) as stream:
                await server.node.drain()
                assert (await stream.until("\r\n0\r\n\r\n")).endswith("\r\n0\r\n\r\n")
            assert (await client.get("/live")).status_code == 503


async def test_nothing_is_lost_before_a_page_listens(
    db: SpiedDatabase, cluster: OwnDatabase, owner: Owner
) -> None:
    """What happens between the making of a page and its stream is told as the stream begins."""
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, owner)
        async with visiting.client:
            page = (await visiting.get("/attention")).text
        (made,) = re.findall(r'data-live-id="([^"]+)"', page)
        server.node.live.tell(owner.owner_id, "draft", {"id": 17})
        cookie = visiting.session.cookie
        async with listening(server, cookie, path=f"/live?after={made}") as stream:
            # The sign-in may be told once more meanwhile, by way of the database.
            assert "event: draft" in await stream.until('{"id":17}')
        newest = server.node.live.newest_id
        async with listening(server, cookie, path=f"/live?after={made}", last_id=newest) as stream:
            server.node.live.tell(owner.owner_id, "draft", {"id": 18})
            told = await stream.until('{"id":18}')
            assert '{"id":17}' not in told


async def _take_nothing(*, fresh: bool = False) -> Connection:
    """Fail as the driver does when there is no server."""
    assert fresh in (True, False)
    return await Connection.open("host=/nowhere/inside password=hidden")


async def test_a_stream_outlives_the_database(
    db: SpiedDatabase, cluster: OwnDatabase, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the database is away an open stream stays, a new one is 503; neither is a crash.

    Once it is back the session is looked up again: one that ended without a hint ends the stream.
    """
    monkeypatch.setattr(live, "HEARTBEAT_SECONDS", 0.05)
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, owner)
        async with visiting.client, listening(server, visiting.session.cookie) as stream:
            with monkeypatch.context() as patched:
                patched.setattr(server.node.db.pool, "take", _take_nothing)
                for _ in range(2 * live.HEARTBEATS_PER_LOOK):
                    assert ": still here" in await stream.until(": still here")
                assert (await visiting.get("/live")).status_code == 503
            async with db.transaction(owner) as tx:
                await sign_out_everywhere(tx, None)
            assert (await stream.until("\r\n0\r\n\r\n")).endswith("\r\n0\r\n\r\n")
