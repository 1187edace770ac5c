"""Options that several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from muster.errors import Invalid

F = TypeVar("F", bound=Callable[..., Any])

LIMIT_MAX = 500
ID_MAX = 2**63 - 1


class Id(click.ParamType[int]):
    """An id on the command line; what is none is told in a sentence that names whose id it is."""

    name = "id"

    def __init__(self, noun: str) -> None:
        self.noun = noun

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Read the id; raises Invalid."""
        del param, ctx
        text = str(value)
        if text.isascii() and text.isdigit() and len(text) <= 19 and 1 <= int(text) <= ID_MAX:
            return int(text)
        raise Invalid(
            f"{self.noun} id must be a whole number from 1 to {ID_MAX}.",
            field=f"{self.noun}_id",
            code="usage",
        )


def json_option(command: F) -> F:
    """`--json`, as `as_json`."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document, for programs."
    )(command)


def owner_option(command: F) -> F:
    """`--owner NAME`, as `owner`, None when it was left out."""
    return click.option(
        "--owner",
        metavar="NAME",
        help="Whose; may be left out while there is one account.",
    )(command)


def limit_option(command: F) -> F:
    """`--limit N`, as `limit`."""
    return click.option(
        "--limit",
        type=click.IntRange(1, LIMIT_MAX),
        default=50,
        show_default=True,
        help="How many at most, the newest first.",
    )(command)
