"""Several statements to the server and their answers back, in one trip.

A cursor of psycopg costs twice the CPU of its protocol, and each trip through Trio as much as the
statement itself (48 us a statement, against 22 us for four of them in one trip, measured with
PostgreSQL 18 on a unix socket). So statements are sent here, by libpq's pipeline mode: each is
parsed once a connection under a name, and bound with its parameters as text, whose types the server
knows from the statement; only `now` and `owner_id`, which stand in arithmetic, are declared.

After the first error of a trip the server passes over the rest of it, COMMIT too.

The names can go out of date while the connection lives: a migration changes the type of a column,
or a pooler throws statements away. Then all are forgotten, and the work may be tried again.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, LiteralString, TypeVar

import attrs
from psycopg import AsyncConnection, abc, errors, pq
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.waiting import READY_R, WAIT_R, WAIT_RW

R = TypeVar("R")

DECLARED: Mapping[str, str] = {"now": "timestamptz", "owner_id": "bigint"}
"""The parameters whose type is told to the server, by name."""

_OIDS = {"timestamptz": 1184, "bigint": 20}
_PARAMETER = re.compile(r"%\((\w+)\)s|%%")
_DONE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY)


@attrs.frozen
class Step:
    """One statement of a trip, with the values of its named parameters."""

    sql: LiteralString
    params: Mapping[str, object] = attrs.field(factory=dict)


@attrs.define
class _Statement:
    """A statement in libpq's words; the server knows it by `name` once it was parsed."""

    text: bytes
    parameters: tuple[str, ...]
    types: tuple[int, ...]
    formats: tuple[PyFormat, ...]
    name: bytes | None = None
    columns: tuple[str, ...] = ()  # of its answer, which stay the same once it was parsed


@attrs.frozen
class Answer:
    """What the server said to one statement."""

    _result: pq.abc.PGresult
    _statement: _Statement
    _transformer: abc.Transformer

    def rows(self, make: Callable[..., R]) -> list[R]:
        """Each row as `make(column=value, ...)`."""
        result, columns = self._result, self._statement.columns
        if not columns:
            columns = tuple((result.fname(at) or b"").decode() for at in range(result.nfields))
            self._statement.columns = columns
        return [make(**dict(zip(columns, row, strict=True))) for row in self._load()]

    def scalar(self) -> Any:
        """The first row's first column, or None without a row."""
        rows = self._load()
        return rows[0][0] if rows else None

    @property
    def touched(self) -> int:
        """How many rows the statement touched."""
        return self._result.command_tuples or 0

    @property
    def tag(self) -> str:
        """What the server calls what it did: `COMMIT`, `UPDATE 1`."""
        return (self._result.command_status or b"").decode()

    def _load(self) -> list[tuple[Any, ...]]:
        self._transformer.set_pgresult(self._result)
        try:
            return self._transformer.load_rows(0, self._result.ntuples, tuple)
        finally:
            self._transformer.set_pgresult(None)


def is_outdated(error: errors.Error) -> bool:
    """Whether a statement was refused for its name alone, which now stands for nothing."""
    return isinstance(error, errors.InvalidSqlStatementName) or (
        # "cached plan must not change result type", in whatever language the server speaks.
        isinstance(error, errors.FeatureNotSupported)
        and error.diag.source_function == "RevalidateCachedQuery"
    )


class Pipeline:
    """The trips of one connection, one at a time."""

    def __init__(self, wire: AsyncConnection[Any]) -> None:
        self._wire = wire
        self._transformer: abc.Transformer = Transformer(wire)
        self._statements: dict[str, _Statement] = {}
        self._names = itertools.count(1)

    async def ask(self, steps: Sequence[Step]) -> list[Answer]:
        """Send the statements together; an answer for each.

        Raises the error of the first that failed.
        """
        # Bound before anything is sent: a value that does not fit must leave no half of a trip.
        bound = [self._bind(step) for step in steps]
        pgconn = self._wire.pgconn
        names: dict[bytes, bytes] = {}  # of what is parsed in this trip, by its text
        parsed: dict[int, _Statement] = {}  # by the place of the answer to its parsing
        count = 0
        pgconn.enter_pipeline_mode()
        try:
            for statement, values in bound:
                name = statement.name or names.get(statement.text)
                if name is None:
                    # A parsing that failed may have taken its name: none is used twice.
                    name = names[statement.text] = f"muster_{next(self._names)}".encode()
                    pgconn.send_prepare(name, statement.text, statement.types)
                    parsed[count] = statement
                    count += 1
                pgconn.send_query_prepared(name, values)
                count += 1
            pgconn.pipeline_sync()
            results = await self._wire.wait(_answers(pgconn))
        finally:
            # After a cancel whose answer did not come, the connection is closed by now.
            if pgconn.status == pq.ConnStatus.OK:
                pgconn.exit_pipeline_mode()
        answers: list[Answer] = []
        for at, result in enumerate(results):
            if result.status not in _DONE:
                error = errors.error_from_result(result)
                if is_outdated(error):
                    self._statements.clear()
                raise error
            if at in parsed:
                parsed[at].name = names[parsed[at].text]
            else:
                statement, _ = bound[len(answers)]
                answers.append(Answer(result, statement, self._transformer))
        assert len(results) == count, f"{len(results)} answers to {count} statements"
        return answers

    def _bind(self, step: Step) -> tuple[_Statement, Sequence[abc.Buffer | None]]:
        statement = self._statements.get(step.sql)
        if statement is None:
            statement = self._statements[step.sql] = _read(step.sql)
        values = [step.params[name] for name in statement.parameters]
        return statement, self._transformer.dump_sequence(values, statement.formats)


def _read(sql: str) -> _Statement:
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return "%"
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return _Statement(
        text=_PARAMETER.sub(number, sql).encode(),
        parameters=tuple(names),
        types=tuple(_OIDS[DECLARED[name]] if name in DECLARED else 0 for name in names),
        formats=(PyFormat.TEXT,) * len(names),
    )


def _answers(pgconn: pq.abc.PGconn) -> PQGen[list[pq.abc.PGresult]]:
    """Write what is sent and read every answer up to the trip's end."""
    while pgconn.flush():
        ready = yield WAIT_RW
        # None after a cancel, when the generator is driven on without having waited.
        if ready is not None and ready & READY_R:
            pgconn.consume_input()
    results: list[pq.abc.PGresult] = []
    while True:
        while pgconn.is_busy():
            yield WAIT_R
            pgconn.consume_input()
        _pass_notifications_on(pgconn)
        result = pgconn.get_result()
        if result is None:
            if pgconn.status == pq.ConnStatus.BAD:
                raise errors.OperationalError(pgconn.get_error_message())
        elif result.status == pq.ExecStatus.PIPELINE_SYNC:
            return results
        elif pgconn.status == pq.ConnStatus.BAD:
            raise errors.error_from_result(result)
        else:
            results.append(result)


def _pass_notifications_on(pgconn: pq.abc.PGconn) -> None:
    while (notification := pgconn.notifies()) is not None:
        if pgconn.notify_handler:
            pgconn.notify_handler(notification)
