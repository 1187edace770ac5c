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


def _told(meaning: str, **schema: object) -> Meta:
    """What the document says of a field; what the field may hold is judged by the rules."""
    return Meta(description=meaning, extra_json_schema=schema)


class MessageBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An inbound message; lengths, characters and times are judged by muster/messages."""

    external_id: Annotated[
        str,
        _told(
            "The upstream's id, unique for this plugin: 1 to 200 bytes of UTF-8, without spaces and"
            " control characters. The same id again is the same message.",
            minLength=1,
            maxLength=200,
        ),
    ]
    body: Annotated[str, _told("1 byte to 16 KiB of UTF-8.", minLength=1, maxLength=16384)]
    sender: Annotated[str, _told("At most 200 characters.", maxLength=200)] | UnsetType = UNSET
    subject: Annotated[str, _told("At most 200 characters.", maxLength=200)] | UnsetType = UNSET
    received_at: Annotated[str, _told("RFC 3339, with a zone.")] | UnsetType = UNSET
    no_reply: Annotated[bool, _told("Nobody can answer this message.")] = False
    sender_verified: Annotated[
        bool, _told("The plugin itself proved that the sender sent this message.")
    ] = False
    thread: (
        Annotated[
            str,
            _told(
                "The upstream's thread id: 1 to 200 bytes, without spaces and control characters.",
                minLength=1,
                maxLength=200,
            ),
        ]
        | UnsetType
    ) = UNSET
    human_conversation: Annotated[
        bool, _told("The sender is a person who writes in a direct conversation.")
    ] = False


class ClaimBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How long a claim may wait for an approved reply."""

    wait_seconds: Annotated[
        int, Meta(ge=0, description="0 to 25 seconds; more counts as 25, no body at all as 0.")
    ]


class ResultBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What became of a claimed reply."""

    ok: Annotated[bool, _told("true: it was sent. false: it is known not to have been sent.")]
    external_ref: (
        Annotated[
            str,
            _told("The upstream's id for what was sent: 200 characters.", maxLength=200),
        ]
        | UnsetType
    ) = UNSET
    detail: (
        Annotated[
            str,
            _told("What the owner should read: 4 KiB of UTF-8.", maxLength=4096),
        ]
        | UnsetType
    ) = UNSET


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
