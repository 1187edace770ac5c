"""The frames of `/agent/v1/socket` as the agent's side sees them.

The server sends `welcome`, `turn`, `cancel` and `ping`; an unknown type is ignored, so that a newer
server can say more, and so are unknown members. A frame that cannot be read is `FrameError`: the
runner closes with 4400.
"""

from typing import Annotated

import attrs
import msgspec

from muster.clients.agent.backend import TurnId, Usage
from muster.clients.frames import Unknown, read_frame

# The server reads at most 256 KiB a frame, and JSON can spell a character with six bytes.
TEXT_CHARACTERS_MAX = 40_000
ERROR_CHARACTERS_MAX = 2_000
MODEL_CHARACTERS_MAX = 200

Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]


class Welcome(msgspec.Struct, frozen=True):
    """The server knows the agent. Silence for three heartbeats means that it is gone."""

    agent_id: int
    name: str
    instructions: str = ""
    heartbeat_seconds: Seconds = 15.0


class TurnFrame(msgspec.Struct, frozen=True):
    """Something to do. `conversation` groups turns that belong together."""

    turn_id: TurnId
    text: str
    deadline_seconds: Seconds
    conversation: str = ""
    title: str = ""


class Cancel(msgspec.Struct, frozen=True):
    """The server no longer waits for this turn."""

    turn_id: TurnId


class Ping(msgspec.Struct, frozen=True):
    """Answered with a pong at once, also in the middle of a turn."""


Frame = Welcome | TurnFrame | Cancel | Ping | Unknown

KNOWN: dict[str, type[Welcome | TurnFrame | Cancel | Ping]] = {
    "welcome": Welcome,
    "turn": TurnFrame,
    "cancel": Cancel,
    "ping": Ping,
}


def decode(raw: str | bytes) -> Frame:
    """Read one frame; FrameError when it is binary, no JSON object, or breaks its type's shape."""
    return read_frame(raw, KNOWN)


def turn_started(turn_id: TurnId) -> str:
    """The backend works on the turn now."""
    return _encode("turn.started", turn_id)


def turn_delta(turn_id: TurnId, text: str) -> str:
    """What the backend says while it works."""
    return _encode("turn.delta", turn_id, text=text[:TEXT_CHARACTERS_MAX])


def turn_done(turn_id: TurnId, text: str, usage: Usage | None = None) -> str:
    """The turn is complete; `text` is the backend's last word on it."""
    return _encode("turn.done", turn_id, text=text[:TEXT_CHARACTERS_MAX], **_counted(usage))


def turn_failed(turn_id: TurnId, error: str, usage: Usage | None = None) -> str:
    """The turn ended without completing; tools may have run."""
    return _encode("turn.failed", turn_id, error=error[:ERROR_CHARACTERS_MAX], **_counted(usage))


def turn_busy(turn_id: TurnId) -> str:
    """The turn was not taken: the backend saw nothing of it."""
    return _encode("turn.busy", turn_id)


def pong() -> str:
    """The answer to a ping."""
    return '{"type":"pong"}'


def _counted(usage: Usage | None) -> dict[str, Usage]:
    # The server closes at a name that is out of bounds, and a model chose this one.
    if usage is None:
        return {}
    spoken = usage.model.encode("utf-8", "replace").decode()
    name = "".join(character for character in spoken if character.isprintable())
    return {"usage": attrs.evolve(usage, model=name[:MODEL_CHARACTERS_MAX])}


def _encode(kind: str, turn_id: TurnId, **members: str | Usage) -> str:
    return msgspec.json.encode({"type": kind, "turn_id": turn_id, **members}).decode()
