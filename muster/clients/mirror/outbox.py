"""What the host has to say and the server has not acknowledged yet.

Each thing has a place of its own, and a newer one in the same place takes over: the list of windows
is one place, each send's end another, each watched screen one. So what waits is bounded by what
there is, not by how long the server is away. An acknowledgement counts only for what was said under
its number: if a newer one stands in the place by then, that is still to be said.

On a new connection all of it is said again, under new numbers. Screens are not: they are of a
moment.
"""

from collections.abc import Callable
from datetime import datetime

import attrs

from muster.clients.mirror.frames import Said
from muster.clients.mirror.model import Wake

FOCUS_COUNT_MAX = 200
PLACES_COUNT_MAX = 2000
"""Past it the oldest is dropped; ends of pastes stay in the journal all the same."""

Key = tuple[str, object]


@attrs.define(kw_only=True, eq=False)
class _Thing:
    said: Said
    acknowledged: Callable[[], None] | None
    lasting: bool
    seq: int | None = None  # under which it was said on this connection


class Outbox:
    """Things to say, in the order in which they came, the list of windows first."""

    def __init__(self) -> None:
        self.wake = Wake()
        self._things: dict[Key, _Thing] = {}
        self._spoken: dict[int, Key] = {}
        self._seq = 0

    def put(
        self,
        key: Key,
        said: Said,
        *,
        acknowledged: Callable[[], None] | None = None,
        lasting: bool = True,
    ) -> None:
        """Say this soon, in place of what stood there; `acknowledged` is called once it is known.

        Never blocks.
        """
        self._drop(key)
        self._things[key] = _Thing(said=said, acknowledged=acknowledged, lasting=lasting)
        if key[0] == "focus":
            titles = [key for key in self._things if key[0] == "focus"]
            for old in titles[:-FOCUS_COUNT_MAX]:
                self._drop(old)
        while len(self._things) > PLACES_COUNT_MAX:
            self._drop(next(key for key in self._things if key != ("windows", None)))
        self.wake.set()

    def begin_anew(self) -> None:
        """A new connection: nothing has been said on it yet, and screens are of the past."""
        self._seq, self._spoken = 0, {}
        self._things = {key: thing for key, thing in self._things.items() if thing.lasting}
        for thing in self._things.values():
            thing.seq = None
        self.wake.set()

    def take_number(self) -> int:
        """The next number of this connection."""
        self._seq += 1
        return self._seq

    def next(self, now: datetime) -> str | None:
        """The next frame to send, None when all was said."""
        unsaid = [key for key, thing in self._things.items() if thing.seq is None]
        if not unsaid:
            return None
        key = next((key for key in unsaid if key[0] == "windows"), unsaid[0])
        thing = self._things[key]
        thing.seq = self.take_number()
        frame = thing.said.encode(thing.seq, now.isoformat())
        if thing.lasting:
            self._spoken[thing.seq] = key
        else:
            del self._things[key]
        return frame

    def acknowledge(self, seq: int) -> None:
        """The server has committed what was said under this number."""
        key = self._spoken.pop(seq, None)
        if key is None:
            return
        thing = self._things.pop(key)
        if thing.acknowledged is not None:
            thing.acknowledged()

    def _drop(self, key: Key) -> None:
        thing = self._things.pop(key, None)
        if thing is not None and thing.seq is not None:
            self._spoken.pop(thing.seq, None)
