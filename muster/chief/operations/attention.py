"""What the page Attention shows of the owner's asks and drafts, in one look."""

import enum

import attrs

from muster.chief.operations.glance import count_waiting
from muster.drafts.operations.cards import (
    Archive,
    Card,
    Waiting,
    find_card,
    list_decided,
    list_waiting,
)
from muster.pg.database import Transaction


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
    asks_open: int
    drafts_pending: int
    waiting: Waiting | None
    archive: Archive | None
    decided: Card | None


async def look_at_attention(tx: Transaction, command: LookAtAttention) -> Attention:
    """Look at a tab; raises NotFound for a `decided` that is no draft of the owner's."""
    drafts_pending, asks_open = await count_waiting(tx), 0
    tab = command.tab or (Tab.DRAFTS if drafts_pending and not asks_open else Tab.ASKS)
    decided = None if command.decided is None else await find_card(tx, command.decided)
    return Attention(
        tab=tab,
        asks_open=asks_open,
        drafts_pending=drafts_pending,
        waiting=await list_waiting(tx) if tab is Tab.DRAFTS else None,
        archive=await list_decided(tx, command.before) if tab is Tab.ARCHIVED else None,
        decided=None if decided is None else decided.card,
    )
