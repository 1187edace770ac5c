"""Routes by the clock: which of them the sweep has to look at, across owners and of one.

What looks across owners runs as System and sees ids, states and times alone.
"""

import attrs

from muster.pg.database import Transaction
from muster.pg.query import Query

REASONS = {
    "cancelled": "its text was taken out of the queue",
    "refused": "its text was refused at the paste",
    "lost": "its text did not arrive",
}
GONE = "no online window shows its session any more"


@attrs.frozen(kw_only=True)
class DueRoute:
    """A route that is due."""

    owner_id: int
    route_id: int


@attrs.frozen(kw_only=True)
class UnpastedRoute:
    """A waiting route whose text ended without being pasted, and how."""

    owner_id: int
    route_id: int
    send_state: str


@attrs.frozen(kw_only=True)
class DueOwner:
    """An owner of whom routed texts wait."""

    owner_id: int


FIND_OVERDUE = Query("""
    select owner_id, id as route_id from session_routes
    where state = 'routed' and deadline_at <= %(now)s order by deadline_at, id limit %(limit)s
""")


async def find_overdue(tx: Transaction, limit: int) -> list[DueRoute]:
    """Routes that waited until their deadline."""
    return await tx.all(FIND_OVERDUE, DueRoute, limit=limit)


FIND_UNPASTED = Query("""
    select r.owner_id, r.id as route_id, s.state as send_state
    from session_routes r join sends s on s.route_id = r.id
    where r.state = 'routed' and s.state in ('cancelled', 'refused', 'lost')
    order by r.id limit %(limit)s
""")


async def find_unpasted(tx: Transaction, limit: int) -> list[UnpastedRoute]:
    """Waiting routes whose text will not be pasted."""
    return await tx.all(FIND_UNPASTED, UnpastedRoute, limit=limit)


FIND_UNRELAYED = Query("""
    select owner_id, id as route_id from session_routes
    where state = 'answered' and relay_due_at <= %(now)s order by relay_due_at, id limit %(limit)s
""")


async def find_unrelayed(tx: Transaction, limit: int) -> list[DueRoute]:
    """Answers whose relay was cut off a minute ago or more."""
    return await tx.all(FIND_UNRELAYED, DueRoute, limit=limit)


FIND_OWED = Query("""
    select owner_id, id as route_id from session_routes
    where handback = 'owed' order by ended_at, id limit %(limit)s
""")


async def find_owed(tx: Transaction, limit: int) -> list[DueRoute]:
    """Routes whose chief is owed the message back."""
    return await tx.all(FIND_OWED, DueRoute, limit=limit)


@attrs.frozen(kw_only=True)
class FindOwners:
    """The next owners by their ids: a long queue of some keeps no other from being looked at."""

    after: int
    limit: int


# By sends_routed_idx, which holds what waits alone.
FIND_WAITING_OWNERS = Query("""
    select distinct owner_id from sends
    where state = 'queued' and route_id is not null and owner_id > %(after)s
    order by owner_id limit %(limit)s
""")


async def find_waiting_owners(tx: Transaction, command: FindOwners) -> list[DueOwner]:
    """Owners in whose queues routed texts wait."""
    return await tx.all(FIND_WAITING_OWNERS, DueOwner, after=command.after, limit=command.limit)
