"""What a supervisor is told about its children."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs

from actors.restart import Intensity, Policy

MAILBOX_SIZE = 256
STOP_SECONDS = 5.0
SLOW_SECONDS = 1.0


class Life:
    """The three moments of an actor's life, which `Actor` gives their tools."""

    async def started(self) -> None:
        """Read what is true, and begin. Runs once an incarnation, before any message."""

    async def handle(self, message: object) -> object:
        """Handle one message; what it returns answers the message if it was asked."""

    async def stopping(self) -> None:
        """Settle what is in hand. Runs when the actor stops, not when it crashed."""


class Strategy(enum.Enum):
    """Which children restart when one of them must."""

    ONE_FOR_ONE = "one_for_one"  # that one
    REST_FOR_ONE = "rest_for_one"  # that one and those after it
    ONE_FOR_ALL = "one_for_all"  # all of them


def _check_name(_instance: object, _attribute: object, name: str) -> None:
    if not name or "/" in name:
        raise ValueError(f"a name is a part of a path, not empty and without '/': {name!r}")


@attrs.frozen(kw_only=True)
class ChildSpec:
    """One actor. `start` makes a new one for each incarnation.

    `stop_seconds` bounds the message in hand when a stop is asked for, and once more `stopping()`.
    `slow_seconds` is how long one message may take before it is reported.
    """

    name: str = attrs.field(validator=_check_name)
    start: Callable[[], Life]
    policy: Policy = Policy.PERMANENT
    mailbox_size: int = attrs.field(default=MAILBOX_SIZE, validator=attrs.validators.ge(1))
    stop_seconds: float = attrs.field(default=STOP_SECONDS, validator=attrs.validators.ge(0))
    slow_seconds: float = SLOW_SECONDS


@attrs.frozen(kw_only=True)
class SupervisorSpec:
    """A supervisor and the children that it starts with, in order; more may be added later.

    With `isolate`, each dynamic child has a restart history of its own, and one that crashes too
    often is dropped instead of ending the supervisor. With `leaves_when_empty`, a dynamic
    supervisor leaves as soon as it has no child and no holder.
    """

    name: str = attrs.field(validator=_check_name)
    strategy: Strategy = Strategy.ONE_FOR_ONE
    intensity: Intensity = attrs.field(factory=Intensity)
    children: Sequence[ChildSpec | SupervisorSpec] = ()
    policy: Policy = Policy.PERMANENT
    isolate: bool = False
    leaves_when_empty: bool = False

    def __attrs_post_init__(self) -> None:
        names = [child.name for child in self.children]
        if len(set(names)) != len(names):
            raise ValueError(f"{self.name}: two children have one name: {names}")


AnySpec: TypeAlias = ChildSpec | SupervisorSpec
