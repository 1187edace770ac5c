"""A state folder of a plugin or an agent, held by one process at a time.

The lock is the kernel's (flock), so it ends with the process however that ends, and a pid that
was left in the file is only ever shown, never believed.
"""

import errno
import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

LOCK_NAME = "lock"


class StateFolderBusyError(Exception):
    """Another process holds this state folder; `pid` is what it wrote there, None if unread."""

    def __init__(self, folder: Path, pid: int | None) -> None:
        who = f"process {pid}" if pid is not None else "another process"
        super().__init__(f"{folder} is in use by {who}; a state folder serves one at a time")
        self.folder = folder
        self.pid = pid


def default_folder(environ: Mapping[str, str], kind: str, *, url: str, whose: str) -> Path:
    """Where a client of this kind keeps its memory if nobody says: under XDG_STATE_HOME.

    One folder for each server and each `whose`, so that two never share what they remember.
    """
    home = environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    named = f"{url.rstrip('/')}\0{whose}".encode("utf-8", "surrogateescape")
    return Path(home) / "muster" / f"{kind}-{hashlib.sha256(named).hexdigest()[:12]}"


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Hold `folder` (made 0700 when it is missing) for as long as the block runs.

    Raises StateFolderBusyError at once when another process holds it, OSError when the folder
    can't be made or written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Opened without truncation: on failure the other process's pid must still be there.
    lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            raise StateFolderBusyError(folder, _written_pid(lock)) from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(lock)


def _written_pid(lock: int) -> int | None:
    text = os.pread(lock, 32, 0).strip()
    return int(text) if text.isdigit() else None
