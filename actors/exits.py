"""How an actor ends, and the errors that say so.

An `Exit` is what the supervisor judges; the exceptions are what callers see. A cancel is never a
crash: `Exit` has a kind for each way to end, and only CRASHED carries an error.
"""

from __future__ import annotations

import enum
from typing import Self

import attrs


class Undelivered(Exception):
    """The message was not taken: base of MailboxFull and ActorStopped."""


class ActorStopped(Undelivered):
    """Nobody is at this path (any more), so nothing will handle or answer the message.

    You don't get it while an actor restarts: its mailbox stays open.
    """


class ActorCrashed(ActorStopped):
    """The actor crashed with the question in hand, or under the body that it was attached to.

    `__cause__` is the error that it crashed with.
    """


class NameTaken(Exception):
    """The supervisor already has a child of this name."""


class GaveUp(Exception):
    """A supervisor restarted its children as often as its intensity allows, and ended.

    `__cause__` is the error of the last crash, or None when the child had ended without one.
    """


class ExitKind(enum.Enum):
    """Why the actor ended."""

    FINISHED = "finished"  # by `finish()`, or by cancelling its own nursery
    LEFT = "left"  # by `leave_if_idle()`
    STOPPED = "stopped"  # asked to by its supervisor
    KILLED = "killed"  # asked to, and cancelled because its stop_seconds were over
    CRASHED = "crashed"  # an exception in started, handle, stopping or its nursery


@attrs.frozen(kw_only=True)
class Exit:
    """One ending of one incarnation."""

    kind: ExitKind
    error: Exception | None = None

    @classmethod
    def crash(cls, error: Exception) -> Self:
        """An ending by `error`, taken out of exception groups that hold nothing else."""
        return cls(kind=ExitKind.CRASHED, error=sole_error(error))

    @property
    def reason(self) -> str:
        """One line for people."""
        return self.kind.value if self.error is None else describe(self.error)


def sole_error(error: Exception) -> Exception:
    """The one exception inside nested groups of one, else the group itself.

    Trio wraps each crash in a nursery in a group; a reader wants the crash.
    """
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def describe(error: BaseException) -> str:
    """`Type: message` on one line, at most 500 characters."""
    if isinstance(error, BaseExceptionGroup):
        inner = "; ".join(describe(each) for each in error.exceptions)
        text = f"{type(error).__name__}: {len(error.exceptions)} errors: {inner}"
    else:
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
    return " ".join(text.split())[:500]
