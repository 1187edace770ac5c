"""What the sweeps look for across owners, as System: ids, owners and plugins, never a text.

Each list is a place to look: the rows are judged again, locked, by the operation that is run for
each of them as its owner.
"""

import attrs

from muster.pg.database import Transaction
from muster.pg.query import Query


@attrs.frozen(kw_only=True)
class Due:
    """A draft whose time is over."""

    owner_id: int
    draft_id: int


@attrs.frozen(kw_only=True)
class Claimable:
    """A plugin for which an approved reply waits."""

    owner_id: int
    plugin_id: int


DUE_LAPSES = Query("""
    select owner_id, id as draft_id from drafts
    where state = 'approved' and claimed_at is not null and lease_expires_at <= %(now)s
    order by lease_expires_at
    limit %(limit)s
""")


async def due_lapses(tx: Transaction, limit: int) -> list[Due]:
    """Claims whose two minutes are over and that no sweep wrote yet, oldest first."""
    return await tx.all(DUE_LAPSES, Due, limit=limit)


DUE_EXPIRIES = Query("""
    select owner_id, id as draft_id from drafts
    where state in ('pending', 'approved') and claimed_at is null and expires_at <= %(now)s
    order by expires_at
    limit %(limit)s
""")


async def due_expiries(tx: Transaction, limit: int) -> list[Due]:
    """Drafts that were not sent within seven days and that no sweep wrote yet, oldest first."""
    return await tx.all(DUE_EXPIRIES, Due, limit=limit)


@attrs.frozen(kw_only=True)
class FindClaimable:
    """Which of these plugins have an approved reply to collect? At most `limit` of them.

    None that was approved within the last second: its hint is on its way, and wakes one claim.
    """

    plugin_ids: list[int]
    limit: int


FIND_CLAIMABLE = Query("""
    select d.owner_id, d.plugin_id from drafts d
    where d.plugin_id = any(%(plugin_ids)s)
      and d.state = 'approved' and d.claimed_at is null and d.expires_at > %(now)s
      and d.approved_at <= %(now)s - interval '1 second'
      and exists (select from plugins p where p.id = d.plugin_id and p.revoked_at is null)
      and exists (select from users u where u.id = d.owner_id and u.disabled_at is null)
    group by d.owner_id, d.plugin_id
    order by min(d.approved_at)
    limit %(limit)s
""")


async def find_claimable(tx: Transaction, command: FindClaimable) -> list[Claimable]:
    """Those plugins for which an approved reply waits, longest waiting first."""
    return await tx.all(
        FIND_CLAIMABLE, Claimable, plugin_ids=command.plugin_ids, limit=command.limit
    )
