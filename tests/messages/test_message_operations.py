"""Looking messages up, locking them for a delivery, and whose they are."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

import pytest
import trio

from actors.testing import cancel_at_every_step
from muster.errors import NotFound
from muster.messages import operations as messages
from muster.messages.operations import ListMessages, Message, State
from muster.messages.rules import Complete, Fail, PutBack, Recover, decide
from muster.outcomes import Changed
from muster.pg.database import Transaction
from muster.pg.driver import DatabaseError
from muster.principals import Muster, Owner
from tests.support.barrier import collide
from tests.support.builders import (
    begin,
    get_message,
    make_agent,
    make_chief,
    make_message,
    make_plugin,
    move_message,
    read_audit,
    revoke,
)
from tests.support.cluster import SpiedDatabase, add_owner


async def test_listing(db: SpiedDatabase, owner: Owner) -> None:
    """Messages are listed newest first, by state and by plugin name, and never beyond a limit."""
    plugin = await make_plugin(db, owner, "mail")
    other = await make_plugin(db, owner, "chat")
    chief = await make_chief(db, owner)
    first = await make_message(db, plugin, delivered_to=chief)
    second = await make_message(db, plugin)
    third = await make_message(db, other)

    async def listed(command: ListMessages) -> list[int]:
        return [message.id for message in await db.run(owner, messages.list_messages, command)]

    assert await listed(ListMessages()) == [third.id, second.id, first.id]
    assert await listed(ListMessages(limit=1)) == [third.id]
    assert await listed(ListMessages(limit=0)) == []
    assert await listed(ListMessages(state=State.QUEUED)) == [third.id, second.id]
    assert await listed(ListMessages(state=State.DELIVERED)) == [first.id]
    assert await listed(ListMessages(plugin="mail")) == [second.id, first.id]
    assert await listed(ListMessages(plugin="mail", state=State.DELIVERED)) == [first.id]
    assert await listed(ListMessages(plugin="none")) == []


@pytest.mark.rule(70)
async def test_oldest_queued_of_live_plugins(db: SpiedDatabase, owner: Owner) -> None:
    """Next is the owner's oldest queued message, and none of a revoked plugin's."""
    plugin = await make_plugin(db, owner)
    other = await make_plugin(db, owner)
    chief = await make_chief(db, owner)
    muster = Muster(owner_id=owner.owner_id)

    async def find_next(tx: Transaction, _command: None) -> Message | None:
        return await messages.lock_next_queued(tx, chief.agent_id)

    assert await db.run(muster, find_next, None) is None
    first = await make_message(db, plugin)
    second = await make_message(db, other)
    third = await make_message(db, other)
    assert await db.run(muster, find_next, None) == first
    await move_message(db, second.id, begin(chief), owner_id=owner.owner_id)
    await revoke(db, owner, plugin)
    assert await db.run(muster, find_next, None) == third
    await move_message(db, second.id, PutBack(epoch=1), owner_id=owner.owner_id)
    found = await db.run(muster, find_next, None)
    assert found is not None
    assert (found.id, found.agent_id) == (second.id, None)


@pytest.mark.rule(216, 221, 222, 223)
async def test_recovery(db: SpiedDatabase, owner: Owner) -> None:
    """What a stop left delivering is found by its chief alone, and settled as recovered."""
    plugin = await make_plugin(db, owner)
    chief = await make_chief(db, owner)
    other = await make_agent(db, owner)
    message = await make_message(db, plugin)
    await move_message(db, message.id, begin(chief), owner_id=owner.owner_id)
    muster = Muster(owner_id=owner.owner_id)
    assert await db.run(muster, messages.lock_delivering, other.agent_id) == []
    (left,) = await db.run(muster, messages.lock_delivering, chief.agent_id)
    assert left.state is State.DELIVERING
    await move_message(db, left.id, Recover(), owner_id=owner.owner_id)
    assert await db.run(muster, messages.lock_delivering, chief.agent_id) == []
    (row,) = await read_audit(db, owner, "plugin.delivered")
    assert row.data["state"] == "unconfirmed"
    assert row.data["recovered"] is True
    assert (await get_message(db, owner, message.id)).settled_at is not None


@pytest.mark.rule(74)
async def test_one_turn_at_a_time_in_the_database(db: SpiedDatabase, owner: Owner) -> None:
    """The database refuses a second message that is being delivered to one agent."""
    plugin = await make_plugin(db, owner)
    chief = await make_chief(db, owner)
    first = await make_message(db, plugin)
    second = await make_message(db, plugin)
    await move_message(db, first.id, begin(chief), owner_id=owner.owner_id)
    with pytest.raises(DatabaseError):
        await move_message(db, second.id, begin(chief), owner_id=owner.owner_id)
    assert (await get_message(db, owner, second.id)).state is State.QUEUED


@pytest.mark.rule(74, 218)
async def test_one_of_ten_begins(db: SpiedDatabase, owner: Owner) -> None:
    """Ten deliveries that want one message at once hand it over once."""
    plugin = await make_plugin(db, owner)
    chief = await make_chief(db, owner)
    message = await make_message(db, plugin)

    async def try_begin(tx: Transaction, epoch: int) -> bool:
        locked = await messages.lock_message(tx, message.id)
        assert locked is not None
        outcome = decide(locked, begin(chief, epoch), tx.now)
        if isinstance(outcome, Changed):
            await messages.save(tx, outcome)
        return isinstance(outcome, Changed)

    muster = Muster(owner_id=owner.owner_id)
    outcomes = await collide(
        db, *((muster, partial(try_begin, epoch=epoch)) for epoch in range(1, 11))
    )
    assert sum(outcome is True for outcome in outcomes) == 1
    assert (await get_message(db, owner, message.id)).attempts == 1


@pytest.mark.rule(74)
async def test_the_oldest_goes_to_one(db: SpiedDatabase, owner: Owner) -> None:
    """Ten deliveries at once that look for the oldest queued message begin it once."""
    plugin = await make_plugin(db, owner)
    chief = await make_chief(db, owner)
    message = await make_message(db, plugin)

    async def begin_next(tx: Transaction) -> bool:
        found = await messages.lock_next_queued(tx, chief.agent_id)
        if found is None:
            return False
        outcome = decide(found, begin(chief), tx.now)
        assert isinstance(outcome, Changed)
        await messages.save(tx, outcome)
        return True

    muster = Muster(owner_id=owner.owner_id)
    outcomes = await collide(db, *[(muster, begin_next)] * 10)
    assert sum(outcome is True for outcome in outcomes) == 1
    assert (await get_message(db, owner, message.id)).attempts == 1


async def test_an_answer_against_a_recovery(db: SpiedDatabase, owner: Owner) -> None:
    """A turn's end and its recovery at once settle the message once, with one audit row."""
    plugin = await make_plugin(db, owner)
    chief = await make_chief(db, owner)
    muster = Muster(owner_id=owner.owner_id)
    for _ in range(5):
        message = await make_message(db, plugin)
        await move_message(db, message.id, begin(chief), owner_id=owner.owner_id)

        async def settle(
            tx: Transaction, command: Complete | Fail | Recover, message: Message = message
        ) -> bool:
            locked = await messages.lock_message(tx, message.id)
            assert locked is not None
            outcome = decide(locked, command, tx.now)
            if isinstance(outcome, Changed):
                await messages.save(tx, outcome)
            return isinstance(outcome, Changed)

        commands: list[Complete | Fail | Recover] = [Complete(epoch=1), Recover(), Fail(epoch=1)]
        outcomes = await collide(db, *((muster, partial(settle, command=c)) for c in commands))
        assert sum(outcome is True for outcome in outcomes) == 1
        rows = await read_audit(db, owner, "plugin.delivered")
        assert sum(row.subject == f"message:{message.id}" for row in rows) == 1


async def test_somebody_elses_messages(db: SpiedDatabase, owner: Owner) -> None:
    """Another owner finds nothing of one's messages by any verb."""
    plugin = await make_plugin(db, owner)
    chief = await make_chief(db, owner)
    queued = await make_message(db, plugin, external_id="x")
    running = await make_message(db, plugin)
    await move_message(db, running.id, begin(chief), owner_id=owner.owner_id)
    stranger = await add_owner(db)
    with pytest.raises(NotFound):
        await get_message(db, stranger, queued.id)
    looks: list[Callable[[Transaction], Awaitable[object]]] = [
        lambda tx: messages.lock_message(tx, queued.id),
        lambda tx: messages.lock_next_queued(tx, chief.agent_id),
        lambda tx: messages.lock_delivering(tx, chief.agent_id),
        lambda tx: messages.list_messages(tx, ListMessages()),
        lambda tx: messages.list_messages(tx, ListMessages(plugin=plugin.name)),
    ]
    for look in looks:
        async with db.transaction(stranger) as tx:
            assert not await look(tx)

    async def change() -> None:
        async with db.transaction(stranger) as tx:
            await messages.save(tx, Changed(row=queued))

    with pytest.raises(DatabaseError, match="division by zero"):
        await change()


async def test_moves_cancelled_anywhere(db: SpiedDatabase, owner: Owner) -> None:
    """A settling that is cancelled at any step is written with its audit row, or not at all."""
    plugin = await make_plugin(db, owner)
    chief = await make_chief(db, owner)
    tries = 0
    current: Message | None = None

    async def prepare() -> None:
        nonlocal current
        db.clock_offset += timedelta(hours=1)
        current = await make_message(db, plugin)
        await move_message(db, current.id, begin(chief), owner_id=owner.owner_id)

    async def attempt() -> None:
        nonlocal tries
        tries += 1
        assert current is not None
        await move_message(db, current.id, Complete(epoch=1), owner_id=owner.owner_id)

    async def check(completed: bool) -> None:
        assert current is not None
        with trio.CancelScope(shield=True):
            state = (await get_message(db, owner, current.id)).state
            rows = await read_audit(db, owner, "plugin.delivered")
            told = [row for row in rows if row.subject == f"message:{current.id}"]
            assert len(told) == (state is State.DELIVERED)
            assert state is State.DELIVERED or not completed
            if state is State.DELIVERED:
                await prepare()

    await prepare()
    assert await cancel_at_every_step(attempt, check) >= 4
