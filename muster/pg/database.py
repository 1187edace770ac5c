"""The one door to SQL: a transaction, opened as somebody.

A transaction is begun by one trip that sets who acts, the time limits and, for System, the role,
all locally, and that returns the time. Its COMMIT stands under a shield for COMMIT_SECONDS; when
its answer is lost the connection is closed and OutcomeUnknown raised, which nobody retries. Hints
leave after the commit, inside the same shield, so that a cancelled caller cannot lose them.

What can race: a cancel at any step. Before COMMIT is sent, the transaction is rolled back; after,
it runs to its end. A dead idle connection looks alive, so trouble in the opening trip, which has
no effect, takes a new connection once. Trouble anywhere else is Unavailable: nothing was done.

A server that is frozen, or behind a line that swallows packets, keeps none of its own time limits:
each trip also has a deadline here, ANSWER_SECONDS, after which its connection is closed.
"""

import enum
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from typing import Any, LiteralString, TypeVar, cast

import attrs
import trio

from muster.errors import OutcomeUnknown, Unavailable
from muster.outcomes import Changed, Fact, Hint
from muster.pg import audit
from muster.pg.driver import Connection, DatabaseError, Loss, OperationalError, classify
from muster.pg.pool import Pool
from muster.pg.query import Query
from muster.principals import Node, Principal, System

R = TypeVar("R")
C = TypeVar("C")

Publish = Callable[[Sequence[Hint]], None]

COMMIT_SECONDS = 5.0
STATEMENT_SECONDS = 10
LOCK_SECONDS = 5
ANSWER_SECONDS = 15.0  # above the server's own limits, which speak more clearly
ATTEMPTS = 3
WAITERS_MAX = 1000
# No other SQL asks for the time.
READ_TIME: LiteralString = "select now()"


class TryAgain(Unavailable):
    """A deadlock or a serialization failure: `Database.run` tries again, others report it."""


class Transaction:
    """One operation's work: what it reads and writes, and the hints it will send."""

    def __init__(self, connection: Connection, principal: Principal, now: datetime) -> None:
        self._connection = connection
        self._hints: list[Hint] = []
        self.principal = principal
        self.now = now

    @property
    def owner_id(self) -> int:
        """Whose rows these are; it is our bug to ask it of System or Node."""
        owner_id = _owner_of(self.principal)
        assert owner_id is not None, f"{self.principal} acts for no single owner"
        return owner_id

    async def one(self, query: Query, row: type[R], **params: object) -> R:
        """The row that must be there: no row or several are our bug."""
        rows = await self.all(query, row, **params)
        assert len(rows) == 1, f"{len(rows)} rows instead of one: {query.text}"
        return rows[0]

    async def find(self, query: Query, row: type[R], **params: object) -> R | None:
        """The row, or None; several are our bug."""
        rows = await self.all(query, row, **params)
        assert len(rows) <= 1, f"{len(rows)} rows instead of at most one: {query.text}"
        return rows[0] if rows else None

    async def all(self, query: Query, row: type[R], **params: object) -> list[R]:
        """Every row, in the query's order; `row` is an attrs class with the columns' names."""
        with _Translating(), _answering(self._connection):
            return await self._connection.fetch(query.text, self._bind(params), row)

    async def scalar(self, query: Query, **params: object) -> Any:
        """The first column of the first row, or None."""
        with _Translating(), _answering(self._connection):
            return await self._connection.scalar(query.text, self._bind(params))

    async def execute(self, query: Query, **params: object) -> int:
        """Run a statement; how many rows it touched."""
        with _Translating(), _answering(self._connection):
            return await self._connection.execute(query.text, self._bind(params))

    async def save(self, query: Query, changed: Changed[R]) -> R:
        """Write a decision whole: its row, its facts, its hints.

        The row's fields are the parameters. It must hit exactly one row, which the operation has
        locked or just made; anything else is our bug.
        """
        fields = attrs.asdict(cast("attrs.AttrsInstance", changed.row), recurse=False)
        touched = await self.execute(query, **fields)
        assert touched == 1, f"{touched} rows written instead of one: {query.text}"
        await self.record(*changed.facts)
        self.hint(*changed.hints)
        return changed.row

    async def record(self, *facts: Fact) -> None:
        """Write audit rows alone."""
        for fact in facts:
            await audit.record(self, fact)

    def hint(self, *hints: Hint) -> None:
        """Send hints once this transaction is committed; a rollback drops them."""
        self._hints.extend(hints)

    def _bind(self, params: dict[str, object]) -> dict[str, object]:
        bound = {
            name: value.value if isinstance(value, enum.Enum) else value
            for name, value in params.items()
        }
        bound.setdefault("now", self.now)
        if (owner_id := _owner_of(self.principal)) is not None:
            bound.setdefault("owner_id", owner_id)
        return bound


class Database:
    """The pool, the clock and where hints go."""

    def __init__(self, pool: Pool, *, publish: Publish, clock_offset: timedelta) -> None:
        self._pool = pool
        self._publish = publish
        self.clock_offset = clock_offset

    @asynccontextmanager
    async def transaction(self, principal: Principal) -> AsyncIterator[Transaction]:
        """Work as `principal`; commit at the end, roll back when anything is raised.

        Raises Unavailable when nothing was done, OutcomeUnknown when the commit's answer was lost.
        """
        async with self._pool.permit():
            connection, now = await self._begin(principal)
            try:
                tx = Transaction(connection, principal, now + self.clock_offset)
                yield tx
                await self._commit(connection, tx._hints)  # noqa: SLF001 - one module
            finally:
                await self._pool.give_back(connection)

    async def run(
        self,
        principal: Principal,
        operation: Callable[[Transaction, C], Awaitable[R]],
        command: C,
    ) -> R:
        """Run one operation in a transaction of its own.

        Deadlocks and serialization failures are tried again, ATTEMPTS times in all. An unknown
        outcome never is.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with self.transaction(principal) as tx:
                    return await operation(tx, command)
            except TryAgain:
                if attempt == ATTEMPTS:
                    raise
            await trio.sleep(random.uniform(0, 0.02 * attempt))  # noqa: S311 - only spreads retries
        raise AssertionError("unreachable")

    async def _begin(self, principal: Principal) -> tuple[Connection, datetime]:
        with _Translating():
            reused = self._pool.idle > 0
            connection = await self._pool.take()
            try:
                return connection, await self._open_as(connection, principal)
            except OperationalError:
                await self._pool.give_back(connection)
                if not reused:
                    raise
            except BaseException:
                await self._pool.give_back(connection)
                raise
            connection = await self._pool.take(fresh=True)
            try:
                return connection, await self._open_as(connection, principal)
            except BaseException:
                await self._pool.give_back(connection)
                raise

    async def _open_as(self, connection: Connection, principal: Principal) -> datetime:
        owner_id = _owner_of(principal)
        owner = "" if owner_id is None else str(int(owner_id))
        with _answering(connection):
            rows = await connection.script(
                f"begin; {READ_TIME}, set_config('muster.owner_id', '{owner}', true),"
                f" set_config('muster.actor', {connection.quote(principal.actor)}, true),"
                f" set_config('statement_timeout', '{STATEMENT_SECONDS}s', true),"
                f" set_config('lock_timeout', '{LOCK_SECONDS}s', true)"
                + ("; set local role muster_system" if isinstance(principal, System) else "")
            )
        now: datetime = rows[0][0]
        return now

    async def _commit(self, connection: Connection, hints: Sequence[Hint]) -> None:
        assert not connection.failed, "an operation went on after the database had refused it"
        with trio.CancelScope(deadline=trio.current_time() + COMMIT_SECONDS, shield=True) as scope:
            try:
                await connection.commit()
            except DatabaseError as error:
                if classify(error) is Loss.UNAVAILABLE:
                    connection.close()
                    raise OutcomeUnknown(
                        "The answer to a commit was lost: it happened or it did not."
                    ) from error
                raise _translate(error) from error
            if hints:
                self._publish(hints)
        if scope.cancelled_caught:
            connection.close()
            raise OutcomeUnknown(
                f"A commit was not answered within {COMMIT_SECONDS:g} s: it happened or it did not."
            )


@asynccontextmanager
async def open_database(
    app_url: str,
    *,
    publish: Publish,
    pool_size: int = 8,
    clock_offset: timedelta = timedelta(0),
) -> AsyncIterator[Database]:
    """A database as the role of `app_url`, which row-level security must hold.

    Nothing is connected yet: the first transaction does that.
    """
    pool = Pool(app_url, size=pool_size, waiters_max=WAITERS_MAX)
    try:
        yield Database(pool, publish=publish, clock_offset=clock_offset)
    finally:
        pool.close()


def _owner_of(principal: Principal) -> int | None:
    return None if isinstance(principal, System | Node) else principal.owner_id


@contextmanager
def _answering(connection: Connection) -> Iterator[None]:
    """Take a server that stays silent for ANSWER_SECONDS for gone."""
    with trio.move_on_after(ANSWER_SECONDS) as patience:
        yield
    if patience.cancelled_caught:
        connection.close()
        raise Unavailable(f"The database did not answer within {ANSWER_SECONDS:g} s.")


class _Translating:
    """The one place where the driver's errors become ours; what is our bug passes as it is."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, DatabaseError):
            translated = _translate(error)
            if translated is not error:
                raise translated from error


def _translate(error: DatabaseError) -> Exception:
    match classify(error):
        case Loss.AGAIN:
            return TryAgain("The database asked to try again.")
        case Loss.UNAVAILABLE:
            return Unavailable(f"The database is not available: {error}")
        case Loss.BUG:
            return error
