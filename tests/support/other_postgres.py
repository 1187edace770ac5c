"""A PostgreSQL that is not muster's own: another version, there for one test."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from muster.pg.places import SwitchUser, find_package, find_places

DEBIAN = Path("/usr/lib/postgresql")


def list_versions() -> dict[int, Path]:
    """The other PostgreSQLs on this machine, by major version: the wheel's older one, Debian's."""
    found = {}
    wheels = find_package() / "pginstall" / "bin"
    if wheels.exists():
        said = subprocess.check_output([wheels / "postgres", "--version"], text=True)
        found[int(said.split()[2].split(".")[0])] = wheels
    if DEBIAN.exists():
        for folder in DEBIAN.iterdir():
            found[int(folder.name)] = folder / "bin"
    return found


@attrs.frozen(kw_only=True)
class OtherServer:
    """A running server on a unix socket; `admin_url` is its superuser's."""

    admin_url: str


def _within_reach(binaries: Path, folder: Path, user: SwitchUser) -> Path:
    """These binaries, or a copy of their installation, where that user can run them.

    A checkout in a private folder hides the wheel from the user that runs PostgreSQL for root.
    """
    probe = ["/usr/bin/test", "-x", str(binaries / "initdb")]
    if subprocess.run(probe, check=False, cwd="/", **user).returncode == 0:
        return binaries
    package = binaries.parents[1]
    copied = folder / package.name / binaries.parent.name
    shutil.copytree(binaries.parent, copied, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    return copied / "bin"


@contextmanager
def run_server(binaries: Path, folder: Path) -> Iterator[OtherServer]:
    """Make and run a cluster in a folder that others may enter, until the block ends."""
    places = find_places(folder)
    user = places.switch_user()
    home = folder / "other"
    home.mkdir(mode=0o700)
    places.own(home)
    secret = folder / "secret"
    secret.write_text("boss\n")
    places.own(secret)
    data = str(home / "data")
    binaries = _within_reach(binaries, folder, user)
    subprocess.run(
        [str(binaries / "initdb"), "-D", data, "-U", "boss", "-A", "scram-sha-256", "--no-sync",
         f"--pwfile={secret}"],
        check=True, stdout=subprocess.DEVNULL, cwd="/", **user,
    )  # fmt: skip
    control = [str(binaries / "pg_ctl"), "-D", data, "-l", str(home / "log"), "-w", "-s"]
    options = f"-k {home} -c listen_addresses= -c fsync=off -p 5432"
    subprocess.run([*control, "-o", options, "start"], check=True, cwd="/", **user)
    try:
        yield OtherServer(
            admin_url=f"host={home} port=5432 user=boss password=boss dbname=postgres"
        )
    finally:
        subprocess.run([*control, "stop", "-m", "fast"], check=True, cwd="/", **user)
