"""Messages to oneself, later.

A timer belongs to one incarnation of one actor: it ends with it, and what it had put into the
mailbox is dropped before the next incarnation starts, whose `started()` arms its own. A key names
at most one timer; arming it again, or cancelling it, also takes back a message that waits already,
so a cancelled timer is never handled.
"""

from __future__ import annotations

from collections.abc import Hashable

import attrs
import trio

from actors.mailbox import Envelope, Mailbox, MailboxFull

TIMERS_MAX = 1000
FULL_RETRY_SECONDS = 0.1


class TooManyTimers(Exception):
    """The actor has TIMERS_MAX timers that have not fired."""


@attrs.frozen
class _TimerKey:
    """Keeps a timer's key apart from an equal key of a hint."""

    key: Hashable


@attrs.define(eq=False, kw_only=True)
class _Timer:
    due: float
    message: object
    key: Hashable | None


class Timers:
    """The timers of one incarnation. Not to be used in `stopping()`."""

    def __init__(self, nursery: trio.Nursery, mailbox: Mailbox) -> None:
        self._nursery = nursery
        self._mailbox = mailbox
        self._timers: dict[_Timer, None] = {}
        self._keyed: dict[Hashable, _Timer] = {}
        self._changed = trio.lowlevel.ParkingLot()
        self.running = False

    def after(self, seconds: float, message: object, key: Hashable | None = None) -> None:
        """Put `message` into the own mailbox after `seconds`; replaces the timer of this key.

        Against a full mailbox it tries again every FULL_RETRY_SECONDS. Raises TooManyTimers.
        """
        if key is not None:
            self.cancel(key)
        if len(self._timers) >= TIMERS_MAX:
            raise TooManyTimers(f"{TIMERS_MAX} timers are armed")
        timer = _Timer(due=trio.current_time() + seconds, message=message, key=key)
        self._timers[timer] = None
        if key is not None:
            self._keyed[key] = timer
        if self.running:
            self._changed.unpark_all()
        else:
            self.running = True
            self._nursery.start_soon(self._run, name="timers")

    def cancel(self, key: Hashable) -> None:
        """Disarm the timer of this key, if there is one, and take back its waiting message."""
        timer = self._keyed.pop(key, None)
        if timer is not None:
            self._timers.pop(timer, None)
        self._mailbox.discard(_TimerKey(key))

    async def _run(self) -> None:
        # The task ends with the last timer, so that an actor without timers has no task for them.
        while self._timers:
            due = min(timer.due for timer in self._timers)
            with trio.move_on_at(due):
                await self._changed.park()
            now = trio.current_time()
            for timer in sorted(self._timers, key=lambda each: each.due):
                if timer.due <= now:
                    self._fire(timer, now)
        self.running = False

    def _fire(self, timer: _Timer, now: float) -> None:
        key = None if timer.key is None else _TimerKey(timer.key)
        try:
            self._mailbox.put(Envelope(message=timer.message, key=key, of_timer=True))
        except MailboxFull:
            timer.due = now + FULL_RETRY_SECONDS
            return
        del self._timers[timer]
        if timer.key is not None:
            del self._keyed[timer.key]
