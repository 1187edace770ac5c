"""What the sweep of asks looks for across owners, as System: ids and owners, never a text."""

import attrs

from muster.pg.database import Transaction
from muster.pg.query import Query


@attrs.frozen(kw_only=True)
class DueAsk:
    """An ask whose day is over."""

    owner_id: int
    ask_id: int


DUE_EXPIRIES = Query("""
    select owner_id, id as ask_id from asks
    where state = 'open' and expires_at <= %(now)s
    order by expires_at
    limit %(limit)s
""")


async def due_expiries(tx: Transaction, limit: int) -> list[DueAsk]:
    """Asks whose day is over and that no sweep wrote yet, oldest first."""
    return await tx.all(DUE_EXPIRIES, DueAsk, limit=limit)
