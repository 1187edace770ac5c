"""Quoted history at the end of a mail, left out when the person asked for it. Pure.

Only what is surely history goes: a block of `>` lines that ends the text, with the line that
introduces it ("On Monday Ada wrote:"), or everything below the header that Outlook puts over the
mail that it answers. Kept whole: answers written between quoted lines, forwarded mail, and a text
that would be nothing but the cut. Not told apart: answers that somebody wrote into the copy below
Outlook's header, which no mark sets off; the line that says what was left out says where it lies.
"""

import re
from collections.abc import Sequence

INTRODUCTION_LINES_MAX = 3
INTRODUCTION_CHARS_MAX = 400
BLOCK_LINES_MAX = 12
TRIED_MAX = 1000
"""How many lines that could begin Outlook's header are looked at."""

QUOTED = re.compile(r"[ \t]{0,3}>")
# What a line that introduces a quote has besides its colon: an address, a year or a time of day.
INTRODUCES = re.compile(r"@|\b(?:19|20)\d\d\b|\b\d{1,2}[:.]\d\d\b")
BEGINS = re.compile(r"[ \t]*(?:on|am|le|el|il|em|op|den|dne|dnia|w dniu|на|в) ", re.IGNORECASE)
ORIGINAL = re.compile(
    r"[ \t]*-{2,20} ?(?:original message|original appointment|ursprüngliche nachricht|"
    r"message d.origine|mensaje original|messaggio originale) ?-{2,20}[ \t]*",
    re.IGNORECASE,
)
RULE = re.compile(r"[ \t]*_{20,}[ \t]*")
BLOCK_FIELD = re.compile(r"[ \t]*\*?(from|sent|date|to|cc|subject):\*?(?:[ \t]|$)", re.IGNORECASE)
MAY_BEGIN = re.compile(r"[ \t]*(?:--|__|\*?from:)", re.IGNORECASE)
FORWARDS = re.compile(r"[ \t]*(?:fwd?|wg|tr|rv|i):", re.IGNORECASE)
FORWARDED = re.compile(
    r"^[ \t]*-{2,}.{0,10}(?:forwarded|weitergeleitet|transféré|reenviado|inoltrato)"
    r"|^[ \t]*begin forwarded message:",
    re.IGNORECASE | re.MULTILINE,
)


def trim_quotes(text: str, *, subject: str, place: str) -> tuple[str, str]:
    """The text without its trailing quoted history, and one line that says what was left out.

    The line is empty when nothing was; `place` says where the whole mail lies.
    """
    lines = text.rstrip("\n").split("\n")
    if FORWARDS.match(subject) or FORWARDED.search(text):
        return text, ""
    starts = (_outlook_start(lines), _quoted_start(lines))
    start = min((one for one in starts if one is not None), default=None)
    if start is None or not any(line.strip() for line in lines[:start]):
        return text, ""
    kept, left_out = lines[:start], lines[start:]
    count = sum(bool(line.strip()) for line in left_out)
    characters = len("\n".join(left_out))
    note = (
        f"[{count:,} lines of quoted history ({characters:,} characters) at the end of this mail "
        f"are left out; the whole mail lies at {place}]"
    )
    return "\n".join(kept).rstrip("\n"), note


def _quoted_start(lines: Sequence[str]) -> int | None:
    """Where the only block of `>` lines begins, with its introduction, when it ends the text."""
    quoted = [bool(QUOTED.match(line)) for line in lines]
    if True not in quoted:
        return None
    first = quoted.index(True)
    if not all(quoted[index] or not lines[index].strip() for index in range(first, len(lines))):
        return None
    end = first
    while end and not lines[end - 1].strip():
        end -= 1
    begin = _introduction_start(lines[max(0, end - INTRODUCTION_LINES_MAX) : end], end)
    return first if begin is None else begin


def _introduction_start(above: Sequence[str], end: int) -> int | None:
    """Where the sentence over a quote begins, which ends above line `end`; mail programs wrap it.

    The shortest that begins with the word that such sentences begin with, else the shortest.
    """
    shortest: int | None = None
    for count in range(1, len(above) + 1):
        if not above[-count].strip():
            break
        sentence = " ".join(above[-count:])
        if _introduces(sentence):
            if BEGINS.match(sentence):
                return end - count
            shortest = end - count if shortest is None else shortest
    return shortest


def _introduces(text: str) -> bool:
    """Whether these lines are a sentence that ends in a colon and names who wrote, and when."""
    text = text.strip()
    return (
        text.endswith(":")
        and len(text) <= INTRODUCTION_CHARS_MAX
        and INTRODUCES.search(text) is not None
    )


def _outlook_start(lines: Sequence[str]) -> int | None:
    """Where the first of Outlook's headers over an answered mail begins."""
    tried = 0
    for index, line in enumerate(lines):
        if not MAY_BEGIN.match(line):
            continue
        tried += 1
        if tried > TRIED_MAX:
            break
        marked = ORIGINAL.fullmatch(line) is not None or RULE.fullmatch(line) is not None
        block = lines[index : index + BLOCK_LINES_MAX]
        if marked and len(_block_fields(block[1:])) >= 3:
            return index
        if BLOCK_FIELD.match(line) and len(_block_fields(block)) >= 4:
            return index
    return None


def _block_fields(lines: Sequence[str]) -> set[str]:
    """The fields of a header block that begins with From, in its first few lines."""
    found: list[str] = []
    for line in lines:
        match = BLOCK_FIELD.match(line)
        if match:
            found.append(match[1].lower().replace("date", "sent"))
        elif found and not line.strip():
            break
    return set(found) - {"cc"} if found[:1] == ["from"] else set()
