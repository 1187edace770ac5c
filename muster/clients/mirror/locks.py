"""One lock a pane: whoever types into a pane holds it, so that two texts never run together.

The lock is the kernel's (flock) and ends with its holder, however that ends. The files stay until
the next start finds them to be of a tmux server that is gone.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.clients.mirror.model import Place


@contextmanager
def hold_pane(folder: Path, place: Place) -> Iterator[bool]:
    """Hold the pane's lock while the block runs; False when somebody else holds it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    name = f"{place.tmux_pid}-{place.pane.removeprefix('%')}"
    lock = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(lock)


def forget_locks(folder: Path) -> None:
    """Remove the locks of tmux servers that are gone; to be called by whoever holds the state."""
    if not folder.is_dir():
        return
    for file in folder.iterdir():
        pid = file.name.partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            file.unlink(missing_ok=True)
