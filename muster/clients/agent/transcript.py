"""What was said in a conversation with a model, in words of no provider's.

A transcript is a list of entries: what the user said, what the model said and which tools it
called, and the results. It is stored as JSON, so a conversation survives a restart and a change of
the model behind it.
"""

from collections.abc import Sequence

import msgspec


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A model's wish to call a tool; `arguments` is JSON text, an object unless the model erred."""

    call_id: str
    name: str
    arguments: str


class FromUser(msgspec.Struct, frozen=True, kw_only=True, tag="user"):
    """What the model was told."""

    text: str


class FromModel(msgspec.Struct, frozen=True, kw_only=True, tag="model"):
    """What the model answered, and the tools that it called.

    `echo` is the provider's own: what the same model wants back while the turn lasts, such as its
    thinking. It is never stored.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    echo: str = ""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, tag="result"):
    """What became of a tool call; it follows the FromModel that holds the call."""

    call_id: str
    text: str
    is_error: bool = False


Entry = FromUser | FromModel | ToolResult

_DECODER = msgspec.json.Decoder(tuple[Entry, ...])


def encode(entries: Sequence[Entry]) -> bytes:
    """Write entries as JSON, without what is the provider's own."""
    return msgspec.json.encode(
        [
            msgspec.structs.replace(entry, echo="") if isinstance(entry, FromModel) else entry
            for entry in entries
        ]
    )


def decode(raw: bytes) -> tuple[Entry, ...]:
    """Read what `encode` wrote; msgspec.DecodeError when it is something else."""
    return _DECODER.decode(raw)


def is_whole(entries: Sequence[Entry]) -> bool:
    """Whether every tool call has its result right behind it, and every result its call.

    Providers refuse a request that breaks this, so nothing else is ever kept.
    """
    open_calls: list[str] = []
    for entry in entries:
        match entry:
            case ToolResult():
                if entry.call_id not in open_calls:
                    return False
                open_calls.remove(entry.call_id)
            case FromUser():
                if open_calls:
                    return False
            case FromModel():
                if open_calls:
                    return False
                open_calls = [call.call_id for call in entry.calls]
    return not open_calls
