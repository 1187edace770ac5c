"""Frames of muster's own sockets as a client reads them: JSON objects that name their type.

An unknown type is ignored, so that a newer server can say more, and so are unknown members. A frame
that cannot be read is `FrameError`: the client closes with 4400.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


class FrameError(Exception):
    """The server sent something that is no frame of this protocol."""


class Unknown(msgspec.Struct, frozen=True):
    """A frame of a type that this client doesn't know."""

    type: str


def read_frame(raw: str | bytes, known: Mapping[str, type[S]]) -> S | Unknown:
    """Read one frame as its type in `known`.

    FrameError when it is binary, no JSON object, or breaks its type's shape.
    """
    if isinstance(raw, bytes):
        raise FrameError("a binary frame")
    try:
        members = msgspec.json.decode(raw, type=dict[str, Any])
        kind = msgspec.convert(members.get("type"), str)
        shape = known.get(kind)
        return Unknown(type=kind) if shape is None else msgspec.convert(members, shape)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise FrameError(str(error)) from error
