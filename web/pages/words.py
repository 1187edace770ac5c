"""How pages show times, states and texts: the filters that every template has.

when        a time in the owner's zone, to the minute; `when(seconds=True)` to the second
ago         how long a time lies before another
chip        a state as a chip, coloured by what it asks of the owner
spelled     a reply exactly as it will be sent (plugins: "The card")
outside     text from outside, whose invisible characters show
brief       a value of JSON in a few words
amount      a number with its noun
why         what muster saw of a turn that failed, as a sentence; what the agent said of it is
            shown beside it, as the agent's

A reply is shown in printable ASCII as itself and every other character spelled out. So that what is
spelled out can be told from the same characters typed in ASCII, not by its colour alone, it stands
in an element with a spoken name, and a backslash of the reply's own is followed by ⟨typed⟩: signs
that a reply cannot show, for they would be spelled out.
"""

import json
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from itertools import groupby
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from markupsafe import Markup, escape
from quart import g

from muster.failure import tell_failure

TYPED: Final = Markup('\\<span class="typed">⟨typed⟩</span>')
BRIEF_CHARACTERS_MAX: Final = 40
NAMED_MAX: Final = 3  # more characters in a row are spoken of by their number
_SHORT: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_SPOKEN: Final = {"\n": "new line", "\t": "tab", "\r": "carriage return"}
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
# Blank though letters; a name of them would show as nothing.
_BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0\u00ad\u034f")

KINDS: Final = {
    "queued": "wait", "delivering": "busy", "delivered": "good", "unconfirmed": "doubt",
    "pending": "wait", "approved": "busy", "sent": "good", "failed": "bad", "rejected": "",
    "superseded": "", "expired": "", "open": "wait", "answered": "good", "dismissed": "",
    "cancelled": "", "in_progress": "busy", "ready_for_review": "wait", "complete": "good",
    "live": "good", "revoked": "", "settled": "good", "retired": "", "running": "busy",
    "offline": "", "idle": "good", "done": "good",
}  # fmt: skip


def attach(app: Any) -> None:
    """Give every template the filters."""
    app.jinja_env.filters.update(
        when=when,
        ago=ago,
        chip=chip,
        spelled=spelled,
        outside=outside,
        amount=amount,
        brief=brief,
        why=tell_failure,
    )


def when(at: datetime | None, *, seconds: bool = False) -> Markup:
    """A time of the owner's day; a dash for none."""
    if at is None:
        return Markup("&ndash;")
    there = _there(at)
    shown = f"{there.day} {there:%b %Y %H:%M:%S}" if seconds else f"{there.day} {there:%b %Y %H:%M}"
    utc = f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    exact = f"{there:%Y-%m-%d %H:%M:%S} {there.tzname()}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(utc, exact, shown)


def _there(at: datetime) -> datetime:
    """A time in the owner's zone; at the ends of time, where a zone may have none, in UTC."""
    try:
        return at.astimezone(zone())
    except OverflowError:
        return at.astimezone(UTC)


def zone() -> tzinfo:
    """The time zone of whoever is signed in; UTC for a guest."""
    visitor = g.get("visitor")
    if visitor is None:
        return UTC
    try:
        return ZoneInfo(visitor.time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        return UTC  # a zone that this machine does not know


def ago(at: datetime, now: datetime) -> str:
    """How long `at` lies before `now`, in the largest unit that is not zero."""
    seconds = max(0, int((now - at).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def chip(state: Any) -> Markup:
    """A state, or an enum of one, as a chip."""
    name = str(getattr(state, "value", state))
    return Markup('<span class="chip {}">{}</span>').format(
        KINDS.get(name, ""), name.replace("_", " ")
    )


def brief(value: Any) -> str:
    """A value of JSON for people: a text as itself, what is long cut."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= BRIEF_CHARACTERS_MAX else f"{text[: BRIEF_CHARACTERS_MAX - 1]}…"


def amount(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def spelled(text: str) -> Markup:
    """A reply as it will be sent; after each new line that is spelled out there is a real one."""
    return Markup("").join(_runs(text, _is_plain, _plain))


def outside(text: str) -> Markup:
    """Text of somebody outside, escaped, with what would not show spelled out."""
    lines = text.replace("\r\n", "\n")
    return Markup("").join(_runs(lines, _shows, escape))


def _runs(text: str, is_shown: Any, show: Any) -> Iterator[Markup]:
    for shown, run in groupby(text, key=is_shown):
        if shown:
            yield show("".join(run))
            continue
        for is_break, part in groupby(run, key=lambda letter: letter == "\n"):
            hidden = list(part)
            if is_break:
                yield from [_spell(["\n"]) + "\n"] * len(hidden)
            else:
                yield _spell(hidden)


def _is_plain(letter: str) -> bool:
    return " " <= letter <= "~"


def _plain(text: str) -> Markup:
    return TYPED.join(escape(part) for part in text.split("\\"))


def _shows(letter: str) -> bool:
    if letter in "\n\t":
        return True
    return letter not in _BLANK and unicodedata.category(letter) not in _INVISIBLE


def _spell(letters: list[str]) -> Markup:
    told = "".join(_SHORT.get(letter) or f"\\u{{{ord(letter):x}}}" for letter in letters)
    if len(letters) > NAMED_MAX:
        spoken = f"{len(letters)} characters spelled out"
    else:
        spoken = ", ".join(_spoken(letter) for letter in letters)
    return Markup('<span class="esc" role="img" aria-label="{}">{}</span>').format(spoken, told)


def _spoken(letter: str) -> str:
    name = _SPOKEN.get(letter) or unicodedata.name(letter, "").lower()
    return name or f"character {ord(letter):x}"
