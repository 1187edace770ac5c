"""What names, labels and texts may look like, whoever writes them."""

import posixpath
import re

import unicodedata2

from muster.errors import Invalid

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_UNSHOWN = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TAG = re.compile(r"[a-z0-9][a-z0-9._/:-]{0,63}")
_BLANK = re.compile(r"[\s_]")
_UNSLUGGED = re.compile(r"[^a-z0-9]+")
RESERVED_NAMESPACES = frozenset({"gate", "auto", "initiative", "project", "superseded-by"})


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


def normal_path(path: str) -> str:
    """An absolute path as it is compared: no `.`, no `..`, no slash twice or at the end."""
    # POSIX keeps two slashes at the beginning apart; nobody means that here.
    return posixpath.normpath("/" + path.lstrip("/"))


def normalise_tag(text: str, *, field: str = "tags") -> str:
    """The one spelling of a tag that people write in many; raises Invalid for what is none.

    NFKC and casefold, white space around it gone, each space and `_` within it a `-`. What is left
    must be a letter or digit and at most 63 of `a-z 0-9 . _ / : -`: no other alphabet, so that no
    two tags look alike. What stands before the first colon is its namespace.
    """
    folded = _BLANK.sub("-", _fold(text).strip())
    if _TAG.fullmatch(folded) is None:
        raise Invalid(
            "A tag must be 1 to 64 small letters a-z, digits and . _ / : -,"
            " with a letter or a digit first.",
            field=field,
        )
    return folded


def namespace_of(tag: str) -> str:
    """What a normal tag has before its first colon; empty for a tag without one."""
    namespace, colon, _ = tag.partition(":")
    return namespace if colon else ""


def check_namespace(text: str) -> str:
    """A namespace for plugins' keys; raises ValueError for what is none, or is muster's own."""
    try:
        normal = normalise_tag(text)
    except Invalid:
        normal = ""
    if normal != text or ":" in text:
        raise ValueError(f"lists {text[:64]!r}, which is no namespace: write it as in a tag")
    if text in RESERVED_NAMESPACES:
        raise ValueError(f"lists {text}, which muster has a use for itself")
    return text


def slug(text: str, *, characters_max: int) -> str:
    """A text as a part of a tag: letters a-z, digits and single hyphens; may be empty."""
    return _UNSLUGGED.sub("-", _fold(text)).strip("-")[:characters_max].strip("-")


def _fold(text: str) -> str:
    # Casefolding can undo a composition, and the other way round, so each has two goes.
    once = unicodedata2.normalize("NFKC", text).casefold()
    return str(unicodedata2.normalize("NFKC", once).casefold())
