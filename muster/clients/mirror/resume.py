"""An ended session begins anew in a window of its own (plugins: "Resuming an ended session").

muster sends an id and nothing else; what is run, and where, is this host's to say. It says no
unless it holds exactly one transcript of the session, filed under a folder that the transcript
itself names and that is still there; nothing on this machine runs the session; and its own limits
allow it: one start of a session in 10 minutes, 6 starts in an hour. A start is on disk before it is
made, so no restart of this program gives one more.

"Runs the session" has three witnesses, each of which is enough: its hooks' newest word with a
living process, a process that was begun with its id, a tmux pane that was. What can't be told is a
no as well: a Claude Code in the session's folder of which no hook spoke (outside of tmux none
does) may have taken it up by itself, and two processes would write into one transcript.
"""

import json
import os
import pwd
import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import attrs
import trio

from muster.clients.mirror.model import Outcome, Resumed
from muster.clients.mirror.spool import (
    SESSION_ID,
    SESSIONS,
    as_members,
    lives,
    process_stat,
    read_session,
)
from muster.clients.mirror.tmux import Tmux, TmuxError
from muster.clients.mirror.transcripts import Reader, find_transcripts, first_folder, slug_of

LIMITS_NAME: Final = "resumes.json"
SESSION_EVERY: Final = timedelta(minutes=10)
HOST_WITHIN: Final = timedelta(hours=1)
HOST_MAX: Final = 6
LIMITS_BYTES_MAX: Final = 64 << 10
ANCESTORS_MAX: Final = 16
CLAUDE: Final = "claude"
COMMAND_BYTES_MAX: Final = 64 << 10


class _No(Exception):
    """Why a session is not started; a sentence."""


@attrs.frozen(kw_only=True)
class Start:
    """A window that was started for a session."""

    session: str
    at: datetime


def why_not(starts: Iterable[Start], session: str, now: datetime) -> str | None:
    """Why the limits forbid a start now, as a sentence; None when they don't.

    A start that the clock says is yet to come counts as one of now: clocks are set back.
    """
    recent = [start for start in starts if now - start.at < HOST_WITHIN]
    if any(start.session == session and now - start.at < SESSION_EVERY for start in recent):
        return "This host started the session less than 10 minutes ago."
    if len(recent) >= HOST_MAX:
        return f"This host started {HOST_MAX} sessions within an hour, and starts no more."
    return None


@attrs.define(kw_only=True, eq=False)
class Resumer:
    """Starts windows in the tmux session `tmux_session`, running `claude --resume ID`.

    `folder` keeps the limits, `spool` is where hooks leave what they know, `home` has `.claude`.
    `claude` are the words of the program that is run, by a login shell of this user.
    """

    tmux: Tmux
    spool: Path
    home: Path
    folder: Path
    tmux_session: str = "muster-resume"
    claude: Sequence[str] = (CLAUDE,)
    _one_at_a_time: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    async def resume(self, claude_session: str) -> Resumed:
        """Start it, or say why not."""
        async with self._one_at_a_time:
            try:
                window = await self._start(claude_session)
            except _No as no:
                return Resumed(outcome=Outcome.REFUSED, detail=str(no)[:500])
        return Resumed(outcome=Outcome.STARTED, window=window)

    async def _start(self, session: str) -> str:
        if not SESSION_ID.fullmatch(session):
            raise _No("This is no id of a session.")
        folder = await trio.to_thread.run_sync(_folder_of, self.home / ".claude", session)
        if await trio.to_thread.run_sync(self._runs, session) or await self._has_pane(session):
            raise _No("The session is running on this host.")
        if await trio.to_thread.run_sync(self._may_run, folder):
            raise _No("A Claude Code runs in the session's folder, and may be running the session.")
        await trio.to_thread.run_sync(self._count, session, datetime.now(UTC))
        try:
            return await self._open_window(session, folder)
        except TmuxError as error:
            raise _No(f"tmux started no window: {error}") from error

    def _runs(self, session: str) -> bool:
        kept = read_session(str(self.spool), session)
        return (kept is not None and lives(kept)) or any(
            _names(words, session) for _, words in _commands()
        )

    def _may_run(self, folder: str) -> bool:
        """Whether a Claude Code works in the folder of which no hook said what it runs."""
        program = Path(self.claude[0]).name
        there = [
            process
            for process, words in _commands()
            if _is_claude(words, program) and _works_in(process, folder)
        ]
        known = frozenset(self._known()) if there else frozenset()
        return any(not is_of(process, known) for process in there)

    def _known(self) -> Iterable[int]:
        for path in (self.spool / SESSIONS).glob("*.json"):
            if SESSION_ID.fullmatch(path.stem):
                kept = read_session(str(self.spool), path.stem)
                if kept is not None and lives(kept):
                    yield kept.process

    async def _has_pane(self, session: str) -> bool:
        try:
            begun = await self.tmux.call(
                "list-panes", "-a", "-F", "#{?pane_dead,,#{pane_start_command}}"
            )
        except TmuxError:
            # No server, so no pane; one that does not answer starts no window either.
            return False
        return session in begun

    def _count(self, session: str, now: datetime) -> None:
        """Write down that a window is started, if the limits allow it."""
        path = self.folder / LIMITS_NAME
        try:
            starts = _read_starts(path)
            if (no := why_not(starts, session, now)) is not None:
                raise _No(no)
            kept = [start for start in starts if now - start.at < HOST_WITHIN]
            _write_starts(path, [*kept, Start(session=session, at=now)])
        except OSError as error:
            raise _No(f"This host's limits can't be kept: {error.strerror}.") from error
        except ValueError as error:
            raise _No(f"This host's limits can't be read: remove {LIMITS_NAME}.") from error

    async def _open_window(self, session: str, folder: str) -> str:
        script = f"cd -- {shlex.quote(folder)} && exec {shlex.join([*self.claude, '--resume'])}"
        what = [
            *("-d", "-P", "-F", "#{window_id}", "-n", f"resume-{session[:8]}"),
            # tmux reads a format there, which could run a program.
            *("-c", folder.replace("#", "##")),
            *(_login_shell(), "-lc", f"{script} {session}"),
        ]
        try:
            await self.tmux.call("has-session", "-t", f"={self.tmux_session}")
        except TmuxError:
            said = await self.tmux.call("new-session", "-s", self.tmux_session, *what)
        else:
            said = await self.tmux.call("new-window", "-t", f"={self.tmux_session}:", *what)
        return said.strip()


def _folder_of(config: Path, session: str) -> str:
    """The folder that the session's one transcript is filed under and names itself."""
    try:
        found = find_transcripts(config, session)
        if len(found) != 1:
            count = "no transcript" if not found else f"{len(found)} transcripts"
            raise _No(f"This host holds {count} of the session.")
        folder = first_folder(found[0])
        if folder is None or slug_of(folder) != found[0].parent.name:
            folder = _newest_folder(found[0])
    except OSError as error:
        raise _No(f"The session's transcript can't be read: {error.strerror}.") from error
    if folder is None or slug_of(folder) != found[0].parent.name:
        raise _No("The session's transcript does not name the folder that it is filed under.")
    if not folder.isprintable() or not Path(folder).is_dir():
        raise _No("The folder that the session worked in is gone.")
    return folder


def _newest_folder(path: Path) -> str | None:
    reader = Reader(path)
    reader.read()
    return reader.prompts[-1].cwd if reader.prompts else None


def _commands() -> Iterable[tuple[int, list[str]]]:
    """All other processes that may be looked at, with the words of their command lines."""
    own = str(os.getpid())
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or entry.name == own:
            continue
        try:
            with (entry / "cmdline").open("rb") as file:
                said = file.read(COMMAND_BYTES_MAX)
        except OSError:
            continue
        yield int(entry.name), said.decode(errors="replace").split("\0")


def _names(words: Sequence[str], session: str) -> bool:
    return any(word == session or word.endswith(f"={session}") for word in words)


def _is_claude(words: Sequence[str], program: str) -> bool:
    """Whether a command line is Claude Code's: by its name, also as a script of an interpreter."""
    return any(
        Path(word).name in (program, CLAUDE) or f"/{CLAUDE}-code/" in word for word in words[:2]
    )


def is_of(process: int, known: frozenset[int]) -> bool:
    """Whether a process is one of these, or one of them started it or what did."""
    for _ in range(ANCESTORS_MAX):
        stat = process_stat(process)
        if process in known or stat is None:
            return process in known
        process = int(stat[1])
    return False


def _works_in(process: int, folder: str) -> bool:
    try:
        return Path(f"/proc/{process}/cwd").samefile(folder)
    except OSError:
        return False


def _login_shell() -> str:
    shell = os.environ.get("SHELL", "")
    if shell.startswith("/") and os.access(shell, os.X_OK):
        return shell
    try:
        return pwd.getpwuid(os.geteuid()).pw_shell or "/bin/sh"
    except KeyError:
        return "/bin/sh"


def _read_starts(path: Path) -> list[Start]:
    """The starts of the last hour; ValueError when they can't be read, OSError."""
    try:
        with path.open("rb") as file:
            content = file.read(LIMITS_BYTES_MAX)
    except FileNotFoundError:
        return []
    starts: list[Start] = []
    for each in json.loads(content):
        match as_members(each):
            case {"session": str(session), "at": str(at)}:
                moment = datetime.fromisoformat(at)
                if moment.tzinfo is None:
                    raise ValueError("a time without its zone")
                starts.append(Start(session=session, at=moment))
            case _:
                raise ValueError("no start")
    return starts


def _write_starts(path: Path, starts: Sequence[Start]) -> None:
    content = json.dumps([{"session": each.session, "at": each.at.isoformat()} for each in starts])
    new = path.with_suffix(".new")
    with new.open("w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
