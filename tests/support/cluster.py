"""One embedded cluster for the whole run; each test makes an owner of its own on it.

The server, the schema and the pool's connections are the session's, since none of them belongs to
one run of Trio's; a `Database` (its clock, its published hints) is each test's own. A test that
leaves the pool less than whole fails, and the next one gets a new pool.
"""

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import attrs
import pytest
import trio

from muster.outcomes import SHOWN, Hint
from muster.pg.boot import load_password
from muster.pg.database import Database
from muster.pg.driver import Connection, with_database
from muster.pg.embedded import Embedded
from muster.pg.migrate import migrate
from muster.pg.pool import Pool
from muster.pg.query import Query
from muster.principals import Owner, System

POOL_SIZE = 12
SETTINGS = (
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("max_connections", "200"),
    ("deadlock_timeout", "100ms"),
)
TEMPLATE = "muster_template"

NEXT_USER_ID = Query("select nextval('users_id_seq')")
ADD_USER = Query(
    """
    insert into users (id, name, email, password_hash, created_at)
    values (%(owner_id)s, %(name)s, %(email)s, 'no login', %(now)s)
    """
)


@attrs.frozen(kw_only=True)
class Cluster:
    """The session's server, migrated: the URLs of its default database."""

    embedded: Embedded
    admin_url: str
    app_url: str


class SpiedDatabase(Database):
    """A database that keeps what it published; shift its time by `clock_offset`.

    `touched` holds the hints that something shown has changed, `published` all others.
    """

    def __init__(self, pool: Pool, clock_offset: timedelta = timedelta(0)) -> None:
        self.pool = pool
        self.published: list[Hint] = []
        self.touched: list[Hint] = []
        super().__init__(pool, publish=self._keep, clock_offset=clock_offset)

    def _keep(self, hints: object) -> None:
        assert isinstance(hints, list | tuple)
        for hint in hints:
            (self.touched if hint.kind in SHOWN else self.published).append(hint)


async def add_owner(db: Database, name: str | None = None) -> Owner:
    """A new user, as the command line would act for them."""
    async with db.transaction(System()) as tx:
        owner_id = await tx.scalar(NEXT_USER_ID)
    owner = Owner(owner_id=owner_id, via="cli")
    name = name or f"user-{owner_id}"
    async with db.transaction(owner) as tx:
        await tx.execute(ADD_USER, name=name, email=f"{name}@example.test")
    return owner


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The session's own PostgreSQL, started and migrated once."""
    folder = Path(tempfile.mkdtemp(prefix="muster-tests-"))
    # As root the server runs as another user, who must come through to the cluster's home.
    folder.chmod(0o711)
    embedded = Embedded(folder / "data", SETTINGS)
    trio.run(embedded.join)
    try:
        password = load_password(folder / "data")
        trio.run(lambda: migrate(embedded.admin_url, app_password=password))
        yield Cluster(
            embedded=embedded, admin_url=embedded.admin_url, app_url=embedded.app_url(password)
        )
    finally:
        trio.run(embedded.leave)
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def _pools(cluster: Cluster) -> Iterator[list[Pool]]:
    pools = [_new_pool(cluster)]
    yield pools
    pools[0].close()


def _new_pool(cluster: Cluster) -> Pool:
    return Pool(cluster.app_url, size=POOL_SIZE, waiters_max=1000)


@pytest.fixture
def db(cluster: Cluster, _pools: list[Pool]) -> Iterator[SpiedDatabase]:
    """The migrated database as muster_app; `published` holds the hints of this test."""
    (pool,) = _pools
    yield SpiedDatabase(pool)
    if pool.free != pool.size or pool.waiting:
        pool.close()
        _pools[0] = _new_pool(cluster)
        pytest.fail(f"the test kept {pool.size - pool.free} connections")


@pytest.fixture
async def owner(db: SpiedDatabase) -> Owner:
    """A fresh user, through the command line."""
    return await add_owner(db)


@attrs.frozen(kw_only=True)
class OwnDatabase:
    """A migrated database that nobody else uses, for tests of whole servers and commands."""

    admin_url: str
    app_url: str


_numbers = itertools.count(1)


@pytest.fixture
def own_database(cluster: Cluster) -> Iterator[OwnDatabase]:
    """A new database beside the shared one; give its URLs to a server as MUSTER_DATABASE_URL."""
    name = f"own_{next(_numbers)}"
    _administrate(cluster, f"create database {name} template {TEMPLATE} strategy file_copy")
    app_url = with_database(cluster.app_url, name)
    yield OwnDatabase(admin_url=with_database(cluster.admin_url, name), app_url=app_url)
    _administrate(cluster, f"drop database {name} with (force)")


def _administrate(cluster: Cluster, statement: str) -> None:
    async def run() -> None:
        admin = await Connection.open(cluster.admin_url)
        try:
            known = "select 1 from pg_database where datname = %(name)s"
            if await admin.scalar(known, {"name": TEMPLATE}) is None:
                await admin.script(f"create database {TEMPLATE}")
                await migrate(with_database(cluster.admin_url, TEMPLATE), app_password=None)
            await admin.script(statement)
        finally:
            admin.close()

    trio.run(run)
