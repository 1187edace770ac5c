"""What every handler under `/api/` reads of a request, behind the credential."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from muster.errors import NotFound
from web.answers import Header
from web.bodies import decode
from web.errors import WrongMediaType
from web.routes import Asked

Shape = TypeVar("Shape", bound=msgspec.Struct)

ID_MAX = 2**63 - 1


def read_json(asked: Asked, shape: type[Shape]) -> Shape:
    """The body; raises WrongMediaType unless it says that it is JSON, and Invalid for a field."""
    if not _is_json(asked.headers):
        raise WrongMediaType("The body must be application/json.")
    return decode(asked.body, shape)


def read_id(asked: Asked, noun: str) -> int:
    """The number in the path; raises NotFound for what can be none."""
    text = asked.id
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(ID_MAX))
    if not digits or not 1 <= int(text) <= ID_MAX:
        raise NotFound(f"There is no such {noun}.")
    return int(text)


def _is_json(headers: Sequence[Header]) -> bool:
    kinds = [value for name, value in headers if name == b"content-type"]
    kind, _, _ = b", ".join(kinds).partition(b";")
    return kind.strip().lower() == b"application/json"
