"""What open pages are told: that something changed, and what a running turn says meanwhile.

An event is a hint. It names what changed (`draft`, id 17), and the page asks for that part anew.
Only what an agent says in a running turn travels itself (`turn.delta`): it is told to whoever
listens at that moment, is not kept, and stands in the database once the turn is over. Each other
event has an id, and the last EVENTS_MAX are kept: a page that lost its stream names the last one it
saw and gets those that it missed. One that names an id of another node, or one that is gone, is
told `resync`, and asks for everything anew.

A page that reads too slowly is told `resync` as well, instead of holding anything up.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import attrs
import trio

EVENTS_MAX: Final = 2000
WAITING_MAX: Final = 200
STREAMS_MAX: Final = 100  # of an owner; a tab that nobody sees has none
WAITS_MAX: Final = 100  # of an owner: calls of tools that wait for a change
RESYNC: Final = "resync"


@attrs.frozen(kw_only=True)
class LiveEvent:
    """`name` is a noun of muster's or `turn.delta`; `data` is a JSON object's members.

    One that only passes, and is not kept for pages that come back, has the `number` 0.
    """

    number: int
    owner_id: int
    name: str
    data: dict[str, object]


class Listener:
    """One open stream. Its reader takes what waits, and sleeps while nothing does.

    With no browser's session it is no page, but a call that waits for a change: it is told nothing
    that only passes.
    """

    def __init__(self, owner_id: int, session_id: int | None) -> None:
        self.owner_id = owner_id
        self.session_id = session_id
        self.ended = False  # its session or the server is at its end
        self._waiting: deque[LiveEvent] = deque()
        self._overflowed = False
        self._arrived = trio.Event()

    def put(self, event: LiveEvent) -> None:
        """Leave an event; never waits."""
        if len(self._waiting) >= WAITING_MAX:
            self._waiting.clear()
            self._overflowed = True
        self._waiting.append(event)
        self._arrived.set()

    def end(self) -> None:
        """Tell the reader that there is nothing more to come."""
        self.ended = True
        self._arrived.set()

    async def wait(self) -> None:
        """Sleep until there is something to take."""
        await self._arrived.wait()

    def take(self) -> tuple[bool, list[LiveEvent]]:
        """Whether events were lost, and those that wait."""
        lost, self._overflowed = self._overflowed, False
        events = list(self._waiting)
        self._waiting.clear()
        if not self.ended:
            self._arrived = trio.Event()
        return lost, events


class Live:
    """The events of this node, and who listens to them."""

    def __init__(self, node_id: str) -> None:
        self._node_id = node_id
        self._number = 0
        self._kept: deque[LiveEvent] = deque(maxlen=EVENTS_MAX)
        self._listeners: set[Listener] = set()

    def tell(self, owner_id: int, name: str, data: dict[str, object]) -> None:
        """Tell an owner's open pages of something; never waits."""
        self._number += 1
        event = LiveEvent(number=self._number, owner_id=owner_id, name=name, data=data)
        self._kept.append(event)
        for listener in self._listeners:
            if listener.owner_id == owner_id:
                listener.put(event)

    def pass_on(self, owner_id: int, name: str, data: dict[str, object]) -> bool:
        """Tell the owner's open pages of what is not kept; whether there was one. Never waits."""
        told = False
        event = LiveEvent(number=0, owner_id=owner_id, name=name, data=data)
        for listener in self._listeners:
            if listener.owner_id == owner_id and listener.session_id is not None:
                listener.put(event)
                told = True
        return told

    def resync(self) -> None:
        """Hints may have been lost: every open page asks for everything anew."""
        for owner_id in {listener.owner_id for listener in self._listeners}:
            self.tell(owner_id, RESYNC, {})

    def id_of(self, event: LiveEvent) -> str | None:
        """The id by which a stream names an event; None for one that is not kept."""
        return None if event.number == 0 else f"{self._node_id}-{event.number}"

    @property
    def newest_id(self) -> str:
        """The id of the newest event: a page that is made now has seen all up to it."""
        return f"{self._node_id}-{self._number}"

    def missed(self, owner_id: int, last_id: str | None) -> list[LiveEvent] | None:
        """The owner's events after the one with this id; None when nobody can tell any more.

        Nothing was missed by a page that names none: it was made a moment ago.
        """
        if not last_id:
            return []
        node_id, _, number = last_id.rpartition("-")
        if node_id != self._node_id or not number.isascii() or not number.isdigit():
            return None
        last = int(number[:18])
        oldest = self._kept[0].number if self._kept else self._number + 1
        if not oldest - 1 <= last <= self._number:
            return None
        return [event for event in self._kept if event.number > last and event.owner_id == owner_id]

    @contextmanager
    def listening(self, owner_id: int, session_id: int | None) -> Iterator[Listener]:
        """Hear an owner's events for the block: a page of this session, or a call that waits."""
        listener = Listener(owner_id, session_id)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def listens(self, owner_id: int) -> bool:
        """Whether the owner has a page open here."""
        return self._count(owner_id, pages=True) > 0

    def is_full(self, owner_id: int) -> bool:
        """Whether the owner has as many streams open here as there may be."""
        return self._count(owner_id, pages=True) >= STREAMS_MAX

    def count_waits(self, owner_id: int) -> int:
        """How many calls of the owner's wait here; WAITS_MAX may."""
        return self._count(owner_id, pages=False)

    def _count(self, owner_id: int, *, pages: bool) -> int:
        return sum(
            listener.owner_id == owner_id and (listener.session_id is not None) == pages
            for listener in self._listeners
        )

    def end_sessions(self, owner_id: int, session_id: int | None = None) -> None:
        """End the streams of one session, or of all of an owner's; a page that may reconnects."""
        for listener in self._listeners:
            if listener.owner_id == owner_id and session_id in (None, listener.session_id):
                listener.end()

    def end(self) -> None:
        """The server stops: every stream ends."""
        for listener in self._listeners:
            listener.end()
