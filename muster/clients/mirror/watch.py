"""Looks at tmux again and again, and tells when the list of windows has become another one.

One `list-panes` a look. A look follows at once on a change of a hook (but not sooner than a fifth
of a second after the last one, so that the list changes at most 5 times a second), every second
otherwise, and every other second once nothing changed for half a minute. A pane that just said idle
is looked at again as soon as it can have held still.

tmux that is not there is an empty list: it may come, go, and come back as another server, whose
panes are other places (`Place.tmux_pid`).
"""

from collections.abc import Callable
from datetime import UTC, datetime

import attrs
import trio

from muster.clients.mirror.model import Lines, Sessions
from muster.clients.mirror.repositories import Repositories
from muster.clients.mirror.stillness import STILL_SECONDS, Stillness
from muster.clients.mirror.tmux import Tmux, TmuxError
from muster.clients.mirror.windows import Listing, Seen, compose, see

LOOK_SECONDS = 1.0
QUIET_LOOK_SECONDS = 2.0
QUIET_AFTER_SECONDS = 30.0
LOOKS_APART_SECONDS = 0.2
UNSETTLED_LOOKS_MAX = 40
"""A screen that never settles is not looked at more often than others for ever."""


def utc_now() -> datetime:
    """The time by this machine's clock."""
    return datetime.now(UTC)


@attrs.define(kw_only=True, eq=False)
class Watch:
    """The newest list of windows, kept up to date by `run`."""

    tmux: Tmux
    sessions: Sessions
    lines: Lines
    changed: Callable[[Listing], None]
    listing: Listing = attrs.field(factory=Listing)
    seen: tuple[Seen, ...] = ()
    stillness: Stillness = attrs.field(factory=Stillness)
    repositories: Repositories = attrs.field(factory=lambda: Repositories(trio.current_time))
    _looked: bool = False
    _told: str = ""
    _unsettled_looks: int = 0
    _changed_at: float = attrs.field(factory=trio.current_time)

    async def run(self) -> None:
        """Look until cancelled; `changed` is called with each new list, and with the first."""
        self.changed(await self._look_again())
        self._looked = True
        while True:
            looked_at = trio.current_time()
            with trio.move_on_after(self._rest_seconds()):
                await self.sessions.changes.wait()
            await trio.sleep_until(looked_at + LOOKS_APART_SECONDS)
            before = self.listing
            if await self._look_again() != before:
                self._changed_at = trio.current_time()
                self.changed(self.listing)

    def look_now(self) -> None:
        """Look as soon as that may be: something was done that changes the list."""
        self.sessions.changes.set()

    def tell_again(self) -> None:
        """Tell the newest list once more, if there was a look: somebody new listens."""
        if self._looked:
            self.changed(self.listing)

    def _rest_seconds(self) -> float:
        if 0 < self._unsettled_looks <= UNSETTLED_LOOKS_MAX:
            return STILL_SECONDS
        quiet = trio.current_time() - self._changed_at >= QUIET_AFTER_SECONDS
        return QUIET_LOOK_SECONDS if quiet else LOOK_SECONDS

    async def _look_again(self) -> Listing:
        try:
            await self._read()
        except TmuxError as error:
            self.seen, self.listing, self._unsettled_looks = (), Listing(), 0
            self._tell(f"tmux: {error}")
        else:
            left_out = self.listing.left_out
            self._tell("" if left_out == 0 else f"{left_out} panes did not fit into the list")
        return self.listing

    async def _read(self) -> None:
        panes = await self.tmux.panes()
        seen = see(panes, self.sessions)
        idle = [each.pane for each in seen if each.says_idle]
        reading = self.stillness.to_read(idle)
        now = utc_now()
        if reading:
            texts = await self.tmux.capture([pane.place.pane for pane in reading])
            self.stillness.read(reading, texts, now)
        now = utc_now()
        self.seen = seen
        self.listing = compose(seen, self.stillness, self.repositories, now)
        unsettled = any(each.says_idle and not self._is_still(each, now) for each in seen)
        self._unsettled_looks = self._unsettled_looks + 1 if unsettled else 0

    def _is_still(self, seen: Seen, now: datetime) -> bool:
        held = self.stillness.of(seen.pane.place)
        return held is not None and held.still_since(now) is not None

    def _tell(self, trouble: str) -> None:
        if trouble != self._told:
            self._told = trouble
            self.lines("windows", trouble=trouble or "none")
