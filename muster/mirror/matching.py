"""Which texts speak of the same thing (plugins: "Sessions that may already be on it").

A text is read into terms. Identifiers come first, in the order in which the reference lists them;
what is no identifier is words:

| identifier   | looks like                                       | its term                       |
|--------------|--------------------------------------------------|--------------------------------|
| reference    | #137, PR 137, PR-137, PR #137; a bare 137 is not | #137, however it is spelled    |
| version      | v1.2.3                                           | as written                     |
| file name    | hints.go: a name and an ending of a known kind   | as written                     |
| code name    | match_history, matchHistory                      | as written                     |
| mixed word   | node-7k: letters and digits                      | as written                     |
| hyphenated   | with a part that is no dictionary word           | as written                     |

"As written" is casefolded. An identifier counts once, not again as the words that it is made of.
Words have 3 characters or more and are none of the 200 commonest; a hyphenated word that is no
identifier counts as its parts. Of one message the first 20 identifiers count.

A title is on a message's subject when they share two terms, one of them an identifier: common words
alone name nothing.

What looks like an identifier and names nothing is none: an ordinal or a time of day (2nd, 10am),
a length (24-hour), a point in time (2026-01-02T10:00), a name of a product that is written like
code (GitHub). Runs over 64 characters are what encodings leave, and are passed over.

A dictionary word is one of 20,000 that ship with muster, or of one or two letters (e-mail, re-run).
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache, lru_cache
from importlib import resources
from typing import Final

import attrs

IDENTIFIERS_MAX: Final = 20  # of one message
SHARED_MIN: Final = 2
WORD_CHARACTERS_MIN: Final = 3
TOKEN_CHARACTERS_MAX: Final = 64
RECENT: Final = timedelta(hours=6)
SESSIONS_MAX: Final = 3
TITLES_MAX: Final = 3  # of one session

# Endings that make a name with a dot in it a file's; `noon.Thanks` and `example.com` are none.
FILE_ENDINGS: Final = frozenset(
    """
    bash bat c cc cfg cjs clj cmake conf cpp cs css csv cxx dart diff docx eml env erl ex exs fish
    go gradle graphql h hcl hpp hs html ini ipynb java jpeg jpg js json jsonl jsx kt kts less lock
    log lua md mdx mjs mk mod nix odt parquet patch pdf php pl plist png pptx prisma proto ps1 py
    pyi r rb rs rst sass sbt scala scss service sh sql sqlite sum svelte svg swift tex tf tfvars
    toml ts tsx txt vue wasm xlsx xml yaml yml zig zip zsh
    """.split()  # noqa: SIM905 - a table, to be read as words
)
# Products whose names are written like code, and that anybody's mail speaks of.
PRODUCTS: Final = frozenset(
    """
    airbnb chatgpt devops dropbox ebay facebook fedex github gitlab hubspot icloud ios ipad iphone
    ipados itunes javascript jetbrains latex linkedin macbook macos mysql mongodb nodejs onedrive
    openai paypal phd postgresql powerpoint quickbooks sharepoint soundcloud tiktok typescript
    vmware watchos whatsapp wifi wordpress youtube
    """.split()  # noqa: SIM905 - a table, to be read as words
)

_REFERENCE: Final = r"(?:(?<![^\W_])pr[ \t]?[#-]?|(?<![\w#&])#)([0-9]{1,9})(?![\w-])"
# Letters, digits and what stands inside of a name; an apostrophe is a contraction's or a genitive.
_RUN: Final = r"[^\W_](?:[\w.'\u2019-]*[^\W_])?"
_SCAN: Final = re.compile(rf"{_REFERENCE}|({_RUN})", re.IGNORECASE)
# Points in time, and the scripts that put no space between words, as in muster/drafts/screen.py:
# what stands among these is found, and in themselves no words could be told apart.
_PASSED_OVER: Final = re.compile(
    r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9:]{2,8}(?:[.,][0-9]+)?(?:[Zz]|[+-][0-9:]{4,5})?"
    r"|[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff"
    r"\U00020000-\U0003ffff]+"
)
_VERSION: Final = re.compile(r"v[0-9]+(?:\.[0-9]+)+(?:[.-]?[a-z]+[.-]?[0-9]*)?", re.IGNORECASE)
_FILE: Final = re.compile(r"[\w-][\w.-]*\.(?P<ending>[a-z][a-z0-9]{0,7})", re.IGNORECASE)
_SNAKE: Final = re.compile(r"[^\W_]+(?:_+[^\W_]+)+")
_CAMEL: Final = re.compile(r"[^\W\d_]*[a-z][A-Z][^\W_]*")
_ORDINAL_OR_TIME: Final = re.compile(r"[0-9]+(?:st|nd|rd|th|am|pm)", re.IGNORECASE)


@attrs.frozen(kw_only=True)
class Terms:
    """What a text speaks of: identifiers in the order of their first mention, and words."""

    identifiers: tuple[str, ...]
    words: frozenset[str]


@attrs.frozen(kw_only=True)
class Title:
    """A focus title. `whose` tells sessions and agents apart, whatever it is made of."""

    whose: tuple[str, int]
    title: str
    at: datetime


@attrs.frozen(kw_only=True)
class Match:
    """A session whose titles share terms with a message, and which: the newest titles first."""

    whose: tuple[str, int]
    titles: tuple[Title, ...]
    shared: int  # the most that one title shares


def read_terms(text: str) -> Terms:
    """The terms of a text, however many it names."""
    identifiers: dict[str, None] = {}
    words: set[str] = set()
    for number, found in dict.fromkeys(_SCAN.findall(_PASSED_OVER.sub(" ", text))):
        if number:
            identifiers[f"#{int(number)}"] = None
            continue
        token = _plain(found)
        if not token or len(token) > TOKEN_CHARACTERS_MAX:
            continue
        for is_identifier, term in _terms_of(token):
            if is_identifier:
                identifiers[term] = None
            else:
                words.add(term)
    return Terms(identifiers=tuple(identifiers), words=frozenset(words))


def read_message(subject: str | None, body: str) -> Terms:
    """The terms of a message; its first IDENTIFIERS_MAX identifiers count."""
    terms = read_terms(f"{subject or ''}\n{body}")
    return attrs.evolve(terms, identifiers=terms.identifiers[:IDENTIFIERS_MAX])


@lru_cache(maxsize=4096)
def read_title(title: str) -> Terms:
    """The terms of a focus title, which is looked at again for each message of six hours."""
    return read_terms(title)


def count_shared(message: Terms, title: Terms) -> int:
    """How many terms are shared; 0 unless there are SHARED_MIN with an identifier among them."""
    identifiers = len(set(message.identifiers).intersection(title.identifiers))
    shared = identifiers + len(message.words & title.words)
    return shared if identifiers and shared >= SHARED_MIN else 0


def count_any(wanted: Terms, title: str) -> int:
    """How many terms a title shares with what is sought, of whatever kind they are."""
    folded = title.casefold()
    needles = (*map(_needle, wanted.identifiers), *wanted.words)
    if not any(needle in folded for needle in needles):
        return 0
    terms = read_title(title)
    return len(set(wanted.identifiers).intersection(terms.identifiers)) + len(
        wanted.words & terms.words
    )


def match(message: Terms, titles: Iterable[Title]) -> list[Match]:
    """The sessions that a message may be for: up to SESSIONS_MAX, those that share most first.

    Of each up to TITLES_MAX titles that match. Of two that share as much the newer title decides.
    """
    hits: dict[tuple[str, int], list[tuple[int, Title]]] = {}
    needles = [_needle(identifier) for identifier in message.identifiers]
    for title in titles:
        # Reading a title takes long; one that shares an identifier holds it as it is written.
        folded = title.title.casefold()
        if not any(needle in folded for needle in needles):
            continue
        if shared := count_shared(message, read_title(title.title)):
            hits.setdefault(title.whose, []).append((shared, title))
    ranked = sorted(hits.values(), key=_rank, reverse=True)
    return [_match_of(found) for found in ranked[:SESSIONS_MAX]]


def _needle(identifier: str) -> str:
    """What stands in every text that names it: of a reference its number alone."""
    number = identifier.removeprefix("#")
    return number if number.isdigit() else identifier


def _rank(found: Sequence[tuple[int, Title]]) -> tuple[int, datetime]:
    return max(shared for shared, _ in found), max(title.at for _, title in found)


def _match_of(found: Sequence[tuple[int, Title]]) -> Match:
    newest = sorted((title for _, title in found), key=lambda title: title.at, reverse=True)
    return Match(
        whose=newest[0].whose,
        titles=tuple(newest[:TITLES_MAX]),
        shared=max(shared for shared, _ in found),
    )


def _plain(token: str) -> str:
    """A token without its genitive; none for a contraction, which is a common word always."""
    token = token.replace("\u2019", "'")
    head, apostrophe, tail = token.partition("'")
    return head if not apostrophe or tail.casefold() == "s" else ""


@lru_cache(maxsize=8192)
def _terms_of(token: str) -> tuple[tuple[bool, str], ...]:
    """The terms of one token, each with whether it is an identifier."""
    if _ORDINAL_OR_TIME.fullmatch(token):
        return ()
    if _is_identifier(token):
        return ((True, token.casefold()),)
    return tuple(
        (False, word)
        for part in re.split(r"[\W_]+", token)
        if len(word := part.casefold()) >= WORD_CHARACTERS_MIN
        and not word.isdigit()
        and word not in commonest()
    )


def _is_identifier(token: str) -> bool:
    if _VERSION.fullmatch(token):
        return True
    file = _FILE.fullmatch(token)
    if file is not None and file["ending"].casefold() in FILE_ENDINGS:
        return True
    if "." in token:
        return any(map(_is_identifier_part, filter(None, token.split("."))))
    return _is_identifier_part(token)


def _is_identifier_part(token: str) -> bool:
    """Whether a run without dots is a code name, a mixed word or hyphenated with an odd part."""
    if not any(character.isalpha() for character in token):
        return False
    if _SNAKE.fullmatch(token) or (
        _CAMEL.fullmatch(token) and token.casefold() not in PRODUCTS and not _is_common(token)
    ):
        return True
    parts = [part for part in token.split("-") if part]
    if any(character.isdigit() for character in token):
        # A length is no name: 24-hour, 30-day.
        return not (parts[0].isdigit() and len(parts) > 1 and all(map(_is_common, parts[1:])))
    return len(parts) > 1 and not all(map(_is_common, parts))


def _is_common(part: str) -> bool:
    return len(part) < WORD_CHARACTERS_MIN or part.casefold() in english()


@cache
def commonest() -> frozenset[str]:
    """The 200 commonest English words."""
    return frozenset(_read("commonest.txt"))


@cache
def english() -> frozenset[str]:
    """20,000 common English words: what counts as a dictionary word."""
    return frozenset(_read("english.txt"))


def _read(name: str) -> list[str]:
    folder = resources.files("muster.mirror") / "word_lists"
    return (folder / name).read_text(encoding="ascii").split()
