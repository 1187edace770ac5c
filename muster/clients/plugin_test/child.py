"""The plugin under test as a process, in a session of its own, with all that it starts."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import trio

LOG_BYTES_SHOWN = 1500
GONE_SECONDS = 5.0


@attrs.define(kw_only=True)
class Child:
    """The plugin; started, killed and started again. What it says goes to `log`."""

    command: Sequence[str]
    environ: Mapping[str, str]
    folder: Path
    log: Path
    _process: trio.Process | None = None

    async def start(self) -> None:
        """Start it; OSError when there is no such program."""
        assert self._process is None or self._process.returncode is not None
        with self.log.open("ab") as log:
            self._process = await trio.lowlevel.open_process(
                list(self.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=dict(self.environ),
                start_new_session=True,
            )

    def signal(self, number: int) -> None:
        """Send a signal to it and all that it started."""
        if self._process is None or self._process.poll() is not None:
            return
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return

    def kill(self) -> None:
        """Kill -9, now."""
        self.signal(signal.SIGKILL)

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return None if self._process is None else self._process.poll()

    async def ended(self, seconds: float) -> int | None:
        """Wait for its end; None when it does not come within `seconds`."""
        assert self._process is not None
        with trio.move_on_after(seconds):
            return await self._process.wait()
        return None

    async def close(self) -> None:
        """End it, whatever it does."""
        if self._process is None:
            return
        with trio.CancelScope(shield=True):
            self.kill()
            await self.ended(GONE_SECONDS)

    def last_words(self) -> str:
        """The end of what it said."""
        try:
            raw = self.log.read_bytes()
        except FileNotFoundError:
            return ""
        return raw[-LOG_BYTES_SHOWN:].decode("utf-8", "replace")
