"""The records and Protocols through which the parts of the host program meet.

Rejected: one object that knows all. tmux, hooks and transcripts change on their own, and each part
is tested against the real thing of its side alone.

Who makes what, and `host.py` puts together:

- hooks.py: `open_sessions(spool, *, home, tell: TellFocus)`, an async context manager that gives
  `Sessions` and runs their tasks in a nursery of its own. `spool` is `spool.spool_folder(environ)`,
  one for this user, to which hooks write at any time; any number of host programs watch it.
- resume.py: `Resumer(tmux=…, sessions=…, …)`, which is `Resumes`. It starts windows through
  `tmux.Tmux.call`, which is bounded in time and output.
"""

import enum
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol

import attrs
import trio


class State(enum.Enum):
    """What a session does, as its own hooks tell it; the value is what the wire carries."""

    WORKING = "working"
    WAITING = "waiting"  # for a person, at a permission prompt
    IDLE = "idle"
    UNKNOWN = "unknown"


class FocusSource(enum.Enum):
    """Where a focus title comes from; the value is what the wire carries."""

    SUMMARY = "summary"
    PROMPT = "prompt"


class ProofSource(enum.Enum):
    """Who showed that a text arrived."""

    HOOK = "hook"
    TRANSCRIPT = "transcript"


@attrs.frozen(kw_only=True)
class Place:
    """A pane of one life of the tmux server: `pane` is tmux's id of it (`%7`)."""

    tmux_pid: int
    pane: str


@attrs.frozen(kw_only=True)
class SessionState:
    """The Claude Code session in a pane, by its newest hook.

    `claude_session` is a UUID in lower case; `since` is when the state began, by the clock of the
    hook; `cwd` is absolute.
    """

    claude_session: str
    state: State
    since: datetime
    cwd: str | None = None
    transcript_path: Path | None = None


@attrs.frozen(kw_only=True)
class Focus:
    """What a session is about: `title` has 1 to 120 characters, cleaned, on one line."""

    claude_session: str
    title: str
    source: FocusSource
    cwd: str | None
    at: datetime


@attrs.frozen(kw_only=True)
class Proof:
    """A prompt that the session itself took, with the text that was pasted."""

    source: ProofSource
    at: datetime


class Wake:
    """Something to look at: any number of `set` is one `wait`. One task waits, anyone sets."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def set(self) -> None:
        """Let the waiter go, now or when it comes; never blocks."""
        self._event.set()

    async def wait(self) -> None:
        """Wait until something was set since the last wait began to return."""
        await self._event.wait()
        self._event = trio.Event()


TellFocus = Callable[[Focus], None]
"""Takes a new focus title; never blocks and never fails. It is told once for each new title."""


class Sessions(Protocol):
    """What hooks and transcripts say of the sessions on this machine (hooks.py, transcripts.py)."""

    @property
    def changes(self) -> Wake:
        """Set whenever an answer of `state_of` may have become another one."""
        ...

    def state_of(self, place: Place) -> SessionState | None:
        """The session that the pane shows, None when no living one is known; from memory, at once.

        None as soon as the session ended, by its hook or because its process is gone.
        """
        ...

    async def catch_up(self) -> None:
        """Take in every hook event that was left by now, so that `state_of` is of this moment.

        Called right before each paste: a few milliseconds at most, and without waiting for any
        other thing.
        """
        ...

    async def proven(self, claude_session: str, text: str, after: datetime) -> Proof:
        """Wait until the session is seen to have taken `text` as a prompt at or after `after`.

        For as long as it takes: the caller sets the deadline. Looks at what was there before it was
        called as well, so it also serves a program that died in mid-paste and came back. `text` is
        what was typed: without controls but newline and tab, lines ended by a newline. White space
        at either end does not count. One prompt is proof of one text only once: a prompt that was
        returned is not returned again while this program lives.
        """
        ...


class Outcome(enum.Enum):
    """How a resume ended; the value is what the wire carries."""

    STARTED = "started"
    REFUSED = "refused"


@attrs.frozen(kw_only=True)
class Resumed:
    """What came of a resume: `window` (`@3`) is there when it started; `detail` up to 500."""

    outcome: Outcome
    detail: str = ""
    window: str | None = None


class Resumes(Protocol):
    """Starts ended sessions anew within the host's own limits (resume.py)."""

    async def resume(self, claude_session: str) -> Resumed:
        """Start it in a window of its own, or say why not; never raises for what the world does."""
        ...


class Lines(Protocol):
    """What is told to whoever runs the program: an event and its facts, one line each."""

    def __call__(self, event: str, **facts: object) -> None:
        """Never blocks for long and never fails."""
        ...
