"""Advisory locks on files, waited for without blocking the loop. A dead process holds none."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

import trio

from muster.errors import Unavailable

LOCK_SECONDS = 90.0
_RETRY_SECONDS = 0.02


class FileLock:
    """One open file and the flock on it; the lock ends with `close` or with the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def try_lock(self, *, shared: bool = False) -> bool:
        """Take the lock, or change its kind, if that is possible at once."""
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    async def lock(self, *, shared: bool = False) -> None:
        """Wait for the lock; Unavailable after LOCK_SECONDS."""
        with trio.move_on_after(LOCK_SECONDS):
            while not self.try_lock(shared=shared):  # noqa: ASYNC110 - flock has no event
                await trio.sleep(_RETRY_SECONDS)
            return
        raise Unavailable(f"Another process holds {self._path} for too long.")

    def close(self) -> None:
        """Give the lock up."""
        os.close(self._descriptor)

    async def __aenter__(self) -> Self:
        """Hold the lock exclusively for a block."""
        try:
            await self.lock()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()
