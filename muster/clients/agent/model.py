"""What a model is to the tool loop: one question, one whole answer, or the reason for none.

The reasons are exceptions: `TryAgain` (the same question may be asked again), `TooLong` (the
question must become shorter), and `TurnError` (nothing will help but a person).
"""

import enum
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import attrs

from muster.clients.agent.backend import Tool, TurnError, Usage
from muster.clients.agent.transcript import Entry, ToolCall

OUTPUT_TOKENS_MAX = 8_192
"""Thinking counts as output, so this leaves some room for it."""


CALLS_MAX = 50
ARGUMENTS_CHARACTERS_MAX = 256 * 1024
"""How many tools one answer may call, and how long the arguments of each call may be."""


class Stop(enum.Enum):
    """Why a model's answer ended."""

    DONE = "done"
    CALLS = "calls"
    LENGTH = "length"
    REFUSED = "refused"


class TryAgain(Exception):
    """The model call failed in a way that may pass; nothing of its answer counts."""

    def __init__(self, reason: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_seconds = retry_after_seconds


class TooLong(Exception):
    """The question has more tokens than the model takes."""


@attrs.frozen(kw_only=True)
class Prompt:
    """A question to a model; `output_tokens_max` bounds its answer."""

    instructions: str
    entries: Sequence[Entry]
    tools: Sequence[Tool] = ()
    output_tokens_max: int = OUTPUT_TOKENS_MAX


@attrs.frozen(kw_only=True)
class Reply:
    """A whole answer. `calls` are as the model wrote them: names and arguments may be wrong.

    `echo` goes back to the model as `FromModel.echo`.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    echo: str = ""
    stop: Stop = Stop.DONE


Hear = Callable[[str], Awaitable[None]]
Count = Callable[[Usage], None]


class Model(Protocol):
    """A model of some provider's."""

    async def ask(self, prompt: Prompt, *, hear: Hear, count: Count) -> Reply:
        """Ask once. `hear` gets the text as it comes; `count` what the provider says it took.

        `count` is called at most once, also before an error is raised. Raises TryAgain, TooLong,
        or TurnError; a cancel closes the connection.
        """

    async def aclose(self) -> None:
        """Close the connections to the provider."""


def check_calls(*, count: int, arguments: str) -> None:
    """Give up an answer that calls more tools, or one with more arguments, than anybody reads.

    Checked as its pieces come: what a model may ask for has a bound, and so has our work on it.
    """
    if count > CALLS_MAX:
        raise TurnError(f"The model called more than {CALLS_MAX} tools at once.")
    if len(arguments) > ARGUMENTS_CHARACTERS_MAX:
        raise TurnError(
            "The model called a tool with arguments of more than "
            f"{ARGUMENTS_CHARACTERS_MAX >> 10} KiB."
        )
