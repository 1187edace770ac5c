"""What an answer and a round of the sweep do, cancelled at every step: all of it or nothing."""

from datetime import timedelta

import pytest
import trio

from actors.testing import cancel_at_every_step
from muster.attention import operations as attention
from muster.attention.operations import AskedBy, State
from muster.chief.operations import asks, unrouted
from muster.principals import Muster, Owner
from tests.support.builders import get_message, make_chief, make_plugin, read_audit
from tests.support.cluster import SpiedDatabase
from tests.support.reply_desk import ReplyDesk

PATIENCE = timedelta(minutes=15)


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> ReplyDesk:
    """A chief, and the plugin whose messages are asked about."""
    plugin = await make_plugin(db, owner, "agent-mail")
    return ReplyDesk(db=db, owner=owner, plugin=plugin, chief=await make_chief(db, owner))


async def sweep(desk: ReplyDesk) -> unrouted.Swept:
    """One round of the sweep for the desk's owner."""
    muster = Muster(owner_id=desk.owner.owner_id)
    return await desk.db.run(muster, unrouted.ask_about_unrouted, unrouted.AskAboutUnrouted())


async def open_ids(desk: ReplyDesk) -> list[int]:
    """The owner's open asks."""
    views = await desk.db.run(desk.owner, attention.list_asks, attention.ListAsks())
    return [view.id for view in views]


async def test_an_answer_and_its_settle_are_one(desk: ReplyDesk) -> None:
    """The answer about a message and the message's reason are written together, or neither is."""
    message_id = ask_id = 0

    async def prepare() -> None:
        nonlocal message_id, ask_id
        message_id = (await desk.message()).id
        desk.db.clock_offset += PATIENCE
        await sweep(desk)
        (ask_id,) = await open_ids(desk)

    async def attempt() -> None:
        await desk.db.run(desk.owner, asks.answer_ask, asks.AnswerAsk(ask_id=ask_id, text="No"))

    async def check(completed: bool) -> None:
        with trio.CancelScope(shield=True):
            view = await desk.db.run(desk.owner, attention.get_ask, ask_id)
            answered = view.state is State.ANSWERED
            stored = await get_message(desk.db, desk.owner, message_id)
            assert stored.settle_reason == ("No" if answered else None)
            assert answered or not completed
            if answered:
                await prepare()

    await prepare()
    assert await cancel_at_every_step(attempt, check) >= 5


async def test_an_answer_and_its_words_are_one(desk: ReplyDesk) -> None:
    """The answer and the words that tell it to the agent are written together, or neither is."""
    ask_id = 0

    async def prepare() -> None:
        nonlocal ask_id
        command = attention.AskOwner(asked_by=AskedBy.CHIEF, question="Noon?")
        asked = await desk.db.run(desk.chief, attention.ask, command)
        assert asked is not None
        ask_id = asked.id

    async def attempt() -> None:
        await desk.db.run(desk.owner, asks.answer_ask, asks.AnswerAsk(ask_id=ask_id, text="Yes"))

    async def check(completed: bool) -> None:
        with trio.CancelScope(shield=True):
            answered = len(await read_audit(desk.db, desk.owner, "ask.answered"))
            assert len(await read_audit(desk.db, desk.owner, "conversation.said")) == answered
            view = await desk.db.run(desk.owner, attention.get_ask, ask_id)
            assert view.state is State.ANSWERED or not completed
            if view.state is State.ANSWERED:
                await prepare()

    await prepare()
    assert await cancel_at_every_step(attempt, check) >= 5


async def test_a_round_is_whole_or_not_at_all(desk: ReplyDesk) -> None:
    """A round that is cut off asks about all that waits, or about none; the next one goes on."""

    async def prepare() -> None:
        for _ in range(2):
            await desk.message()
        desk.db.clock_offset += PATIENCE

    async def attempt() -> None:
        await sweep(desk)

    async def check(completed: bool) -> None:
        with trio.CancelScope(shield=True):
            found = await open_ids(desk)
            assert len(found) in ({2} if completed else {0, 2})
            for ask_id in found:
                command = attention.Dismiss(ask_id=ask_id)
                await desk.db.run(desk.owner, attention.dismiss, command)
            if found:
                await prepare()

    await prepare()
    assert await cancel_at_every_step(attempt, check) >= 5
