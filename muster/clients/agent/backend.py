"""What a backend is: something that answers one turn, with muster's tools and nothing else."""

import abc
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import attrs

TurnId = str
DEFAULT_CONVERSATION = "default"  # of turns that the server gave no label


class TurnError(Exception):
    """The turn cannot be completed; the text goes to the server as `turn.failed`."""


@attrs.frozen(kw_only=True)
class Tool:
    """A tool that muster offers this agent; `input_schema` is JSON Schema."""

    name: str
    description: str
    input_schema: Mapping[str, object]


@attrs.frozen(kw_only=True)
class ToolAnswer:
    """What a tool said. `is_error` is muster's no, which a backend reads and may act on."""

    text: str
    is_error: bool
    structured: Mapping[str, object] | None = None


class Tools(Protocol):
    """muster's tools for this agent."""

    async def list(self) -> list[Tool]:
        """The tools on offer now. Raises TurnError when the tool door cannot be reached."""

    async def call(self, name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        """Call a tool once, never again: after an error nobody knows whether it ran.

        Raises TurnError when no answer came; a refusal is a ToolAnswer with `is_error`.
        """


COUNT_MAX = 10**12
"""The largest count that the server takes."""


def _bounded(count: int) -> int:
    return min(max(count, 0), COUNT_MAX)


@attrs.frozen(kw_only=True)
class Usage:
    """Tokens that calls to a model took; `cached_input_tokens` are a part of `input_tokens`.

    A provider says what it likes, in numbers of any length: each count becomes 0 to 10**12.
    """

    model: str
    calls: int = attrs.field(default=1, converter=_bounded)
    input_tokens: int = attrs.field(default=0, converter=_bounded)
    cached_input_tokens: int = attrs.field(default=0, converter=_bounded)
    output_tokens: int = attrs.field(default=0, converter=_bounded)

    def __add__(self, other: "Usage") -> "Usage":
        """Both together; the later call names the model."""
        return Usage(
            model=other.model,
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


async def say_nothing(_text: str) -> None:
    """Stands for `Turn.say` where nobody listens."""


def report_nothing(_event: str, _facts: Mapping[str, object]) -> None:
    """Stands for `Turn.report` where nobody watches the runner."""


def count_nothing(_usage: Usage) -> None:
    """Stands for `Turn.count` where nobody counts."""


@attrs.frozen(kw_only=True)
class Turn:
    """One thing to do, as the server gave it.

    `instructions` are the agent's standing ones, `say` tells the server what is going on meanwhile
    (as much as 40,000 characters a call), `deadline_seconds` is enforced by the runner. `count` is
    called after each call to a model, so that the tokens of a turn that fails are told as well.
    `report` tells whoever watches the runner (not the server) of an event, with facts by name.
    """

    turn_id: TurnId
    text: str
    deadline_seconds: float
    conversation: str = DEFAULT_CONVERSATION
    title: str = ""
    instructions: str = ""
    say: Callable[[str], Awaitable[None]] = say_nothing
    count: Callable[[Usage], None] = count_nothing
    report: Callable[[str, Mapping[str, object]], None] = report_nothing


class Backend(abc.ABC):
    """Answers turns, one at a time; a cancelled turn is cancelled as Trio cancels."""

    def takes(self, turn: Turn) -> bool:  # noqa: ARG002 - for those who look at it
        """Whether the turn can be worked on now; False is answered `turn.busy`."""
        return True

    @abc.abstractmethod
    async def turn(self, turn: Turn, tools: Tools) -> str:
        """Work on the turn and return the last word on it; raise TurnError if that can't be."""


def without_muster(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that a backend may see: no token, no address, no setting of muster's.

    A message could talk a backend into running `muster drafts approve`; it should at least find no
    credential lying there.
    """
    return {name: value for name, value in environ.items() if not name.startswith("MUSTER_")}
