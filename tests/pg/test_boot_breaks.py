"""A start whose sessions break off: it goes on, or says that the database went away."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import attrs
import pytest
import trio

from muster.errors import Unavailable
from muster.outcomes import Hint
from muster.pg.boot import open_store
from tests.support.cluster import SETTINGS, add_owner

LOGIN = b"user\0muster_app\0"
CHECK = b"select pg_has_role('muster_system'"
CHUNK_BYTES = 64 * 1024


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for a cluster of the test's own."""
    folder = Path(tempfile.mkdtemp(prefix="muster-breaks-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@attrs.define(kw_only=True)
class Breaker:
    """Stands before a server's socket, and hangs up when a client says `word`, `left` times."""

    target: str
    word: bytes
    left: int

    async def serve(self, client: trio.SocketStream) -> None:
        """One connection, passed on both ways until either end hangs up."""
        async with (
            client,
            await trio.open_unix_socket(self.target) as server,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(self._pass_on, client, server, nursery.cancel_scope)
            nursery.start_soon(self._pass_on, server, client, nursery.cancel_scope)

    async def _pass_on(
        self, source: trio.SocketStream, target: trio.SocketStream, scope: trio.CancelScope
    ) -> None:
        try:
            while chunk := await source.receive_some(CHUNK_BYTES):
                if self.word in chunk and self.left:
                    self.left -= 1
                    break
                await target.send_all(chunk)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()


@asynccontextmanager
async def breaking(url: str, folder: Path, word: bytes, *, times: int = 1) -> AsyncIterator[str]:
    """A URL of the same server by way of a Breaker."""
    (host,) = parse_qs(urlsplit(url).query)["host"]
    breaker = Breaker(target=f"{host}/.s.PGSQL.5432", word=word, left=times)
    listener = trio.socket.socket(trio.socket.AF_UNIX)
    await listener.bind(str(folder / ".s.PGSQL.5432"))
    listener.listen()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, breaker.serve, [trio.SocketListener(listener)])
        yield url.replace(quote(host, safe=""), quote(str(folder), safe=""))
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("times", [1, 2])
async def test_a_login_that_breaks_off_is_tried_again(folder: Path, times: int) -> None:
    """A session that ends while a second server starts is not taken for a wrong password."""
    data = folder / "data"
    published: list[Hint] = []
    async with open_store(
        database_url=None,
        database_app_url=None,
        data_dir=data,
        publish=published.extend,
        settings=SETTINGS,
    ) as (db, facts):
        await add_owner(db)  # it has a session now, which a new password would shut out
        assert facts.cluster is not None
        async with (
            breaking(facts.cluster.admin_url, folder, LOGIN, times=times) as url,
            open_store(
                database_url=url, database_app_url=None, data_dir=data, publish=published.extend
            ) as (second, _facts),
        ):
            await add_owner(second)


async def test_a_login_that_breaks_off_at_its_check_is_unavailable(folder: Path) -> None:
    """A start whose login is cut off at the look at its rights says what happened."""
    data = folder / "data"
    published: list[Hint] = []
    async with open_store(
        database_url=None,
        database_app_url=None,
        data_dir=data,
        publish=published.extend,
        settings=SETTINGS,
    ) as (_db, facts):
        assert facts.cluster is not None
        async with breaking(facts.cluster.admin_url, folder, CHECK) as url:
            with pytest.raises(Unavailable, match="went away while a login was tried"):
                async with open_store(
                    database_url=url,
                    database_app_url=None,
                    data_dir=data,
                    publish=published.extend,
                ):
                    pass
