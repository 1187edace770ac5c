"""The cluster that muster runs itself: shared by processes, and back after every kind of kill."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from muster.errors import Unavailable
from muster.pg.driver import Connection, OperationalError
from muster.pg.embedded import Embedded, use_embedded, watch
from muster.pg.faults import DatabaseFault
from muster.pg.places import find_places
from tests.support.cluster import SETTINGS, Cluster
from tests.support.waiting import until

# A process of its own that uses a cluster until its stdin ends.
USER = """
import sys, trio
from pathlib import Path
from muster.pg.embedded import use_embedded
async def main():
    async with use_embedded(Path(sys.argv[1]), settings=(("fsync", "off"),)) as cluster:
        sys.stdout.write(f"{cluster.postmaster}\\n")
        sys.stdout.flush()
        await trio.to_thread.run_sync(sys.stdin.read)
trio.run(main)
"""


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data folder that is not there yet; no server of it is left afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="muster-embedded-"))
    folder.chmod(0o711)
    yield folder / "data"
    pid = Embedded(folder / "data").postmaster
    shutil.rmtree(folder)
    assert pid is None, "a server was left behind"


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """A data folder with a cluster that was made and stopped."""
    folder = Path(tempfile.mkdtemp(prefix="muster-embedded-"))
    folder.chmod(0o711)

    async def make() -> None:
        async with use_embedded(folder / "data", settings=SETTINGS):
            pass

    trio.run(make)
    yield folder / "data"
    shutil.rmtree(folder)


@pytest.fixture
def made(data_dir: Path, template: Path) -> Path:
    """A data folder with a cluster of its own that does not run."""
    subprocess.run(["cp", "-a", template, data_dir], check=True)
    return data_dir


@asynccontextmanager
async def user_of(data_dir: Path) -> AsyncIterator[trio.Process]:
    """A second process that has not said yet that it is up; killed at the end if it is there."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", USER, str(data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdio.aclose() if process.stdio else None


async def up(process: trio.Process) -> int:
    """Wait until a user's cluster is up; the postmaster's process id."""
    said = b""
    assert process.stdout is not None
    with trio.fail_after(60):
        while not said.endswith(b"\n"):
            more = await process.stdout.receive_some()
            assert more, "the process ended"
            said += more
    return int(said)


async def leave(process: trio.Process) -> None:
    """Let a user end as it wants to."""
    assert process.stdin is not None
    await process.stdin.aclose()
    with trio.fail_after(60):
        assert await process.wait() == 0


async def answer(cluster: Embedded) -> int:
    """Ask the server something."""
    connection = await Connection.open(cluster.admin_url)
    try:
        return int(await connection.scalar("select 41 + 1", {}))
    finally:
        connection.close()


async def test_made_adopted_and_stopped_by_the_last(data_dir: Path) -> None:
    """The second user adopts the server of the first; it runs until the last has left."""
    async with user_of(data_dir) as first, user_of(data_dir) as second:
        # Both begin at once on a folder that is not there, and find one server.
        pid = await up(first)
        assert await up(second) == pid
        await leave(first)
        cluster = Embedded(data_dir)
        assert cluster.postmaster == pid
        await leave(second)
        assert cluster.postmaster is None


async def test_outlives_a_killed_starter(made: Path) -> None:
    """A kill -9 of the process that started the server leaves it to the next one."""
    async with user_of(made) as starter:
        pid = await up(starter)
        starter.kill()
        await starter.wait()
    async with use_embedded(made) as cluster:
        assert cluster.postmaster == pid
        assert await answer(cluster) == 42
    assert cluster.postmaster is None


async def test_back_after_a_killed_postmaster(made: Path) -> None:
    """After a kill -9 of the postmaster, watch ends and ensure_running brings it back."""
    async with use_embedded(made, settings=SETTINGS) as cluster:
        first = cluster.postmaster
        url = cluster.admin_url
        assert first is not None
        busy = await Connection.open(url)
        # A process that ignores the loss of its postmaster holds the shared memory.
        os.kill(busy.backend_pid, signal.SIGSTOP)
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:

                async def watched() -> None:
                    with pytest.raises(Unavailable, match="gone"):
                        await watch(cluster)

                nursery.start_soon(watched)
                os.kill(first, signal.SIGKILL)
            await cluster.ensure_running()
        assert cluster.postmaster not in {None, first}
        assert cluster.admin_url == url
        assert await answer(cluster) == 42
        with pytest.raises(OperationalError):
            await busy.scalar("select 1", {})


async def test_number_of_a_dead_postmaster_is_anothers(made: Path) -> None:
    """A pid file whose number belongs to some other process does not stop the start."""
    async with use_embedded(made, settings=SETTINGS) as cluster:
        places = cluster.places
        pid_file = places.data / "postmaster.pid"
        written = pid_file.read_text()
    # It even stands in the data folder, as somebody's shell may.
    stranger = await trio.lowlevel.open_process(
        ["sleep", "60"], cwd=places.data, **places.switch_user()
    )
    try:
        pid_file.write_text(written.replace(written.split("\n")[0], str(stranger.pid), 1))
        places.own(pid_file)
        async with use_embedded(made, settings=SETTINGS) as cluster:
            assert await answer(cluster) == 42
        assert stranger.poll() is None
    finally:
        stranger.kill()
        await stranger.wait()


async def test_killed_in_the_middle_of_initdb(data_dir: Path) -> None:
    """A folder whose making was killed is made again, and what was begun is swept away."""
    async with user_of(data_dir) as maker:
        home = Embedded(data_dir).places.home
        await until(lambda: any((new / "base").exists() for new in home.glob("data.new-*")), 60)
        maker.kill()
        await maker.wait()
    assert not (home / "data").exists()
    async with use_embedded(data_dir, settings=SETTINGS) as cluster:
        assert await answer(cluster) == 42
        assert not list(home.glob("data.new-*"))


@pytest.mark.parametrize("version", ["17", "19"])
async def test_other_major_is_refused(made: Path, version: str) -> None:
    """A data folder of another major version is refused by name."""
    (find_places(made).data / "PG_VERSION").write_text(f"{version}\n")
    with pytest.raises(DatabaseFault, match=f"made by PostgreSQL {version}.* brings 18"):
        async with use_embedded(made, settings=SETTINGS):
            pass


async def test_foreign_folder_is_refused(data_dir: Path) -> None:
    """A folder named like ours that PostgreSQL did not make is left alone."""
    places = find_places(data_dir)
    places.data.mkdir()
    places.own(places.data)
    with pytest.raises(DatabaseFault, match="not a data folder"):
        async with use_embedded(data_dir):
            pass


async def test_start_that_fails_says_why(made: Path) -> None:
    """When the server does not start, the error ends with what it said."""
    with pytest.raises(Unavailable, match="no_such_setting"):
        async with use_embedded(made, settings=(("no_such_setting", "1"), ("fsync", "off"))):
            pass


async def test_a_cancelled_user_leaves(data_dir: Path) -> None:
    """A user that is cancelled while it joins or works leaves no server behind."""
    for seconds in (0.05, 1.5):
        with trio.move_on_after(seconds):
            async with use_embedded(data_dir, settings=SETTINGS):
                await trio.sleep_forever()
        assert Embedded(data_dir).postmaster is None


def mode(path: Path) -> int:
    """The permission bits of a path."""
    return stat.S_IMODE(path.stat().st_mode)


async def test_nobody_else_can_reach_it(cluster: Cluster) -> None:
    """There is no TCP, the folders are 0700, secrets 0600, and a login needs its password."""
    places = cluster.embedded.places
    assert mode(places.data) == 0o700
    assert mode(places.home / "run") == 0o700
    assert mode(places.password) == 0o600
    admin = await Connection.open(cluster.admin_url)
    assert await admin.script("select current_setting('listen_addresses')") == [("",)]
    hba = "select distinct auth_method from pg_hba_file_rules"
    assert await admin.script(hba) == [("scram-sha-256",)]
    admin.close()
    with pytest.raises(OperationalError, match="password authentication failed"):
        await Connection.open(cluster.embedded.app_url("wrong"))


async def test_log_holds_no_content(cluster: Cluster) -> None:
    """What the server logs of a refused row names the constraint and quotes nothing of the row."""
    admin = await Connection.open(cluster.admin_url)
    insert = """
        insert into users (name, email, password_hash, created_at)
        values (%(name)s, %(email)s, 'x', '2026-01-01Z')
    """
    with pytest.raises(Exception, match="users_name_check"):
        await admin.execute(insert, {"name": "Not A Name", "email": "only-in-the-row"})
    admin.close()
    said = cluster.embedded.places.log.read_text()
    assert "users_name_check" in said
    assert "only-in-the-row" not in said
