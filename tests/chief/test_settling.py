"""The chief says that a message needs nothing more: stored once, with its reason."""

import pytest
import trio

from actors.testing import cancel_at_every_step
from muster.agents.operations import add_agent
from muster.agents.rules import AddAgent
from muster.chief.dispositions import awaits_disposition
from muster.chief.operations.settle import SettleMessage, settle_message
from muster.chief.tools.settling import PluginMessageSettle, plugin_message_settle
from muster.chief.tools.tool import Call
from muster.drafts.operations import State as DraftState
from muster.errors import Invalid, NotFound, Refused
from muster.messages.rules import Message
from muster.principals import Agent, Owner
from tests.support.barrier import collide
from tests.support.builders import (
    get_message,
    make_agent,
    make_chief,
    make_message,
    make_plugin,
    read_audit,
)
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.reply_desk import ReplyDesk, open_desk
from tests.support.unconfirmed import (
    LEASE,
    WEEK,
    draft_in,
    file_task,
    make_delivering,
    make_unconfirmed,
)


async def settle(db: SpiedDatabase, agent: Agent, message_id: int, reason: str) -> Message:
    """Settle as this agent."""
    command = SettleMessage(message_id=message_id, reason=reason)
    return await db.run(agent, settle_message, command)


async def awaits(db: SpiedDatabase, owner: Owner, message_id: int) -> bool:
    """Whether the message awaits a disposition."""
    async with db.transaction(owner) as tx:
        return await awaits_disposition(tx, message_id)


@pytest.mark.rule(290, 295)
async def test_a_settled_message_keeps_its_first_reason(db: SpiedDatabase, owner: Owner) -> None:
    """The reason is on the message and in the audit log; a second settle changes neither."""
    desk = await open_desk(db, owner)
    message = await desk.message()
    assert await awaits(db, owner, message.id)
    await settle(db, desk.chief, message.id, "a newsletter")
    again = await settle(db, desk.chief, message.id, "something else")
    assert again.settle_reason == "a newsletter"
    assert (await get_message(db, owner, message.id)).settle_reason == "a newsletter"
    assert not await awaits(db, owner, message.id)
    (row,) = await read_audit(db, owner, "plugin.message.settled")
    assert (row.actor, row.subject) == (f"agent:{desk.chief.name}", f"message:{message.id}")
    assert row.data == {"reason": "a newsletter"}


@pytest.mark.rule(295, 296)
async def test_it_is_settled_in_the_turn_that_tells_of_it(db: SpiedDatabase, owner: Owner) -> None:
    """While the message is being delivered to the chief, the chief may settle it."""
    plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
    message = await make_delivering(db, plugin, chief)
    assert (await settle(db, chief, message.id, "é" * 2000)).state is message.state


@pytest.mark.rule(296)
async def test_what_was_not_delivered_to_the_chief_is_not_its_to_settle(
    db: SpiedDatabase, owner: Owner
) -> None:
    """Queued, unconfirmed, delivered to another, another owner's and missing: all the same."""
    plugin, former = await make_plugin(db, owner), await make_chief(db, owner)
    theirs = await make_message(db, plugin, delivered_to=former)
    cut = await make_unconfirmed(db, plugin, former)
    add = AddAgent(name="next", chief=True, replace=True)
    row, _ = await db.run(owner, add_agent, add)
    chief = Agent(owner_id=owner.owner_id, agent_id=row.id, name=row.name, credential_id=0)
    queued = await make_message(db, plugin)
    foreign = await (await open_desk(db, await add_owner(db))).message()
    for message_id in (queued.id, cut.id, theirs.id, foreign.id, 2**62):
        with pytest.raises(NotFound, match="not a plugin message delivered to you"):
            await settle(db, chief, message_id, "no")
    assert await read_audit(db, owner, "plugin.message.settled") == []


@pytest.mark.rule(295)
async def test_a_long_reason_is_refused(db: SpiedDatabase, owner: Owner) -> None:
    """A reason over 2,000 characters is refused, not cut."""
    desk = await open_desk(db, owner)
    message = await desk.message()
    with pytest.raises(Invalid):
        await settle(db, desk.chief, message.id, "x" * 2001)
    assert await awaits(db, owner, message.id)


@pytest.mark.rule(296)
async def test_the_tool_is_the_chiefs_alone(db: SpiedDatabase, owner: Owner) -> None:
    """An agent that is not the chief is refused by the tool, whatever it was offered."""
    agent = await make_agent(db, owner)
    message = await make_message(db, await make_plugin(db, owner), delivered_to=agent)
    arguments = PluginMessageSettle(message_id=message.id, reason="no")
    call = Call(arguments=arguments, deny_words=frozenset())
    with pytest.raises(Refused) as refusal:
        await db.run(agent, plugin_message_settle, call)
    assert refusal.value.code == "not_chief"


@pytest.mark.rule(291, 294)
@pytest.mark.parametrize("state", list(DraftState))
async def test_a_draft_disposes_of_it_while_it_lives(
    db: SpiedDatabase, owner: Owner, state: DraftState
) -> None:
    """Pending, approved, sent and unconfirmed ones do; what ended without an answer does not."""
    desk = await open_desk(db, owner)
    message = await desk.message()
    await draft_in(desk, message, state)
    live = {DraftState.PENDING, DraftState.APPROVED, DraftState.SENT, DraftState.UNCONFIRMED}
    assert await awaits(db, owner, message.id) is (state not in live)


@pytest.mark.rule(277, 291, 294)
async def test_a_reply_that_is_being_sent_disposes_of_it_past_its_week(
    db: SpiedDatabase, owner: Owner
) -> None:
    """A draft that was collected in time does not expire in its plugin's hands."""
    desk = await open_desk(db, owner)
    message = await desk.message()
    await desk.draft(message, approved=True)
    db.clock_offset += WEEK - LEASE / 2
    await desk.claim()
    for _ in range(2):  # while the claim is held, and once it has lapsed, swept or not
        db.clock_offset += LEASE
        assert not await awaits(db, owner, message.id)


@pytest.mark.rule(293, 294)
async def test_a_gated_task_disposes_of_it(db: SpiedDatabase, owner: Owner) -> None:
    """A task that cites the message does, for good; one that does not cite it does not."""
    desk = await open_desk(db, owner)
    cited, spoken_of = await desk.message(), await desk.message()
    await file_task(db, desk.chief, cited.id)
    await file_task(db, desk.chief, None, f"From plugin message {spoken_of.id}.")
    assert not await awaits(db, owner, cited.id)
    assert await awaits(db, owner, spoken_of.id)


@pytest.mark.rule(290, 299)
async def test_only_a_replyable_delivered_message_awaits(db: SpiedDatabase, owner: Owner) -> None:
    """What nobody may answer, what is queued, on its way or unconfirmed awaits nothing."""
    plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
    mute = await make_message(db, plugin, delivered_to=chief, no_reply=True)
    queued = await make_message(db, plugin)
    cut = await make_unconfirmed(db, plugin, chief)
    turn = await make_delivering(db, plugin, chief)
    for message in (mute, queued, cut, turn):
        assert not await awaits(db, owner, message.id)


async def test_two_settles_are_one(db: SpiedDatabase, owner: Owner) -> None:
    """Of two reasons at once one is kept, and both are told which."""
    desk = await open_desk(db, owner)
    message = await desk.message()
    commands = [SettleMessage(message_id=message.id, reason=reason) for reason in "ab"]
    outcomes = await collide(
        db,
        *[(desk.chief, lambda tx, each=each: settle_message(tx, each)) for each in commands],
    )
    kept = (await get_message(db, owner, message.id)).settle_reason
    assert [getattr(outcome, "settle_reason", None) for outcome in outcomes] == [kept, kept]
    assert len(await read_audit(db, owner, "plugin.message.settled")) == 1


async def test_a_settle_is_whole_or_not_at_all(db: SpiedDatabase, owner: Owner) -> None:
    """A cancelled settle leaves the reason and its fact together, or neither."""
    desk: ReplyDesk = await open_desk(db, owner)
    message_id = 0

    async def prepare() -> None:
        nonlocal message_id
        message_id = (await desk.message()).id

    async def check(completed: bool) -> None:
        with trio.CancelScope(shield=True):
            stored = await get_message(db, owner, message_id)
            rows = await read_audit(db, owner, "plugin.message.settled")
            told = [row for row in rows if row.subject == f"message:{message_id}"]
            assert len(told) == (stored.settle_reason is not None)
            assert told or not completed
            if told:
                await prepare()

    await prepare()

    async def attempt() -> None:
        await settle(db, desk.chief, message_id, "a notice")

    assert await cancel_at_every_step(attempt, check) >= 3
