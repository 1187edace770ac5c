"""Hosts, what they show, and the sessions in it.

A host is a machine that runs `muster mirror`; it lives until it is retired. `epoch` counts its
sockets and `node` names the server that holds the newest, as for an agent: what an older socket
says late changes nothing. A host is online while a living server holds its socket; what it listed
last is remembered for REMEMBERED of its absence, or until it lists anew.

A session is a Claude Code session that a host ever showed. A window shows it when one of the
window's panes runs it; agents call it `mirror:<claude session id>`.

Races: accepting a socket locks the host's row, and whoever writes what a socket said names its
epoch in the WHERE; of two lists of one host the later socket's stays.
"""

import enum
from collections.abc import Sequence
from datetime import datetime, timedelta

import attrs

from muster.outcomes import Hint, HintKind

HOSTS_MAX = 100  # of one owner, live at the same time
REMEMBERED = timedelta(hours=24)
NODE_SILENT = timedelta(seconds=20)  # then a server counts as gone, and its hosts as offline
FOCUS_KEPT = timedelta(days=30)
FOCUS_CHARACTERS_MAX = 120
SUBJECT_PREFIX = "mirror:"


class PaneState(enum.Enum):
    """What the session in a pane does; `waiting` is a question to its person, never idle."""

    WORKING = "working"
    WAITING = "waiting"
    IDLE = "idle"
    UNKNOWN = "unknown"


@attrs.frozen(kw_only=True)
class HostRow:
    """A host. `node` and `connected_at` are None while no socket of it is open."""

    id: int
    owner_id: int
    name: str
    created_at: datetime
    retired_at: datetime | None
    machine: str | None
    interactive: bool
    resume_spawn: bool
    epoch: int
    node: str | None
    connected_at: datetime | None
    left_at: datetime | None


@attrs.frozen(kw_only=True)
class HostView(HostRow):
    """A host as listed: whether it is online, and when its token was last used."""

    online: bool
    last_seen_at: datetime | None


@attrs.frozen(kw_only=True)
class AddHost:
    """Register a host; audit action `host.added`."""

    name: str


@attrs.frozen(kw_only=True)
class ListHosts:
    """List the live hosts by name, or the retired ones too."""

    retired_too: bool = False
    limit: int = 1000


@attrs.frozen(kw_only=True)
class RetireHost:
    """End a live host and its token; audit action `host.retired`."""

    name: str


@attrs.frozen(kw_only=True)
class AcceptHost:
    """A socket of the host said hello on a node; no audit row, as it is no act of a person."""

    host_id: int
    node: str
    machine: str
    interactive: bool
    resume_spawn: bool


@attrs.frozen(kw_only=True)
class ReleaseHost:
    """The socket of this epoch was closed; no audit row."""

    host_id: int
    epoch: int


@attrs.frozen(kw_only=True)
class Pane:
    """A pane; `idle_seconds` is how long it has been idle, None while it is not."""

    tmux_pane: str
    active: bool
    claude_session: str | None
    state: PaneState
    idle_seconds: float | None
    cwd: str | None
    repo: str | None


@attrs.frozen(kw_only=True)
class Window:
    """A window with its panes."""

    tmux_window: str
    title: str
    label: str | None
    panes: Sequence[Pane]


@attrs.frozen(kw_only=True)
class StoreWindows:
    """The host's list, whole, as its socket of this epoch told it; no audit row."""

    host_id: int
    epoch: int
    windows: Sequence[Window]


@attrs.frozen(kw_only=True)
class NoteFocus:
    """A session's focus as its host tells it; no audit row. Told again, it changes nothing."""

    host_id: int
    epoch: int
    claude_session: str
    title: str
    source: str
    cwd: str | None
    at: datetime


@attrs.frozen(kw_only=True)
class NoteTaskFocus:
    """An agent begins a turn on a task, which it is about from now on; no audit row."""

    agent_id: int
    title: str


def subject_of(claude_session: str) -> str:
    """The name by which agents know a session."""
    return SUBJECT_PREFIX + claude_session


def doubted_hint(host: HostRow) -> Hint:
    """Whoever holds this host's socket looks again."""
    return Hint(kind=HintKind.HOST_DOUBTED, owner_id=host.owner_id, id=host.id)
