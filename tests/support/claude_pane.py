"""Real tmux servers, and stand-ins of Claude Code in their panes.

    async with open_tmux(tmp_path / "box") as tmux:
        claude = await tmux.claude()            # a window of its own, idle once this returns
        claude.tell(do="prompt", text="hello")
        await claude.until("submitted", text="hello")

Each tmux has a home folder of its own (`tmux.home`), with settings.json and transcripts, and a
socket in a short folder, since the paths of sockets are. What runs there has `tmux.environ`.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
START_SECONDS = 10.0
MUSTER = f"{sys.executable} -m muster"
"""How hooks that are installed for a test call muster."""


@attrs.frozen(kw_only=True)
class ClaudePane:
    """A stand-in in a pane; `folder` has its ledger and its control pipe."""

    pane: str
    window: str
    session_id: str
    folder: Path
    cwd: Path
    home: Path

    @property
    def ledger(self) -> list[dict[str, Any]]:
        """What happened by now."""
        path = self.folder / f"{self.session_id}.jsonl"
        if not path.exists():
            return []
        # A line that is being written has no end yet.
        whole = path.read_text(errors="surrogateescape").rpartition("\n")[0]
        return [json.loads(line) for line in whole.split("\n") if line]

    @property
    def transcript(self) -> Path:
        """Where its transcript is, or will be."""
        slug = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(self.cwd))
        return self.home / ".claude" / "projects" / slug / f"{self.session_id}.jsonl"

    @property
    def state(self) -> str:
        """The state that it was in at last."""
        return next((line["to"] for line in reversed(self.ledger) if line["what"] == "state"), "")

    def tell(self, **order: Any) -> None:
        """Give it an order; tests/support/claude_stand_in.py lists them."""
        control = os.open(self.folder / f"{self.session_id}.control", os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(control, json.dumps(order).encode() + b"\n")
        finally:
            os.close(control)

    def seen(self, what: str, **members: Any) -> list[dict[str, Any]]:
        """The lines of the ledger that are `what` and have these members."""
        wanted = {"what": what, **members}
        return [line for line in self.ledger if wanted.items() <= line.items()]

    async def until(
        self, what: str, *, count: int = 1, seconds: float = 10.0, **members: Any
    ) -> dict[str, Any]:
        """Wait for the line number `count` of this kind, and return it."""
        found = await until(lambda: self.seen(what, **members)[count - 1 :], seconds)
        first: dict[str, Any] = found[0]
        return first

    async def gone(self, *, count: int = 1) -> None:
        """Wait until it ended for the `count`th time, and its process is no more."""
        await self.until("ended", count=count)
        stat = Path(f"/proc/{self.seen('started')[count - 1]['pid']}/stat")

        def is_no_more() -> bool:
            try:
                # Whoever has ended but was not waited for is gone as well.
                return stat.read_text().rpartition(")")[2].split()[0] in "ZX"
            except OSError:
                return True

        await until(is_no_more, 10)


@attrs.frozen(kw_only=True)
class TmuxServer:
    """A tmux server of the test's own: `run` calls the tmux program on it."""

    socket: Path
    home: Path
    folder: Path
    program: Path
    environ: dict[str, str]

    def run_now(self, *arguments: str) -> str:
        """Run a command of tmux and return what it printed, without its last line end."""
        done = subprocess.run(
            ["tmux", "-S", str(self.socket), *arguments],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout.removesuffix("\n")

    async def run(self, *arguments: str) -> str:
        """Do as `run_now` does, in a thread."""
        return await trio.to_thread.run_sync(lambda: self.run_now(*arguments))

    async def claude(
        self,
        *arguments: str,
        session_id: str | None = None,
        cwd: Path | None = None,
        split: str | None = None,
    ) -> ClaudePane:
        """Start a stand-in in a new window, or beside the pane `split`; wait until it is idle.

        `arguments` are its flags, `--resume ID` among them; `session_id` is chosen if left out.
        """
        flags = list(arguments)
        if "--resume" in flags:
            session_id = flags[flags.index("--resume") + 1]
        else:
            session_id = session_id or str(uuid.uuid4())
            flags += ["--session-id", session_id]
        cwd = cwd or self.home
        before = self.known(session_id, cwd=cwd).seen("started")
        where = ["split-window", "-t", split] if split else ["new-window", "-d"]
        told = await self.run(
            *where, "-P", "-F", "#{pane_id} #{window_id}", "-c", str(cwd).replace("#", "##"),
            shlex.join([str(self.program), *flags]),
        )  # fmt: skip
        pane, window = told.split()
        claude = self.known(session_id, cwd=cwd, pane=pane, window=window)
        await claude.until("started", count=len(before) + 1, seconds=START_SECONDS)
        await until(lambda: claude.ledger[-1].get("to") == "idle", START_SECONDS)
        return claude

    def known(
        self, session_id: str, *, cwd: Path | None = None, pane: str = "", window: str = ""
    ) -> ClaudePane:
        """A stand-in that somebody else started or will start."""
        return ClaudePane(
            pane=pane, window=window, session_id=session_id,
            folder=self.folder, cwd=cwd or self.home, home=self.home,
        )  # fmt: skip

    def stop(self) -> None:
        """End the server with all that runs in it; nothing happens if it is gone."""
        subprocess.run(
            ["tmux", "-S", str(self.socket), "kill-server"],
            env=self.environ, capture_output=True, timeout=20, check=False,
        )  # fmt: skip


@asynccontextmanager
async def open_tmux(folder: Path) -> AsyncIterator[TmuxServer]:
    """Start a tmux server with one window (a shell that waits), and end it with all its panes.

    `folder` is made; below it are `home` and `claude`, an executable that is the stand-in. Skips
    the test where tmux is not installed.
    """
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    home, ledgers = folder / "home", folder / "ledgers"
    for each in (home, ledgers):
        each.mkdir(parents=True)
    program = folder / "claude"
    run = f"PYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)}"
    given = f"-m tests.support.claude_stand_in --stand-in {shlex.quote(str(ledgers))}"
    program.write_text(f'#!/bin/sh\n{run} {given} "$@"\n')
    program.chmod(0o755)
    with tempfile.TemporaryDirectory(prefix="tmux-") as short:
        tmux = TmuxServer(
            socket=Path(short) / "s",
            home=home,
            folder=ledgers,
            program=program,
            environ={
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "HOME": str(home),
                "XDG_STATE_HOME": str(folder / "state"),
                "LANG": "C.UTF-8",
                "TERM": "screen-256color",
                "SHELL": "/bin/sh",
            },
        )
        await tmux.run(
            "-f", "/dev/null", "new-session", "-d", "-s", "main", "-x", "100", "-y", "30",
            "-c", str(home), "exec sleep 3600",
        )  # fmt: skip
        try:
            yield tmux
        finally:
            tmux.stop()
