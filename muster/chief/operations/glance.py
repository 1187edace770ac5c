"""How much waits for the owner: the number beside Attention on every page."""

from muster.pg.database import Transaction
from muster.pg.query import Query

# An agent has 20 pending drafts at most, found by drafts_pending_idx: no owner's listing is walked.
COUNT_WAITING = Query("""
    select count(*) from agents a
    join drafts d on d.agent_id = a.id and d.state = 'pending' and d.expires_at > %(now)s
    where a.owner_id = %(owner_id)s
""")


async def count_waiting(tx: Transaction) -> int:
    """How many reply drafts await the owner's decision now."""
    count = await tx.scalar(COUNT_WAITING)
    assert isinstance(count, int)
    return count
