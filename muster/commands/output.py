r"""What commands print: one JSON document, or text that a person likes to read.

Senders, subjects and bodies come from outside, and some outside wants to move the cursor, to hide
text or to turn it around. So nothing of it reaches a terminal but letters that show; whatever else
there is shows as its escape (`\x1b`). JSON is printed as ASCII for the same reason.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from shutil import get_terminal_size

import click

_WIDTH_WITHOUT_TERMINAL = 200
_HEIGHT = 25  # of no consequence: a table is printed at once
_KEPT_CHARACTERS_MAX = 16
_ROOM_CHARACTERS = 24
_GAP_CHARACTERS = 3
_TAB_SHOWN = "    "


def print_json(document: Mapping[str, object] | Sequence[Mapping[str, object]]) -> None:
    """Print the one JSON document of a command."""
    click.echo(json.dumps(document))


def utc(at: datetime | None) -> str | None:
    """A time for programs: RFC 3339 in UTC."""
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def local(at: datetime | None) -> str:
    """A time for people, to the minute, in this machine's zone; a dash for none.

    At the ends of time, where a zone may have none, it is shown as it is.
    """
    if at is None:
        return "-"
    with suppress(OverflowError):
        at = at.astimezone()
    return at.strftime("%Y-%m-%d %H:%M")


def age(since: datetime, until: datetime) -> str:
    """How long something lasts, in the largest unit that is not zero."""
    seconds = max(0, int((until - since).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def shown(text: str | None) -> str:
    """One line of outside text, harmless to a terminal; a dash for none."""
    if text is None:
        return "-"
    return "".join(_letter(letter) for letter in text)


def _letter(letter: str) -> str:
    if letter.isprintable():
        return letter
    if letter.isspace() and letter not in "\r\n\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029":
        return " "
    return letter.encode("unicode_escape").decode()


def print_quoted(text: str) -> None:
    """Print outside text of many lines behind a bar, which no text can get in front of."""
    for line in text.replace("\r\n", "\n").replace("\t", _TAB_SHOWN).split("\n"):
        click.echo(f"  | {shown(line)}")


def print_heading(text: str) -> None:
    """Print a heading, bold where there is a terminal."""
    click.echo(click.style(text, bold=True))


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values in two columns; the values are safe to show already."""
    listed = list(pairs)
    width = max(len(name) for name, _ in listed)
    for name, value in listed:
        click.echo(f"  {name:<{width}}  {value}")


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    empty: str,
    whole: bool = False,
    spare: Sequence[str] = (),
) -> None:
    """Print a table of outside texts; with no row, say `empty` on stderr.

    A row is one line: where the terminal is too narrow, long cells end with an ellipsis, and those
    of at most 16 characters (numbers, states, times) stay. `whole` has long cells take more lines.
    `spare` names columns that are left out, the first one first, until there is room for the rest:
    then cells of at most 24 characters stay too, and longer ones keep 16.
    """
    if not rows:
        click.echo(empty, err=True)
        return
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console, OverflowMethod
    from rich.table import Table
    from rich.text import Text

    console = Console(
        file=sys.stdout,
        # Both are given, because rich takes a dumb terminal for one of 80 columns otherwise.
        width=get_terminal_size().columns if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL,
        height=_HEIGHT,
        markup=False,
        highlight=False,
        emoji=False,
    )
    columns, rows = _fitting(columns, rows, spare, console.width)
    kept_max = _ROOM_CHARACTERS if spare else _KEPT_CHARACTERS_MAX
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(columns):
        widest = max(len(name), *(cell_len(shown(row[number])) for row in rows))
        table.add_column(name, no_wrap=widest <= kept_max)
    for row in rows:
        overflow: OverflowMethod = "fold" if whole else "ellipsis"
        table.add_row(*(Text(shown(cell), overflow=overflow, no_wrap=not whole) for cell in row))
    with console.capture() as printed:
        console.print(table)
    # Each cell is filled up to its column; behind the last that is nothing anybody wants.
    for line in printed.get().splitlines():
        click.echo(line.rstrip())


def _fitting(
    columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str], width: int
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """What is left of a table without the spare columns that `width` has no room for."""
    from rich.cells import cell_len

    left = list(range(len(columns)))
    room: dict[int, int] = {}
    for number, name in enumerate(columns):
        widest = max(len(name), *(cell_len(shown(row[number])) for row in rows))
        room[number] = widest if widest <= _ROOM_CHARACTERS else _KEPT_CHARACTERS_MAX
    for name in spare:
        if sum(room[number] + _GAP_CHARACTERS for number in left) <= width + 1:
            break
        left.remove(columns.index(name))
    return [columns[at] for at in left], [[row[at] for at in left] for row in rows]
