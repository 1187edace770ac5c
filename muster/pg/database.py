"""The one door to SQL: a transaction, opened as somebody.

muster/pg/session.py tells how it is begun, ended and lost. Hints leave after the commit, under its
shield, so that a cancelled caller cannot lose them.
"""

import enum
import random
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, LiteralString, TypeVar, cast, overload

import attrs
import trio

from muster.outcomes import Changed, Fact, Hint, hint_of
from muster.pg import audit
from muster.pg.pipeline import Answer, Step
from muster.pg.pool import Pool
from muster.pg.query import Query
from muster.pg.session import Session, TryAgain, owner_of
from muster.principals import Principal

R = TypeVar("R")
C = TypeVar("C")

A = TypeVar("A")
B = TypeVar("B")

Work = Coroutine[Any, Any, R]
Publish = Callable[[Sequence[Hint]], None]

ATTEMPTS = 3
WAITERS_MAX = 1000


@attrs.frozen
class _Asking:
    """What a work among several asks: whoever drives the works sends the last answer in."""

    steps: Sequence[Step]

    def __await__(self) -> Generator["_Asking", Answer, Answer]:
        return (yield self)


class Transaction:
    """One operation's work: what it reads and writes, and the hints it will send."""

    def __init__(self, session: Session, principal: Principal) -> None:
        self._session = session
        self.hints: list[Hint] = []  # that leave with the commit
        self._gathering = False
        self._before: list[Step] = []  # of the work that is being driven
        self.principal = principal

    @property
    def now(self) -> datetime:
        """The transaction's time, which its first statement brings: nobody knows it before."""
        assert self._session.now is not None, "the time is known after the first statement"
        return self._session.now

    @property
    def owner_id(self) -> int:
        """Whose rows these are; it is our bug to ask it of System or Node."""
        owner_id = owner_of(self.principal)
        assert owner_id is not None, f"{self.principal} acts for no single owner"
        return owner_id

    @contextmanager
    def acting_as(self, principal: Principal) -> Iterator[None]:
        """Let what the block does be another's act, of the same owner's: audit rows name that one.

        For what muster does by itself within the transaction of whoever brought the cause.
        """
        assert owner_of(principal) == self.owner_id, "another owner's rows are another transaction"
        before, self.principal = self.principal, principal
        try:
            yield
        finally:
            self.principal = before

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
        return (await self._ask(query, params)).rows(row)

    async def scalar(self, query: Query, **params: object) -> Any:
        """The first column of the first row, or None."""
        return (await self._ask(query, params)).scalar()

    async def execute(self, query: Query, **params: object) -> int:
        """Run a statement; how many rows it touched."""
        return (await self._ask(query, params)).touched

    async def save(self, query: Query, changed: Changed[R]) -> R:
        """Write a decision whole: its row, its facts, its hints.

        The row's fields are the parameters. It must hit exactly one row, which the operation has
        locked or just made; anything else is our bug. It travels with whatever is sent next, so
        that what the database has against it is raised there, at the latest by the commit.
        """
        fields = attrs.asdict(cast("attrs.AttrsInstance", changed.row), recurse=False)
        await self._later(query.exactly_one, fields)
        await self.record(*changed.facts)
        self.hint(*changed.hints)
        return changed.row

    async def record(self, *facts: Fact) -> None:
        """Write audit rows, with whatever is sent next; it is our bug to ask it of System.

        Whoever shows what a fact is about gets a hint of it.
        """
        for fact in facts:
            await self._later(audit.RECORD.text, audit.values(self.principal, fact))
            if (hint := hint_of(fact, owner_id=self.owner_id)) is not None:
                self.hint(hint)

    def hint(self, *hints: Hint) -> None:
        """Send hints once this transaction is committed; a rollback drops them."""
        self.hints.extend(hints)

    async def later(self, query: Query, **params: object) -> None:
        """Run a statement for its effect alone, with whatever is sent next."""
        if self._gathering:
            self._before.append(self._step(query, params))
        else:
            await self._later(query.text, params)

    @overload
    async def together(self, one: Work[A], two: Work[B], /) -> tuple[A, B]: ...
    @overload
    async def together(self, one: Work[A], two: Work[B], three: Work[C], /) -> tuple[A, B, C]: ...
    @overload
    async def together(
        self, one: Work[A], two: Work[B], three: Work[C], four: Work[R], /
    ) -> tuple[A, B, C, R]: ...
    async def together(self, *works: Work[Any]) -> tuple[Any, ...]:
        """Do works that ask the database and wait for nothing else, and return what they return.

        What they ask at the same step shares one trip, in their order: so a work's statement may
        rely on the locks of those before it, and not on what these return. What a work sends
        `later` goes with what it asks next; it is our bug to ask nothing more.
        """
        assert not self._gathering, "works that are done together do not gather again"
        results: dict[int, Any] = {}
        answers: dict[int, Answer | None] = dict.fromkeys(range(len(works)))
        self._gathering = True
        try:
            while answers:
                asked: dict[int, _Asking] = {}
                for number, answer in answers.items():
                    try:
                        asking = works[number].send(answer)
                    except StopIteration as done:
                        assert not self._before, "nothing would send what a work leaves for later"
                        results[number] = done.value
                        continue
                    assert isinstance(asking, _Asking), "a work here asks the database alone"
                    asked[number] = asking
                answers = await self._ask_for(asked)
        finally:
            self._gathering = False
            self._before.clear()
            for work in works:
                work.close()
        return tuple(results[number] for number in range(len(works)))

    async def _ask_for(self, asked: Mapping[int, "_Asking"]) -> dict[int, Answer | None]:
        steps = [step for asking in asked.values() for step in asking.steps]
        got = iter(await self._session.ask(*steps) if steps else ())
        return {number: [next(got) for _ in asking.steps][-1] for number, asking in asked.items()}

    async def _later(self, sql: LiteralString, params: Mapping[str, object]) -> None:
        assert not self._gathering, "works that are done together read"
        await self._session.open()
        self._session.later(Step(sql, self._bind(params)))

    async def _ask(self, query: Query, params: Mapping[str, object]) -> Answer:
        step = self._step(query, params)
        if self._gathering:
            steps = [*self._before, step]
            self._before.clear()
            return await _Asking(steps)
        (answer,) = await self._session.ask(step)
        return answer

    def _step(self, query: Query, params: Mapping[str, object]) -> Step:
        if self._session.now is not None:
            return Step(query.text, self._bind(params))
        bound = self._bind({**params, "clock_offset": self._session.clock_offset})
        return Step(query.opening, bound)

    def _bind(self, params: Mapping[str, object]) -> dict[str, object]:
        bound = {
            name: value.value if isinstance(value, enum.Enum) else value
            for name, value in params.items()
        }
        bound.setdefault("now", self._session.now)
        if (owner_id := owner_of(self.principal)) is not None:
            bound.setdefault("owner_id", owner_id)
        return bound


class Database:
    """The pool, the clock and where hints go."""

    def __init__(self, pool: Pool, *, publish: Publish, clock_offset: timedelta) -> None:
        self.pool = pool
        self.publish = publish
        self.clock_offset = clock_offset

    def transaction(self, principal: Principal, *, look: bool = False) -> "_Transacting":
        """Work as `principal`; commit at the end, roll back when anything is raised.

        A `look` is one statement that reads; it takes a single trip.
        Raises Unavailable when nothing was done, OutcomeUnknown when the commit's answer was lost.
        """
        return _Transacting(self, principal, look=look)

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


class _Entered:
    """A scope that was entered before, as a block that leaves it."""

    def __init__(self, scope: trio.CancelScope) -> None:
        self._scope = scope

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        return self._scope.__exit__(kind, error, trace)


class _Transacting:
    """A transaction as a context; a class, for a generator costs several times as much."""

    def __init__(self, db: Database, principal: Principal, *, look: bool) -> None:
        self._db = db
        self._principal = principal
        self._look = look

    async def __aenter__(self) -> Transaction:
        await self._db.pool.acquire()
        self._session = Session(
            self._db.pool, self._principal, clock_offset=self._db.clock_offset, look=self._look
        )
        self._tx = Transaction(self._session, self._principal)
        self._session.patience.__enter__()
        return self._tx

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        try:
            await self._end(error)
        finally:
            try:
                await self._session.close()
            finally:
                self._db.pool.release()

    async def _end(self, error: BaseException | None) -> None:
        """Commit, unless there was an error, within the scope that the work was done in."""
        with _Entered(self._session.patience):
            if error is not None:
                raise error
            await self._session.commit(self._publish)
        if self._session.patience.cancelled_caught:
            raise self._session.give_up()

    def _publish(self) -> None:
        if self._tx.hints:
            self._db.publish(self._tx.hints)


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
