"""The bare driver doing the same SQL: an operation is run once and written down, then played again.

Played again, its trips go through muster.pg.driver alone: no operation, no rule, no request.
The ids of messages, drafts, turns and sends differ each time, so a recorded one is replaced by the
one that the same statement gave now, wherever it stands in later parameters, and so are times;
those that a rule made (an expiry) move along with the transaction's own. `prepare_ids` starts those
ids where no other number is.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import attrs

from muster.pg.database import Database
from muster.pg.driver import Connection
from muster.pg.pipeline import Answer, Step
from muster.pg.pool import Pool

FIRST_ID = 10_000_000
_SEQUENCES = {
    "messages": FIRST_ID,
    "drafts": 2 * FIRST_ID,
    "turns": 3 * FIRST_ID,
    "sends": 4 * FIRST_ID,
}
_WAITERS_MAX = 100
_NOW = "now"

Row = Mapping[str, object]


async def prepare_ids(admin_url: str) -> None:
    """Let the ids that differ go on far from any other number and from each other."""
    admin = await Connection.open(admin_url)
    try:
        for table, first in _SEQUENCES.items():
            sequence = f"muster.{table}_id_seq"
            await admin.script(
                f"select setval('{sequence}', greatest(last_value + 1, {first}), false)"
                f" from {sequence}"
            )
    finally:
        admin.close()


@attrs.frozen
class Recorded:
    """A statement, the row that it first gave, and which of its parameters change each time."""

    step: Step
    row: Row
    moving: tuple[str, ...]

    @classmethod
    def of(cls, step: Step, answer: Answer) -> "Recorded":
        """Write down one statement of a trip."""
        rows: list[Row] = answer.rows(dict)
        moving = tuple(name for name, value in step.params.items() if _moves(value))
        return cls(step, rows[0] if rows else {}, moving)


Trip = tuple[Recorded, ...]


class Recorder(Connection):
    """A connection that writes down what it is asked, trip by trip."""

    def __init__(self, inner: Connection, trips: list[Trip]) -> None:
        self.__dict__.update(vars(inner))  # one session, with what it has prepared
        self._trips = trips

    async def ask(self, *steps: Step) -> list[Answer]:
        """Run the statements and write them down; COMMIT comes this way too."""
        answers = await super().ask(*steps)
        self._trips.append(tuple(map(Recorded.of, steps, answers)))
        return answers


class _RecordingPool(Pool):
    def __init__(self, url: str, trips: list[Trip]) -> None:
        super().__init__(url, size=1, waiters_max=_WAITERS_MAX)
        self._trips = trips

    async def take(self, *, fresh: bool = False) -> Connection:
        return Recorder(await super().take(fresh=fresh), self._trips)


@attrs.define
class Recording:
    """A database whose every trip is kept in `trips`."""

    db: Database
    trips: list[Trip]

    async def take(self, work: Callable[[Database], Awaitable[object]]) -> tuple[Trip, ...]:
        """Do the work once and return its trips."""
        self.trips.clear()
        await work(self.db)
        return tuple(self.trips)


@asynccontextmanager
async def recording(app_url: str) -> AsyncIterator[Recording]:
    """A database that is written down, as the server's own role."""
    trips: list[Trip] = []
    pool = _RecordingPool(app_url, trips)
    try:
        db = Database(pool, publish=lambda _: None, clock_offset=timedelta(0))
        yield Recording(db=db, trips=trips)
    finally:
        pool.close()


def count(trips: tuple[Trip, ...]) -> dict[str, float]:
    """How many trips there are, and statements in them, as facts beside a figure."""
    return {"trips to the database": len(trips), "statements": sum(map(len, trips))}


async def play(
    connection: Connection, trips: tuple[Trip, ...], replaced: Mapping[object, object]
) -> None:
    """Make the recorded trips again; `replaced` gives what must differ from the record."""
    known: dict[object, object] = dict(replaced)
    shift = timedelta(0)
    for trip in trips:
        answers = await connection.ask(*(_anew(one, known, shift) for one in trip))
        for recorded, answer in zip(trip, answers, strict=True):
            if recorded.row:
                shift = _learn(recorded.row, answer, known, shift)


def _anew(recorded: Recorded, known: Mapping[object, object], shift: timedelta) -> Step:
    params = dict(recorded.step.params)
    for name in recorded.moving:
        value = params[name]
        moved = value + shift if isinstance(value, datetime) else value
        params[name] = known.get(value, moved)
    return Step(recorded.step.sql, params)


def _learn(was: Row, answer: Answer, known: dict[object, object], shift: timedelta) -> timedelta:
    """Keep the ids and times that this row gives now; returns how far the clock has moved."""
    rows: list[Row] = answer.rows(dict)
    for name, value in was.items() if rows else ():
        now = rows[0][name]
        if isinstance(value, datetime) and isinstance(now, datetime):
            known[value] = now
            if name == _NOW:
                shift = now - value
        elif _is_id(value):
            known[value] = now
    return shift


def _moves(value: object) -> bool:
    return isinstance(value, datetime | str) or _is_id(value)


def _is_id(value: object) -> bool:
    return isinstance(value, int) and value >= FIRST_ID
