"""The frames of `/mirror/v1/socket` as the host sees them; web/mirror_socket.py has the other side.

The server sends `welcome`, `paste`, `resume`, `watch`, `ack` and `ping`. What the host sends has a
`seq` that grows within one connection, but for `pong`; the server acknowledges each once it is
committed.
"""

from typing import Annotated

import attrs
import msgspec

from muster.clients.frames import Unknown, read_frame
from muster.clients.mirror.model import Focus, Resumed
from muster.clients.mirror.paste import Done
from muster.clients.mirror.windows import Listing, told_folder

Id = Annotated[int, msgspec.Meta(ge=1, le=(1 << 63) - 1)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
TmuxId = Annotated[str, msgspec.Meta(pattern=r"^[@%][0-9]{1,39}$")]
SessionId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f-]{36}$")]

PATH = "/mirror/v1/socket"
HOST_CHARACTERS_MAX = 80
DETAIL_CHARACTERS_MAX = 500
SCREEN_BYTES_MAX = 64 * 1024


class Welcome(msgspec.Struct, frozen=True):
    """The server knows the host. Silence for three heartbeats means that it is gone."""

    host_id: Id
    name: str
    heartbeat_seconds: Seconds = 15.0


class PasteFrame(msgspec.Struct, frozen=True):
    """Type this text into this pane, once for ever."""

    send_id: Id
    window: TmuxId
    pane: TmuxId
    claude_session: SessionId
    text: str
    sha256: str
    proof_seconds: Seconds


class ResumeFrame(msgspec.Struct, frozen=True):
    """Start this ended session anew."""

    resume_id: Id
    claude_session: SessionId


class WatchFrame(msgspec.Struct, frozen=True):
    """Somebody looks at this pane: show its screen for so long; 0 ends it."""

    pane: TmuxId
    seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)]


class Ack(msgspec.Struct, frozen=True):
    """The frame of this number is committed."""

    seq: Id


class Ping(msgspec.Struct, frozen=True):
    """Answered with a pong at once."""


Known = Welcome | PasteFrame | ResumeFrame | WatchFrame | Ack | Ping
Frame = Known | Unknown

KNOWN: dict[str, type[Known]] = {
    "welcome": Welcome,
    "paste": PasteFrame,
    "resume": ResumeFrame,
    "watch": WatchFrame,
    "ack": Ack,
    "ping": Ping,
}


def decode(raw: str | bytes) -> Frame:
    """Read one frame; FrameError when it is binary, no JSON object, or breaks its type's shape."""
    return read_frame(raw, KNOWN)


@attrs.frozen(kw_only=True)
class Said:
    """What the host says, but for its number; `stamped` is said with the host's time."""

    type: str
    members: dict[str, object]
    stamped: bool = False

    def encode(self, seq: int, now: str) -> str:
        """The frame under this number."""
        time = {"now": now} if self.stamped else {}
        return msgspec.json.encode({"type": self.type, "seq": seq, **time, **self.members}).decode()


def hello(host: str, *, interactive: bool, resume_spawn: bool) -> Said:
    """The first frame: which machine this is and what it offers."""
    members: dict[str, object] = {
        "host": host,
        "interactive": interactive,
        "resume_spawn": resume_spawn,
    }
    return Said(type="hello", members=members, stamped=True)


def windows(listing: Listing) -> Said:
    """The whole list of windows."""
    return Said(type="windows", members={"windows": listing.windows}, stamped=True)


def focus(told: Focus) -> Said:
    """A new focus title."""
    members: dict[str, object] = {
        "claude_session": told.claude_session,
        "title": told.title,
        "source": told.source.value,
        "cwd": told_folder(told.cwd),
        "at": told.at,
    }
    return Said(type="focus", members=members)


def paste_done(done: Done) -> Said:
    """How a paste ended."""
    members: dict[str, object] = {
        "send_id": done.send_id,
        "outcome": done.outcome.value,
        "detail": done.detail[:DETAIL_CHARACTERS_MAX],
    }
    return Said(type="paste.done", members=members)


def resume_done(resume_id: int, resumed: Resumed) -> Said:
    """How a resume ended."""
    members: dict[str, object] = {
        "resume_id": resume_id,
        "outcome": resumed.outcome.value,
        "detail": resumed.detail[:DETAIL_CHARACTERS_MAX],
        "window": resumed.window,
    }
    return Said(type="resume.done", members=members)


def screen(pane: str, text: str, at: str) -> Said:
    """What a watched pane shows."""
    shown = text.encode()[:SCREEN_BYTES_MAX].decode(errors="ignore")
    return Said(type="screen", members={"pane": pane, "text": shown, "at": at})


def pong() -> str:
    """The answer to a ping."""
    return '{"type":"pong"}'
