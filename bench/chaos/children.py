"""Programs as children that are killed, stopped and started again, and ended in every ending.

A server keeps its address over its lives, so that clients find it again. What a child prints goes
to files, one for each life, so that nobody has to read along and nothing is lost to a kill. Each
has a session of its own: Ctrl-C reaches whoever started it, who decides the order.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import trio

import bench
from bench.client import Connection

START_SECONDS = 60.0
POLL_SECONDS = 0.02
# Where `python -m bench.…` finds this package; it is in no wheel.
TOP = Path(bench.__file__).parent.parent
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")


class ChaosError(Exception):
    """The storm cannot go on; the text says why, with a child's last words."""


@attrs.define(kw_only=True)
class Child:
    """One program with its settings; each `start` begins a new life of it."""

    command: Sequence[str]
    environ: Mapping[str, str]
    folder: Path
    name: str
    process: trio.Process | None = None
    lives: int = 0

    async def start(self) -> None:
        """Begin a life."""
        assert self.process is None, "it runs"
        self.lives += 1
        out = os.open(self._file("out"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        err = os.open(self._file("err"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            # Shielded: a process that was begun and is not known could not be ended.
            with trio.CancelScope(shield=True):
                self.process = await trio.lowlevel.open_process(
                    self.command, env=self.environ, stdin=subprocess.DEVNULL, stdout=out,
                    stderr=err, start_new_session=True,
                )  # fmt: skip
        finally:
            os.close(out)
            os.close(err)

    async def kill(self) -> None:
        """End it as a power cut would; no error if it does not run."""
        if self.process is not None:
            self.process.kill()
            with trio.CancelScope(shield=True):
                await self.process.wait()
            self.process = None

    async def wait(self, seconds: float) -> int:
        """Wait for its end; its exit code. Raises trio.TooSlowError."""
        assert self.process is not None, "it does not run"
        with trio.fail_after(seconds):
            code = await self.process.wait()
        self.process = None
        return code

    def send(self, what: signal.Signals) -> None:
        """Send a signal to this life."""
        assert self.process is not None, "it does not run"
        self.process.send_signal(what)

    @property
    def has_ended(self) -> bool:
        """Whether it ended by itself, or does not run."""
        return self.process is None or self.process.poll() is not None

    def events(self) -> list[dict[str, Any]]:
        """The JSON lines that this life printed; one that a kill cut short is left out."""
        return _read_lines(self._file("out"))

    def all_events(self) -> list[dict[str, Any]]:
        """Those of all lives, in order."""
        numbers = range(1, self.lives + 1)
        return [each for life in numbers for each in _read_lines(self._file("out", life))]

    def complaints(self) -> list[dict[str, Any]]:
        """What all lives put into their logs on stderr."""
        numbers = range(1, self.lives + 1)
        return [each for life in numbers for each in _read_lines(self._file("err", life))]

    def last_words(self) -> str:
        """The end of this life's stderr."""
        return self._file("err").read_text(errors="replace")[-3000:]

    def _file(self, kind: str, life: int | None = None) -> Path:
        return self.folder / f"{self.name}-{life or self.lives}.{kind}"


@attrs.define(kw_only=True)
class ServerChild(Child):
    """`muster serve`, or what stands in for it, at a port that stays."""

    port: int

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    async def begin(self) -> None:
        """Begin a life, without waiting for it to be ready."""
        await Child.start(self)

    async def start(self) -> None:
        """Begin a life, and wait until it says that it is ready."""
        await self.begin()
        await self.until_event("ready", START_SECONDS)

    async def until_event(self, event: str, seconds: float = 10.0) -> None:
        """Wait until it printed an event; ChaosError when it ends first, or is too slow."""
        with trio.move_on_after(seconds):
            while True:
                ended = self.has_ended
                if any(each["event"] == event for each in self.events()):
                    return
                if ended:
                    raise ChaosError(f"the {self.name} ended: {self.last_words()}")
                await trio.sleep(POLL_SECONDS)
        raise ChaosError(f"the {self.name} was not {event} in {seconds:g} s: {self.last_words()}")

    async def status(self, path: str, seconds: float = 5.0) -> int | None:
        """What a GET is answered with; None when it is not."""
        try:
            with trio.fail_after(seconds):
                async with Connection.open(self.port) as connection:
                    return (await connection.ask("GET", path)).status
        except (OSError, trio.BrokenResourceError, trio.TooSlowError):
            return None


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """What a child gets to see: what any program needs, and the settings it is given."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return kept | {"PYTHONPATH": str(TOP), "PYTHONUNBUFFERED": "1"} | dict(settings)


def muster(*arguments: str) -> list[str]:
    """The arguments of a muster command as a process."""
    return [sys.executable, "-m", "muster", *arguments]


def _read_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    whole = path.read_text(errors="replace").split("\n")[:-1]
    return [json.loads(line) for line in whole if line.startswith("{")]
