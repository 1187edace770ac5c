"""Reads what a page's address or form says; what is no such thing is not found, or left out."""

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Final

from muster.errors import Invalid, NotFound

ID_MAX: Final = 2**63 - 1


def read_id(text: str) -> int:
    """An id in a path; raises NotFound for what is none."""
    number = find_id(text)
    if number is None:
        raise NotFound("There is no such page.")
    return number


def find_id(text: str | None) -> int | None:
    """An id in a query; None for none, and for what is no id."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 19:
        return None
    number = int(text)
    return number if 1 <= number <= ID_MAX else None


def read_word(args: Mapping[str, str], name: str) -> str | None:
    """A word in a query, trimmed; None for none and for an empty one."""
    return args.get(name, "").strip() or None


def read_digest(form: Mapping[str, str]) -> str:
    """The digest that a card's form carries; raises Invalid for a form without one."""
    digest = form.get("body_sha256", "")
    if len(digest) != 64 or not set(digest.lower()) <= set("0123456789abcdef"):
        raise Invalid("The form does not say which text was read.", field="body_sha256")
    return digest


def read_time(args: Mapping[str, str], name: str, zone: tzinfo) -> datetime | None:
    """A time in a query as `<input type=datetime-local>` writes it, in this zone; None for none.

    Raises Invalid for what is no time.
    """
    text = read_word(args, name)
    if text is None:
        return None
    try:
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo else read.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Invalid(f"{name} is no time such as 2000-01-02T03:04.", field=name) from None
