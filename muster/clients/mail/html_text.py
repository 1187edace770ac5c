"""HTML mail to text: nh3 makes it safe and small, inscriptis lays it out.

Both are bounded here, since the sender writes the HTML. Seen: 100,000 nested `<div>` keep nh3
busy for 40 s, and below 255 levels inscriptis returns nothing at all. HTML nested like that
loses its layout, never its words.
"""

import re
from collections import Counter
from html import unescape
from textwrap import dedent

import inscriptis
import nh3

HTML_CHARS_MAX = 1024 * 1024
"""How much HTML is read, in characters; a second's work."""

OPEN_TAGS_MAX = 150
"""Elements open at once beyond which the HTML is only stripped of its tags."""

# lxml's own errors are SyntaxErrors.
LAYOUT_FAULTS = (ValueError, TypeError, LookupError, AttributeError, RecursionError, SyntaxError)

TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)")
ANY_TAG = re.compile(r"<[!/?A-Za-z][^<>]*>")
BREAKING_TAG = re.compile(r"<(?:br|/p|/div|/tr|/li|/h[1-6]|/table)\b[^<>]*>", re.IGNORECASE)
BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+\n")

# Never closed, or closed by their next sibling: they don't nest.
CLOSED_BY_THE_NEXT = ("dd", "dt", "li", "option", "p", "td", "th", "tr")
NEVER_CLOSED = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr")
NOT_NESTING = frozenset((*CLOSED_BY_THE_NEXT, *NEVER_CLOSED))
HIDDEN = ("script", "style", "title", "head")


def html_to_text(html: str) -> tuple[str, bool]:
    """The text of an HTML mail, and whether all of the HTML was read."""
    whole = len(html) <= HTML_CHARS_MAX
    html = html[:HTML_CHARS_MAX].replace("\0", "\ufffd")
    for name in HIDDEN:
        html = _without_element(html, name)
    text = "" if _nests_too_deep(html) else _laid_out(html)
    if not text.strip():
        text = unescape(ANY_TAG.sub("", BREAKING_TAG.sub("\n", html)))
    return BLANK_LINES.sub("\n\n", dedent(text)), whole


def _laid_out(html: str) -> str:
    clean = nh3.clean(html)
    try:
        text: str = inscriptis.get_text(clean)
    except LAYOUT_FAULTS:
        return ""
    return text


def _nests_too_deep(html: str) -> bool:
    is_open: Counter[str] = Counter()
    depth = 0
    for match in TAG.finditer(html):
        name = match[2].lower()
        if name in NOT_NESTING:
            continue
        if not match[1]:
            is_open[name] += 1
            depth += 1
        elif is_open[name]:
            is_open[name] -= 1
            depth -= 1
        if depth > OPEN_TAGS_MAX:
            return True
    return False


def _without_element(html: str, name: str) -> str:
    """`html` without each `<name>…</name>`; an element that never ends is left as it is."""
    lower = html.lower() if html.isascii() else _ascii_lower(html)
    start_tag = re.compile(rf"<{name}\b")
    end_tag = f"</{name}"
    pieces: list[str] = []
    position = 0
    while match := start_tag.search(lower, position):
        end = lower.find(end_tag, match.end())
        after = lower.find(">", end) if end >= 0 else -1
        if after < 0:
            break
        pieces.append(html[position : match.start()])
        position = after + 1
    pieces.append(html[position:])
    return "".join(pieces)


def _ascii_lower(text: str) -> str:
    # str.lower() may change the length, and positions must stay.
    return re.sub("[A-Z]", lambda letter: letter[0].lower(), text)
