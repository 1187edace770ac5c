"""What the exit code says, in one place."""

import enum
import json
from collections.abc import Sequence

import click

from muster.errors import (
    Conflict,
    Invalid,
    MusterError,
    NotFound,
    Refused,
    TooMany,
    Unauthorized,
    Unavailable,
)


class Exit(enum.IntEnum):
    """The exit codes of every muster command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    NOT_SIGNED_IN = 5
    UNREACHABLE = 6
    CONFLICT = 7
    TRY_LATER = 75
    BAD_CONFIGURATION = 78
    INTERRUPTED = 130


def exit_of(error: MusterError) -> Exit:
    """The exit code for what a room or the configuration said."""
    # By their words: naming the classes would import the configuration and the database.
    if error.code in ("bad_configuration", "database_fault"):
        return Exit.BAD_CONFIGURATION
    match error:
        case Conflict():
            return Exit.CONFLICT
        case Refused():
            return Exit.REFUSED
        case NotFound():
            return Exit.NOT_FOUND
        case Invalid():
            return Exit.USAGE
        case Unauthorized():
            return Exit.NOT_SIGNED_IN
        case Unavailable():
            return Exit.UNREACHABLE
        case TooMany():
            return Exit.TRY_LATER
        case _:
            return Exit.FAILED


def as_sentence(text: str) -> str:
    """What a client says of an error, as a command says it: with a capital and a full stop."""
    first = text if text.startswith("muster ") else text[:1].upper() + text[1:]
    return first if first.endswith((".", "…")) else f"{first}."


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether `--json` was asked for, also where the arguments could not be understood."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


def say(error: MusterError, *, as_json: bool) -> None:
    """Tell an error on stderr: in JSON as one line, else as a sentence, or one for each fault."""
    if as_json:
        field = {"field": error.field} if error.field else {}
        told = {"error": error.sentence, "code": error.code} | field | dict(error.facts)
        click.echo(json.dumps(told, default=str), err=True)
        return
    faults = error.facts.get("faults")
    for sentence in faults if isinstance(faults, list) else [error.sentence]:
        # A sentence may quote what came from outside, which must not paint on the terminal.
        line = " ".join(str(sentence).split())
        shown = "".join(letter if letter.isprintable() else "?" for letter in line)
        click.echo(f"muster: {shown}", err=True)


def lone_error(group: BaseExceptionGroup[BaseException]) -> MusterError | None:
    """The one MusterError in a group of nothing else, as nurseries wrap what passes them."""
    matched, rest = group.split(MusterError)
    if matched is None or rest is not None:
        return None
    found: BaseException = matched
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, MusterError)
    return found
