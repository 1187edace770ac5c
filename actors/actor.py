"""The base of all actors."""

from __future__ import annotations

from typing import Protocol

import trio

from actors.address import Address
from actors.ask import Ask
from actors.log import ActorLog
from actors.specs import Life
from actors.timers import Timers
from actors.tree import Tree


class Seat(Protocol):
    """What an actor may do with its place in the tree."""

    def leave_if_idle(self) -> bool:
        """See Actor.leave_if_idle."""

    def finish(self) -> None:
        """See Actor.finish."""

    def defer(self) -> Ask:
        """See Actor.defer."""


class Actor(Life):
    """Override `started`, `handle` and `stopping`. The attributes are there from started() on.

    State kept in the actor is a cache: started() reads the truth again after each restart.
    Only one of the three runs at a time, and only one message is handled at a time.
    """

    address: Address
    path: str
    nursery: trio.Nursery  # for slow work; cancelled when the actor stops, before stopping()
    timers: Timers
    log: ActorLog
    tree: Tree
    _seat: Seat

    async def handle(self, message: object) -> object:
        """Handle one message; what it returns answers the message if it was asked.

        An exception is a crash: the message is not redelivered and its asker gets ActorCrashed.
        """
        raise TypeError(f"{type(self).__name__} takes no messages, but got {message!r:.100}")

    def unreceived(self, message: object, answer: object) -> None:
        """Called when `handle` returned an answer whose asker had gone meanwhile.

        An actor that grants things overrides it, to take the grant back. It may tell, not wait.
        """

    def defer(self) -> Ask:
        """Take over the question in hand, to answer it later, say from the nursery.

        `Ask.answer(value)` says whether the asker got it. What handle returns is then ignored.
        If this incarnation ends first, the asker gets ActorStopped or ActorCrashed.
        The message in hand must have been asked.
        """
        return self._seat.defer()

    def leave_if_idle(self) -> bool:
        """Leave, if no message waits, nobody holds the address and the nursery is empty.

        True means that the actor ends after the message in hand, through stopping(), and is not
        restarted; armed timers are dropped. A message that comes before it has ended starts it
        anew, after it. Call it from one of the three moments, not from the nursery.
        """
        return self._seat.leave_if_idle()

    def finish(self) -> None:
        """End after the message in hand. A permanent actor is then started again."""
        self._seat.finish()
