"""A bounded queue with one reader, and a queue of orders that overtakes it.

`put` is synchronous and refuses when full; it never waits, so a sender can't be held up by a slow
receiver, and two actors that send to each other can't lock. A message with a key takes the place of
the waiting one with the same key: the newest content at the oldest place. Orders (stop, leave) are
few, come from the tree itself and are never refused. Rejected: trio's memory channel, which can
neither coalesce nor be overtaken, and dies with its receiver instead of outliving a restart.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Hashable

import attrs
import trio

from actors.ask import Ask
from actors.exits import ActorStopped, Undelivered


class MailboxFull(Undelivered):
    """As many messages wait as the mailbox may hold.

    You don't get it for a message whose key already waits.
    """


class Order(enum.Enum):
    """A message of the tree to the actor's loop."""

    STOP = "stop"
    LEAVE = "leave"
    FINISH = "finish"


@attrs.define(eq=False, kw_only=True)
class Envelope:
    """A message as it waits."""

    message: object
    key: Hashable | None = None
    ask: Ask | None = None
    of_timer: bool = False


class Mailbox:
    """At most `size` messages; FIFO. It belongs to a place in the tree, not to an incarnation."""

    def __init__(self, size: int) -> None:
        assert size > 0
        self.size = size
        self._messages: deque[Envelope] = deque()
        self._keyed: dict[Hashable, Envelope] = {}
        self._orders: list[Order] = []  # an empty deque is 700 bytes, in each of thousands
        self._lot = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        """How many messages wait; orders do not count."""
        return len(self._messages)

    def put(self, envelope: Envelope) -> None:
        """Add a message, or replace the waiting one of the same key. Raises MailboxFull."""
        waiting = None if envelope.key is None else self._keyed.get(envelope.key)
        if waiting is not None:
            waiting.message = envelope.message
            return
        if len(self._messages) >= self.size:
            raise MailboxFull(f"{self.size} messages wait")
        self._messages.append(envelope)
        if envelope.key is not None:
            self._keyed[envelope.key] = envelope
        self._lot.unpark()

    def put_order(self, order: Order) -> None:
        """Add an order, before all messages."""
        self._orders.append(order)
        self._lot.unpark()

    def clear_orders(self) -> None:
        """Forget the orders of an incarnation that has ended."""
        self._orders.clear()

    async def take(self) -> Envelope | Order:
        """Wait for the next order or message. A cancel takes none."""
        await trio.lowlevel.checkpoint()
        while not self._orders and not self._messages:
            await self._lot.park()
        if self._orders:
            return self._orders.pop(0)
        envelope = self._messages.popleft()
        self._forget_key(envelope)
        return envelope

    def discard(self, key: Hashable) -> None:
        """Drop the waiting message of this key, if there is one."""
        envelope = self._keyed.pop(key, None)
        if envelope is not None:
            self._messages.remove(envelope)

    def discard_timers(self) -> None:
        """Drop what timers of an incarnation that has ended put here."""
        for envelope in [each for each in self._messages if each.of_timer]:
            self._messages.remove(envelope)
            self._forget_key(envelope)

    def drain(self, error: ActorStopped) -> None:
        """Drop all messages; the askers among them get `error`."""
        for envelope in self._messages:
            if envelope.ask is not None:
                envelope.ask.fail(error)
        self._messages.clear()
        self._keyed.clear()

    def _forget_key(self, envelope: Envelope) -> None:
        if envelope.key is not None:
            self._keyed.pop(envelope.key, None)
