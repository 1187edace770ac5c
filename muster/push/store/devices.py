"""Devices, quiet hours, and the key by which push services know this muster.

Lock order: a device, then its pushes. So what came of a push is written, and a device removed, in
turn; planning and taking lock pushes alone, and pass by those that somebody holds.
"""

import base64
from collections.abc import Sequence
from datetime import datetime

import attrs

from muster.outcomes import Hint, HintKind
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.push.rules.devices import Device, DeviceView, NewDevice
from muster.push.rules.hours import QuietHours
from muster.push.rules.words import Kind


@attrs.frozen(kw_only=True)
class HoursRow:
    """An owner's time zone and quiet hours."""

    time_zone: str
    from_minute: int | None
    until_minute: int | None

    @property
    def hours(self) -> QuietHours | None:
        """The hours, if there are any."""
        if self.from_minute is None or self.until_minute is None:
            return None
        return QuietHours(from_minute=self.from_minute, until_minute=self.until_minute)


FIND_HOURS = Query("""
    select u.time_zone, q.from_minute, q.until_minute
    from users u left join push_quiet_hours q on q.owner_id = u.id
    where u.id = %(owner_id)s
""")


async def find_hours(tx: Transaction) -> HoursRow:
    """The owner's clock and quiet hours."""
    return await tx.one(FIND_HOURS, HoursRow)


SET_HOURS = Query("""
    insert into push_quiet_hours (owner_id, from_minute, until_minute)
    values (%(owner_id)s, %(from_minute)s, %(until_minute)s)
    on conflict (owner_id) do update
    set from_minute = excluded.from_minute, until_minute = excluded.until_minute
""")
DROP_HOURS = Query("delete from push_quiet_hours where owner_id = %(owner_id)s")


async def set_hours(tx: Transaction, hours: QuietHours | None) -> None:
    """Write the owner's quiet hours, or that there are none."""
    if hours is None:
        await tx.execute(DROP_HOURS)
        return
    await tx.execute(SET_HOURS, from_minute=hours.from_minute, until_minute=hours.until_minute)


COUNT_OTHERS = Query("""
    select count(*) from push_devices
    where owner_id = %(owner_id)s and removed_at is null
      and (sink, url, topic) <> (%(sink)s::text, %(url)s::text, %(topic)s::text)
""")


async def count_others(tx: Transaction, device: NewDevice) -> int:
    """How many devices the owner has that go to another place than this one."""
    count = await tx.scalar(
        COUNT_OTHERS, sink=device.sink, url=device.url, topic=device.topic
    )
    assert isinstance(count, int)
    return count


# A browser that subscribes again brings new keys for the endpoint that it has already.
UPSERT_DEVICE = Query("""
    insert into push_devices (owner_id, sink, name, url, topic, p256dh, auth, secret, kinds,
                              created_at, not_before)
    values (%(owner_id)s, %(sink)s, %(name)s, %(url)s, %(topic)s, %(p256dh)s, %(auth)s, %(secret)s,
            %(kinds)s, %(now)s, %(now)s)
    on conflict (owner_id, sink, url, topic) where removed_at is null
    do update set name = excluded.name, p256dh = excluded.p256dh, auth = excluded.auth,
                  secret = excluded.secret, not_before = excluded.not_before
    returning id
""")


async def upsert_device(tx: Transaction, device: NewDevice, kinds: Sequence[Kind]) -> int:
    """Write a device; one that goes to the same place gets its name and keys."""
    found = await tx.scalar(
        UPSERT_DEVICE,
        sink=device.sink,
        name=device.name,
        url=device.url,
        topic=device.topic,
        p256dh=device.p256dh,
        auth=device.auth,
        secret=device.secret,
        kinds=[kind.value for kind in kinds],
    )
    assert isinstance(found, int)
    return found


RENEW_DEVICE = Query("""
    update push_devices set url = %(url)s, p256dh = %(p256dh)s, auth = %(auth)s
    where owner_id = %(owner_id)s and sink = 'browser' and url = %(old_url)s and removed_at is null
      and not exists (
          select from push_devices o
          where o.owner_id = %(owner_id)s and o.sink = 'browser' and o.url = %(url)s
            and o.removed_at is null and o.url <> %(old_url)s
      )
    returning id
""")


async def renew_device(tx: Transaction, old_url: str, device: NewDevice) -> int | None:
    """Move a browser's device to a new subscription; None when there is no such device."""
    found: int | None = await tx.scalar(
        RENEW_DEVICE,
        old_url=old_url,
        url=device.url,
        p256dh=device.p256dh,
        auth=device.auth,
    )
    return found


FIND_DEVICE = Query("""
    select id, sink, url, topic, p256dh, auth, secret from push_devices
    where owner_id = %(owner_id)s and id = %(device_id)s and removed_at is null
""")


async def find_device(tx: Transaction, device_id: int) -> Device | None:
    """A device of the owner's that was not removed."""
    return await tx.find(FIND_DEVICE, Device, device_id=device_id)


LOCK_DEVICE = Query("""
    select id from push_devices where owner_id = %(owner_id)s and id = %(device_id)s
    for no key update
""")


async def lock_device(tx: Transaction, device_id: int) -> None:
    """Hold a device, removed or not, before pushes of it are waited for."""
    await tx.scalar(LOCK_DEVICE, device_id=device_id)


LIST_DEVICES = Query("""
    select d.id, d.sink, d.name, d.url, d.topic, d.kinds, d.created_at, d.last_success_at,
           d.last_error_at, d.last_error,
           exists (
               select from push_deliveries p
               where p.device_id = d.id and p.kind = 'test' and p.state = 'waiting'
           ) as testing
    from push_devices d
    where d.owner_id = %(owner_id)s and d.removed_at is null
    order by d.id
    limit %(limit)s
""")


async def list_devices(tx: Transaction, limit: int) -> list[DeviceView]:
    """The owner's devices, oldest first."""
    return await tx.all(LIST_DEVICES, DeviceView, limit=limit)


SET_KINDS = Query("""
    update push_devices set kinds = %(kinds)s
    where owner_id = %(owner_id)s and id = %(device_id)s and removed_at is null
    returning id
""")


async def set_kinds(tx: Transaction, device_id: int, kinds: Sequence[Kind]) -> int | None:
    """Write what a device is told of; None when there is no such device."""
    found: int | None = await tx.scalar(
        SET_KINDS, device_id=device_id, kinds=[kind.value for kind in kinds]
    )
    return found


NOTE_RESULT = Query("""
    update push_devices
    set last_success_at = coalesce(%(success_at)s::timestamptz, last_success_at),
        last_error_at = coalesce(%(error_at)s::timestamptz, last_error_at),
        last_error = coalesce(%(error)s::text, last_error),
        not_before = greatest(not_before, %(not_before)s::timestamptz)
    where owner_id = %(owner_id)s and id = %(device_id)s
""")


async def note_result(
    tx: Transaction, device_id: int, *, error: str | None, not_before: datetime
) -> None:
    """Write what came of a push to a device, and until when it asked to be left alone."""
    await tx.later(
        NOTE_RESULT,
        device_id=device_id,
        success_at=tx.now if error is None else None,
        error_at=tx.now if error is not None else None,
        error=error,
        not_before=not_before,
    )


REMOVE_DEVICE = Query("""
    update push_devices set removed_at = %(now)s, secret = null
    where owner_id = %(owner_id)s and id = %(device_id)s and removed_at is null
    returning id
""")
DROP_DELIVERIES = Query("""
    update push_deliveries
    set state = 'dropped', ended_at = %(now)s, leased_until = null, error = %(reason)s
    where owner_id = %(owner_id)s and device_id = %(device_id)s
      and state in ('waiting', 'sent', 'clearing')
""")


async def remove_device(tx: Transaction, device_id: int, reason: str) -> bool:
    """Remove a device and end its pushes; False when there is no such device."""
    if await tx.scalar(REMOVE_DEVICE, device_id=device_id) is None:
        return False
    await tx.execute(DROP_DELIVERIES, device_id=device_id, reason=reason)
    return True


FIND_KEY = Query("select private_key, public_key from push_keys where id = 1")
INSERT_KEY = Query("""
    insert into push_keys (id, private_key, public_key, created_at)
    values (1, %(private_key)s, %(public_key)s, %(now)s)
    on conflict (id) do nothing
""")


@attrs.frozen(kw_only=True)
class PushKey:
    """The pair by which push services know this muster: 32 and 65 bytes of P-256."""

    private_key: bytes = attrs.field(repr=False)
    public_key: bytes

    @property
    def spelled(self) -> str:
        """The public key as a browser takes it to subscribe."""
        return base64.urlsafe_b64encode(self.public_key).rstrip(b"=").decode()


async def find_key(tx: Transaction) -> PushKey | None:
    """The key, once there is one."""
    return await tx.find(FIND_KEY, PushKey)


async def insert_key(tx: Transaction, key: PushKey) -> None:
    """Write the key, unless another server was first."""
    await tx.execute(INSERT_KEY, private_key=key.private_key, public_key=key.public_key)


@attrs.frozen(kw_only=True)
class Listening:
    """An owner who has a device."""

    owner_id: int


LISTENING_MAX = 500
LIST_LISTENING = Query("""
    select d.owner_id from push_devices d
    join users u on u.id = d.owner_id and u.disabled_at is null
    where d.removed_at is null and d.owner_id > %(after_id)s
    group by d.owner_id
    order by d.owner_id
    limit %(limit)s
""")


async def list_listening(tx: Transaction, after_id: int) -> list[Listening]:
    """Enabled owners with a device, by id."""
    return await tx.all(LIST_LISTENING, Listening, after_id=after_id, limit=LISTENING_MAX)


def changed(tx: Transaction, device_id: int) -> Hint:
    """The hint that a device is not what it was, or that something waits for it."""
    return Hint(kind=HintKind.DEVICE_CHANGED, owner_id=tx.owner_id, id=device_id)
