"""What is done to everybody, at moments that the seed chooses.

One plan of heavy blows is carried out one after the other, so that each one's outage can be told:
the server is killed and started again, PostgreSQL or one of its backends is killed, the server is
stopped past the lease of a claim. Beside it, twice a second, some session of the database is ended,
the listener's too, and client processes are killed, beyond what they do to themselves (mortal.py).
"""

import contextlib
import enum
import os
import random
import signal
import time
from collections.abc import Callable, Sequence

import attrs
import trio

from bench.chaos.children import POLL_SECONDS, ChaosError, Child, ServerChild
from bench.dovecot import Dovecot
from muster.errors import Unavailable
from muster.pg.driver import Connection, DatabaseError
from muster.pg.embedded import Embedded
from muster.pg.flocks import FileLock

PAUSE_SECONDS = (1.0, 5.0)
AWAY_SECONDS = (0.0, 2.0)
SESSIONS_EVERY_SECONDS = 0.5
READY_SECONDS_MAX = 60.0
STARTS_MAX = 20
UNREACHABLE = 6  # an exit code of muster's

SESSIONS = """
    select pid, query ilike 'listen%%' as listens from pg_stat_activity
    where datname = current_database() and backend_type = 'client backend'
      and pid <> pg_backend_pid()
    order by pid
"""


@attrs.frozen(kw_only=True)
class Session:
    """A session of the database, not our own."""

    pid: int
    listens: bool


class Kind(enum.Enum):
    """A nemesis; the value is what it is called in the output."""

    SERVER = "the server killed"
    POSTMASTER = "PostgreSQL killed"
    BACKEND = "a backend of PostgreSQL killed"
    STOPPED = "the server stopped past the lease"
    SESSION = "a database session ended"
    LISTENER = "the listener's session ended"
    CLIENT = "a client process killed"
    DOVECOT = "dovecot killed"


@attrs.frozen(kw_only=True)
class Blow:
    """One thing that was done, from `at` until `until`; in between the server need not answer.

    `ready_seconds` is how long after its cause was over the server was ready, by /readyz.
    """

    kind: Kind
    at: float
    until: float
    ready_seconds: float | None = None


@attrs.frozen(kw_only=True)
class Plan:
    """How often each blow is struck; `minutes` bounds the whole."""

    kills: int
    stop_seconds: float = 0.0
    minutes: float | None = None
    clients: int = 2  # killed, for ten kills of the server
    dovecots: int = 0  # the same

    def list_blows(self, chance: random.Random) -> list[Kind]:
        """All of them, shuffled; PostgreSQL dies once for ten kills of the server."""
        few = max(1, self.kills // 10)
        blows = [
            *[Kind.SERVER] * self.kills,
            *[Kind.POSTMASTER] * few,
            *[Kind.BACKEND] * max(1, few // 2),
            *[Kind.CLIENT] * (self.clients * few),
            *[Kind.DOVECOT] * (self.dovecots * few),
        ]
        chance.shuffle(blows)
        if self.stop_seconds:
            blows.insert(len(blows) // 4, Kind.STOPPED)
        return blows


@attrs.define(kw_only=True)
class Nemeses:
    """They have a server with its cluster, and clients that somebody else starts again."""

    plan: Plan
    random: random.Random
    server: ServerChild
    cluster: Embedded | None
    clients: Sequence[Child]
    say: Callable[[str], None]
    dovecot: Dovecot | None = None
    blows: list[Blow] = attrs.field(factory=list)
    failed_starts: list[str] = attrs.field(factory=list)

    async def run(self) -> None:
        """Carry the plan out, or as much of it as its minutes let."""
        async with trio.open_nursery() as nursery:
            if self.cluster is not None:
                nursery.start_soon(self._end_sessions, self.cluster)
            minutes = float("inf") if self.plan.minutes is None else self.plan.minutes
            end = time.monotonic() + minutes * 60
            for kind in self.plan.list_blows(self.random):
                pause_seconds = self.random.uniform(*PAUSE_SECONDS)
                left_seconds = max(0.0, end - time.monotonic())
                await trio.sleep(min(pause_seconds, left_seconds))
                if pause_seconds >= left_seconds:
                    break
                if kind is Kind.STOPPED and left_seconds < self.plan.stop_seconds + pause_seconds:
                    self.say("no time is left to stop the server past the lease")
                    continue
                await self._strike(kind)
            nursery.cancel_scope.cancel()

    async def _strike(self, kind: Kind) -> None:
        at = time.monotonic()
        ready_seconds: float | None = None
        match kind:
            case Kind.SERVER:
                ready_seconds = await self._kill_server()
            case Kind.POSTMASTER | Kind.BACKEND if self.cluster is not None:
                ready_seconds = await self._kill_postgres(self.cluster, kind)
            case Kind.STOPPED:
                ready_seconds = await self._stop_server()
            case Kind.CLIENT:
                self._kill_client()
            case Kind.DOVECOT if self.dovecot is not None:
                await self.dovecot.kill()
                await trio.sleep(self.random.uniform(*AWAY_SECONDS))
                await self.dovecot.start()
            case _:
                return
        blow = Blow(kind=kind, at=at, until=time.monotonic(), ready_seconds=ready_seconds)
        self.blows.append(blow)
        told = f", ready after {ready_seconds:.2f} s" if ready_seconds is not None else ""
        self.say(f"{kind.value}{told}")

    async def _kill_server(self) -> float:
        await self.server.kill()
        began = time.monotonic()
        for _ in range(STARTS_MAX):
            try:
                await self.server.start()
            except ChaosError as error:
                # One whose session is ended while it starts says so and ends, with code 6: whoever
                # watches over it starts it again.
                if self.server.process is None or self.server.process.returncode != UNREACHABLE:
                    raise
                self.failed_starts.append(str(error))
                await self.server.kill()
            else:
                return time.monotonic() - began
        raise ChaosError(f"the server did not start in {STARTS_MAX} tries")

    async def _kill_postgres(self, cluster: Embedded, kind: Kind) -> float | None:
        """Kill it; how long after its return the server, which lives on, is ready again."""
        life = self.server.process
        if kind is Kind.POSTMASTER:
            async with FileLock(cluster.places.lock):
                postmaster = cluster.postmaster
                if postmaster is None:
                    return None
                os.kill(postmaster, signal.SIGKILL)
                # Whoever wants to bring it back waits for the lock.
                await trio.sleep(self.random.uniform(*AWAY_SECONDS))
        elif not await self._kill_backend(cluster):
            return None
        back_at = await until_postgres_is_back(cluster.admin_url)
        ready_at = await self._until_ready()
        assert self.server.process is life, "the server was started again meanwhile"
        return max(0.0, ready_at - back_at)

    async def _kill_backend(self, cluster: Embedded) -> bool:
        """One SIGKILL of a backend, which makes PostgreSQL end them all and recover."""
        with contextlib.suppress(DatabaseError):
            admin = await Connection.open(cluster.admin_url)
            try:
                sessions = await admin.fetch(SESSIONS, {}, Session)
            finally:
                admin.close()
            if sessions:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.random.choice(sessions).pid, signal.SIGKILL)
                    return True
        return False

    async def _until_ready(self) -> float:
        with trio.move_on_after(READY_SECONDS_MAX):
            # Twice, because the first may be older than the blow.
            seen = 0
            while seen < 2:
                seen = seen + 1 if await self.server.status("/readyz") == 200 else 0
                await trio.sleep(POLL_SECONDS)
            return time.monotonic()
        raise ChaosError(f"the server is not ready after {READY_SECONDS_MAX:g} s")

    async def _stop_server(self) -> float:
        self.server.send(signal.SIGSTOP)
        try:
            await trio.sleep(self.plan.stop_seconds)
        finally:
            self.server.send(signal.SIGCONT)
        began = time.monotonic()
        return await self._until_ready() - began

    def _kill_client(self) -> None:
        victim = self.random.choice(self.clients)
        if not victim.has_ended:
            victim.send(signal.SIGKILL)

    async def _end_sessions(self, cluster: Embedded) -> None:
        """Twice a second, one session; every third time the listener's, if it has one."""
        count = 0
        while True:
            await trio.sleep(SESSIONS_EVERY_SECONDS)
            count += 1
            with contextlib.suppress(DatabaseError, Unavailable):
                await self._end_session(cluster, listener=count % 3 == 0)

    async def _end_session(self, cluster: Embedded, *, listener: bool) -> None:
        admin = await Connection.open(cluster.admin_url)
        try:
            sessions = await admin.fetch(SESSIONS, {}, Session)
            listeners = [session for session in sessions if session.listens]
            victims = listeners if listener and listeners else sessions
            if victims:
                victim = self.random.choice(victims)
                await admin.scalar("select pg_terminate_backend(%(pid)s)", {"pid": victim.pid})
                at = time.monotonic()
                kind = Kind.LISTENER if victim.listens else Kind.SESSION
                self.blows.append(Blow(kind=kind, at=at, until=at))
        finally:
            admin.close()


async def until_postgres_is_back(url: str) -> float:
    """Wait until it takes a connection; when that was. ChaosError where it does not come back."""
    with trio.move_on_after(READY_SECONDS_MAX):
        while True:
            try:
                (await Connection.open(url)).close()
            except DatabaseError:
                await trio.sleep(POLL_SECONDS)
            else:
                return time.monotonic()
    raise ChaosError(f"PostgreSQL is not back after {READY_SECONDS_MAX:g} s")
