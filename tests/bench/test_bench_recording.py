"""A recorded operation is made again by the bare driver, for another message."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.recording import FIRST_ID, count, play, prepare_ids, recording
from muster.drafts import operations as drafts
from muster.messages import operations as messages
from muster.messages.rules import Post
from muster.pg.database import Database, open_database
from muster.pg.driver import Connection
from muster.principals import Owner
from tests.support.builders import make_chief, make_draft, make_message, make_plugin
from tests.support.cluster import OwnDatabase, add_owner


@asynccontextmanager
async def opened(own: OwnDatabase) -> AsyncIterator[tuple[Database, Connection]]:
    """The database with ids that can't be mistaken, and a bare connection to it."""
    await prepare_ids(own.admin_url)
    async with open_database(own.app_url, publish=lambda _: None) as db:
        connection = await Connection.open(own.app_url)
        try:
            yield db, connection
        finally:
            connection.close()


async def test_a_post_is_made_again(own_database: OwnDatabase) -> None:
    """Played once more with another external id, the trips of a post store a second message."""
    async with opened(own_database) as (db, bare), recording(own_database.app_url) as recorder:
        owner = await add_owner(db)
        plugin = await make_plugin(db, owner)

        async def post(recorded: Database) -> None:
            await recorded.run(plugin, messages.post, Post(external_id="first", body="Noon?"))

        trips = await recorder.take(post)
        await play(bare, trips, {"first": "second"})
        listed = await db.run(owner, messages.list_messages, messages.ListMessages())
    assert [message.external_id for message in listed] == ["second", "first"]
    assert all(message.id >= FIRST_ID for message in listed)
    assert count(trips)["statements"] > count(trips)["trips to the database"] > 1


async def test_ids_that_are_learnt_go_into_later_trips(own_database: OwnDatabase) -> None:
    """A claim that is played takes the draft that is there now, not the one that was recorded."""
    async with opened(own_database) as (db, bare), recording(own_database.app_url) as recorder:
        owner = await add_owner(db)
        plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
        first, second = [
            await make_draft(
                db, chief, await make_message(db, plugin, delivered_to=chief), approved_by=owner
            )
            for _ in range(2)
        ]

        async def claim(recorded: Database) -> None:
            await recorded.run(plugin, drafts.claim_next, drafts.ClaimNext())

        trips = await recorder.take(claim)
        claimed = await _claimed_at(db, owner, first.id), await _claimed_at(db, owner, second.id)
        assert claimed == (True, False)
        await play(bare, trips, {})
        assert await _claimed_at(db, owner, second.id)


async def _claimed_at(db: Database, owner: Owner, draft_id: int) -> bool:
    return (await db.run(owner, drafts.get_draft, draft_id)).claimed_at is not None


