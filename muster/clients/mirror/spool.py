"""Where hooks leave what they know of sessions: one small file each, which is the truth.

    sessions/<session id>.json   what the session does, written anew by each of its hooks
    wake-<pid>                   a socket of each running host program: a hook that wrote says so
    lock                         one hook writes at a time

A file is replaced, so nobody reads a half one; it is not synced, since a machine that lost its
power has no sessions either. The sockets carry ids, so that nobody has to look all the time.

Rejected: a log of events. Whoever reads it late must read all of it, and one that has a bound
forgets a question that still stands. Rejected as well: a spool of each host program. A hook does
not know which of them runs, and two programs may serve one machine.

This is loaded by every hook: nothing here imports what takes time.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from muster.clients.mirror.hook_rules import IDLE, UNKNOWN, WORKING, Doing, Question

SESSIONS: Final = "sessions"
LOCK: Final = "lock"
WAKE: Final = "wake-"
SESSION_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
PANE: Final = re.compile(r"%[0-9]{1,9}")
FILE_BYTES_MAX: Final = 64 << 10
_TURNS: Final = (WORKING, IDLE, UNKNOWN)
PROMPTS_MAX: Final = 16
"""How many of the newest prompts of a session are known by their digest."""

FORMAT: Final = 1
_SECONDS_MAX: Final = 32_503_680_000
"""The year 3000, from which on no clock is believed, and muster takes no time."""


class Prompt(NamedTuple):
    """A prompt that the session took: its digest (`digest_of`) and when, in seconds since 1970."""

    digest: str
    at: float


class Kept(NamedTuple):
    """What the hooks know of one session; times are in seconds since 1970.

    `tmux_pid` and `pane` say where it is shown, `process` and `started` are the process id of
    Claude Code and the clock tick of its beginning. `since` is when its state began, `at` when its
    newest hook was called.
    """

    session: str
    tmux_pid: int
    pane: str
    process: int
    started: int
    cwd: str
    transcript: str
    doing: Doing
    since: float
    at: float
    prompts: tuple[Prompt, ...] = ()


def spool_folder(environ: Mapping[str, str]) -> str:
    """The spool of this user: under XDG_STATE_HOME, else under ~/.local/state."""
    state = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111
    return os.path.join(state, "muster", "hooks")  # noqa: PTH118 - pathlib takes time to load


def session_path(spool: str, session: str) -> str:
    """The file of a session, whose id was checked."""
    assert SESSION_ID.fullmatch(session), "an id that was not checked names no file"
    return f"{spool}/{SESSIONS}/{session}.json"


def encode(kept: Kept) -> bytes:
    """The content of a session's file."""
    return json.dumps([FORMAT, *kept], separators=(",", ":")).encode()


def decode(content: bytes, session: str) -> Kept | None:
    """What a file says of the session that it is named for; None when it can't be read."""
    try:
        version, *members = json.loads(content)
        named, tmux_pid, pane, process, started, cwd, transcript, doing, since, at, prompts = (
            members
        )
        turn, questions, before, ended = doing
        if version != FORMAT or named != session or not PANE.fullmatch(pane):
            return None
        if turn not in _TURNS or not is_moment(since) or not is_moment(at):
            return None
        return Kept(
            session=session,
            tmux_pid=int(tmux_pid),
            pane=pane,
            process=int(process),
            started=int(started),
            cwd=str(cwd),
            transcript=str(transcript),
            doing=Doing(
                turn=str(turn),
                questions=tuple(Question(str(agent), str(key)) for agent, key in questions),
                before_compaction=before if before in _TURNS else "",
                ended=ended is True,
            ),
            since=float(since),
            at=float(at),
            prompts=tuple(
                Prompt(str(digest), float(taken)) for digest, taken in prompts if is_moment(taken)
            ),
        )
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


def is_moment(seconds: float) -> bool:
    """Whether it is a time that a calendar has: from 1970 until the year 3000."""
    return 0 <= seconds < _SECONDS_MAX


def read_session(spool: str, session: str) -> Kept | None:
    """What is kept of a session; None when that is nothing, or can't be read."""
    try:
        with open(session_path(spool, session), "rb") as file:  # noqa: PTH123 - as above
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError:
        return None
    return decode(content, session) if len(content) <= FILE_BYTES_MAX else None


def lives(kept: Kept) -> bool:
    """Whether the session has not ended, and its process is there."""
    return not kept.doing.ended and started_tick(kept.process) == kept.started


def has_terminal(kept: Kept) -> bool:
    """Whether what is typed in the pane reaches the session itself.

    Not while it is stopped, or another program is in the foreground (a suspended session's shell),
    and not while a program that it started has its terminal as well (an editor for the prompt).
    """
    stat = process_stat(kept.process)
    if stat is None or stat[0] in ("T", "t") or stat[2] != stat[5]:
        return False
    own = _stdin(kept.process)
    return own is not None and not any(
        _stdin(child) == own and _group(child) == stat[5] for child in _children(kept.process)
    )


def _group(process: int) -> str | None:
    stat = process_stat(process)
    return None if stat is None else stat[2]


def _children(process: int) -> list[int]:
    # Of its first thread, which is the one that starts programs. Empty where the kernel keeps none.
    try:
        path = f"/proc/{process}/task/{process}/children"
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123 - as above
            said = file.read(65536)
    except OSError:
        return []
    return [int(word) for word in said.split() if word.isdecimal()]


def _stdin(process: int) -> str | None:
    try:
        return os.readlink(f"/proc/{process}/fd/0")  # noqa: PTH115 - as above
    except OSError:
        return None


def started_tick(process: int) -> int | None:
    """The clock tick at which a process began, which tells it from a later one of its number.

    None when there is none, or when it has ended and only waits to be buried.
    """
    stat = process_stat(process)
    return None if stat is None or stat[0] in ("Z", "X") else int(stat[19])


def process_stat(process: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on (the third one there); None without it."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            said = file.read(4096)
    except OSError:
        return None
    fields = said.rpartition(")")[2].split()
    return fields if len(fields) > 19 else None


def digest_of(text: str) -> str:
    """What tells prompts apart: the sha256 of their characters that are no white space.

    Claude Code trims a prompt and makes blanks of the tabs in a paste, so white space is no part.
    """
    import hashlib  # noqa: PLC0415 - most hooks have no prompt, and it takes time to load

    letters = "".join(text.split())
    return hashlib.sha256(letters.encode(errors="surrogatepass")).hexdigest()


def wake_names(spool: str) -> Iterator[str]:
    """The sockets of host programs that run, or did."""
    with os.scandir(spool) as entries:
        for entry in entries:
            if entry.name.startswith(WAKE):
                yield entry.name


def as_members(value: Any) -> dict[str, Any]:
    """The members of a JSON object; none for anything else."""
    return value if isinstance(value, dict) else {}
