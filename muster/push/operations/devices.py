"""What an owner does with devices and quiet hours, and the key of this muster."""

import secrets
from collections.abc import Sequence

import attrs
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from muster.accounts.operations import lock_account
from muster.errors import Conflict, Invalid, NotFound, Refused
from muster.outcomes import Fact
from muster.pg.database import Transaction
from muster.push.rules.devices import (
    DEVICES_MAX,
    AddBrowser,
    AddNtfy,
    AddWebhook,
    DeviceView,
    NewDevice,
    check_browser,
    check_kinds,
    check_ntfy,
    check_webhook,
)
from muster.push.rules.hours import QuietHours
from muster.push.rules.words import CHOICES
from muster.push.store import deliveries as delivery_store
from muster.push.store import devices as store
from muster.push.store.devices import PushKey


async def add_browser(tx: Transaction, command: AddBrowser) -> int:
    """Add a browser; one that is there already gets the new keys. Raises Invalid, Refused."""
    device = check_browser(command)
    check_point(device.p256dh)
    return await _add(tx, device)


async def add_ntfy(tx: Transaction, command: AddNtfy) -> int:
    """Add a topic of an ntfy server. Raises Invalid, Refused."""
    return await _add(tx, check_ntfy(command))


async def add_webhook(tx: Transaction, command: AddWebhook) -> str:
    """Add a webhook; the answer is the secret that its pushes are signed with, told this once."""
    secret = secrets.token_urlsafe(32)
    await _add(tx, check_webhook(command, secret))
    return secret


async def _add(tx: Transaction, device: NewDevice) -> int:
    await lock_account(tx)
    if await store.count_others(tx, device) >= DEVICES_MAX:
        raise Refused(f"There are {DEVICES_MAX} devices already; remove one.", code="too_many")
    device_id = await store.upsert_device(tx, device, CHOICES)
    await tx.record(
        Fact(
            action="push.device.added",
            subject=f"device:{device_id}",
            data={"sink": device.sink.value, "name": device.name},
        )
    )
    return device_id


def check_point(key: bytes | None) -> None:
    """Raise Invalid for bytes that are no point of P-256: nothing could be encrypted for them."""
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), key or b"")
    except ValueError:
        raise Invalid("That is no subscription of a browser.", field="p256dh") from None


@attrs.frozen(kw_only=True)
class Renew:
    """A browser's push service gave it a new subscription in place of `old_url`."""

    old_url: str
    url: str
    p256dh: str
    auth: str


async def renew(tx: Transaction, command: Renew) -> None:
    """Move a browser's device to its new subscription. Raises Invalid, NotFound."""
    new = AddBrowser(name="renewed", url=command.url, p256dh=command.p256dh, auth=command.auth)
    device = check_browser(new)
    check_point(device.p256dh)
    device_id = await store.renew_device(tx, command.old_url, device)
    if device_id is None:
        raise NotFound("There is no such device.")
    await tx.record(Fact(action="push.device.renewed", subject=f"device:{device_id}"))


async def remove_device(tx: Transaction, device_id: int) -> None:
    """The owner removes a device. Leaves `push.device.removed`; raises NotFound."""
    if not await store.remove_device(tx, device_id, "the device was removed"):
        raise NotFound("There is no such device.")
    await tx.record(
        Fact(
            action="push.device.removed",
            subject=f"device:{device_id}",
            data={"reason": "owner"},
        )
    )


async def test_device(tx: Transaction, device_id: int) -> None:
    """Push a test to a device, in quiet hours too. Raises NotFound, Conflict while one waits."""
    if await store.find_device(tx, device_id) is None:
        raise NotFound("There is no such device.")
    if await delivery_store.insert_test(tx, device_id) is None:
        raise Conflict("A test is on its way to this device.", code="test_waits")
    tx.hint(store.changed(tx, device_id))


@attrs.frozen(kw_only=True)
class SetKinds:
    """What a device is told of: names out of draft, ask, task."""

    device_id: int
    kinds: frozenset[str]


async def set_kinds(tx: Transaction, command: SetKinds) -> None:
    """Choose what a device is told of. Raises Invalid, NotFound."""
    kinds = check_kinds(command.kinds)
    if await store.set_kinds(tx, command.device_id, kinds) is None:
        raise NotFound("There is no such device.")
    tx.hint(store.changed(tx, command.device_id))


async def set_quiet_hours(tx: Transaction, hours: QuietHours | None) -> None:
    """Set the owner's quiet hours, on their own clock; None: there are none."""
    await store.set_hours(tx, hours)
    for device in await store.list_devices(tx, 1):
        tx.hint(store.changed(tx, device.id))


@attrs.frozen(kw_only=True)
class Notified:
    """How an owner is told: where, and when not."""

    devices: Sequence[DeviceView]
    hours: QuietHours | None
    time_zone: str


async def get_notified(tx: Transaction, _command: None = None) -> Notified:
    """The owner's devices and quiet hours."""
    devices = await store.list_devices(tx, DEVICES_MAX)
    clock = await store.find_hours(tx)
    return Notified(devices=devices, hours=clock.hours, time_zone=clock.time_zone)


async def list_listening(tx: Transaction, after_id: int) -> list[int]:
    """As System: the next owners after this one, by id, who are there and have a device."""
    return [row.owner_id for row in await store.list_listening(tx, after_id)]


async def push_key(tx: Transaction, _command: None = None) -> PushKey:
    """As Node: the key of this muster, made at the first need; servers of one database share it."""
    key = await store.find_key(tx)
    if key is None:
        await store.insert_key(tx, _new_key())
        key = await store.find_key(tx)
    assert key is not None
    return key


def _new_key() -> PushKey:
    private = ec.generate_private_key(ec.SECP256R1())
    return PushKey(
        private_key=private.private_numbers().private_value.to_bytes(32, "big"),
        public_key=private.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        ),
    )
