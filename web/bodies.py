"""Bodies of requests, decoded strictly into the shapes of the wire.

Unknown fields are refused, nothing is coerced (`"false"` is no bool, `"1"` no number), `null` is no
value of any field, and a key that stands twice is refused: msgspec alone would silently keep the
last. An error names the field.
"""

import json
import re
from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from muster.errors import Invalid

Shape = TypeVar("Shape", bound=msgspec.Struct)
Value = TypeVar("Value")

_PATH = re.compile(r" - at `\$\.?([^`]*)`$")
_NAMED = re.compile(r"`([^`]*)`")


class MessageBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`POST /plugin/v1/messages`; lengths, characters and times are judged by others."""

    external_id: str
    body: str
    sender: str | UnsetType = UNSET
    subject: str | UnsetType = UNSET
    received_at: str | UnsetType = UNSET
    no_reply: bool = False
    sender_verified: bool = False
    thread: str | UnsetType = UNSET
    human_conversation: bool = False


class ClaimBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`POST /plugin/v1/drafts/claim`; more than 25 seconds count as 25."""

    wait_seconds: Annotated[int, Meta(ge=0)]


class ResultBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`POST /plugin/v1/drafts/{id}/result`."""

    ok: bool
    external_ref: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET


def decode(raw: bytes, shape: type[Shape]) -> Shape:
    """Read `raw` as a JSON object of `shape`, or raise Invalid naming the field."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"The body is not UTF-8 (at byte {error.start}).", code="bad_json") from None
    try:
        json.loads(text, object_pairs_hook=_refuse_doubles)
    except (ValueError, RecursionError):
        raise Invalid("The body is not JSON.", code="bad_json") from None
    try:
        return msgspec.json.decode(text, type=shape)
    except msgspec.ValidationError as error:
        raise explain(str(error)) from None
    except (msgspec.DecodeError, RecursionError):
        raise Invalid("The body is not JSON.", code="bad_json") from None


def given(value: Value | UnsetType) -> Value | None:
    """Turn a field that was left out into None."""
    return None if isinstance(value, UnsetType) else value


def _refuse_doubles(pairs: list[tuple[str, object]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            # Only json.loads lets half of a surrogate pair in, and no answer could carry it.
            field = key[:100].encode(errors="backslashreplace").decode()
            raise Invalid(f"The key {key[:100]!r} stands twice.", field=field)
        seen.add(key)


def explain(problem: str) -> Invalid:
    """Make msgspec's sentence one that names the field first."""
    path = _PATH.search(problem)
    sentence = _PATH.sub("", problem)
    if path is not None and path[1]:
        field = path[1]
        return Invalid(f"{field}: {sentence[0].lower()}{sentence[1:]}.", field=field)
    named = _NAMED.search(sentence)
    if "field" in sentence and named is not None:
        return Invalid(f"{sentence}.", field=named[1])
    return Invalid(f"The body must be a JSON object: {sentence[0].lower()}{sentence[1:]}.")
