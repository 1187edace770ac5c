"""The real `muster mirror` as a process, with real hooks, and a tmux that kills it at a step.

Its `tmux` is a script of the test's own that is the real one but for a trap: a file with
`before WORDS` or `after WORDS`, and a count. The call of tmux that holds these words for the
count-th time ends the program by SIGKILL, before it did anything or once it did all of it. Or for a
race: the call that pastes into a pane first gives the session in it an order, then may pause.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import attrs
import pytest

from muster.clients.mirror import hook_settings
from tests.support.claude_pane import ClaudePane, TmuxServer, open_tmux
from tests.support.mirror_door import TOKEN, MirrorDoor, open_door
from tests.support.waiting import until

TRAPPED = """#!/bin/sh
trap_file={trap}
if [ -e "$trap_file" ]; then
  read -r when left words <"$trap_file"
  case "$*" in
    *"$words"*)
      if [ "$left" -gt 1 ]; then
        echo "$when $((left - 1)) $words" >"$trap_file"
      else
        rm "$trap_file"
        [ "$when" = after ] && {tmux} "$@" >/dev/null
        kill -9 "$PPID"
        exit 1
      fi ;;
  esac
fi
case "$*" in
  *paste-buffer*)
    for race in {races}/*; do
      if [ -e "$race" ]; then
        read -r pane pause control order <"$race"
        case "$*" in
          *"-t $pane ;"*)
            rm "$race"
            printf '%s\\n' "$order" >"$control"
            [ "$pause" = 0 ] || sleep "$pause" ;;
        esac
      fi
    done ;;
esac
exec {tmux} "$@"
"""


@attrs.define(kw_only=True)
class MirrorProgram:
    """The program, between a real tmux and a door; `running` starts it."""

    tmux: TmuxServer
    door: MirrorDoor
    folder: Path
    arguments: list[str] = attrs.field(factory=list)
    process: subprocess.Popen[bytes] | None = None

    def trap(self, when: str, words: str, count: int = 1) -> None:
        """End the program at the count-th call of tmux with these words from now on."""
        (self.folder / "trap").write_text(f"{when} {count} {words}\n")

    def race(self, claude: ClaudePane, pause_seconds: float = 0, **order: object) -> None:
        """Give the session this order when the next paste into it is at tmux's door."""
        control = claude.folder / f"{claude.session_id}.control"
        told = f"{claude.pane} {pause_seconds:g} {control} {json.dumps(order)}\n"
        new = self.folder / f"race{claude.pane}"
        new.write_text(told)
        new.replace(self.folder / "races" / claude.pane)

    def end_race(self, claude: ClaudePane) -> bool:
        """Take the order back; whether it was given."""
        try:
            (self.folder / "races" / claude.pane).unlink()
        except FileNotFoundError:
            return True
        return False

    @property
    def journal(self) -> Path:
        """What the program wrote down of sends."""
        state = Path(self.tmux.environ["XDG_STATE_HOME"])
        (journal,) = state.glob("muster/mirror/*/journal-*.sqlite3")
        return journal

    @property
    def told(self) -> str:
        """What the program wrote to stderr."""
        return (self.folder / "stderr").read_text()

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run the program; at the end it is killed, if it is not gone."""
        token = self.folder / "token"
        token.write_text(TOKEN)
        environ = {
            **self.tmux.environ,
            "PATH": f"{self.folder / 'bin'}:{self.tmux.environ['PATH']}",
        }
        command = [
            sys.executable, "-m", "muster", "mirror", "--url", self.door.url,
            "--token-file", str(token), "--tmux-socket", str(self.tmux.socket), *self.arguments,
        ]  # fmt: skip
        with (self.folder / "stderr").open("ab") as said:
            process = subprocess.Popen(
                command, env=environ, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )
        self.process = process
        try:
            yield process
        finally:
            process.kill()
            process.wait(10)

    async def kill(self) -> None:
        """End it by SIGKILL."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        await self.gone()

    async def gone(self, seconds: float = 20) -> int:
        """Wait until it ended, and return its exit code."""
        process = self.process
        assert process is not None
        await until(lambda: process.poll() is not None, seconds)
        return int(process.returncode)


@pytest.fixture
async def program(tmp_path: Path) -> AsyncIterator[MirrorProgram]:
    """A tmux whose home has muster's hooks, a door, and the program that is not running yet."""
    async with open_program(tmp_path) as ready:
        yield ready


@asynccontextmanager
async def open_program(folder: Path) -> AsyncIterator[MirrorProgram]:
    """Make what the fixture gives, below `folder`: once for each machine of a test."""
    async with open_tmux(folder / "box") as tmux, open_door() as door:
        muster = folder / "bin" / "muster"
        for each in (muster.parent, folder / "races"):
            each.mkdir(parents=True)
        muster.write_text(f'#!/bin/sh\nexec {sys.executable} -m muster "$@"\n')
        settings = tmux.home / ".claude" / "settings.json"
        settings.parent.mkdir(exist_ok=True)
        hook_settings.change(settings, str(muster))
        trapped = folder / "bin" / "tmux"
        trapped.write_text(
            TRAPPED.format(trap=folder / "trap", races=folder / "races", tmux=shutil.which("tmux"))
        )
        for each in (muster, trapped):
            each.chmod(0o755)
        yield MirrorProgram(tmux=tmux, door=door, folder=folder, arguments=["--interactive"])
