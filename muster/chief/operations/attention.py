"""What the page Attention shows of the owner's asks and drafts, in one look."""

import enum
from typing import Final

import attrs

from muster.attention.operations import AskView, ListAsks, list_asks
from muster.chief.operations.glance import Counts, count_waiting
from muster.drafts.operations.cards import (
    Archive,
    Card,
    Waiting,
    find_card,
    list_decided,
    list_waiting,
)
from muster.pg.database import Transaction

ENDED_ASKS_SHOWN: Final = 10


class Tab(enum.Enum):
    """The tabs, by their names in the address."""

    ASKS = "asks"
    DRAFTS = "drafts"
    ARCHIVED = "archived"


@attrs.frozen(kw_only=True)
class LookAtAttention:
    """Which tab; None is the one where something waits. `decided` is a draft to tell of."""

    tab: Tab | None = None
    before: int | None = None
    decided: int | None = None


@attrs.frozen(kw_only=True)
class Attention:
    """One tab's content (the others are None), and how much waits under each."""

    tab: Tab
    counts: Counts
    asks: list[AskView] | None  # open ones; under Archived those that ended
    waiting: Waiting | None
    archive: Archive | None
    decided: Card | None


async def look_at_attention(tx: Transaction, command: LookAtAttention) -> Attention:
    """Look at a tab; raises NotFound for a `decided` that is no draft of the owner's."""
    counts = await count_waiting(tx)
    tab = command.tab or (Tab.DRAFTS if counts.drafts and not counts.asks else Tab.ASKS)
    decided = None if command.decided is None else await find_card(tx, command.decided)
    return Attention(
        tab=tab,
        counts=counts,
        asks=await _list_asks(tx, tab, is_first_page=command.before is None),
        waiting=await list_waiting(tx) if tab is Tab.DRAFTS else None,
        archive=await list_decided(tx, command.before) if tab is Tab.ARCHIVED else None,
        decided=None if decided is None else decided.card,
    )


async def _list_asks(tx: Transaction, tab: Tab, *, is_first_page: bool) -> list[AskView] | None:
    if tab is Tab.ASKS:
        return await list_asks(tx, ListAsks())
    if tab is Tab.ARCHIVED and is_first_page:
        return await list_asks(tx, ListAsks(ended=True, limit=ENDED_ASKS_SHOWN))
    return None
