"""What the sweeps of sessions look for across owners, as System: ids and owners, never a text."""

# ruff: noqa: S608 - what is put into the statements is a constant of this room

import attrs

from muster.mirror.send_rules import OFFERED_FOR
from muster.mirror.store import AGAINST, REMEMBERED
from muster.pg.database import Transaction
from muster.pg.query import Query


@attrs.frozen(kw_only=True)
class DueOwner:
    """An owner of whom something is due."""

    owner_id: int


@attrs.frozen(kw_only=True)
class DueSend:
    """A text of a queue that is due."""

    owner_id: int
    send_id: int


@attrs.frozen(kw_only=True)
class FindRefused:
    """Whose texts are to be refused now, whatever their sessions do."""

    stepup_window_seconds: int
    limit: int


FIND_REFUSED = Query(f"""
    select distinct s.owner_id from sends s join users u on u.id = s.owner_id
    where s.state = 'queued' and {AGAINST} is not null
    order by s.owner_id limit %(limit)s
""")


async def find_refused(tx: Transaction, command: FindRefused) -> list[DueOwner]:
    """Owners in whose queues something waits that would be refused at its paste."""
    return await tx.all(
        FIND_REFUSED,
        DueOwner,
        stepup_window_seconds=command.stepup_window_seconds,
        limit=command.limit,
    )


FIND_LAPSED = Query("""
    select owner_id, id as send_id from sends
    where state = 'offered' and offered_at <= %(now)s - %(offered_for)s::interval
    order by id limit %(limit)s
""")


async def find_lapsed(tx: Transaction, limit: int) -> list[DueSend]:
    """Texts that a host was handed OFFERED_FOR ago and told nothing of."""
    return await tx.all(FIND_LAPSED, DueSend, offered_for=OFFERED_FOR, limit=limit)


FIND_UNASKED = Query("""
    select owner_id, id as send_id from sends
    where state = 'unconfirmed' and ask_id is null
    order by id limit %(limit)s
""")


async def find_unasked(tx: Transaction, limit: int) -> list[DueSend]:
    """Unconfirmed texts of whom nobody was asked: their owner had too many asks open."""
    return await tx.all(FIND_UNASKED, DueSend, limit=limit)


FIND_OLD_FOCUS = Query("""
    select distinct owner_id from (
        select owner_id from focus_titles
        where noted_at < %(now)s - interval '30 days' order by noted_at limit %(limit)s
    ) old
""")


async def find_old_focus(tx: Transaction, limit: int) -> list[DueOwner]:
    """Owners of titles that are older than FOCUS_KEPT."""
    return await tx.all(FIND_OLD_FOCUS, DueOwner, limit=limit)


FIND_FORGOTTEN = Query(f"""
    select distinct h.owner_id from hosts h
    where not {REMEMBERED}
      and exists (select from windows w where w.owner_id = h.owner_id and w.host_id = h.id)
    order by h.owner_id limit %(limit)s
""")


async def find_forgotten(tx: Transaction, limit: int) -> list[DueOwner]:
    """Owners of hosts that are gone for longer than REMEMBERED, with the windows they listed."""
    return await tx.all(FIND_FORGOTTEN, DueOwner, limit=limit)
