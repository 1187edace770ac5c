"""Bring a database to this code's schema, and see to its two roles.

Runs as the owner of the tables (MUSTER_DATABASE_URL), under an advisory lock, so that any number
of processes may start at once. Files `migrations/NNNN_name.sql` are applied in order, each in a
transaction of its own with its row in `muster.migrations`; a file is never edited once released,
which the stored checksum shows. A database that is ahead of the code is left alone.

Roles: `muster_app` logs in and owns nothing; `muster_system` cannot log in and is entered by SET
LOCAL ROLE. muster_app must be able to become muster_system without having its rights all the
time. PostgreSQL 16 says so in the grant (inherit false); 15 knows only the member's NOINHERIT.
Both are set, which gives the same on each. muster_app's password is random and is kept by this
data folder: nodes that share a database share MUSTER_DATABASE_APP_URL instead.
"""

import hashlib
import re
from collections.abc import Sequence
from importlib import resources

import attrs

from muster.errors import Unavailable
from muster.pg.driver import Connection, DatabaseError, OperationalError
from muster.pg.faults import DatabaseFault
from muster.pg.session import READ_TIME

SERVER_VERSION_MIN = 150000
INSUFFICIENT_PRIVILEGE = "42501"
_RIGHTS = (
    "MUSTER_DATABASE_URL must log in as the database's owner, with the right to create roles, or"
    " as a superuser."
)
# One number for all of muster: the first bytes of sha256("muster migrations").
LOCK_KEY = int.from_bytes(hashlib.sha256(b"muster migrations").digest()[:7])

PREPARE_SCHEMA = """
    begin;
    create schema if not exists muster;
    create table if not exists muster.migrations (
        version    integer primary key,
        name       text not null,
        sha256     text not null,
        applied_at timestamptz not null
    );
    commit
"""


@attrs.frozen(kw_only=True)
class Migration:
    """One numbered file of SQL."""

    version: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        """What tells whether the file is the one that was applied."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


@attrs.frozen(kw_only=True)
class Applied:
    """A row of `muster.migrations`."""

    version: int
    name: str
    sha256: str


def load_migrations() -> list[Migration]:
    """The migrations that come with this code, in order; their numbers have no gap."""
    found = []
    for entry in resources.files("muster.pg").joinpath("migrations").iterdir():
        if match := re.fullmatch(r"(\d{4})_([a-z0-9_]+)\.sql", entry.name):
            sql = entry.read_text(encoding="utf-8")
            found.append(Migration(version=int(match[1]), name=match[2], sql=sql))
    found.sort(key=lambda migration: migration.version)
    assert [migration.version for migration in found] == list(range(1, len(found) + 1))
    return found


def newest_version() -> int:
    """The version of the schema that this code works on."""
    return load_migrations()[-1].version


def pending(migrations: Sequence[Migration], applied: Sequence[Applied]) -> list[Migration]:
    """What is still to be applied. Raises DatabaseFault: ahead of the code, or a changed file."""
    known = {migration.version: migration for migration in migrations}
    done = {row.version: row for row in applied}
    for version, row in sorted(done.items()):
        if version not in known:
            raise DatabaseFault(
                f"The database is newer than this muster: it has migration {version}"
                f" ({row.name}), this muster knows {len(known)}; install the newer muster again."
            )
        if row.sha256 != known[version].sha256:
            raise DatabaseFault(
                f"The migration {version} ({row.name}) is not the one that was applied to this"
                " database: the file was changed afterwards."
            )
    return [migration for migration in migrations if migration.version not in done]


async def migrate(admin_url: str, *, app_password: str | None, reset_password: bool = False) -> int:
    """Bring the database to this code and see to the roles; returns the schema's version.

    `app_password` becomes muster_app's when the role is made, or on `reset_password`; with None
    its login is somebody else's care.
    Raises Unavailable when the database cannot be reached, DatabaseFault when it cannot be used.
    """
    try:
        admin = await Connection.open(admin_url)
    except OperationalError as error:
        raise Unavailable(f"The database cannot be reached: {error}") from error
    try:
        if admin.server_version < SERVER_VERSION_MIN:
            raise DatabaseFault(
                f"PostgreSQL must be 15 or newer; this is {admin.server_version // 10000}."
            )
        return await _migrate(admin, app_password, reset_password=reset_password)
    except OperationalError as error:
        raise Unavailable(f"The database went away while it was prepared: {error}") from error
    except DatabaseError as error:
        told = f"{error}"
        if error.sqlstate == INSUFFICIENT_PRIVILEGE:
            told = f"{error.diag.message_primary}. {_RIGHTS}"
        raise DatabaseFault(f"The database refused to be prepared: {told}") from error
    finally:
        # Closing the session is what gives up its advisory lock.
        admin.close()


async def _migrate(admin: Connection, app_password: str | None, *, reset_password: bool) -> int:
    await admin.script("set client_min_messages to warning")
    await admin.scalar("select pg_advisory_lock(%(key)s)", {"key": LOCK_KEY})
    migrations = load_migrations()
    await _ensure_roles(admin, app_password, reset_password=reset_password)
    if await admin.scalar("select to_regclass('muster.migrations') is null", {}):
        await admin.script(PREPARE_SCHEMA)
    applied = await admin.fetch("select version, name, sha256 from muster.migrations", {}, Applied)
    for migration in pending(migrations, applied):
        await _apply(admin, migration)
    return len(migrations)


async def _apply(admin: Connection, migration: Migration) -> None:
    await admin.script("begin")
    await admin.script(migration.sql)
    await admin.execute(
        """
        insert into muster.migrations (version, name, sha256, applied_at)
        values (%(version)s, %(name)s, %(sha256)s, %(now)s)
        """,
        {
            "version": migration.version,
            "name": migration.name,
            "sha256": migration.sha256,
            "now": await admin.scalar(READ_TIME, {}),
        },
    )
    await admin.commit()


async def _ensure_roles(
    admin: Connection, app_password: str | None, *, reset_password: bool
) -> None:
    await _create_role(admin, "muster_system", "nologin noinherit")
    created = await _create_role(admin, "muster_app", "login noinherit")
    if app_password is not None and (created or reset_password):
        if reset_password:
            await _refuse_to_shut_out(admin)
        verifier = admin.quote(admin.scram(app_password, "muster_app"))
        await admin.script(f"alter role muster_app password {verifier}")
    if not await admin.scalar("select pg_has_role('muster_app', 'muster_system', 'member')", {}):
        options = " with inherit false, set true" if admin.server_version >= 160000 else ""
        await admin.script(f"grant muster_system to muster_app{options}")


async def _refuse_to_shut_out(admin: Connection) -> None:
    """DatabaseFault while somebody is logged in as muster_app: a new password would end them."""
    others = await admin.scalar(
        "select string_agg(distinct datname, ', ') from pg_stat_activity"
        " where usename = 'muster_app'",
        {},
    )
    if others:
        raise DatabaseFault(
            "Another muster is running on this PostgreSQL, and this data folder does not know its"
            f" password for muster_app (database {others}): use that server's MUSTER_DATA_DIR, or"
            " MUSTER_DATABASE_APP_URL."
        )


async def _create_role(admin: Connection, name: str, options: str) -> bool:
    if await admin.scalar("select 1 from pg_roles where rolname = %(name)s", {"name": name}):
        return False
    # Roles belong to the whole cluster, the lock to one database: another may win the race.
    await admin.script(
        f"do $$ begin create role {name} {options};"
        " exception when duplicate_object or unique_violation then null; end $$"
    )
    return True
