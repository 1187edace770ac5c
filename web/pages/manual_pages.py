"""The manual: Markdown files of the folder `manual`, made into pages once, at start.

Each heading gets an anchor from its words. HTML in a text is shown as text, and what comes out is
passed through a list of elements and attributes all the same: a page of ours is the last place for
a script. The slugs and the settings are generated from the code's own tables, so that they hold.
"""

import itertools
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Final

import attrs
import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

from muster.settings import SETTINGS, Setting
from web.slugs import SLUGS

ORDER: Final = (
    "getting-started",
    "plugins",
    "delivery",
    "errors",
    "agents",
    "sessions",
    "tasks",
    "notifications",
    "operators",
    "configuration",
)
"""The pages by the names of their files, as the list of the manual shows them."""

_ELEMENTS: Final = frozenset(
    {"a", "blockquote", "code", "em", "h1", "h2", "h3", "h4", "hr", "li", "ol", "p", "pre"}
    | {"strong", "table", "tbody", "td", "th", "thead", "tr", "ul"}
)
_ATTRIBUTES: Final[Mapping[str, frozenset[str]]] = {
    "a": frozenset({"href"}),
    "h1": frozenset({"id"}),
    "h2": frozenset({"id"}),
    "h3": frozenset({"id"}),
    "pre": frozenset({"tabindex"}),
}
_UNWORDED: Final = re.compile(r"[^a-z0-9]+")


@attrs.frozen(kw_only=True)
class Heading:
    """A heading of the second level and its anchor."""

    anchor: str
    words: str


@attrs.frozen(kw_only=True)
class ManualPage:
    """One page; `html` is safe to show as it is."""

    name: str
    title: str
    html: str
    headings: tuple[Heading, ...]


def load_manual() -> Mapping[str, ManualPage]:
    """Every page, by its name, in their order."""
    folder = resources.files("web.pages").joinpath("manual")
    generated = {"errors": _slugs(), "configuration": _settings()}
    return {
        name: render(
            name,
            folder.joinpath(f"{name}.md").read_text(encoding="utf-8") + generated.get(name, ""),
        )
        for name in ORDER
    }


def render(name: str, text: str) -> ManualPage:
    """Make a page of Markdown; its first heading is the title."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    headings = tuple(_anchored(tokens))
    _reachable_by_key(tokens)
    html = nh3.clean(
        markdown.renderer.render(tokens, markdown.options, {}),
        tags=set(_ELEMENTS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer",
    )
    title, *rest = headings
    return ManualPage(name=name, title=title.words, html=html, headings=tuple(rest))


def _anchored(tokens: list[Token]) -> Iterable[Heading]:
    """Give each heading its anchor; those of the first two levels."""
    seen: set[str] = set()
    for opening, inline in itertools.pairwise(tokens):
        if opening.type != "heading_open":
            continue
        words = "".join(child.content for child in inline.children or ())
        anchor = _UNWORDED.sub("-", words.lower()).strip("-") or "section"
        while anchor in seen:
            anchor += "-again"
        seen.add(anchor)
        opening.attrSet("id", anchor)
        if opening.tag in ("h1", "h2"):
            yield Heading(anchor=anchor, words=words)


def _reachable_by_key(tokens: list[Token]) -> None:
    """What may scroll sideways is reached by the keyboard too."""
    for token in tokens:
        if token.type in ("code_block", "fence"):
            token.attrSet("tabindex", "0")


def _slugs() -> str:
    rows = [
        f"| `{slug.name}` | {slug.status} | {slug.when}{' *Later.*' if slug.later else ''} |"
        for slug in SLUGS
    ]
    return "\n".join(["", "| slug | status | when |", "|-|-|-|", *rows, ""])


def _settings() -> str:
    parts = []
    for title, client in (("The server", False), ("Programs that knock at it", True)):
        parts += ["", f"## {title}", "", "| setting | meaning |", "|-|-|"]
        parts += [_row(setting) for setting in SETTINGS if setting.client is client]
    return "\n".join([*parts, ""])


def _row(setting: Setting) -> str:
    secret = "A secret. " if setting.secret else ""
    meaning = f"{_cell(setting.meaning)}. {secret}Default: {_cell(setting.default)}"
    return f"| `{setting.name}` | {meaning} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<")
