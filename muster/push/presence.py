"""What visible tabs show now, as they say themselves: in memory, and of this server alone.

It is no truth but a courtesy. An item that the owner is looking at is not pushed; when the server
that has the tab is another one, or was started a moment ago, it is pushed all the same.
"""

from typing import Final

import attrs
import trio

from muster.push.rules.words import Item

SECONDS: Final = 40.0  # a tab says it again every 15
TABS_MAX: Final = 20  # of an owner


@attrs.frozen
class _Tab:
    until: float
    items: frozenset[Item]


class Presence:
    """The visible tabs of each owner."""

    def __init__(self) -> None:
        self._tabs: dict[int, dict[str, _Tab]] = {}

    def show(self, owner_id: int, tab: str, items: frozenset[Item]) -> None:
        """A tab is visible and shows these items; the oldest gives way to one too many."""
        tabs = self._tabs.setdefault(owner_id, {})
        tabs.pop(tab, None)
        while len(tabs) >= TABS_MAX:
            del tabs[next(iter(tabs))]
        tabs[tab] = _Tab(trio.current_time() + SECONDS, items)

    def hide(self, owner_id: int, tab: str) -> None:
        """A tab is visible no more."""
        tabs = self._tabs.get(owner_id, {})
        tabs.pop(tab, None)
        if not tabs:
            self._tabs.pop(owner_id, None)

    def shown(self, owner_id: int) -> frozenset[Item]:
        """All that the owner's visible tabs show."""
        return frozenset[Item]().union(*(tab.items for tab in self._living(owner_id)))

    def watches(self, owner_id: int) -> bool:
        """Whether the owner has a visible tab, which may be about to show what is new."""
        return bool(self._living(owner_id))

    def _living(self, owner_id: int) -> list[_Tab]:
        now = trio.current_time()
        tabs = self._tabs.get(owner_id, {})
        for name in [name for name, tab in tabs.items() if tab.until <= now]:
            self.hide(owner_id, name)
        return list(self._tabs.get(owner_id, {}).values())
