"""Since when a pane's screen has held still.

A screen is read (`capture-pane`) only where it matters: in panes whose session's hook said idle,
and there only when tmux has had output in the window since the last reading. tmux tells the newest
output of a *window*, in whole seconds; so a reading stands for as long as that second is over when
it is taken and does not grow, and the pane's cursor stays where it was. A window whose other pane
prints all the time costs a reading each look, all of them in one call.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256

import attrs

from muster.clients.mirror.model import Place
from muster.clients.mirror.tmux import Look, Pane

STILL_SECONDS = 0.25
"""How long a screen must be seen to hold still before it counts, in seconds."""

_SECOND = timedelta(seconds=1)


@attrs.frozen(kw_only=True)
class Held:
    """A screen as it was read: equal readings from `since` (at the latest) to `read_at`."""

    digest: bytes
    look: Look
    since: datetime
    read_at: datetime

    def still_since(self, now: datetime) -> datetime | None:
        """Since when the screen holds still; None when that is too short to tell."""
        waited = (now - self.since).total_seconds()
        return self.since if waited >= STILL_SECONDS else None


def digest_of(text: str) -> bytes:
    """What tells one screen from another."""
    return sha256(text.encode("utf-8", "surrogateescape")).digest()


class Stillness:
    """The screens that were read, by their place."""

    def __init__(self) -> None:
        self._held: dict[Place, Held] = {}

    def of(self, place: Place) -> Held | None:
        """The newest reading of the pane's screen, None when it was not read."""
        return self._held.get(place)

    def to_read(self, idle: Sequence[Pane]) -> tuple[Pane, ...]:
        """Which of the panes that say idle have to be read; what is known of others is dropped."""
        places = {pane.place for pane in idle}
        self._held = {place: held for place, held in self._held.items() if place in places}
        return tuple(pane for pane in idle if not self.stands(pane))

    def stands(self, pane: Pane) -> bool:
        """Whether nothing was printed in the pane's window since its screen was read.

        Then whatever is printed from now on makes the window's newest output one of a later second.
        """
        held = self._held.get(pane.place)
        if held is None or held.look != pane.look:
            return False
        return held.read_at >= pane.look.activity + _SECOND

    def read(self, panes: Sequence[Pane], texts: Mapping[str, str], now: datetime) -> None:
        """Take in what was read of these panes; `now` is from before the reading began."""
        for pane in panes:
            text = texts.get(pane.place.pane)
            if text is None:
                self._held.pop(pane.place, None)
                continue
            digest, before = digest_of(text), self._held.get(pane.place)
            same = before is not None and before.digest == digest
            if before is not None and same and before.look.mark == pane.look.mark:
                since = before.since
            elif before is None:
                # Nothing was printed after that second, so it has been still since its end.
                since = min(now, pane.look.activity + _SECOND)
            else:
                since = now
            self._held[pane.place] = Held(digest=digest, look=pane.look, since=since, read_at=now)
