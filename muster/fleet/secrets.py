"""What looks like a secret is cut out of what leaves muster (plugins: "A fleet-report request").

A credential as the screen of replies knows it (muster/drafts/screen.py), up to the end of its word,
and a private key's header with all that follows. Of long runs of token characters those of mixed
class; ids of sessions and commits are none: a UUID, and 40 hexadecimal digits, in themselves.

The text is looked at as a reply is: folded, and without the marks that show as nothing. A text in
which nothing was found stays as it was written.
"""

import re
from collections.abc import Iterator
from typing import Final

import attrs
import unicodedata2

from muster.drafts.screen import (
    BLANKS,
    SHAPELESS,
    TOKEN_RUN_MIN,
    UNSHOWABLE,
    fold,
    is_mixed,
    key_headers,
    known_tokens,
    token_runs,
)

REMOVED: Final = "[removed]"

_EXEMPT: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{40})(?![0-9A-Za-z])",
    re.IGNORECASE,
)
# What a token goes on with, beyond the characters that its beginning is told by.
_TAIL: Final = re.compile(r"[\w.~+/=-]*")


@attrs.frozen(kw_only=True)
class Cut:
    """A text without what looked like a secret, and how often something did."""

    text: str
    removed: int = 0


def cut(text: str) -> Cut:
    """The text with REMOVED in the place of each secret-shaped run."""
    seen = "".join(filter(_is_seen, fold(text)))
    spans = _merged(_spans(seen))
    if not spans:
        return Cut(text=text)
    pieces, end = [], 0
    for start, stop in spans:
        pieces += [seen[end:start], REMOVED]
        end = stop
    return Cut(text="".join([*pieces, seen[end:]]), removed=len(spans))


def _is_seen(character: str) -> bool:
    """Whether it shows as something; a space or a break may part two words, and stays."""
    if character in SHAPELESS or character in BLANKS:
        return False
    return character.isspace() or unicodedata2.category(character) not in UNSHOWABLE


def _spans(text: str) -> Iterator[tuple[int, int]]:
    for match in key_headers(text):
        yield match.start(), len(text)
    for match in known_tokens(text):
        tail = _TAIL.match(text, match.end())
        yield match.start(), match.end() if tail is None else tail.end()
    for match in token_runs(text):
        rest = _EXEMPT.sub("", match[0])
        if len(rest) >= TOKEN_RUN_MIN and is_mixed(rest):
            yield match.span()


def _merged(spans: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """In their order; those that overlap are one."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return merged
