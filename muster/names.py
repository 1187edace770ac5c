"""What names, labels and texts may look like, whoever writes them."""

import re

import unicodedata2

from muster.errors import Invalid

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_UNSHOWN = frozenset({"Cc", "Cs", "Zl", "Zp"})


def check_name(text: str, *, field: str) -> None:
    """Raise Invalid unless `text` is a letter a-z and at most 39 letters, digits or hyphens."""
    if _NAME.fullmatch(text) is None:
        raise Invalid(
            f"The {field} must be 1 to 40 characters: a small letter a-z first,"
            " then small letters, digits and hyphens.",
            field=field,
        )


def check_line(text: str, *, field: str, characters_max: int) -> None:
    """Raise Invalid unless `text` is one line that shows something, up to the limit."""
    if not 1 <= len(text) <= characters_max or not text.strip():
        raise Invalid(f"The {field} must be 1 to {characters_max} characters.", field=field)
    if any(unicodedata2.category(letter) in _UNSHOWN for letter in text):
        raise Invalid(f"The {field} may not contain control characters.", field=field)


def count_bytes(text: str, *, field: str) -> int:
    """The size of a text in UTF-8; raises Invalid for one that the database could not keep."""
    if "\0" in text:
        raise Invalid(f"{field} must not contain a NUL character.", field=field)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise Invalid(f"{field} contains half of a surrogate pair.", field=field) from None
