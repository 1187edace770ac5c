"""psycopg driven by Trio; muster/pg/pipeline.py holds its trips, and nobody else imports it.

Theory of operation. psycopg 3 writes its protocol as generators that yield what they wait for
("readable", "writable") and leave the waiting to the connection. `_Wire` answers with Trio's
`wait_readable` and `wait_writable`, so no thread and no asyncio loop takes part. What had to be
replaced, each pinned by tests/pg/test_driver_contract.py:

- `connection.lock` is an asyncio lock, which fails only once two tasks contend for it;
- `connect()` and `cancel_safe()` need a running asyncio loop, so `_connect_gen` and `_cancel_gen`
  are driven here, and host names are resolved by Trio;
- `wait(timeout=)` (`notifies(timeout=)`) is ours to honour;
- psycopg prepares what `script` runs often, and after a DROP or ALTER then deallocates every
  statement of the session, the pipeline's too: it is told to prepare nothing;
- Trio must hear of a closing descriptor before libpq closes it, or a waiter sleeps for ever;
- psycopg cancels a query only on asyncio's cancel; here `trio.Cancelled` asks the server to stop
  and drains the answer for at most `DRAIN_SECONDS`, else the connection is closed.

A Connection is used by one task at a time. Rejected: psycopg in worker threads (a seventh of the
speed), triopg (asyncpg over trio-asyncio, a quarter), both measured.
"""

import enum
import select
from collections.abc import Callable, Mapping, Sequence
from typing import Any, LiteralString, TypeVar, cast

import trio
from psycopg import AsyncConnection, errors, generators, pq
from psycopg._conninfo_utils import split_attempts
from psycopg.abc import PQGen, PQGenConn
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.json import Jsonb
from psycopg.waiting import READY_R, READY_RW, READY_W, Ready, Wait

from muster.pg.pipeline import Answer, Pipeline, Step, is_outdated

DatabaseError = errors.DatabaseError
OperationalError = errors.OperationalError
IMPLEMENTATION = pq.__impl__  # "binary": with C speedups

R = TypeVar("R")
MakeRow = Callable[..., R]

CONNECT_SECONDS = 5.0
DRAIN_SECONDS = 3.0
# A vanished peer is noticed within about a minute, not after the kernel's two hours.
_DEFAULTS = {
    "application_name": "muster",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}
# What every session of ours has; locally set values come with each transaction. A statement has one
# plan for all its parameters, which tests/test_plans.py pins: left to itself the server plans many
# anew at each run once a table is large, a third of the cost of a post beside a million messages.
_SESSION = (
    "select set_config('search_path', 'muster', false), set_config('TimeZone', 'UTC', false),"
    " set_config('idle_in_transaction_session_timeout', '60s', false),"
    " set_config('plan_cache_mode', 'force_generic_plan', false);"
    " select rolsuper or rolbypassrls from pg_catalog.pg_roles where rolname = session_user"
)


class Loss(enum.Enum):
    """What an error of the database means to whoever holds the transaction."""

    AGAIN = "again"  # deadlock, serialization, an outdated plan: the same work may succeed
    UNAVAILABLE = "unavailable"  # connection, time limit or resources: nothing was done
    BUG = "bug"  # a constraint, a type, a privilege: ours


def classify(error: DatabaseError) -> Loss:
    """Tell what an error means (SQLSTATE class 40 is a retry, other operational ones trouble)."""
    if isinstance(error, errors.SerializationFailure | errors.DeadlockDetected):
        return Loss.AGAIN
    if is_outdated(error):
        return Loss.AGAIN
    if isinstance(error, OperationalError):
        return Loss.UNAVAILABLE
    return Loss.BUG


async def drive(gen: PQGen[R], descriptor: int) -> R:
    """Run a generator of an open connection to its end; its descriptor does not change."""
    try:
        want = next(gen)
        while True:
            want = gen.send(await _ready(descriptor, want))
    except StopIteration as done:
        return cast("R", done.value)


async def drive_connecting(gen: PQGenConn[R]) -> R:
    """Run a generator that connects or cancels: it names its descriptor at each step."""
    try:
        descriptor, want = next(gen)
        while True:
            descriptor, want = gen.send(await _ready(descriptor, want))
    except StopIteration as done:
        return cast("R", done.value)


async def _ready(descriptor: int, want: Wait) -> Ready:
    # A socket is nearly always writable: one poll without waiting saves a trip through the loop.
    if want & Wait.W:
        poll = select.poll()
        asked = select.POLLOUT | (select.POLLIN if want & Wait.R else 0)
        poll.register(descriptor, asked)
        if events := poll.poll(0):
            mask = events[0][1]
            readable = mask & select.POLLIN
            if writable := mask & (select.POLLOUT | select.POLLERR | select.POLLHUP):
                return READY_RW if readable and writable else READY_W
            return READY_R
    if want == Wait.R:
        await trio.lowlevel.wait_readable(descriptor)
        return READY_R
    if want == Wait.W:
        await trio.lowlevel.wait_writable(descriptor)
        return READY_W
    return await _either(descriptor)


async def _either(descriptor: int) -> Ready:
    ready: list[Ready] = []
    async with trio.open_nursery() as nursery:

        async def wait(until: Callable[[int], Any], flag: Ready) -> None:
            await until(descriptor)
            ready.append(flag)
            nursery.cancel_scope.cancel()

        nursery.start_soon(wait, trio.lowlevel.wait_readable, READY_R)
        nursery.start_soon(wait, trio.lowlevel.wait_writable, READY_W)
    return READY_RW if len(ready) > 1 else ready[0]


class _Wire(AsyncConnection[Any]):
    """psycopg's connection with Trio's waiting."""

    drains = True

    async def wait(
        self,
        gen: PQGen[R],
        interval: float = 0.0,  # noqa: ARG002 - psycopg's own signature; Trio needs no interval
        timeout: float | None = None,
    ) -> R:
        try:
            if timeout is None:
                return await drive(gen, self.pgconn.socket)
            with trio.move_on_after(timeout):
                return await drive(gen, self.pgconn.socket)
        except trio.Cancelled:
            await self._stop_query(gen)
            raise
        raise errors._WaitTimeout  # noqa: SLF001 - what psycopg's notifies() expects

    async def _stop_query(self, gen: PQGen[R]) -> None:
        if self.pgconn.transaction_status != pq.TransactionStatus.ACTIVE:
            return
        if not self.drains:
            self.finish()
            return
        with trio.move_on_after(DRAIN_SECONDS, shield=True) as scope:
            try:
                await drive_connecting(self._cancel_gen())
                await drive(gen, self.pgconn.socket)
            except errors.QueryCanceled:
                return
            except errors.Error:
                self.finish()
        if scope.cancelled_caught:
            self.finish()

    def finish(self) -> None:
        """Close at once; a task that still waits for the descriptor gets ClosedResourceError."""
        still_open = self.pgconn.status != pq.ConnStatus.BAD and self.pgconn.socket >= 0
        if still_open and trio.lowlevel.in_trio_run():
            trio.lowlevel.notify_closing(self.pgconn.socket)
        self._closed = True
        self.pgconn.finish()


class Connection:
    """One session on the server, in autocommit until `script` begins a transaction."""

    def __init__(self, wire: _Wire, *, privileged: bool) -> None:
        self._wire = wire
        self._pipeline = Pipeline(wire)
        self.privileged = privileged  # row-level security does not hold its login

    @classmethod
    async def open(cls, url: str) -> "Connection":
        """Connect within CONNECT_SECONDS; raises OperationalError with every attempt's reason."""
        wire = await _connect(url)
        try:
            wire.lock = cast("Any", trio.Lock())
            wire.prepare_threshold = None
            wire._autocommit = True  # noqa: SLF001 - the setter would want a round trip
            cursor = await wire.execute(_SESSION)
            cursor.nextset()
            ((privileged,),) = await cursor.fetchall()
        except BaseException:
            wire.finish()
            raise
        return cls(wire, privileged=privileged)

    @property
    def dead(self) -> bool:
        """Known to be closed; a connection whose peer left unheard still looks alive."""
        return self._wire.closed

    @property
    def idle(self) -> bool:
        """Between transactions, with no answer outstanding: fit to be used again."""
        return self._wire.pgconn.transaction_status == pq.TransactionStatus.IDLE

    @property
    def failed(self) -> bool:
        """Inside a transaction that an error has doomed: the server answers COMMIT by ROLLBACK."""
        return self._wire.pgconn.transaction_status == pq.TransactionStatus.INERROR

    @property
    def server_version(self) -> int:
        """The server's version: 180004 is 18.4."""
        return self._wire.pgconn.server_version

    @property
    def backend_pid(self) -> int:
        """The process on the server that serves this session."""
        return self._wire.pgconn.backend_pid

    async def ask(self, *steps: Step) -> list[Answer]:
        """Run statements in one trip; raises the error of the first that failed."""
        return await self._pipeline.ask(steps)

    async def fetch(
        self, sql: LiteralString, params: Mapping[str, object], make: MakeRow[R]
    ) -> list[R]:
        """Run one statement; each row becomes `make(column=value, …)`."""
        (answer,) = await self.ask(Step(sql, params))
        return answer.rows(make)

    async def scalar(self, sql: LiteralString, params: Mapping[str, object]) -> Any:
        """Run one statement; its first row's first column, or None without a row."""
        (answer,) = await self.ask(Step(sql, params))
        return answer.scalar()

    async def execute(self, sql: LiteralString, params: Mapping[str, object]) -> int:
        """Run one statement; the number of rows that it touched."""
        (answer,) = await self.ask(Step(sql, params))
        return answer.touched

    async def script(self, sql: str) -> list[tuple[Any, ...]]:
        """Run several statements without parameters in one trip; the rows of the last that has any.

        The text must be a constant or made of `quote`d values.
        """
        cursor = await self._wire.execute(sql)
        rows: list[tuple[Any, ...]] = []
        while True:
            if cursor.description is not None:
                rows = await cursor.fetchall()
            if not cursor.nextset():
                return rows

    def quote(self, text: str) -> str:
        """A text as a literal of SQL, escaped by libpq for this session."""
        return bytes(pq.Escaping(self._wire.pgconn).escape_literal(text.encode())).decode()

    def scram(self, password: str, role: str) -> str:
        """The verifier of a password, so that the password itself is in no statement or log."""
        wire = self._wire.pgconn
        return wire.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()

    async def commit(self, *last: Step) -> None:
        """Run the last statements and COMMIT in one trip.

        A cancel while it is under way closes the connection instead of asking.
        """
        self._wire.drains = False
        try:
            *_, answer = await self.ask(*last, Step("commit"))
        finally:
            self._wire.drains = True
        assert answer.tag == "COMMIT", answer.tag

    async def rollback(self) -> None:
        """End the transaction, if there is one, without a trace."""
        await self._wire.rollback()

    async def notifications(self, channel: str) -> Callable[[], Any]:
        """LISTEN; the returned function waits for the next payloads (at least one)."""
        payloads: list[str] = []
        self._wire.add_notify_handler(lambda heard: payloads.append(heard.payload))
        await self._wire.execute(f"listen {channel}")

        async def heard() -> Sequence[str]:
            while not payloads:
                await self._wire.wait(generators.notifies(self._wire.pgconn))
            batch = tuple(payloads)
            payloads.clear()
            return batch

        return heard

    def close(self) -> None:
        """Close at once, whatever is under way."""
        self._wire.finish()


def json(value: Mapping[str, object]) -> object:
    """A mapping as a parameter of type jsonb."""
    return Jsonb(value)


def with_login(url: str, user: str, password: str) -> str:
    """The same database by another login."""
    return make_conninfo(url, user=user, password=password)


def with_database(url: str, name: str) -> str:
    """The same login to another database of the same server."""
    return make_conninfo(url, dbname=name)


async def _connect(url: str) -> _Wire:
    params = {**_DEFAULTS, **conninfo_to_dict(url)}
    reasons: list[str] = []
    with trio.move_on_after(float(params.pop("connect_timeout", None) or CONNECT_SECONDS)):
        for attempt in split_attempts(params):
            try:
                for address in await _addresses(attempt):
                    try:
                        return await drive_connecting(_Wire._connect_gen(make_conninfo(**address)))  # noqa: SLF001
                    except errors.Error as error:
                        reasons.append(str(error))
            except (OSError, UnicodeError) as error:
                reasons.append(f"cannot resolve {attempt.get('host')}: {error}")
        raise OperationalError("; ".join(reasons))
    raise OperationalError("; ".join([*reasons, "timed out"]))


async def _addresses(attempt: Mapping[str, Any]) -> list[dict[str, Any]]:
    host = attempt.get("host")
    if not host or host.startswith("/") or attempt.get("hostaddr"):
        return [dict(attempt)]
    port = attempt.get("port") or "5432"
    found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    return [{**attempt, "hostaddr": entry[4][0]} for entry in found]
