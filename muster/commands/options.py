"""Options that several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

LIMIT_MAX = 500


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
