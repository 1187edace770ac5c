"""A machine of the owner's: a real tmux with stand-ins, and the real `muster mirror` beside it.

async with open_machine(tmp_path / "box", url=server.url, token=token) as machine:
    claude = await machine.tmux.claude()
    …                                    # the server gets to know the session
    await machine.kill()                 # by SIGKILL; `start` begins it anew
"""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs

from muster.clients.mirror import hook_settings
from tests.support.claude_pane import TmuxServer, open_tmux
from tests.support.waiting import until


@attrs.define(kw_only=True)
class Machine:
    """`folder` is the machine's own; what the program says is in `told`."""

    tmux: TmuxServer
    folder: Path
    url: str
    arguments: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None

    @property
    def told(self) -> str:
        """What the program wrote to stderr."""
        return (self.folder / "stderr").read_text()

    @property
    def token_file(self) -> Path:
        """The file of the machine's token."""
        return self.folder / "token"

    def start(self) -> None:
        """Start the program."""
        command = [
            sys.executable, "-m", "muster", "mirror", "--url", self.url, "--token-file",
            str(self.token_file), "--tmux-socket", str(self.tmux.socket), *self.arguments,
        ]  # fmt: skip
        with (self.folder / "stderr").open("ab") as said:
            self.process = subprocess.Popen(
                command, env=self.tmux.environ, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )

    async def kill(self) -> None:
        """End the program by SIGKILL, if it runs."""
        process = self.process
        if process is not None:
            os.kill(process.pid, signal.SIGKILL)
            await until(lambda: process.poll() is not None, 10)
            self.process = None


@asynccontextmanager
async def open_machine(
    folder: Path, *, url: str, token: str, arguments: tuple[str, ...] = ("--interactive",)
) -> AsyncIterator[Machine]:
    """A machine whose home has muster's hooks and whose program runs; it ends with its panes."""
    async with open_tmux(folder) as tmux:
        muster = folder / "muster"
        muster.write_text(f'#!/bin/sh\nexec {sys.executable} -m muster "$@"\n')
        muster.chmod(0o755)
        settings = tmux.home / ".claude" / "settings.json"
        settings.parent.mkdir(exist_ok=True)
        hook_settings.change(settings, str(muster))
        machine = Machine(tmux=tmux, folder=folder, url=url, arguments=arguments)
        machine.token_file.write_text(token)
        machine.token_file.chmod(0o600)
        machine.start()
        try:
            yield machine
        finally:
            if machine.process is not None:
                machine.process.kill()
                machine.process.wait(10)
