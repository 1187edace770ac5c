"""Where the embedded cluster lives, for root and for others; no folder is opened for it."""

import os
import shutil
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from muster.pg import places
from muster.pg.boot import PASSWORD_FILE, load_password
from muster.pg.embedded import use_embedded
from muster.pg.faults import DatabaseFault
from muster.pg.places import Places, find_binaries, find_places, socket_folder
from tests.support.cluster import SETTINGS

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another")
only_others = pytest.mark.skipif(os.geteuid() == 0, reason="root keeps the cluster elsewhere")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A 0700 folder, as mktemp -d makes it."""
    folder = Path(tempfile.mkdtemp(prefix="muster-places-"))
    yield folder
    shutil.rmtree(folder)


def mode(path: Path) -> int:
    """The permission bits of a path."""
    return stat.S_IMODE(path.stat().st_mode)


@only_root
async def test_root_below_a_private_folder(folder: Path) -> None:
    """Root's cluster works with its data folder below a 0700 folder, which stays as it was."""
    (folder / "inner").mkdir(mode=0o750)
    async with use_embedded(folder / "inner" / "data", settings=SETTINGS) as cluster:
        home = cluster.places.home
        assert home.is_relative_to(places.ROOT_FOLDER)
        assert cluster.places.account is not None
        assert cluster.places.data.stat().st_uid == cluster.places.account.uid != 0
    assert (mode(folder), mode(folder / "inner")) == (0o700, 0o750)
    # A data folder that was moved takes its database along.
    (folder / "inner" / "data").rename(folder / "moved")
    assert find_places(folder / "moved").home == home
    shutil.rmtree(home)


@pytest.fixture
def open_folder(folder: Path) -> Path:
    """A folder that others can pass through."""
    folder.chmod(0o711)
    return folder


@only_root
async def test_root_in_a_folder_that_others_may_enter(open_folder: Path) -> None:
    """Where the user that runs PostgreSQL can enter, the cluster stays in the data folder."""
    folder = open_folder
    async with use_embedded(folder / "data", settings=SETTINGS) as cluster:
        assert cluster.places.home == folder / "data" / "postgres"
        account = cluster.places.account
        assert account is not None
        assert cluster.places.data.stat().st_uid == account.uid
    assert find_places(folder / "data") == cluster.places


@only_root
def test_pointer_to_elsewhere_is_refused(folder: Path) -> None:
    """A data folder cannot point root at any folder it likes."""
    (folder / places.POINTER).write_text("../../etc\n")
    with pytest.raises(DatabaseFault, match="does not name"):
        find_places(folder)


@only_root
def test_binaries_out_of_reach_are_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of PostgreSQL who cannot enter the environment gets a copy, made once."""
    account = places._find_account()
    wheel = places.find_package()
    for name in (wheel.name, f"{wheel.name}.libs"):
        shutil.copytree(wheel.parent / name, folder / "env" / name, symlinks=True)
    reachable = Path(tempfile.mkdtemp(prefix="muster-root-"))
    reachable.chmod(0o755)
    monkeypatch.setattr(places, "find_package", lambda: folder / "env" / wheel.name)
    monkeypatch.setattr(places, "ROOT_FOLDER", reachable)
    try:
        found = find_binaries(account)
        assert found.folder.is_relative_to(reachable)
        said = subprocess.check_output(
            [found.folder / "initdb", "--version"], cwd="/", **account.switch_user()
        )
        assert said.startswith(f"initdb (PostgreSQL) {found.major}.".encode())
        made = (found.folder / "postgres").stat().st_mtime_ns
        assert find_binaries(account) == found
        assert (found.folder / "postgres").stat().st_mtime_ns == made
        assert len(list(reachable.iterdir())) == 1
        assert mode(folder) == 0o700
    finally:
        shutil.rmtree(reachable)


@only_others
async def test_all_stays_in_the_data_folder(folder: Path) -> None:
    """Not as root, the cluster is in the data folder and runs as ourselves."""
    async with use_embedded(folder / "data", settings=SETTINGS) as cluster:
        assert cluster.places.home == folder / "data" / "postgres"
        assert cluster.places.account is None


@only_others
async def test_long_path_works(folder: Path) -> None:
    """A data folder too deep for a socket has its socket in a short private folder."""
    deep = folder / ("d" * 100) / ("e" * 60)
    async with use_embedded(deep, settings=SETTINGS) as cluster:
        short = cluster._socket_folder
    assert short is not None
    assert mode(short) == 0o700
    shutil.rmtree(short)
    async with use_embedded(deep, settings=SETTINGS) as cluster:
        assert cluster._socket_folder != short
    shutil.rmtree(cluster._socket_folder or "")


def test_short_socket_folder_is_kept_and_private(folder: Path) -> None:
    """The short folder is remembered; one that others could enter is not used again."""
    home = folder / ("d" * 100)
    home.mkdir()
    deep = Places(home=home, account=None)
    first = socket_folder(deep)
    assert len(os.fsencode(first / ".s.PGSQL.5432")) <= 107
    assert mode(first) == 0o700
    assert socket_folder(deep) == first
    first.chmod(0o755)
    second = socket_folder(deep)
    assert second != first
    second.rmdir()
    second.symlink_to(first)
    third = socket_folder(deep)
    assert third not in {first, second}
    second.unlink()
    first.rmdir()
    third.rmdir()


def test_socket_path_at_the_limit(folder: Path) -> None:
    """The socket stays in the home while its whole path has at most 107 bytes."""
    for spare, stays in ((0, True), (1, False)):
        length = 107 - len("/run/.s.PGSQL.5432") - len(os.fsencode(folder)) - 1 + spare
        home = folder / ("h" * length)
        home.mkdir()
        found = socket_folder(Places(home=home, account=None))
        assert (found == home / "run") is stays
        if not stays:
            found.rmdir()


@pytest.mark.parametrize("reachable", [True, False])
def test_processes_that_begin_together_find_one_place(folder: Path, reachable: bool) -> None:
    """Whoever begins at once on a folder that is not there gets the same home and password."""
    if reachable:
        folder.chmod(0o711)
    for number in range(20):
        data_dir = folder / f"data-{number}"
        together = threading.Barrier(8)

        def begin(
            data_dir: Path = data_dir, together: threading.Barrier = together
        ) -> tuple[Path, str]:
            together.wait()
            return find_places(data_dir).home, load_password(data_dir)

        with ThreadPoolExecutor(8) as pool:
            found = [running.result() for running in [pool.submit(begin) for _ in range(8)]]
        (home, password) = found[0]
        assert found == [(home, password)] * 8
        assert len(password) > 30
        assert mode(home) & 0o777 in {0o700, 0o711, 0o755}
        assert mode(data_dir / PASSWORD_FILE) == 0o600
        if not home.is_relative_to(folder):
            shutil.rmtree(home)
