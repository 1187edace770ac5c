"""From a configuration to a database: roles, passwords, migrations, and what is refused."""

import os
import shutil
import signal
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from muster.errors import Unavailable
from muster.pg import migrate as migrating
from muster.pg.boot import PASSWORD_FILE, AdminFacts, open_store
from muster.pg.database import Database
from muster.pg.driver import Connection, OperationalError, with_database, with_login
from muster.pg.faults import DatabaseFault
from muster.pg.migrate import Applied, Migration, load_migrations, migrate, pending
from muster.pg.query import Query
from muster.principals import Node, System
from tests.support.cluster import SETTINGS, Cluster, OwnDatabase, add_owner
from tests.support.other_postgres import OtherServer, list_versions, run_server
from tests.support.waiting import until

WHO = Query("select current_user::text")
VERSIONS = list_versions()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for a test's own server and data."""
    folder = Path(tempfile.mkdtemp(prefix="muster-boot-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=[15, 16])
def other(request: pytest.FixtureRequest, folder: Path) -> Iterator[OtherServer]:
    """A server of another version, which knows nothing of muster."""
    if request.param not in VERSIONS:
        pytest.skip(f"PostgreSQL {request.param} is not installed here")
    with run_server(VERSIONS[request.param], folder) as server:
        yield server


@asynccontextmanager
async def opened(
    data_dir: Path,
    url: str | None = None,
    app_url: str | None = None,
    settings: Sequence[tuple[str, str]] = SETTINGS,
) -> AsyncIterator[tuple[Database, AdminFacts]]:
    """Open a store whose hints nobody hears."""
    async with open_store(
        database_url=url,
        database_app_url=app_url,
        data_dir=data_dir,
        publish=lambda _hints: None,
        settings=settings,
    ) as store:
        yield store


async def work(db: Database) -> None:
    """Do what every muster does: act for an owner, as a node and as System."""
    await add_owner(db)
    async with db.transaction(Node()) as tx:
        assert await tx.scalar(WHO) == "muster_app"
        inherits = Query("select pg_has_role('muster_system', 'usage')")
        assert await tx.scalar(inherits) is False
    async with db.transaction(System()) as tx:
        assert await tx.scalar(WHO) == "muster_system"


async def is_unavailable(db: Database) -> bool:
    """Whether a transaction is refused for want of a server."""
    try:
        async with db.transaction(System()) as tx:
            await tx.scalar(WHO)
    except Unavailable:
        return True
    return False


async def run_script(url: str, *statements: str) -> None:
    """Run statements one after the other, each in a transaction of its own."""
    connection = await Connection.open(url)
    try:
        for statement in statements:
            await connection.script(statement)
    finally:
        connection.close()


async def test_embedded_twice(folder: Path) -> None:
    """Without a URL muster brings its own server; what was written is there the next time."""
    data_dir = folder / "data"
    async with opened(data_dir) as (db, facts):
        await work(db)
        assert facts.cluster is not None
        assert facts.schema_version == len(load_migrations())
        assert facts.server_version // 10000 == 18
    secret = data_dir / PASSWORD_FILE
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    # A folder that lost the password sets a new one.
    first = secret.read_text()
    secret.unlink()
    async with opened(data_dir) as (db, _), db.transaction(System()) as tx:
        assert await tx.scalar(Query("select count(*) from users")) == 1
    assert secret.read_text() != first


async def test_back_after_a_killed_postmaster(folder: Path) -> None:
    """The same database serves again once its postmaster is back, without a new pool."""
    async with opened(folder / "data") as (db, facts):
        cluster = facts.cluster
        assert cluster is not None
        await work(db)
        os.kill(cluster.postmaster or 0, signal.SIGKILL)
        await until(lambda: is_unavailable(db))
        await cluster.ensure_running()
        await work(db)


async def test_other_versions_as_superuser(other: OtherServer, folder: Path) -> None:
    """A superuser's URL to PostgreSQL 15 or newer is enough."""
    for _ in range(2):
        async with opened(folder / "data", other.admin_url) as (db, facts):
            assert facts.cluster is None
            await work(db)


async def test_other_versions_as_owner(other: OtherServer, folder: Path) -> None:
    """So is the URL of a role that owns the database and may make roles."""
    await run_script(
        other.admin_url,
        "create role keeper login createrole password 'keeper'",
        "create database house owner keeper",
    )
    url = with_database(with_login(other.admin_url, "keeper", "keeper"), "house")
    for _ in range(2):
        async with opened(folder / "data", url) as (db, _facts):
            await work(db)


async def test_a_running_muster_is_not_shut_out(other: OtherServer, folder: Path) -> None:
    """Another data folder sets no new password for muster_app while somebody is logged in by it."""
    async with opened(folder / "one", other.admin_url) as (db, _facts):
        await work(db)
        with pytest.raises(DatabaseFault, match="Another muster is running"):
            async with opened(folder / "two", other.admin_url):
                pass
        async with opened(folder / "one", other.admin_url) as (again, _):
            await work(again)
    await until(lambda: nobody_is_logged_in(other.admin_url))
    async with opened(folder / "two", other.admin_url) as (db, _facts):
        await work(db)


async def nobody_is_logged_in(url: str) -> bool:
    """Whether muster_app has no session on this server."""
    connection = await Connection.open(url)
    try:
        sessions = "select count(*) from pg_stat_activity where usename = 'muster_app'"
        return not await connection.scalar(sessions, {})
    finally:
        connection.close()


async def test_a_login_without_rights_is_told_what_is_missing(
    other: OtherServer, folder: Path
) -> None:
    """A MUSTER_DATABASE_URL that may not prepare the database is told which rights it needs."""
    await run_script(other.admin_url, "create role guest login password 'guest'")
    try:
        with pytest.raises(DatabaseFault, match=r"permission denied .*the right to create roles"):
            async with opened(folder / "data", with_login(other.admin_url, "guest", "guest")):
                pass
    finally:
        await run_script(other.admin_url, "drop role guest")


async def test_pool_as_superuser_is_refused(own_database: OwnDatabase, folder: Path) -> None:
    """MUSTER_DATABASE_APP_URL must not be a superuser's."""
    with pytest.raises(DatabaseFault, match="superuser"):
        async with opened(folder, own_database.admin_url, own_database.admin_url):
            pass


@pytest.mark.parametrize(
    ("options", "refused"), [("bypassrls", "BYPASSRLS"), ("", "muster_app, or as a role")]
)
async def test_pool_as_stranger_is_refused(
    own_database: OwnDatabase, folder: Path, options: str, refused: str
) -> None:
    """Nor a role that row-level security does not hold, nor one that is not let in."""
    await run_script(
        own_database.admin_url, f"create role stranger login password 'stranger' {options}"
    )
    app_url = with_login(own_database.app_url, "stranger", "stranger")
    try:
        with pytest.raises(DatabaseFault, match=refused):
            async with opened(folder, own_database.admin_url, app_url):
                pass
    finally:
        await run_script(own_database.admin_url, "drop role stranger")


async def test_pool_by_another_login(own_database: OwnDatabase, folder: Path) -> None:
    """A role that inherits muster_app will do."""
    await run_script(
        own_database.admin_url,
        "create role guest login password 'guest' in role muster_app",
    )
    app_url = with_login(own_database.app_url, "guest", "guest")
    try:
        async with opened(folder, own_database.admin_url, app_url) as (db, facts):
            assert facts.app_url == app_url
            await add_owner(db)
    finally:
        await run_script(own_database.admin_url, "drop role guest")


async def test_pool_without_its_database_is_refused(folder: Path) -> None:
    """MUSTER_DATABASE_APP_URL alone would leave nobody to migrate."""
    with pytest.raises(DatabaseFault, match="without MUSTER_DATABASE_URL"):
        async with opened(folder, None, "host=127.0.0.1 port=1"):
            pass


async def test_unreachable_database_is_unavailable(folder: Path) -> None:
    """A server that is not there is told as such, and can be tried again."""
    with pytest.raises(Unavailable, match="cannot be reached"):
        async with opened(folder, "postgresql://a:b@127.0.0.1:1/c"):
            pass


async def test_newer_database_is_refused(own_database: OwnDatabase) -> None:
    """A database that a newer muster migrated is left alone."""
    await run_script(
        own_database.admin_url,
        "insert into migrations values (9999, 'later', 'x', '2026-01-01Z')",
    )
    with pytest.raises(DatabaseFault, match="newer than this muster: it has migration 9999"):
        await migrate(own_database.admin_url, app_password=None)


async def test_changed_migration_is_refused(own_database: OwnDatabase) -> None:
    """A migration whose file was edited after it had been applied is named."""
    await run_script(own_database.admin_url, "update migrations set sha256 = 'x'")
    with pytest.raises(DatabaseFault, match=r"migration 1 \(first\) is not the one"):
        await migrate(own_database.admin_url, app_password=None)


def test_pending_is_what_was_not_applied() -> None:
    """Migrations are applied once each, in their order."""
    all_three = [Migration(version=n, name=f"m{n}", sql=f"select {n}") for n in (1, 2, 3)]
    applied = [Applied(version=1, name="m1", sha256=all_three[0].sha256)]
    assert pending(all_three, applied) == all_three[1:]
    assert pending(all_three, []) == all_three


async def test_failing_migration_leaves_nothing(
    own_database: OwnDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration that fails in the middle is rolled back whole, and can be applied once mended."""
    known = load_migrations()
    bad = len(known) + 1
    broken = Migration(version=bad, name="bad", sql="create table half (id int); select 1 / 0")
    mended = Migration(version=bad, name="bad", sql="create table half (id int)")
    monkeypatch.setattr(migrating, "load_migrations", lambda: [*known, broken])
    with pytest.raises(DatabaseFault, match="division by zero"):
        await migrate(own_database.admin_url, app_password=None)
    monkeypatch.setattr(migrating, "load_migrations", lambda: [*known, mended])
    assert await migrate(own_database.admin_url, app_password=None) == bad


async def test_many_migrate_at_once(cluster: Cluster) -> None:
    """Processes that start together on an empty database apply each migration once."""
    await run_script(cluster.admin_url, "create database crowd")
    url = with_database(cluster.admin_url, "crowd")
    async with trio.open_nursery() as nursery:
        for _ in range(8):

            async def one() -> None:
                assert await migrate(url, app_password=None) == len(load_migrations())

            nursery.start_soon(one)
    await run_script(cluster.admin_url, "drop database crowd")


async def test_login_is_checked_at_boot(own_database: OwnDatabase, folder: Path) -> None:
    """A wrong MUSTER_DATABASE_APP_URL is told at boot, not by the first request."""
    app_url = with_login(own_database.app_url, "muster_app", "wrong")
    with pytest.raises(OperationalError):
        await Connection.open(app_url)
    with pytest.raises(Unavailable, match="cannot log in"):
        async with opened(folder, own_database.admin_url, app_url):
            pass
