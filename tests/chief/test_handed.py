"""Which messages an agent may act on: one rule at every door, in the words of each."""

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from muster.attention import operations as attention
from muster.chief.gating import CreateGated, create_gated
from muster.chief.operations.settle import SettleMessage, settle_message
from muster.chief.tools.asking import AttentionAsk, attention_ask
from muster.chief.tools.tool import Call
from muster.drafts import operations as drafts
from muster.errors import NotFound
from muster.pg.database import Transaction
from muster.principals import Agent, Owner
from muster.tasks import operations as tasks
from tests.support.builders import (
    begin,
    make_agent,
    make_chief,
    make_message,
    make_plugin,
    move_message,
)
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.reply_desk import open_desk
from tests.support.unconfirmed import make_unconfirmed

Door = Callable[[Transaction, int], Awaitable[object]]


async def _settle(tx: Transaction, message_id: int) -> object:
    return await settle_message(tx, SettleMessage(message_id=message_id, reason="a notice"))


async def _reply(tx: Transaction, message_id: int) -> object:
    command = drafts.File(message_id=message_id, body="Noon works.", deny_words=frozenset())
    return await drafts.file(tx, command)


async def _gate(tx: Transaction, message_id: int) -> object:
    return await create_gated(tx, CreateGated(title="Water", body="", message_id=message_id))


async def _ask(tx: Transaction, message_id: int) -> object:
    asked: msgspec.Struct = AttentionAsk(question="Which?", message_id=message_id)
    return await attention_ask(tx, Call(arguments=asked, deny_words=frozenset()))


DOORS: dict[str, tuple[Door, str]] = {
    "settle": (_settle, "{} is not a plugin message delivered to you."),
    "reply": (_reply, "No message {} was delivered to you."),
    "gate": (_gate, "No message {} was delivered to you."),
    "ask": (_ask, "No message {} was delivered to you."),
}


@pytest.mark.rule(246, 252, 296)
@pytest.mark.parametrize("name", DOORS)
async def test_an_agent_acts_on_what_it_was_handed(
    db: SpiedDatabase, owner: Owner, name: str
) -> None:
    """What is or was delivered to the agent is its to act on, and every other message is none."""
    door, refusal = DOORS[name]
    plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
    delivered = await make_message(db, plugin, delivered_to=chief)
    cut = await make_unconfirmed(db, plugin, chief)
    another = await make_message(db, plugin, delivered_to=await make_agent(db, owner))
    foreign = await (await open_desk(db, await add_owner(db))).message()
    queued = await make_message(db, plugin)
    for message_id in (queued.id, cut.id, another.id, foreign.id, 2**62, 2**63, 0, -1):
        with pytest.raises(NotFound) as refused:
            await _through(db, chief, door, message_id)
        assert refused.value.sentence == refusal.format(message_id)
    await move_message(db, queued.id, begin(chief), owner_id=owner.owner_id)
    for message_id in (queued.id, delivered.id):
        assert await _through(db, chief, door, message_id) is not None


async def test_an_ask_of_no_possible_number_is_none(db: SpiedDatabase, owner: Owner) -> None:
    """An ask or a task by a number that no row can have is not found, like any other."""
    chief = await make_chief(db, owner)
    for number in (0, -1, 2**63, 10**40):
        with pytest.raises(NotFound):
            await db.run(chief, attention.cancel, attention.Cancel(ask_id=number))
        with pytest.raises(NotFound):
            await db.run(chief, tasks.get_task, number)


async def _through(db: SpiedDatabase, chief: Agent, door: Door, message_id: int) -> object:
    async with db.transaction(chief) as tx:
        return await door(tx, message_id)
