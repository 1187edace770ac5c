"""One transaction on a lent connection: few trips, and an ending that is never guessed.

It is begun by the trip of its first statement, which sets who acts, the time limits and, for
System, the role, all locally, and which brings the time. What nothing waits for (`later`: decisions
and audit rows) travels with whatever is sent next, at the latest with COMMIT. A look is one
statement, read only, and begins and ends in one trip: what libpq sends together is one transaction.

What can race: a cancel at any step. Before COMMIT is sent, the transaction is rolled back; after,
it runs to its end. A dead idle connection looks alive, so when it is lost in the opening trip,
which has no effect, a new connection takes its place once. Trouble anywhere else is Unavailable:
nothing was done. COMMIT stands under a shield for COMMIT_SECONDS; when its answer is lost the
connection is closed and OutcomeUnknown raised, which nobody retries.

A server that is frozen, or behind a line that swallows packets, keeps none of its own time limits:
a transaction also has a deadline here, ANSWER_SECONDS, after which its connection is closed. One
scope holds it and becomes the commit's shield, since a deadline costs as much as a short trip.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import LiteralString

import trio

from muster.errors import OutcomeUnknown, Unavailable
from muster.pg.driver import Connection, DatabaseError, Loss, OperationalError, classify
from muster.pg.pipeline import Answer, Step
from muster.pg.pool import Pool
from muster.principals import Node, Principal, System

COMMIT_SECONDS = 5.0
STATEMENT_SECONDS = 10
LOCK_SECONDS = 5
ANSWER_SECONDS = 15.0  # for all of a transaction; above the server's limits, which speak clearly
# No other SQL asks for the time.
READ_TIME: LiteralString = "select now()"

_BEGIN = Step("begin")
_SET: LiteralString = (
    f"{READ_TIME}, set_config('muster.owner_id', %(owner)s, true),"
    " set_config('muster.actor', %(actor)s, true),"
    " set_config('statement_timeout', %(statement)s, true),"
    " set_config('lock_timeout', %(lock)s, true)"
)
_SYSTEM: LiteralString = ", set_config('role', 'muster_system', true)"
_READ_ONLY: LiteralString = ", set_config('transaction_read_only', 'on', true)"
# By whether it is System's, and a look.
_OPENINGS: Mapping[tuple[bool, bool], LiteralString] = {
    (False, False): _SET,
    (True, False): _SET + _SYSTEM,
    (False, True): _SET + _READ_ONLY,
    (True, True): _SET + _SYSTEM + _READ_ONLY,
}


class TryAgain(Unavailable):
    """A deadlock, a serialization failure or an outdated plan.

    `Database.run` tries again, others report it.
    """


def owner_of(principal: Principal) -> int | None:
    """The one owner that a principal acts for, if there is one."""
    return None if isinstance(principal, System | Node) else principal.owner_id


class Session:
    """A transaction, from its first statement to `commit` or `close`; the caller has a permit.

    It is worked in within the scope `patience`; when that was cancelled, `give_up` says what is so.
    """

    def __init__(
        self, pool: Pool, principal: Principal, *, clock_offset: timedelta, look: bool
    ) -> None:
        self.now: datetime | None = None
        self.clock_offset = clock_offset
        self._pool = pool
        self._principal = principal
        self._look = look
        self.patience = trio.CancelScope(deadline=trio.current_time() + ANSWER_SECONDS)
        self._committing = False
        self._connection: Connection | None = None
        self._ahead: list[Step] = []

    async def open(self) -> None:
        """Begin, where something needs the time before the first statement."""
        if self.now is None:
            assert not self._look, "a look has no time to give"
            await self._begin(())

    async def ask(self, *steps: Step) -> Sequence[Answer]:
        """Run statements in one trip, after those that were to come later; their answers."""
        count = len(self._ahead)
        steps = (*self._ahead, *steps)
        self._ahead.clear()
        if self.now is None:
            return await self._begin(steps)
        assert self._connection is not None
        assert not self._look, "a look is one statement"
        with _translating():
            return (await self._connection.ask(*steps))[count:]

    def later(self, step: Step) -> None:
        """Run a statement with the next trip; nobody asks for its answer."""
        self._ahead.append(step)

    async def commit(self, publish: Callable[[], None]) -> None:
        """Commit if anything was sent, and call `publish` under the same shield."""
        connection = self._connection
        if connection is not None and not self._look:
            assert not connection.failed, "work went on after the database had refused it"
            self._committing = True
            self.patience.shield = True
            self.patience.deadline = trio.current_time() + COMMIT_SECONDS
            await self._send_commit(connection)
        publish()

    def give_up(self) -> Exception:
        """Close the connection that kept silent for too long; what that means for the caller."""
        if self._connection is not None:
            self._connection.close()
        if self._committing:
            return OutcomeUnknown(
                f"A commit was not answered within {COMMIT_SECONDS:g} s: it happened or it did not."
            )
        return Unavailable(f"The database did not answer within {ANSWER_SECONDS:g} s.")

    async def close(self) -> None:
        """Give the connection back; what was not committed is rolled back."""
        if self._connection is not None:
            await self._pool.give_back(self._connection)

    async def _send_commit(self, connection: Connection) -> None:
        try:
            await connection.commit(*self._ahead)
        except DatabaseError as error:
            # With the transaction doomed but alive, something before COMMIT was refused.
            if classify(error) is Loss.UNAVAILABLE and not connection.failed:
                connection.close()
                raise OutcomeUnknown(
                    "The answer to a commit was lost: it happened or it did not."
                ) from error
            raise _translate(error) from error

    async def _begin(self, steps: Sequence[Step]) -> Sequence[Answer]:
        """Send what opens the transaction and `steps` in one trip; the answers to `steps`."""
        owner_id = owner_of(self._principal)
        who = {
            "owner": "" if owner_id is None else str(int(owner_id)),
            "actor": self._principal.actor,
            "statement": f"{STATEMENT_SECONDS}s",
            "lock": f"{LOCK_SECONDS}s",
        }
        opening = Step(_OPENINGS[isinstance(self._principal, System), self._look], who)
        # A trip is a transaction by itself, unless one is begun.
        first = (opening,) if self._look else (_BEGIN, opening)
        with _translating():
            answers = await self._first_trip([*first, *steps])
        now: datetime = answers[len(first) - 1].scalar()
        self.now = now + self.clock_offset
        return answers[len(first) :]

    async def _first_trip(self, steps: Sequence[Step]) -> list[Answer]:
        reused = self._pool.idle > 0
        self._connection = await self._pool.take()
        try:
            return await self._connection.ask(*steps)
        except OperationalError:
            if not (reused and self._connection.dead):
                raise
        self._connection = None
        self._connection = await self._pool.take(fresh=True)
        return await self._connection.ask(*steps)


class _translating:  # noqa: N801 - reads as the context that it is
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
