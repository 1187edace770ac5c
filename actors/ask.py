"""A question with one asker and at most one answer.

The asker waits in `wait_task_rescheduled`, whose abort runs in the same instant in which the
cancel or deadline takes the asker away. So `answer` knows for certain whether its value arrives:
True means that `ask` returns it, False that nobody will ever see it. An event would leave a gap in
which an asker that is already cancelled still looks as if it waited.
"""

from __future__ import annotations

from typing import Any

import trio

from actors.exits import ActorStopped


class AskTimeout(Exception):
    """No answer within `deadline_seconds`.

    The question is dropped if the actor had not begun it, else its answer is discarded.
    """


class AskCycle(Exception):
    """The asked actor waits, itself or through others, for an answer of the asker.

    Only questions that an actor asks from its own loop count; one asked in its nursery does not
    keep the actor from answering.
    """


class Ask:
    """What the actor holds of a question: `message`, and a way to answer it once."""

    def __init__(self, message: object) -> None:
        self.message = message
        self._asker: trio.lowlevel.Task | None = None
        self._over = False
        self._keeper: set[Ask] = set()
        self._value: Any = None
        self._error: ActorStopped | None = None

    @property
    def over(self) -> bool:
        """Answered, failed, or its asker is gone."""
        return self._over

    def keep_in(self, keeper: set[Ask]) -> None:
        """Be a member of `keeper` until it is over."""
        self._keeper = keeper
        keeper.add(self)

    def answer(self, value: object) -> bool:
        """Give the answer; True when the asker gets it, False when there is no asker any more."""
        if self._over:
            return False
        self._value = value
        self._finish()
        return True

    def fail(self, error: ActorStopped) -> bool:
        """Make `ask` raise `error`; True when the asker gets it."""
        if self._over:
            return False
        self._error = error
        self._finish()
        return True

    async def wait(self) -> Any:
        """Wait for the answer, as the one asker. Raises what `fail` was given."""
        assert self._asker is None
        assert not self._over
        self._asker = trio.lowlevel.current_task()

        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            self._over = True
            self._keeper.discard(self)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        if self._error is not None:
            raise self._error
        return self._value

    def _finish(self) -> None:
        assert self._asker is not None
        self._over = True
        self._keeper.discard(self)
        trio.lowlevel.reschedule(self._asker)
