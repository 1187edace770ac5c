"""What a person is signed in by, and what they set about it.

A person has a password, passkeys, or both; the last way in cannot be taken away, but `muster user
link NAME` makes a new one for somebody who lost theirs.
"""

import zoneinfo
from datetime import datetime
from functools import cache

import attrs

from muster.errors import Invalid, Refused
from muster.names import check_line

PASSKEY_NAME_CHARACTERS_MAX = 80
PASSKEYS_MAX = 50


@attrs.frozen(kw_only=True)
class Browser:
    """Where somebody signs in; `former_session_id` is the session that the browser has already.

    `known_by` is the cookie of a session that it was signed in by once, which may have ended.
    """

    user_agent: str
    address: str
    former_session_id: int | None = None
    known_by: str = attrs.field(default="", repr=False)


@attrs.frozen(kw_only=True)
class NewPasskey:
    """What an authenticator made, proven by its own answer."""

    credential_id: bytes
    public_key: bytes = attrs.field(repr=False)
    sign_count: int


@attrs.frozen(kw_only=True)
class Passkey:
    """A live passkey of the owner's."""

    id: int
    name: str
    created_at: datetime
    last_used_at: datetime | None


@attrs.frozen(kw_only=True)
class Ways:
    """How an account may be entered."""

    passkeys: int
    has_password: bool


def check_passkey_name(name: str) -> None:
    """Raise Invalid unless `name` is a line of up to 80 characters."""
    check_line(name, field="name", characters_max=PASSKEY_NAME_CHARACTERS_MAX)


def check_one_more(ways: Ways) -> None:
    """Raise Refused when there are as many passkeys as there may be."""
    if ways.passkeys >= PASSKEYS_MAX:
        raise Refused(f"There are {PASSKEYS_MAX} passkeys already; remove one first.")


def check_one_less(ways: Ways) -> None:
    """Raise Refused when the passkey is the last way to sign in."""
    if ways.passkeys <= 1 and not ways.has_password:
        raise Refused(
            "This is the only way to sign in: set a password or add another passkey first.",
            code="last_way",
        )


@cache
def time_zones() -> tuple[str, ...]:
    """The names of the time zones that this machine knows, UTC first."""
    known = {name for name in zoneinfo.available_timezones() if "/" in name}
    return ("UTC", *sorted(name for name in known if not name.startswith(("Etc/", "posix/"))))


def check_time_zone(name: str) -> None:
    """Raise Invalid unless it is a time zone that this machine knows."""
    if name not in time_zones():
        raise Invalid("There is no such time zone.", field="time_zone")
