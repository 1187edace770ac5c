"""A mail that asks for a fleet report, and what is answered (plugins: "A fleet-report request").

The whole body is one JSON object of type `fleet_report_request`, or the mail is an ordinary one:
prose, another type, anything before or after the object. Whether its sender may ask is judged
first, from settings, and by nothing in the body.

An object of that type is answered always: a version that muster does not know, a field that is
malformed and a window that is empty or too long get an error, which carries no data. `member` is
part of the contract and not looked at, and a member that the contract does not name is passed
over. A member that is named twice is malformed, for nobody can tell which of the two counts.
"""

import json
import re
import zoneinfo
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final

import attrs

TYPE: Final = "fleet_report_request"
REPORT_TYPE: Final = "fleet_report"
VERSION: Final = 1
REQUEST_ID_BYTES_MAX: Final = 64
WINDOW_MAX: Final = timedelta(days=4)
ZONE_CHARACTERS_MAX: Final = 64

# RFC 3339, section 5.6; a second of 60 is no time that a clock here can show.
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)


@attrs.frozen(kw_only=True)
class Span:
    """A window of time as it was asked for, and what its ends mean; `until` is outside of it."""

    since_text: str
    until_text: str
    zone: str
    since: datetime
    until: datetime

    @property
    def document(self) -> dict[str, object]:
        """The window, echoed."""
        return {"since": self.since_text, "until": self.until_text, "zone": self.zone}


@attrs.frozen(kw_only=True)
class Request:
    """A request that can be answered."""

    request_id: str
    span: Span


@attrs.frozen(kw_only=True)
class BadRequest:
    """A request that is answered with an error; `request_id` is empty when it is malformed."""

    request_id: str
    error: str

    @property
    def body(self) -> str:
        """The reply, which holds no data."""
        return encode(
            {
                "type": REPORT_TYPE,
                "v": VERSION,
                "request_id": self.request_id,
                "error": self.error,
            }
        )


def read_request(body: str) -> Request | BadRequest | None:
    """What a mail's body asks for; None for one that is no fleet-report request."""
    twice: list[str] = []

    def members(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
        named = dict(pairs)
        if len(named) != len(pairs):
            twice.append("a member")
        return named

    try:
        asked = json.loads(body, object_pairs_hook=members, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    if not isinstance(asked, dict) or asked.get("type") != TYPE:
        return None
    request_id = _request_id(asked.get("request_id"))
    try:
        _refuse_twice(twice)
        return Request(request_id=_required(request_id), span=_span(asked))
    except _MalformedError as malformed:
        return BadRequest(request_id=request_id or "", error=str(malformed))


def encode(document: Mapping[str, object]) -> str:
    """A reply's body: JSON with every character outside of ASCII as an escape."""
    return json.dumps(document, ensure_ascii=True, separators=(",", ":"))


class _MalformedError(Exception):
    """What is wrong with a request, as a sentence."""


def _refuse_twice(twice: Sequence[str]) -> None:
    if twice:
        raise _MalformedError("The request names a member twice.")


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _request_id(found: object) -> str | None:
    if not isinstance(found, str) or not found:
        return None
    try:
        return found if len(found.encode()) <= REQUEST_ID_BYTES_MAX else None
    except UnicodeEncodeError:
        return None


def _required(request_id: str | None) -> str:
    if request_id is None:
        raise _MalformedError(f"request_id must be a text of 1 to {REQUEST_ID_BYTES_MAX} bytes.")
    return request_id


def _span(asked: Mapping[str, object]) -> Span:
    version = asked.get("v")
    if isinstance(version, bool) or not isinstance(version, int) or version != VERSION:
        raise _MalformedError(f"Only version {VERSION} of a fleet-report request is understood.")
    window = asked.get("window")
    if not isinstance(window, dict):
        raise _MalformedError("window must be an object with since, until and zone.")
    zone = window.get("zone")
    if not isinstance(zone, str) or len(zone) > ZONE_CHARACTERS_MAX or zone not in _zones():
        raise _MalformedError("window.zone must be the name of a time zone.")
    since_text, since = _time(window, "since")
    until_text, until = _time(window, "until")
    if (problem := find_problem(since, until)) is not None:
        raise _MalformedError(problem)
    return Span(since_text=since_text, until_text=until_text, zone=zone, since=since, until=until)


def find_problem(since: datetime, until: datetime) -> str | None:
    """What is wrong with a window, as a sentence."""
    if until <= since:
        return "The window is empty: until must be later than since."
    if until - since > WINDOW_MAX:
        return f"The window is longer than {WINDOW_MAX.days} days."
    return None


def _time(window: Mapping[str, object], name: str) -> tuple[str, datetime]:
    text = window.get(name)
    if isinstance(text, str) and _TIME.fullmatch(text):
        try:
            # Nine digits of a second are RFC 3339; a datetime holds six.
            plain = re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", text.upper())
            return text, datetime.fromisoformat(plain).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise _MalformedError(f"window.{name} must be a time with its offset (RFC 3339).")


@cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())
