"""Child processes of the demo: started with little, watched, and ended in every ending.

Each runs in a session of its own, so that Ctrl-C reaches the demo alone and it decides the order.
A child that is told to end and does not is killed; one that ends by itself ends the demo, which
says which and what it complained about last. When the demo itself is killed, its children see it by
their stdin (muster/clients/demo/leash.py).
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

LINE_BYTES_MAX = 64 * 1024
COMPLAINTS_MAX = 12
COMMAND_SECONDS = 60.0
LAST_WORDS_SECONDS = 1.0
SWEEP_SECONDS = 2.0
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "PYTHONPATH")


class DemoError(Exception):
    """The demo cannot go on; the text says why, with a child's last words where there are some."""


class ChildEndedError(DemoError):
    """A child ended by itself with `code`; `complaints` are its last lines on stderr."""

    def __init__(self, name: str, code: int, complaints: Sequence[str]) -> None:
        super().__init__(f"the {name} ended by itself with exit code {code}")
        self.code = code
        self.complaints = tuple(complaints)


@attrs.define(kw_only=True, eq=False)
class Child:
    """A program of the demo; `complaints` are its last lines on stderr."""

    name: str
    process: trio.Process
    patience_seconds: float
    complaints: deque[str] = attrs.field(factory=lambda: deque(maxlen=COMPLAINTS_MAX))


def muster(*arguments: str) -> list[str]:
    """The arguments of a muster command as a process; -P keeps the folder we stand in out of it."""
    return [sys.executable, "-P", "-m", "muster", *arguments]


def leashed(*arguments: str) -> list[str]:
    """Those of a muster command that runs as long as the demo does, and no longer."""
    return [sys.executable, "-P", "-m", "muster.clients.demo.leash", *arguments]


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """What a child gets to see: what any program needs, and the settings it is given."""
    return {name: os.environ[name] for name in KEPT if name in os.environ} | dict(settings)


@asynccontextmanager
async def running(
    name: str,
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    heard: Callable[[str], None],
    patience_seconds: float,
) -> AsyncIterator[Child]:
    """Run a program as long as the block lasts; each line of its stdout goes to `heard`.

    The block is cancelled, and ChildEndedError raised, when the program ends by itself. At the end
    of the block it gets SIGTERM, and SIGKILL after `patience_seconds`. Nothing is written to its
    stdin, which ends with this process.
    """
    process = await trio.lowlevel.open_process(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
        start_new_session=True,
    )
    child = Child(name=name, process=process, patience_seconds=patience_seconds)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_listen, process.stdout, heard)
            nursery.start_soon(_watch, child)
            yield child
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await _end(child)


async def run(command: Sequence[str], environ: Mapping[str, str], *, stdin: bytes = b"") -> Any:
    """Run a muster command with --json to its end and read its document; DemoError if it fails."""
    with trio.move_on_after(COMMAND_SECONDS):
        done = await trio.run_process(
            command,
            stdin=stdin,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env=environ,
            start_new_session=True,
        )
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip()
            raise CommandError(f"`{_shown(command)}` exited {done.returncode}: {words}", done)
        return json.loads(done.stdout)
    raise DemoError(f"`{_shown(command)}` did not end within {COMMAND_SECONDS:g} s")


class CommandError(DemoError):
    """A command said no; `code` is its exit code."""

    def __init__(self, sentence: str, done: "subprocess.CompletedProcess[bytes]") -> None:
        super().__init__(sentence)
        self.code = done.returncode


def _shown(command: Sequence[str]) -> str:
    return " ".join(["muster", *command[command.index("muster") + 1 :]])


async def _watch(child: Child) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_listen, child.process.stderr, child.complaints.append)
        code = await child.process.wait()
        # Its last words may still be in the pipe; who inherited the pipe is not waited for.
        nursery.cancel_scope.deadline = trio.current_time() + LAST_WORDS_SECONDS
    raise ChildEndedError(child.name, code, child.complaints)


async def _listen(stream: trio.abc.ReceiveStream | None, heard: Callable[[str], None]) -> None:
    assert stream is not None
    line = bytearray()
    async for chunk in stream:
        line += chunk
        *whole, rest = line.split(b"\n")
        for each in whole:
            heard(each.decode(errors="replace"))
        line = rest[:LINE_BYTES_MAX]


async def _sweep(group: int) -> None:
    # A child that was killed, or told to end before it could listen, may have left children of
    # its own in its group, at work in a folder that is about to go.
    with trio.move_on_after(SWEEP_SECONDS), contextlib.suppress(ProcessLookupError):
        while True:
            os.killpg(group, signal.SIGKILL)
            await trio.sleep(0.01)


async def _end(child: Child) -> None:
    process = child.process
    if process.returncode is None:
        process.terminate()
    async with trio.open_nursery() as nursery:
        # Read on meanwhile: a child that cannot write its last words cannot end.
        nursery.start_soon(_listen, process.stdout, lambda _line: None)
        nursery.start_soon(_listen, process.stderr, child.complaints.append)
        with trio.move_on_after(child.patience_seconds):
            await process.wait()
        if process.returncode is None:
            process.kill()
        await process.wait()
        nursery.cancel_scope.cancel()
    await _sweep(process.pid)
    for stream in (process.stdin, process.stdout, process.stderr):
        assert stream is not None
        await stream.aclose()
