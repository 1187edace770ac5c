"""A small SQLite file that a client keeps its memory in, so that a commit survives a power cut."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import trio

from muster.clients.state_folder import hold

R = TypeVar("R")

BUSY_SECONDS = 5.0
"""How long a statement waits for somebody who reads the file with another program, in seconds."""


class DurableFile:
    """One process's only connection to the file, one transaction at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._one_at_a_time = trio.Lock()

    async def run(self, work: Callable[[sqlite3.Connection], R]) -> R:
        """Run `work` in one transaction of this file.

        `work` runs in a thread and must not commit. It can't be cancelled once it began.
        """

        def transact() -> R:
            self._connection.execute("begin immediate")
            try:
                result = work(self._connection)
            except BaseException:
                self._connection.rollback()
                raise
            self._connection.commit()
            return result

        async with self._one_at_a_time:
            return await trio.to_thread.run_sync(transact)


@asynccontextmanager
async def open_durable(folder: Path, *, name: str, schema: str) -> AsyncIterator[DurableFile]:
    """Hold the state folder and open the file `name` in it, with `schema` in place.

    Raises StateFolderBusyError when another process holds the folder, OSError when it can't be
    made, sqlite3.Error when the file is no such file.
    """
    with hold(folder):
        connection = await trio.to_thread.run_sync(_connect, folder / name, schema)
        try:
            yield DurableFile(connection)
        finally:
            # Synchronous, and so whole even while this task is being cancelled.
            connection.close()


def _connect(path: Path, schema: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        # FULL with a write-ahead log syncs every commit; with the old rollback journal a power
        # cut could bring the last transaction back.
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.executescript(schema)
    except BaseException:
        connection.close()
        raise
    return connection
