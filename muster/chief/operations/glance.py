"""What the frame of every page shows: how much waits for the owner, and whether they have hosts."""

import attrs

from muster.pg.database import Transaction
from muster.pg.query import Query


@attrs.frozen(kw_only=True)
class Counts:
    """How many asks are open and how many reply drafts await a decision, by the clock.

    `hosts` is whether any machine mirrors for the owner, or ever did.
    """

    asks: int
    drafts: int
    hosts: bool

    @property
    def total(self) -> int:
        """All that waits."""
        return self.asks + self.drafts


# An agent has 20 pending drafts at most, found by drafts_pending_idx, and an owner 50 open asks by
# asks_open_idx: no listing is walked.
COUNT_WAITING = Query("""
    select
        (
            select count(*) from asks k
            where k.owner_id = %(owner_id)s and k.state = 'open' and k.expires_at > %(now)s
        ) as asks,
        (
            select count(*) from agents a
            join drafts d on d.agent_id = a.id and d.state = 'pending' and d.expires_at > %(now)s
            where a.owner_id = %(owner_id)s
        ) as drafts,
        exists (select from hosts h where h.owner_id = %(owner_id)s) as hosts
""")


async def count_waiting(tx: Transaction) -> Counts:
    """Count what awaits the owner's word now."""
    return await tx.one(COUNT_WAITING, Counts)
