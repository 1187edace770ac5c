"""PostgreSQL run by muster itself, when no URL names one.

Theory of operation. A data folder has one cluster. Whoever needs it (the server, each command, in
processes of their own) *joins*: under an exclusive lock it adopts the living server or starts one,
and holds a shared lock on `users` as long as it stays. On *leaving*, whoever gets that lock
exclusively was the last, and stops the server. Locks die with their process, so a kill -9 of any
of them leaves nothing behind but, at worst, a server that the next one adopts: it has a session of
its own and belongs to nobody's process group.

The server listens on a unix socket in a 0700 folder alone, with scram. `watch` ends when it dies;
`ensure_running` brings it back at the same address. Before a start, what a killed postmaster left
is cleared: its children (they hold the shared memory and would refuse the newcomer), and a pid
file whose number now belongs to somebody else.

initdb works in a folder that is renamed when it is whole; a killed one leaves only a name that is
swept at the next try.

Rejected: the wheel's own get_server. As root it opens every parent folder to 0755, it logs in by
trust, puts the socket of a long path into a 0777 folder, and does not restart a killed postmaster.
"""

import os
import secrets
import shutil
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import trio

from muster.errors import Unavailable
from muster.pg.driver import Connection, OperationalError
from muster.pg.faults import DatabaseFault
from muster.pg.files import write_private
from muster.pg.flocks import FileLock
from muster.pg.places import Binaries, Places, find_binaries, find_places, socket_folder

START_SECONDS = 60.0
STOP_SECONDS = 20.0
LOG_BYTES_MAX = 1_000_000
_POLL_SECONDS = 0.01
_PROGRAMS = frozenset({"postgres", "initdb"})

SETTINGS = (
    ("listen_addresses", ""),
    ("unix_socket_permissions", "0700"),
    ("port", "5432"),
    ("TimeZone", "UTC"),
    ("log_timezone", "UTC"),
    ("jit", "off"),
    ("log_checkpoints", "off"),
    # DETAIL lines quote whole rows, and a row may be somebody's mail.
    ("log_error_verbosity", "terse"),
)


class Embedded:
    """The cluster of one data folder, as one user of it sees it."""

    def __init__(self, data_dir: Path, settings: Sequence[tuple[str, str]] = ()) -> None:
        self._data_dir = data_dir
        self._settings = (*SETTINGS, *settings)
        self._users: FileLock | None = None
        self.places: Places = find_places(data_dir)
        self._socket_folder: Path | None = None

    @property
    def admin_url(self) -> str:
        """The superuser's URL; for migrations alone."""
        return self._url("postgres", self.places.password.read_text(encoding="utf-8").strip())

    def app_url(self, password: str) -> str:
        """The URL of muster_app with its password."""
        return self._url("muster_app", password)

    @property
    def postmaster(self) -> int | None:
        """The process id of the living server, if there is one."""
        pid = _read_pid(self.places.data)
        return pid if pid is not None and _runs_in(pid, self.places.data) else None

    async def join(self) -> None:
        """Use the cluster: make it, start it or adopt it. Raises DatabaseFault or Unavailable."""
        users = FileLock(self.places.users)
        try:
            async with FileLock(self.places.lock):
                await users.lock(shared=True)
                await self._run()
        except BaseException:
            users.close()
            raise
        self._users = users

    async def leave(self) -> None:
        """Stop using it; the last one stops the server."""
        assert self._users is not None, "leaving what was not joined"
        users, self._users = self._users, None
        try:
            async with FileLock(self.places.lock):
                if users.try_lock():
                    await self._stop()
        finally:
            users.close()

    async def ensure_running(self) -> None:
        """Bring the server back if it died; its address stays the same."""
        async with FileLock(self.places.lock):
            await self._run()

    def _url(self, user: str, password: str) -> str:
        assert self._socket_folder is not None, "the cluster was not joined"
        host = quote(str(self._socket_folder), safe="")
        return f"postgresql://{user}:{quote(password, safe='')}@/postgres?host={host}&port=5432"

    async def _run(self) -> None:
        # A start that was begun is finished, so that no half-started server is left unwatched.
        with trio.CancelScope(shield=True):
            if not self.places.data.exists():
                await _init(self.places, await self._binaries(), self._settings)
            version = self.places.data / "PG_VERSION"
            if not version.exists():
                raise DatabaseFault(f"{self.places.data} is not a data folder of PostgreSQL.")
            pid = self.postmaster
            self._socket_folder = socket_folder(self.places)
            if pid is None:
                pid = await self._start(version.read_text(encoding="utf-8").strip())
            await self._until_up(pid)

    async def _binaries(self) -> Binaries:
        return await trio.to_thread.run_sync(find_binaries, self.places.account)

    async def _start(self, data_version: str) -> int:
        binaries = await self._binaries()
        if data_version != str(binaries.major):
            raise DatabaseFault(
                f"The data folder {self.places.data} was made by PostgreSQL {data_version};"
                f" this muster brings {binaries.major}: dump with the one, restore with the other."
            )
        assert self._socket_folder is not None
        await _clear_remains(self.places.data, self._socket_folder)
        log = self.places.log
        if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
            log.rename(log.with_name("log.old"))
        with log.open("ab") as said:
            log.chmod(0o600)
            done = await trio.run_process(
                # The shell ends at once, so that the server is nobody's child and outlives us.
                ["/bin/sh", "-c", 'exec 3>&1 1>&2; "$@" 3>&- & echo $! >&3', "sh",
                 str(binaries.folder / "postgres"), "-D", str(self.places.data),
                 "-k", str(self._socket_folder),
                 *(word for name, value in self._settings for word in ("-c", f"{name}={value}"))],
                capture_stdout=True, stderr=said, stdin=b"", cwd="/", env=_environment(),
                start_new_session=True, umask=0o077, **self.places.switch_user(),
            )  # fmt: skip
        return int(done.stdout)

    async def _until_up(self, pid: int) -> None:
        reason = "it did not answer"
        with trio.move_on_after(START_SECONDS):
            while _alive(pid):
                try:
                    (await Connection.open(self.admin_url)).close()
                except OperationalError as error:
                    reason = str(error)
                    await trio.sleep(_POLL_SECONDS)
                else:
                    return
            reason = "it ended"
        tail = self.places.log.read_text(encoding="utf-8", errors="replace")[-500:]
        raise Unavailable(f"PostgreSQL did not start: {reason}; {self.places.log} ends: {tail}")

    async def _stop(self) -> None:
        pid = self.postmaster
        if pid is None:
            return
        for how in (signal.SIGINT, signal.SIGQUIT):
            if _send(pid, how):
                with trio.move_on_after(STOP_SECONDS):
                    await _until_gone(pid)
                    return


@asynccontextmanager
async def use_embedded(
    data_dir: Path, *, settings: Sequence[tuple[str, str]] = ()
) -> AsyncIterator[Embedded]:
    """Use the cluster of a data folder for a block; `settings` matter only if it has to start."""
    cluster = Embedded(data_dir, settings)
    await cluster.join()
    try:
        yield cluster
    finally:
        with trio.CancelScope(shield=True):
            await cluster.leave()


async def watch(cluster: Embedded) -> None:
    """Wait until the server dies, then raise Unavailable: its supervisor starts it again."""
    pid = cluster.postmaster
    if pid is not None:
        await _until_gone(pid)
    raise Unavailable("PostgreSQL is gone.")


async def _init(places: Places, binaries: Binaries, settings: Sequence[tuple[str, str]]) -> None:
    for left in places.home.glob("data.new-*"):
        await _end_processes_in(left)
        shutil.rmtree(left)
    fresh = places.home / f"data.new-{secrets.token_hex(4)}"
    fresh.mkdir(mode=0o700)
    places.own(fresh)
    password = secrets.token_urlsafe(32)
    handed = places.home / "initdb-password"
    write_private(handed, password)
    places.own(handed)
    quick = ["--no-sync"] if ("fsync", "off") in settings else []
    try:
        done = await trio.run_process(
            [str(binaries.folder / "initdb"), "-D", str(fresh), "-U", "postgres",
             "--auth=scram-sha-256", f"--pwfile={handed}", "-E", "UTF8", "--no-instructions",
             "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", *quick],
            capture_stdout=True, capture_stderr=True, check=False, stdin=b"", cwd=fresh,
            env=_environment(), umask=0o077, **places.switch_user(),
        )  # fmt: skip
    finally:
        handed.unlink()
    if done.returncode != 0:
        shutil.rmtree(fresh)
        said = done.stderr.decode(errors="replace")[-500:]
        raise DatabaseFault(f"PostgreSQL's initdb failed: {said}")
    write_private(places.password, password)
    fresh.rename(places.data)


def _environment() -> dict[str, str]:
    """What a PostgreSQL program may know of ours: nothing that would change its ways (PGPORT)."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}


async def _clear_remains(data: Path, sockets: Path) -> None:
    """Make way for a start after a kill -9: nothing here belongs to a living postmaster.

    The lock files go too: their number may be somebody else's by now, or a dead process's that
    nobody reaps (a container without an init), and PostgreSQL takes both for alive.
    """
    # Its children end by themselves unless they are busy; until then they hold the shared memory.
    await _end_processes_in(data)
    (data / "postmaster.pid").unlink(missing_ok=True)
    (sockets / ".s.PGSQL.5432.lock").unlink(missing_ok=True)


async def _end_processes_in(folder: Path) -> None:
    """End what a killed parent left at work in a folder of ours, and what that starts meanwhile."""
    with trio.move_on_after(STOP_SECONDS):
        while orphans := list(_processes_in(folder)):
            for orphan in orphans:
                if _send(orphan, signal.SIGKILL):
                    await _until_gone(orphan)


def _read_pid(data: Path) -> int | None:
    try:
        first = (data / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0]
        return int(first)
    except (FileNotFoundError, ValueError):
        return None


def _runs_in(pid: int, data: Path) -> bool:
    """Whether a process lives, is one of PostgreSQL's and works in a folder, as all of its do.

    Somebody's shell in that folder is neither a server nor to be ended.
    """
    process = Path(f"/proc/{pid}")
    if not Path("/proc/self").exists():
        return _alive(pid)
    try:
        if process.joinpath("comm").read_text(encoding="utf-8").strip() not in _PROGRAMS:
            return False
        return process.joinpath("cwd").readlink() == data
    except OSError:
        return False


def _processes_in(data: Path) -> Iterator[int]:
    proc = Path("/proc")
    if proc.is_dir():
        for entry in proc.iterdir():
            if entry.name.isdigit() and _runs_in(int(entry.name), data):
                yield int(entry.name)


def _alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody reaped does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()
    return state.rpartition(")")[2].split()[0] != "Z"


def _send(pid: int, what: signal.Signals) -> bool:
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        return False
    return True


async def _until_gone(pid: int) -> None:
    """Wait for the end of a process that need not be our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):
        while _alive(pid):  # noqa: ASYNC110 - without pidfd nothing tells of another's child
            await trio.sleep(10 * _POLL_SECONDS)
        return
    try:
        await trio.lowlevel.wait_readable(descriptor)
    finally:
        trio.lowlevel.notify_closing(descriptor)
        os.close(descriptor)
