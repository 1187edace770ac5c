"""Pushes: what waits, what was written for it, and whose turn it is to send."""

from datetime import datetime

import attrs

from muster.outcomes import Changed
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.push.rules.deliveries import KEPT, NEWS, Delivery

BATCH = 200

# Who comes second, on this server or another, finds the row there and writes none.
INSERT_DELIVERIES = Query("""
    insert into push_deliveries (owner_id, device_id, kind, item_id, state, created_at, due_at,
                                 attempts)
    select d.owner_id, d.id, i.kind, i.item_id, 'waiting', %(now)s,
           %(now)s + make_interval(secs => %(grace_seconds)s), 0
    from push_devices d
    join push_items i on i.owner_id = d.owner_id and i.created_at >= d.created_at
                     and i.kind = any(d.kinds)
    where d.owner_id = %(owner_id)s and d.removed_at is null
      and i.expires_at > %(now)s and i.created_at > %(now)s - %(news)s::interval
      and not exists (
          select from push_deliveries p
          where p.device_id = d.id and p.kind = i.kind and p.item_id = i.item_id
            and p.kind <> 'test'
      )
    order by d.id, i.kind, i.item_id
    limit %(limit)s
    on conflict do nothing
""")


async def insert_deliveries(tx: Transaction, grace_seconds: float) -> int:
    """Write a push for each thing that waits and each device that has none of it yet."""
    return await tx.execute(
        INSERT_DELIVERIES, grace_seconds=grace_seconds, news=NEWS, limit=BATCH
    )


DELIVERY = """p.id, p.owner_id, p.device_id, p.kind, p.item_id, p.state, p.created_at, p.due_at,
    p.attempts, p.leased_until, p.sent_at, p.ended_at, p.error"""
# Whether somebody still wants to be told: the item waits, and the device is told of its kind.
AWAITED = """(p.kind = 'test' or p.kind = any(d.kinds) and exists (
        select from push_items i
        where i.owner_id = p.owner_id and i.kind = p.kind and i.item_id = p.item_id
          and i.expires_at > %(now)s
    ))"""


@attrs.frozen(kw_only=True)
class OverRow(Delivery):
    """A push whose item waits no more, with what its device is."""

    url: str


# Those that another server has in hand are left to it.
LOCK_OVER = Query(f"""
    select {DELIVERY}, d.url
    from push_deliveries p
    join push_devices d on d.owner_id = p.owner_id and d.id = p.device_id
    where p.owner_id = %(owner_id)s and p.state in ('waiting', 'sent') and not {AWAITED}
    order by p.id
    limit %(limit)s
    for update of p skip locked
""")  # noqa: S608 - constants of this module


async def lock_over(tx: Transaction) -> list[OverRow]:
    """Pushes that are over and not written so yet, locked."""
    return await tx.all(LOCK_OVER, OverRow, limit=BATCH)


@attrs.frozen(kw_only=True)
class DeviceDue:
    """A device that something is to be sent to, and when the first of it is due."""

    device_id: int
    due_at: datetime


LIST_DUE = Query("""
    select p.device_id, min(greatest(p.due_at, p.leased_until, d.not_before)) as due_at
    from push_deliveries p
    join push_devices d on d.owner_id = p.owner_id and d.id = p.device_id
    where p.owner_id = %(owner_id)s and p.state in ('waiting', 'clearing')
      and d.removed_at is null
    group by p.device_id
    order by due_at
""")


async def list_due(tx: Transaction) -> list[DeviceDue]:
    """The owner's devices that something is to be sent to, whether now or later."""
    return await tx.all(LIST_DUE, DeviceDue)


@attrs.frozen(kw_only=True)
class NextRow(Delivery):
    """What is to be sent to a device next."""

    awaited: bool
    unverified: bool


# A quiet owner is sent tests, which they asked for, and what closes a notification without a sound.
LOCK_NEXT = Query(f"""
    select {DELIVERY}, {AWAITED} as awaited,
           p.kind = 'draft' and exists (
               select from drafts x
               join messages m on m.owner_id = x.owner_id and m.id = x.message_id
               where x.owner_id = p.owner_id and x.id = p.item_id and not m.sender_verified
           ) as unverified
    from push_deliveries p
    join push_devices d on d.owner_id = p.owner_id and d.id = p.device_id
    where p.owner_id = %(owner_id)s and p.device_id = %(device_id)s
      and p.state in ('waiting', 'clearing') and p.due_at <= %(now)s
      and (p.leased_until is null or p.leased_until <= %(now)s)
      and (p.state = 'clearing' or p.kind = 'test' or not %(quiet)s::boolean)
      and d.removed_at is null and d.not_before <= %(now)s
      and exists (select from users u where u.id = p.owner_id and u.disabled_at is null)
    order by p.due_at, p.id
    limit 1
    for update of p skip locked
""")  # noqa: S608 - constants of this module


async def lock_next(tx: Transaction, device_id: int, *, quiet: bool) -> NextRow | None:
    """What the device is to be sent now, locked; None while there is nothing."""
    return await tx.find(LOCK_NEXT, NextRow, device_id=device_id, quiet=quiet)


LOCK_LEASED = Query(f"""
    select {DELIVERY} from push_deliveries p
    where p.owner_id = %(owner_id)s and p.id = %(delivery_id)s
      and p.leased_until = %(leased_until)s
    for update
""")  # noqa: S608 - constants of this module


async def lock_leased(
    tx: Transaction, delivery_id: int, leased_until: datetime
) -> Delivery | None:
    """The push, locked, if this lease is still the one that it is sent under."""
    return await tx.find(
        LOCK_LEASED, Delivery, delivery_id=delivery_id, leased_until=leased_until
    )


SAVE = Query("""
    update push_deliveries
    set state = %(state)s, due_at = %(due_at)s, attempts = %(attempts)s,
        leased_until = %(leased_until)s, sent_at = %(sent_at)s, ended_at = %(ended_at)s,
        error = %(error)s
    where owner_id = %(owner_id)s and id = %(id)s
""")


async def save(tx: Transaction, delivery: Delivery) -> None:
    """Write a push whose row is locked."""
    await tx.save(SAVE, Changed(row=delivery))


INSERT_TEST = Query("""
    insert into push_deliveries (owner_id, device_id, kind, state, created_at, due_at, attempts)
    select owner_id, id, 'test', 'waiting', %(now)s, %(now)s, 0 from push_devices
    where owner_id = %(owner_id)s and id = %(device_id)s and removed_at is null
    on conflict do nothing
    returning id
""")


async def insert_test(tx: Transaction, device_id: int) -> int | None:
    """Write a test push; None while one waits already."""
    found: int | None = await tx.scalar(INSERT_TEST, device_id=device_id)
    return found


FORGET = Query("""
    delete from push_deliveries
    where owner_id = %(owner_id)s and ended_at < %(now)s - %(kept)s::interval
""")


async def forget(tx: Transaction) -> None:
    """Drop rows that ended long ago: longer than anything waits, or it would be pushed anew."""
    await tx.later(FORGET, kept=KEPT)
