"""What PostgreSQL is asked, as it writes it down itself."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from bench.server import Server
from muster.pg.driver import Connection

PAUSE_SECONDS = 0.1


@asynccontextmanager
async def log_statements(server: Server) -> AsyncIterator[Callable[[], str]]:
    """Have every statement written down for the block; the call gives what was, since it began."""
    log = server.cluster.places.log
    admin = await Connection.open(server.cluster.admin_url)
    try:
        await _set(admin, "all")
        begun = log.stat().st_size

        def logged() -> str:
            with log.open("rb") as file:
                file.seek(begun)
                return file.read().decode(errors="replace")

        yield logged
        await _set(admin, "none")
    finally:
        admin.close()


async def _set(admin: Connection, which: str) -> None:
    await admin.script(f"alter system set log_statement = '{which}'")
    await admin.script("select pg_reload_conf()")
    with trio.fail_after(10):
        told = ""
        while told != which:
            await trio.sleep(PAUSE_SECONDS)
            told = await admin.scalar("select current_setting('log_statement')", {})
    await trio.sleep(PAUSE_SECONDS)  # the other sessions hear of it in the same moment
