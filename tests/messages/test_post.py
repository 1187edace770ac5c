"""Posting a message: idempotency, allowances, what is stored and recorded."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import trio

from actors.testing import cancel_at_every_step
from muster.errors import Invalid, TooMany, Unauthorized
from muster.messages.operations import ListMessages, Post, Posted, State, list_messages, post
from muster.messages.rules import Complete, Fail
from muster.outcomes import HintKind
from muster.pg.driver import DatabaseError
from muster.pg.query import Query
from muster.principals import Owner, Plugin
from tests.support.barrier import collide
from tests.support.builders import (
    begin,
    get_message,
    make_chief,
    make_plugin,
    move_message,
    read_audit,
    revoke,
)
from tests.support.cluster import SpiedDatabase, add_owner

SECOND = timedelta(seconds=1)


async def send(db: SpiedDatabase, plugin: Plugin, external_id: str) -> Posted:
    """Post a small message."""
    return await db.run(plugin, post, Post(external_id=external_id, body="hello"))


async def send_many(db: SpiedDatabase, plugin: Plugin, count: int, start: int = 0) -> None:
    """Post messages one after the other."""
    for number in range(start, start + count):
        assert (await send(db, plugin, f"m{number}")).created


@pytest.mark.rule(24, 29, 30, 31, 32, 33)
async def test_stored_as_posted(db: SpiedDatabase, owner: Owner) -> None:
    """A new message is stored as it was posted, queued, with a hint and an audit row."""
    plugin = await make_plugin(db, owner)
    full = Post(
        external_id="<1@example.test>",
        body="line one\nline two \U0001f600\x01",
        sender="Ada",
        subject="",
        received_at=datetime(2000, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        no_reply=True,
        sender_verified=True,
        thread="t-1",
        human_conversation=True,
    )
    posted = await db.run(plugin, post, full)
    assert (posted.status, posted.created) == ("queued", True)
    stored = await get_message(db, plugin, posted.id)
    for field in Post.__attrs_attrs__:
        assert getattr(stored, field.name) == getattr(full, field.name)
    assert (stored.state, stored.attempts, stored.agent_id) == (State.QUEUED, 0, None)
    assert db.published[-1].kind is HintKind.MESSAGE_QUEUED
    assert db.published[-1].id == posted.id
    (row,) = await read_audit(db, owner, "plugin.message")
    assert (row.action, row.subject) == ("plugin.message.received", f"message:{posted.id}")
    assert row.actor == plugin.actor

    small = await get_message(db, plugin, (await send(db, plugin, "small")).id)
    assert (small.no_reply, small.sender_verified, small.human_conversation) == (False,) * 3
    assert (small.sender, small.subject, small.received_at, small.thread) == (None,) * 4


@pytest.mark.rule(24, 34, 35)
async def test_repeat(db: SpiedDatabase, owner: Owner) -> None:
    """A repeat is answered from what is stored, whatever it says, through every state."""
    plugin = await make_plugin(db, owner)
    chief = await make_chief(db, owner)
    first = await send(db, plugin, "x")
    hints = len(db.published)
    other = Post(external_id="x", body="another text", no_reply=True)
    assert await db.run(plugin, post, other) == Posted(id=first.id, status="queued", created=False)
    owner_id = owner.owner_id
    await move_message(db, first.id, begin(chief), owner_id=owner_id)
    assert (await db.run(plugin, post, other)).status == "queued"
    await move_message(db, first.id, Complete(epoch=1), owner_id=owner_id)
    assert (await db.run(plugin, post, other)).status == "delivered"
    second = await send(db, plugin, "y")
    await move_message(db, second.id, begin(chief), owner_id=owner_id)
    await move_message(db, second.id, Fail(epoch=1), owner_id=owner_id)
    repeated = await db.run(plugin, post, Post(external_id="y", body="b"))
    assert (repeated.status, repeated.created) == ("unconfirmed", False)
    stored = await get_message(db, plugin, first.id)
    assert (stored.body, stored.no_reply) == ("hello", False)
    assert len(await db.run(owner, list_messages, ListMessages())) == 2
    assert len(db.published) == hints + 1


@pytest.mark.rule(24)
async def test_ids_are_the_plugins_own(db: SpiedDatabase, owner: Owner) -> None:
    """Two plugins, of one owner or two, may use one external id; case and form tell ids apart."""
    ids = set()
    stranger = await add_owner(db)
    for person in (owner, owner, stranger):
        ids.add((await send(db, await make_plugin(db, person), "same")).id)
    plugin = await make_plugin(db, owner)
    for external_id in ("é", "e\u0301", "É"):
        ids.add((await send(db, plugin, external_id)).id)
    assert len(ids) == 6


@pytest.mark.rule(37, 39, 43)
async def test_sixty_an_hour(db: SpiedDatabase, owner: Owner) -> None:
    """The 61st new message of an hour waits just until the oldest is an hour old."""
    plugin = await make_plugin(db, owner)
    await send_many(db, plugin, 20)
    db.clock_offset = timedelta(minutes=10)
    await send_many(db, plugin, 40, start=20)
    db.clock_offset = timedelta(minutes=59)
    with pytest.raises(TooMany) as full:
        await send(db, plugin, "m60")
    wait = full.value.retry_after_seconds
    assert 55 <= wait <= 60
    assert (await send(db, plugin, "m59")).created is False
    assert (await send(db, await make_plugin(db, owner), "m60")).created
    db.clock_offset += wait * SECOND
    assert (await send(db, plugin, "m60")).created
    # The first twenty are not equally old, so the next one is a moment away, and no more.
    db.clock_offset += timedelta(seconds=30)
    await send_many(db, plugin, 19, start=61)
    with pytest.raises(TooMany) as full:
        await send(db, plugin, "m80")
    assert 500 <= full.value.retry_after_seconds <= 600
    assert len(await db.run(owner, list_messages, ListMessages(limit=1000))) == 81


@pytest.mark.rule(38, 39, 43)
async def test_two_hundred_undelivered(db: SpiedDatabase, owner: Owner) -> None:
    """With 200 messages queued or delivering the next one waits; a repeat is still answered."""
    plugin = await make_plugin(db, owner)
    chief = await make_chief(db, owner)
    for round_number in range(5):
        db.clock_offset = timedelta(hours=2 * round_number)
        await send_many(db, plugin, 40, start=40 * round_number)
    (newest,) = await db.run(owner, list_messages, ListMessages(limit=1))
    await move_message(db, newest.id, begin(chief), owner_id=owner.owner_id)
    db.clock_offset = timedelta(hours=24)
    with pytest.raises(TooMany) as full:
        await send(db, plugin, "one-more")
    assert full.value.retry_after_seconds == 60
    assert (await send(db, plugin, "m0")).created is False
    assert (await send(db, await make_plugin(db, owner), "one-more")).created
    await move_message(db, newest.id, Complete(epoch=1), owner_id=owner.owner_id)
    assert (await send(db, plugin, "one-more")).created
    with pytest.raises(TooMany):
        await send(db, plugin, "another")


@pytest.mark.rule(37)
async def test_the_sixtieth_goes_to_one(db: SpiedDatabase, owner: Owner) -> None:
    """Ten posts at once with one place left in the hour store one message."""
    plugin = await make_plugin(db, owner)
    await send_many(db, plugin, 59)
    posts = [Post(external_id=f"race-{number}", body="x") for number in range(10)]
    outcomes = await collide(db, *((plugin, partial(post, command=each)) for each in posts))
    assert sum(isinstance(outcome, Posted) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, TooMany) for outcome in outcomes) == 9


@pytest.mark.rule(24, 34)
async def test_one_id_at_once(db: SpiedDatabase, owner: Owner) -> None:
    """Ten posts of one new id at once store it once, and all are told the same message."""
    plugin = await make_plugin(db, owner)
    command = Post(external_id="same", body="x")
    outcomes = await collide(db, *[(plugin, partial(post, command=command))] * 10)
    posted = [outcome for outcome in outcomes if isinstance(outcome, Posted)]
    assert len(posted) == 10
    assert len({outcome.id for outcome in posted}) == 1
    assert sum(outcome.created for outcome in posted) == 1
    assert len(await read_audit(db, owner, "plugin.message")) == 1


async def test_shape_comes_before_the_repeat(db: SpiedDatabase, owner: Owner) -> None:
    """A repeat with a broken field is refused for the field."""
    plugin = await make_plugin(db, owner)
    await send(db, plugin, "x")
    with pytest.raises(Invalid):
        await db.run(plugin, post, Post(external_id="x", body=""))


@pytest.mark.rule(20)
async def test_revoked_plugin_posts_nothing(db: SpiedDatabase, owner: Owner) -> None:
    """A post that was let in before its plugin's end and runs after it stores nothing."""
    plugin = await make_plugin(db, owner)
    await revoke(db, owner, plugin)
    with pytest.raises(Unauthorized):
        await send(db, plugin, "x")
    assert await db.run(owner, list_messages, ListMessages()) == []


async def test_post_cancelled_anywhere(db: SpiedDatabase, owner: Owner) -> None:
    """A post that is cancelled at any step is stored with its audit row and hint, or not at all."""
    plugin = await make_plugin(db, owner)
    tries = 0
    stored: set[str] = set()

    async def attempt() -> None:
        nonlocal tries
        tries += 1
        db.published.clear()
        await send(db, plugin, f"x{tries}")

    async def check(completed: bool) -> None:
        with trio.CancelScope(shield=True):
            rows = await db.run(owner, list_messages, ListMessages(limit=500))
            audit = await read_audit(db, owner, "plugin.message")
        now_stored = {row.external_id for row in rows}
        assert [f"message:{row.id}" for row in reversed(rows)] == [row.subject for row in audit]
        new = now_stored - stored
        assert new <= {f"x{tries}"}
        assert bool(new) == bool(db.published)
        assert new or not completed
        stored.update(new)
        if len(stored) % 50 == 49:
            db.clock_offset += timedelta(hours=1)

    assert await cancel_at_every_step(attempt, check) >= 4


@pytest.mark.rule(48, 52)
@pytest.mark.parametrize("column", ["no_reply", "sender_verified"])
async def test_marks_are_kept_by_the_database(db: SpiedDatabase, owner: Owner, column: str) -> None:
    """The database refuses to change a stored mark, whatever writes it."""
    plugin = await make_plugin(db, owner)
    posted = await send(db, plugin, "x")
    queries = {
        "no_reply": Query("update messages set no_reply = true where id = %(id)s"),
        "sender_verified": Query("update messages set sender_verified = true where id = %(id)s"),
    }
    with pytest.raises(DatabaseError):
        async with db.transaction(owner) as tx:
            await tx.execute(queries[column], id=posted.id)
    stored = await get_message(db, owner, posted.id)
    assert (stored.no_reply, stored.sender_verified) == (False, False)
