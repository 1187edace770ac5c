"""What the sweep of agent-mail reads no more: what nothing brings back before the owner."""

from datetime import timedelta

import attrs
import pytest

from muster.chief.operations import unrouted
from muster.drafts.operations import ListDrafts, list_drafts
from muster.drafts.operations import State as DraftState
from muster.messages.operations import lock_message
from muster.messages.rules import Message
from muster.pg.query import Query
from muster.principals import Owner
from tests.support.builders import make_chief, make_plugin
from tests.support.cluster import SpiedDatabase
from tests.support.reply_desk import ReplyDesk
from tests.support.unconfirmed import draft_in, file_task

PATIENCE = timedelta(minutes=15)
UNFINISHED = Query("""
    select id as message_id from messages
    where owner_id = %(owner_id)s and finished_at is null order by id
""")


@attrs.frozen(kw_only=True)
class Unfinished:
    """A message that a round reads."""

    message_id: int


QUIET = unrouted.Swept(closed=0, raised=0, full=False)
ONE_RAISED = unrouted.Swept(closed=0, raised=1, full=False)


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> ReplyDesk:
    """A chief, and the plugin whose messages are asked about."""
    plugin = await make_plugin(db, owner, "agent-mail")
    return ReplyDesk(db=db, owner=owner, plugin=plugin, chief=await make_chief(db, owner))


async def sweep(desk: ReplyDesk) -> unrouted.Swept:
    """One round for the owner."""
    return await desk.db.run(desk.muster, unrouted.ask_about_unrouted, unrouted.AskAboutUnrouted())


async def is_unfinished(desk: ReplyDesk, message: Message) -> bool:
    """Whether a round would read the message again."""
    async with desk.db.transaction(desk.owner) as tx:
        return message.id in [row.message_id for row in await tx.all(UNFINISHED, Unfinished)]


@pytest.mark.rule(291, 293, 300)
@pytest.mark.parametrize("how", ["sent", "task", "asked"])
async def test_what_nothing_brings_back_is_read_once(desk: ReplyDesk, how: str) -> None:
    """A message that was answered, worked on or asked about is read by no later round."""
    message = await desk.message()
    match how:
        case "sent":
            await draft_in(desk, message, DraftState.SENT)
        case "task":
            await file_task(desk.db, desk.chief, message.id)
    desk.db.clock_offset += PATIENCE
    assert await sweep(desk) == (ONE_RAISED if how == "asked" else QUIET)
    assert await sweep(desk) == QUIET
    assert not await is_unfinished(desk, message)


@pytest.mark.rule(300)
async def test_what_a_round_passes_over_is_not_asked_about_again(desk: ReplyDesk) -> None:
    """A message that somebody holds is marked later, and counts as asked about meanwhile."""
    message = await desk.message()
    desk.db.clock_offset += PATIENCE
    assert await sweep(desk) == ONE_RAISED
    async with desk.db.transaction(desk.owner) as tx:
        await lock_message(tx, message.id)
        assert await sweep(desk) == QUIET
        assert await is_unfinished(desk, message)
    assert await sweep(desk) == QUIET
    assert not await is_unfinished(desk, message)


@pytest.mark.rule(291, 302)
@pytest.mark.parametrize("state", [DraftState.PENDING, DraftState.APPROVED, DraftState.UNCONFIRMED])
async def test_what_may_come_back_is_read_again(desk: ReplyDesk, state: DraftState) -> None:
    """A message that a draft keeps back is asked about once that draft ended without an answer."""
    message = await desk.message()
    await draft_in(desk, message, state)
    (filed,) = await drafts_of(desk)
    desk.db.clock_offset += PATIENCE
    assert await sweep(desk) == QUIET
    assert await is_unfinished(desk, message)
    if state is DraftState.UNCONFIRMED:
        await desk.report(filed, ok=False)
    else:
        await desk.reject(filed)
    assert await sweep(desk) == ONE_RAISED


async def drafts_of(desk: ReplyDesk) -> list[int]:
    """The ids of the owner's drafts."""
    return [view.id for view in await desk.db.run(desk.owner, list_drafts, ListDrafts())]
