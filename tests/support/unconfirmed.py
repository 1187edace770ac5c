"""A message whose turn was cut off, and what a chief may have done about a message before."""

from datetime import timedelta

from muster.chief import gating
from muster.drafts.operations import Lapse, State, lapse
from muster.messages import rules as message_rules
from muster.messages.rules import Message
from muster.pg.database import Database
from muster.principals import Agent, Plugin
from tests.support.builders import begin, make_message, move_message
from tests.support.reply_desk import ReplyDesk

LEASE = timedelta(minutes=2)
WEEK = timedelta(days=7)


async def make_delivering(db: Database, plugin: Plugin, chief: Agent) -> Message:
    """A message whose turn runs."""
    message = await make_message(db, plugin)
    return await move_message(db, message.id, begin(chief), owner_id=plugin.owner_id)


async def cut_off(db: Database, message: Message) -> Message:
    """End the message's turn as one that nobody can prove."""
    fail = message_rules.Fail(epoch=1)
    return await move_message(db, message.id, fail, owner_id=message.owner_id)


async def make_unconfirmed(db: Database, plugin: Plugin, chief: Agent) -> Message:
    """A message whose turn with this chief was cut off."""
    return await cut_off(db, await make_delivering(db, plugin, chief))


async def file_task(db: Database, chief: Agent, message_id: int | None, body: str = "x") -> None:
    """File a gated task as the chief's tool does, citing the message if one is given."""
    command = gating.CreateGated(title="Look into it", body=body, message_id=message_id)
    await db.run(chief, gating.reserve_gated, command)
    await db.run(chief, gating.create_gated, command)


async def draft_in(desk: ReplyDesk, message: Message, state: State) -> None:
    """Draft a reply to a message that the chief has, and bring it into `state`; time may pass."""
    draft = await desk.draft(message)
    match state:
        case State.APPROVED:
            await desk.approve(draft.id)
        case State.SENT | State.FAILED | State.UNCONFIRMED:
            await desk.approve(draft.id)
            await desk.claim()
            if state is State.UNCONFIRMED:
                desk.db.clock_offset += LEASE
                await desk.db.run(desk.muster, lapse, Lapse(draft_id=draft.id))
            else:
                await desk.report(draft.id, ok=state is State.SENT)
        case State.EXPIRED:
            desk.db.clock_offset += WEEK
        case State.REJECTED:
            await desk.reject(draft.id)
        case State.SUPERSEDED:
            newer = await desk.draft(message)
            await desk.reject(newer.id)
        case State.PENDING:
            pass
