"""One run of a program as a child: text in, lines out, and an end that comes in any case.

The child leads a process group of its own, and whatever ends the run ends the group: SIGTERM, then
SIGKILL after TERM_SECONDS, so that a cancelled turn holds nobody up. What the program leaves behind
in its group when it ends by itself is ended too. What is kept of its output is bounded: one line,
and the last words on stderr.

Rejected: a deadline here (the runner has one a turn, and cancels), and the death signal of
prctl (it needs code between fork and exec, which is not safe beside threads): a runner that is
killed with -9 leaves the program to end by itself.
"""

import os
import re
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import attrs
import trio

from muster.clients.agent.backend import TurnError

TERM_SECONDS = 1.0  # below the 2 s that a server waits for the answer to its cancel
KILL_SECONDS = 5.0  # for the kernel to bring the dead home
EXIT_SECONDS = 2.0  # between the last word of the output and the end of the program
LINE_BYTES_MAX = 4 * 1024 * 1024
WORDS_BYTES_MAX = 4 * 1024
WORDS_CHARACTERS_MAX = 500
CHUNK_BYTES = 64 * 1024

# Takes a line, and says for how many seconds more the program may go on; None for as it was.
Hear = Callable[[bytes], Awaitable[float | None]]

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")
_NOT_SHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\s]+")


@attrs.frozen(kw_only=True)
class Exited:
    """How a program ended: its exit code (negative for a signal), and its last words on stderr."""

    code: int
    last_words: str

    @property
    def told(self) -> str:
        """The same as half a sentence."""
        how = f"exit code {self.code}" if self.code >= 0 else f"signal {-self.code}"
        return f"{how}: {self.last_words}" if self.last_words else how


async def run_program(
    command: Sequence[str], *, folder: Path, environ: Mapping[str, str], text: str, hear: Hear
) -> Exited:
    """Run `command` in `folder` with `text` on stdin, and hand each line of stdout to `hear`.

    The output is over when it ends, when `hear` says so, or EXIT_SECONDS after the program ended:
    what the program started may hold it open for ever. A line of more than 4 MiB is left out.
    Raises TurnError when it cannot be started; a cancel ends it within about TERM_SECONDS.
    """
    try:
        process = await trio.lowlevel.open_process(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=dict(environ),
            start_new_session=True,
        )
    except OSError as error:
        raise TurnError(f"{command[0]} cannot be started: {error}") from error
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    tail = _Tail()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_feed, process.stdin, text.encode("utf-8", "replace"))
            nursery.start_soon(tail.keep, process.stderr)
            with trio.CancelScope() as reading:
                nursery.start_soon(_watch, process, reading)
                await _read_lines(process.stdout, hear, reading)
            if not reading.cancelled_caught:
                with trio.move_on_after(EXIT_SECONDS):
                    await process.wait()
                    await tail.over.wait()
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await _end(process)
            for stream in (process.stdin, process.stdout, process.stderr):
                await trio.aclose_forcefully(stream)
    return Exited(code=process.returncode or 0, last_words=tail.words)


async def _feed(stdin: trio.abc.SendStream, text: bytes) -> None:
    try:
        async with stdin:
            await stdin.send_all(text)
    except trio.BrokenResourceError:
        return  # it ended without reading all; how it ended is told elsewhere


async def _watch(process: trio.Process, reading: trio.CancelScope) -> None:
    await process.wait()
    _hasten(reading, EXIT_SECONDS)


def _hasten(reading: trio.CancelScope, seconds: float) -> None:
    reading.deadline = min(reading.deadline, trio.current_time() + seconds)


async def _read_lines(
    stdout: trio.abc.ReceiveStream, hear: Hear, reading: trio.CancelScope
) -> None:
    async def take(line: bytes) -> None:
        seconds = await hear(line)
        if seconds is not None:
            _hasten(reading, seconds)

    pending, skipping = bytearray(), False
    while chunk := await stdout.receive_some(CHUNK_BYTES):
        *lines, rest = bytes(chunk).split(b"\n")
        for line in lines:
            pending += line
            if not skipping:
                await take(bytes(pending))
            pending.clear()
            skipping = False
        pending += rest
        if len(pending) > LINE_BYTES_MAX:
            pending.clear()
            skipping = True
    if pending and not skipping:
        await take(bytes(pending))


@attrs.define
class _Tail:
    """The end of what was written to stderr."""

    over: trio.Event = attrs.field(factory=trio.Event)
    _kept: bytes = b""

    async def keep(self, stderr: trio.abc.ReceiveStream) -> None:
        while chunk := await stderr.receive_some(CHUNK_BYTES):
            self._kept = (self._kept + chunk)[-WORDS_BYTES_MAX:]
        self.over.set()

    @property
    def words(self) -> str:
        text = _ESCAPES.sub("", self._kept.decode("utf-8", "replace"))
        return _NOT_SHOWN.sub(" ", text).strip()[-WORDS_CHARACTERS_MAX:]


async def _end(process: trio.Process) -> None:
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGTERM)
        with trio.move_on_after(TERM_SECONDS):
            await process.wait()
    # Also after an end of its own: what it started may live on in its group.
    _signal_group(process.pid, signal.SIGKILL)
    with trio.move_on_after(KILL_SECONDS):
        await process.wait()


def _signal_group(leader: int, number: signal.Signals) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return  # nobody is left in it
