"""From a configuration to a database that can be used: one function for the server and commands.

With no URL the embedded cluster is made, started or adopted; with one, that server is used. Then
the schema and the roles are brought up to date, and the pool logs in as muster_app.
"""

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import attrs

from muster.errors import Unavailable
from muster.pg.database import Database, Publish, open_database
from muster.pg.driver import Connection, OperationalError, with_login
from muster.pg.embedded import Embedded, use_embedded
from muster.pg.faults import DatabaseFault
from muster.pg.files import keep_first
from muster.pg.migrate import migrate
from muster.pg.places import make_data_dir

LOGIN_TRIES = 3
PASSWORD_FILE = "muster-app-password"  # noqa: S105 - a file's name, not a password


@attrs.frozen(kw_only=True)
class AdminFacts:
    """What commands, the listener and the tree need to know of the database."""

    app_url: str = attrs.field(repr=False)
    cluster: Embedded | None  # None: the server is somebody else's
    schema_version: int
    server_version: int  # 180004 is 18.4


@asynccontextmanager
async def open_store(
    *,
    database_url: str | None,
    database_app_url: str | None,
    data_dir: Path,
    publish: Publish,
    pool_size: int = 8,
    clock_offset: timedelta = timedelta(0),
    settings: Sequence[tuple[str, str]] = (),
) -> AsyncIterator[tuple[Database, AdminFacts]]:
    """Open the database of a configuration, ready for work.

    Raises DatabaseFault when it cannot be used as it is, Unavailable when it cannot be reached.
    `settings` are for an embedded server that has to be started.
    """
    if database_url is None and database_app_url is not None:
        raise DatabaseFault("MUSTER_DATABASE_APP_URL says nothing without MUSTER_DATABASE_URL.")
    async with AsyncExitStack() as stack:
        cluster: Embedded | None = None
        if database_url is None:
            cluster = await stack.enter_async_context(use_embedded(data_dir, settings=settings))
            database_url = cluster.admin_url
        if database_app_url is None:
            app_url, version = await _prepare(database_url, data_dir)
        else:
            app_url, version = database_app_url, await migrate(database_url, app_password=None)
        server_version = await _check_login(app_url)
        db = await stack.enter_async_context(
            open_database(app_url, publish=publish, pool_size=pool_size, clock_offset=clock_offset)
        )
        yield (
            db,
            AdminFacts(
                app_url=app_url,
                cluster=cluster,
                schema_version=version,
                server_version=server_version,
            ),
        )


async def _prepare(admin_url: str, data_dir: Path) -> tuple[str, int]:
    """Migrate, and see that muster_app can log in with the password of this data folder."""
    password = load_password(data_dir)
    version = await migrate(admin_url, app_password=password)
    app_url = with_login(admin_url, "muster_app", password)
    if not await _lets_in(app_url):
        # The role is older than this password: the folder is new, or the database came from a dump.
        await migrate(admin_url, app_password=password, reset_password=True)
    return app_url, version


async def _lets_in(app_url: str) -> bool:
    """Whether this login works; one that only broke off says nothing about its password.

    A server tells a wrong password in its own language, so the two are told apart by trying again.
    """
    for _ in range(LOGIN_TRIES):
        try:
            (await Connection.open(app_url)).close()
        except OperationalError:
            continue
        return True
    return False


def load_password(data_dir: Path) -> str:
    """muster_app's password of this data folder, 0600, made when missing."""
    make_data_dir(data_dir)
    return keep_first(data_dir / PASSWORD_FILE, secrets.token_urlsafe(32))


async def _check_login(app_url: str) -> int:
    """Log in once as the pool will; what cannot work is better said at boot."""
    try:
        connection = await Connection.open(app_url)
    except OperationalError as error:
        raise Unavailable(f"This muster cannot log in to its database: {error}") from error
    try:
        if connection.privileged:
            raise DatabaseFault(
                "MUSTER_DATABASE_APP_URL must not log in as a superuser or a role with BYPASSRLS:"
                " row-level security would not hold it."
            )
        able = await connection.scalar(
            "select pg_has_role('muster_system', 'member')"
            " and has_table_privilege('muster.messages', 'insert')"
            " and not pg_has_role((select tableowner from pg_tables"
            " where schemaname = 'muster' and tablename = 'messages'), 'member')",
            {},
        )
        if not able:
            raise DatabaseFault(
                "MUSTER_DATABASE_APP_URL must log in as muster_app, or as a role that inherits"
                " it, can become muster_system and owns no table of muster's."
            )
    except OperationalError as error:
        raise Unavailable(f"The database went away while a login was tried: {error}") from error
    else:
        return connection.server_version
    finally:
        connection.close()
