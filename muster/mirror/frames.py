"""The frames of `/mirror/v1/socket`: what a host and muster say to each other, JSON `{"type": …}`.

An unknown type is ignored, a malformed one closes the socket 4400. Close codes and heartbeat are
those of the agents' socket.

| from       | frame                                                                              |
|------------|------------------------------------------------------------------------------------|
| the host   | `hello {seq, host, interactive, resume_spawn, now}`, the first                     |
|            | `windows {seq, now, windows}`: the whole list, at each change                      |
|            | `focus {seq, claude_session, title, source, cwd, at}`                              |
|            | `paste.done {seq, send_id, outcome, detail}`                                       |
|            | `resume.done {seq, resume_id, outcome, detail, window}`                            |
|            | `screen {seq, pane, text, at}` while a pane is watched; `pong`                     |
| the server | `welcome {host_id, name, heartbeat_seconds, send_queue_idle_seconds}`              |
|            | `paste {send_id, window, pane, claude_session, text, sha256, proof_seconds}`       |
|            | `resume {resume_id, claude_session}`, `watch {pane, seconds}`, `ack {seq}`, `ping` |

A frame with a `seq` is acknowledged once what it says is committed; what was not, the host says
again on its next connection. Times of the host are by its own clock, and `now` beside them: only
how long ago something was counts, so that clocks may differ.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec

from muster.connections.rules import BadFrame

WINDOWS_MAX = 500
PANES_MAX = 20
SCREEN_BYTES_MAX = 64 * 1024

# What a database and a page can keep: no NUL, and times of this age, in whatever zone.
_PLAIN = r"^[^\x00]*\Z"
TIMES_FROM = datetime(1970, 1, 1, tzinfo=UTC)  # where a clock that lost its battery begins
TIMES_UNTIL = datetime(3000, 1, 1, tzinfo=UTC)

Time = Annotated[datetime, msgspec.Meta(tz=True)]
Seq = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Id = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
TmuxName = Annotated[str, msgspec.Meta(min_length=1, max_length=40, pattern=_PLAIN)]
ClaudeSession = Annotated[
    str, msgspec.Meta(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
]
Folder = Annotated[str, msgspec.Meta(pattern=r"^/[^\x00]*\Z", max_length=1024)]
Detail = Annotated[str, msgspec.Meta(max_length=500, pattern=_PLAIN)]
Label = Annotated[str, msgspec.Meta(min_length=1, max_length=80, pattern=_PLAIN)]
State = Literal["working", "waiting", "idle", "unknown"]


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """Who the host is and what it offers."""

    seq: Seq
    host: Label
    interactive: bool
    resume_spawn: bool
    now: Time


class PaneSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A pane; `idle_since` only while idle."""

    pane: TmuxName
    active: bool
    state: State
    claude_session: ClaudeSession | None = None
    idle_since: Time | None = None
    cwd: Folder | None = None
    repo: Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=_PLAIN)] | None = None


class WindowSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A window with its panes."""

    window: TmuxName
    title: Annotated[str, msgspec.Meta(max_length=200, pattern=_PLAIN)]
    panes: Annotated[list[PaneSeen], msgspec.Meta(max_length=PANES_MAX)]
    label: Label | None = None


class Windows(msgspec.Struct, frozen=True, kw_only=True):
    """All that the host shows now."""

    seq: Seq
    now: Time
    windows: Annotated[list[WindowSeen], msgspec.Meta(max_length=WINDOWS_MAX)]


class Focus(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is about, as its transcript says."""

    seq: Seq
    claude_session: ClaudeSession
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=120, pattern=_PLAIN)]
    source: Literal["summary", "prompt"]
    at: Time
    cwd: Folder | None = None


class PasteDone(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a paste: proven, begun without a proof, or never begun."""

    seq: Seq
    send_id: Id
    outcome: Literal["pasted", "unconfirmed", "not_begun"]
    detail: Detail = ""


class ResumeDone(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an ended session runs again, and in which window."""

    seq: Seq
    resume_id: Id
    outcome: Literal["started", "refused"]
    detail: Detail = ""
    window: TmuxName | None = None


class Screen(msgspec.Struct, frozen=True, kw_only=True):
    """What a watched pane shows."""

    seq: Seq
    pane: TmuxName
    text: str
    at: Time


HostFrame = Hello | Windows | Focus | PasteDone | ResumeDone | Screen
_KINDS: Mapping[str, type[HostFrame]] = {
    "hello": Hello,
    "windows": Windows,
    "focus": Focus,
    "paste.done": PasteDone,
    "resume.done": ResumeDone,
    "screen": Screen,
}


def read_frame(frame: Mapping[str, object]) -> HostFrame | None:
    """The frame as it is meant; None for a type that says nothing here. Raises BadFrame."""
    kind = frame.get("type")
    shape = _KINDS.get(kind) if isinstance(kind, str) else None
    if shape is None:
        return None
    members = {name: value for name, value in frame.items() if name != "type"}
    try:
        read: HostFrame = msgspec.convert(members, shape, strict=True)
    except msgspec.ValidationError as problem:
        raise BadFrame(f"{kind}: {problem}") from None
    if isinstance(read, Screen) and len(read.text.encode()) > SCREEN_BYTES_MAX:
        raise BadFrame(f"screen: text has at most {SCREEN_BYTES_MAX} bytes")
    if isinstance(read, Windows):
        _check(read)
    if not all(TIMES_FROM <= each < TIMES_UNTIL for each in _times(read)):
        raise BadFrame(f"{kind}: a time is before 1970 or after 2999")
    return read


def _times(frame: HostFrame) -> Iterator[datetime]:
    match frame:
        case Hello(now=at) | Focus(at=at) | Screen(at=at):
            yield at
        case Windows():
            yield frame.now
            for window in frame.windows:
                yield from (pane.idle_since for pane in window.panes if pane.idle_since is not None)


def _check(frame: Windows) -> None:
    """Each window, and each pane of one, stands in the list once; idle has a since."""
    names = [window.window for window in frame.windows]
    if len(set(names)) < len(names):
        raise BadFrame("windows: a window is listed twice")
    for window in frame.windows:
        panes = [pane.pane for pane in window.panes]
        if len(set(panes)) < len(panes):
            raise BadFrame(f"windows: {window.window} lists a pane twice")
        for pane in window.panes:
            if (pane.idle_since is not None) != (pane.state == "idle"):
                raise BadFrame(f"windows: {pane.pane} has idle_since exactly while it is idle")
