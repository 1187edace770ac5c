"""A small SQLite file that a client keeps its memory in, so that a commit survives a power cut.

It holds what people wrote, so nobody but its user may read it, whatever folder it lies in; SQLite
gives the files beside it the same mode.
"""

import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

import trio

from muster.clients.state_folder import hold

R = TypeVar("R")

BUSY_SECONDS = 5.0
"""How long a statement waits for somebody who reads the file with another program, in seconds."""


class DurableFileError(OSError):
    """The file cannot be read or written: a full disk, a broken file; a sentence's beginning."""


class DurableFile:
    """One process's only connection to the file, one transaction at a time."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._one_at_a_time = trio.Lock()

    async def run(self, work: Callable[[sqlite3.Connection], R]) -> R:
        """Run `work` in one transaction of this file.

        `work` runs in a thread and must not commit. It can't be cancelled once it began.
        DurableFileError when the file can't be read or written; then nothing of it is kept.
        """

        def transact() -> R:
            with _told(self._path):
                self._connection.execute("begin immediate")
                try:
                    result = work(self._connection)
                    self._connection.commit()
                except BaseException:
                    # A commit that failed leaves its transaction open, and no other could begin.
                    self._connection.rollback()
                    raise
                return result

        async with self._one_at_a_time:
            return await trio.to_thread.run_sync(transact)


@asynccontextmanager
async def open_durable(folder: Path, *, name: str, schema: str) -> AsyncIterator[DurableFile]:
    """Hold the state folder and open the file `name` in it, with `schema` in place.

    Raises StateFolderBusyError when another process holds the folder, OSError when it can't be
    made, which is a DurableFileError when the file can't be used.
    """
    path = folder / name
    with hold(folder):
        connection = await trio.to_thread.run_sync(_connect, path, schema)
        try:
            yield DurableFile(connection, path)
        finally:
            # Synchronous, and so whole even while this task is being cancelled.
            connection.close()


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise DurableFileError(f"{path} cannot be used: {error}") from error


def _connect(path: Path, schema: str) -> sqlite3.Connection:
    # Made with its mode, so that it was never there with another.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    with _told(path):
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            _set_up(connection, schema)
        except BaseException:
            connection.close()
            raise
    return connection


def _set_up(connection: sqlite3.Connection, schema: str) -> None:
    # FULL with a write-ahead log syncs every commit; with the old rollback journal a power
    # cut could bring the last transaction back.
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    connection.executescript(schema)
