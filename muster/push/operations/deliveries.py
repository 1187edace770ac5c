"""What the sending actor asks: what is to be pushed, the next push of a device, what came of it."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import attrs

from muster.outcomes import Changed, Fact
from muster.pg.database import Transaction
from muster.push.rules.deliveries import (
    Answer,
    Claim,
    Delivery,
    Over,
    Settle,
    State,
    Verdict,
    asked_seconds,
    decide,
    judge,
    spell,
)
from muster.push.rules.devices import Device, takes_silence
from muster.push.rules.hours import is_quiet, zone_of
from muster.push.rules.words import Kind, Note, words
from muster.push.store import deliveries as store
from muster.push.store import devices as device_store
from muster.push.store.deliveries import DeviceDue


@attrs.frozen(kw_only=True)
class Plan:
    """Write what is to be pushed; an open tab gets `grace_seconds` to show the item first."""

    grace_seconds: float = 0.0


@attrs.frozen(kw_only=True)
class Planned:
    """When each device that something waits for is due, as of `now`."""

    now: datetime
    due: Sequence[DeviceDue]


async def plan(tx: Transaction, command: Plan) -> Planned:
    """Write a push for what waits and has none, and end those whose item waits no more.

    Whoever runs it twice, here or on another server, writes nothing twice.
    """
    await store.insert_deliveries(tx, command.grace_seconds)
    for row in await store.lock_over(tx):
        over = Over(silent=takes_silence(row.url))
        outcome = decide(row, over, tx.now)
        if isinstance(outcome, Changed):
            await store.save(tx, outcome.row)
    due = await store.list_due(tx)
    return Planned(now=tx.now, due=due)


@attrs.frozen(kw_only=True)
class TakeNext:
    """Take the next push of a device; `shown` are the items that a visible tab shows."""

    device_id: int
    shown: frozenset[tuple[str, int]] = frozenset()


@attrs.frozen(kw_only=True)
class Taken:
    """A push to be sent now, under a lease: a note to show, or one to close."""

    delivery_id: int
    leased_until: datetime
    was: State
    device: Device = attrs.field(repr=False)
    note: Note
    kind: Kind
    item_id: int | None
    now: datetime

    @property
    def clears(self) -> bool:
        """Whether the note is to be closed."""
        return self.was is State.CLEARING


@attrs.frozen(kw_only=True)
class Passed:
    """A push that ended without being sent; there may be another one."""


async def take_next(tx: Transaction, command: TakeNext) -> Taken | Passed | None:
    """Take what a device is to be sent now; None when there is nothing, or it is quiet.

    Whether the item still waits, who wrote the message and whether it is quiet are read now, and
    not when the push was written.
    """
    clock = await device_store.find_hours(tx)
    quiet = is_quiet(clock.hours, zone_of(clock.time_zone), tx.now)
    row = await store.lock_next(tx, command.device_id, quiet=quiet)
    device = await device_store.find_device(tx, command.device_id)
    if row is None or device is None:
        return None
    if row.state is State.WAITING and not row.awaited:
        over = decide(row, Over(silent=takes_silence(device.url)), tx.now)
        await store.save(tx, over.row)
        return Passed()
    shown = row.item_id is not None and (row.kind.value, row.item_id) in command.shown
    outcome = decide(row, Claim(shown=shown), tx.now)
    await store.save(tx, outcome.row)
    if outcome.row.leased_until is None:
        return Passed()
    return Taken(
        delivery_id=row.id,
        leased_until=outcome.row.leased_until,
        was=row.state,
        device=device,
        note=words(row.kind, row.item_id, unverified=row.unverified),
        kind=row.kind,
        item_id=row.item_id,
        now=tx.now,
    )


@attrs.frozen(kw_only=True)
class SettlePush:
    """What came of sending a push; `chance` between 0 and 1 spreads retries."""

    taken: Taken
    answer: Answer
    chance: float


async def settle(tx: Transaction, command: SettlePush) -> Delivery | None:
    """Write what came of a push; None when its lease is another's by now.

    A device that is gone is removed, and leaves `push.device.removed`.
    """
    taken, sink = command.taken, command.taken.device.sink
    _, row = await tx.together(
        device_store.lock_device(tx, taken.device.id),
        store.lock_leased(tx, taken.delivery_id, taken.leased_until),
    )
    if row is None:
        return None
    how = Settle(was=taken.was, sink=sink, answer=command.answer, chance=command.chance)
    outcome = decide(row, how, tx.now)
    await store.save(tx, outcome.row)
    # What an older ntfy says to closing a notification says nothing of the device.
    if not taken.clears:
        await device_store.note_result(
            tx,
            row.device_id,
            error=spell(command.answer),
            not_before=tx.now + timedelta(seconds=asked_seconds(command.answer)),
        )
    if judge(sink, command.answer) is Verdict.GONE:
        await remove_gone(tx, row.device_id)
    elif row.kind is Kind.TEST:
        tx.hint(device_store.changed(tx, row.device_id))
    return outcome.row


async def remove_gone(tx: Transaction, device_id: int) -> None:
    """Remove a device whose push service says that it is no more."""
    if await device_store.remove_device(tx, device_id, "the device is gone"):
        await tx.record(
            Fact(
                action="push.device.removed",
                subject=f"device:{device_id}",
                data={"reason": "gone"},
            )
        )


async def forget(tx: Transaction, _command: None = None) -> None:
    """Drop rows of pushes that ended long ago."""
    await store.forget(tx)
