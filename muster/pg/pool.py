"""A bounded set of connections, with a bounded and fair queue before it.

At most `size` connections are lent at once; at most `waiters_max` tasks wait, first come first
served (Trio's Semaphore hands a permit straight to its oldest waiter), each for at most
`WAIT_SECONDS`. A connection comes back idle or is closed: nothing else is ever lent again.
No task of the pool's own runs; connections are opened by whoever needs one.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from muster.errors import Unavailable
from muster.pg.driver import Connection, OperationalError
from muster.pg.faults import DatabaseFault

WAIT_SECONDS = 5.0
ROLLBACK_SECONDS = 3.0


class Pool:
    """Connections to one URL, as one role that row-level security holds."""

    def __init__(self, url: str, *, size: int, waiters_max: int) -> None:
        self._url = url
        self._permits = trio.Semaphore(size, max_value=size)
        self._waiters_max = waiters_max
        self._idle: list[Connection] = []
        self._closed = False
        self.size = size

    @property
    def idle(self) -> int:
        """How many open connections wait to be used."""
        return len(self._idle)

    @property
    def free(self) -> int:
        """How many more could be lent now; `size` when the pool is whole."""
        return self._permits.value

    @property
    def waiting(self) -> int:
        """How many tasks wait for one."""
        return self._permits.statistics().tasks_waiting

    async def acquire(self) -> None:
        """Get the right to one connection. Raises Unavailable: closed, full, or 5 s waited.

        You don't get a checkpoint where one is free: whoever has it goes on to wait for an answer.
        """
        if self._closed:
            raise Unavailable("The database is closed.")
        try:
            self._permits.acquire_nowait()
        except trio.WouldBlock:
            await self._wait_for_permit()

    async def _wait_for_permit(self) -> None:
        if self._permits.statistics().tasks_waiting >= self._waiters_max:
            raise Unavailable("There are too many requests that wait for the database.")
        with trio.move_on_after(WAIT_SECONDS) as waiting:
            await self._permits.acquire()
        if waiting.cancelled_caught:
            raise Unavailable("The database is too busy.")

    def release(self) -> None:
        """Hand the right on."""
        self._permits.release()

    @asynccontextmanager
    async def permit(self) -> AsyncIterator[None]:
        """Hold the right to one connection; raises as `acquire` does."""
        await self.acquire()
        try:
            yield
        finally:
            self.release()

    async def take(self, *, fresh: bool = False) -> Connection:
        """Lend a connection to the holder of a permit: the one used last, else a new one.

        `fresh` asks for a new one and closes the idle ones, since whoever asks found one dead.
        """
        if fresh:
            self._close_idle()
        while self._idle:
            connection = self._idle.pop()
            if not connection.dead:
                return connection
        connection = await Connection.open(self._url)
        if connection.privileged:
            connection.close()
            raise DatabaseFault(
                "The pool must not log in as a superuser or a role with BYPASSRLS:"
                " row-level security would not hold it."
            )
        return connection

    async def give_back(self, connection: Connection) -> None:
        """Take a connection back; a transaction left open is rolled back, else it is closed."""
        try:
            if not connection.idle and not connection.dead:
                with trio.move_on_after(ROLLBACK_SECONDS, shield=True):
                    await connection.rollback()
        except OperationalError:
            connection.close()
        finally:
            if connection.idle and not self._closed:
                self._idle.append(connection)
            else:
                connection.close()

    def close(self) -> None:
        """Close what is idle; what is lent is closed when it comes back."""
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()
