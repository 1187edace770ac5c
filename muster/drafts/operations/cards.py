"""A draft as the card that the owner decides on (plugins: "The card"), and the decision there.

A card is one look: the reply, the message it answers whole, and what one should know before
deciding. States are those by the clock, whether or not a sweep wrote them yet.
"""

# ruff: noqa: S608 - what is put into the statements is a constant of this room

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import attrs

from muster.drafts.operations import approve, reject
from muster.drafts.rules import Approve, Reject, State
from muster.drafts.store import VIEW_COLUMNS, VIEW_SOURCE, VIEWS, DraftView
from muster.errors import NotFound, Refused
from muster.pg.database import Transaction
from muster.pg.query import Query

PENDING_SHOWN_MAX: Final = 100
PAGE_ROWS: Final = 20
NO_ID_ABOVE: Final = 2**63 - 1


@attrs.frozen(kw_only=True)
class Card(DraftView):
    """A draft with its message; `earlier_unconfirmed` may already have gone to the sender."""

    message_body: str
    received_at: datetime | None
    message_created_at: datetime
    plugin_label: str
    plugin_lives: bool
    agent: str  # who wrote it
    earlier_unconfirmed: list[int]
    already_sent: list[int]  # other replies to the message

    @property
    def awaits_decision(self) -> bool:
        """Whether it may be approved or rejected."""
        return self.state is State.PENDING

    @property
    def may_be_withdrawn(self) -> bool:
        """Whether it is approved and no plugin has collected it."""
        return self.state is State.APPROVED and self.claimed_at is None


@attrs.frozen(kw_only=True)
class Waiting:
    """What awaits the owner's decision, newest first, and what was approved and is on its way."""

    pending: list[Card]
    on_the_way: list[Card]
    now: datetime


@attrs.frozen(kw_only=True)
class Archive:
    """A page of decided drafts, newest first; `older_than` asks for the next one."""

    cards: list[Card]
    older_than: int | None


@attrs.frozen(kw_only=True)
class Decided:
    """What came of a decision: the card as it is now, and why it was refused, if it was."""

    card: Card
    refusal: Refused | None
    now: datetime


# Whoever files a draft writes first that an earlier one's claim has lapsed: so its state tells.
_CARDS: Final = f"""
    select {VIEW_COLUMNS},
           m.body as message_body, m.received_at, m.created_at as message_created_at,
           p.label as plugin_label, p.revoked_at is null as plugin_lives,
           (select a.name from agents a
            where a.owner_id = d.owner_id and a.id = d.agent_id) as agent,
           array(
               select e.id from drafts e
               where e.message_id = d.message_id and e.id < d.id and e.state = 'unconfirmed'
               order by e.id
           ) as earlier_unconfirmed,
           array(
               select e.id from drafts e
               where e.message_id = d.message_id and e.id <> d.id and e.state = 'sent'
               order by e.id
           ) as already_sent
    {VIEW_SOURCE}
"""
# By the owner's agents, of which each has 20 pending at most: the index drafts_pending_idx.
PENDING_CARDS = Query(f"""
    {_CARDS} and d.state = 'pending' and due.state = 'pending'
      and d.agent_id = any(array(select a.id from agents a where a.owner_id = %(owner_id)s))
    order by d.id desc
    limit %(limit)s
""")
# By the owner's plugins: the indexes drafts_claimable_idx and drafts_lease_idx hold these alone.
APPROVED_CARDS = Query(f"""
    {_CARDS} and d.state = 'approved' and due.state = 'approved'
      and d.message_id in (
          select w.message_id from drafts w
          where w.plugin_id = any(array(select o.id from plugins o
                                        where o.owner_id = %(owner_id)s))
            and w.state = 'approved' and w.claimed_at is null
          union all
          select h.message_id from drafts h
          where h.owner_id = %(owner_id)s and h.state = 'approved' and h.claimed_at is not null
            and h.lease_expires_at > %(now)s)
    order by d.id desc
    limit %(limit)s
""")
# Newest first by drafts_listing_idx; of those passed over there are as many as are pending.
DECIDED_CARDS = Query(f"""
    {_CARDS} and d.id < %(below)s and due.state <> 'pending'
    order by d.id desc
    limit %(limit)s
""")
FIND_CARD = Query(f"""
    {_CARDS} and d.id = %(draft_id)s
""")


# By drafts_message_idx.
REPLIES = Query(f"""
    {VIEWS} and d.message_id = any(%(message_ids)s)
    order by d.id
""")


async def list_replies(tx: Transaction, message_ids: Sequence[int]) -> list[DraftView]:
    """Every reply to these messages, oldest first."""
    return await tx.all(REPLIES, DraftView, message_ids=list(message_ids))


async def list_waiting(tx: Transaction, limit: int = PENDING_SHOWN_MAX) -> Waiting:
    """What the tab Reply drafts shows: at most `limit` of each kind."""
    pending, on_the_way = await tx.together(
        tx.all(PENDING_CARDS, Card, limit=limit), tx.all(APPROVED_CARDS, Card, limit=limit)
    )
    return Waiting(pending=pending, on_the_way=on_the_way, now=tx.now)


COUNT_PENDING = Query("""
    select count(*) from drafts d
    where d.agent_id = any(array(select a.id from agents a where a.owner_id = %(owner_id)s))
      and d.owner_id = %(owner_id)s and d.state = 'pending' and d.expires_at > %(now)s
""")


async def count_pending(tx: Transaction) -> int:
    """How many drafts await the owner's decision."""
    count = await tx.scalar(COUNT_PENDING)
    assert isinstance(count, int)
    return count


async def list_decided(tx: Transaction, older_than: int | None) -> Archive:
    """What the tab Archived shows: a page of 20, those of ids below `older_than` if given."""
    below = NO_ID_ABOVE if older_than is None else older_than
    found = await tx.all(DECIDED_CARDS, Card, below=below, limit=PAGE_ROWS + 1)
    cards = found[:PAGE_ROWS]
    return Archive(cards=cards, older_than=cards[-1].id if len(found) > PAGE_ROWS else None)


async def find_card(tx: Transaction, draft_id: int) -> Decided:
    """One card; raises NotFound for no draft and for somebody else's."""
    card = await tx.find(FIND_CARD, Card, draft_id=draft_id)
    if card is None:
        raise NotFound(f"There is no draft {draft_id}.")
    return Decided(card=card, refusal=None, now=tx.now)


async def decide_card(tx: Transaction, command: Approve | Reject) -> Decided:
    """Decide as the card asks, and show the card as it is after.

    What `approve` and `reject` refuse is told beside the fresh card, not raised: the person decided
    on something that is not so any more. Raises NotFound alone.
    """
    refusal: Refused | None = None
    try:
        if isinstance(command, Approve):
            await approve(tx, command)
        else:
            await reject(tx, command)
    except Refused as told:
        refusal = told
    return attrs.evolve(await find_card(tx, command.draft_id), refusal=refusal)
