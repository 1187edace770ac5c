"""A handle that can only send. It names a path, so it survives restarts and may be kept or copied.

The path is looked up at each use: a dynamic child that left and was started anew is reached by the
addresses of old.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator
from typing import Any

import attrs
import trio

from actors.ask import Ask, AskTimeout
from actors.mailbox import Envelope
from actors.registry import Registry


@attrs.frozen
class Address:
    """Where one actor is to be found, such as `root/owners/owner:7/chief:12`."""

    path: str
    _registry: Registry = attrs.field(repr=False)

    def tell(self, message: object, *, key: Hashable | None = None) -> None:
        """Put a message into the mailbox; never waits. Only in the thread that Trio runs in.

        While a message with the same `key` waits there, this one takes its place in the queue.
        Raises MailboxFull, or ActorStopped when nobody is there: both are Undelivered.
        You don't get an error when the actor later crashes or stops before it handles the message.
        """
        self._registry.get(self.path).deliver(Envelope(message=message, key=key))

    async def ask(self, message: object, *, deadline_seconds: float) -> Any:
        """Put a question into the mailbox and wait for its answer.

        Raises MailboxFull, AskCycle, AskTimeout after `deadline_seconds`, ActorStopped when the
        actor ended before it answered, or ActorCrashed when it crashed over this question.
        A question whose asker is gone before the actor begins it is never handled.
        """
        question = Ask(message)
        with self._registry.asking(self.path):
            self._registry.get(self.path).deliver(Envelope(message=message, ask=question))
            with trio.move_on_after(deadline_seconds):
                return await question.wait()
        raise AskTimeout(f"{self.path} did not answer within {deadline_seconds} s")

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep a dynamic actor from leaving for the length of the block. Raises ActorStopped."""
        with self._registry.get(self.path).hold():
            yield

    @property
    def reachable(self) -> bool:
        """Somebody is there now, or will be when a restart is through."""
        return self.path in self._registry.slots
