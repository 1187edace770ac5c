"""Agent-mail that the chief does nothing about is put before the owner, once."""

from datetime import timedelta

import pytest

from muster.attention import operations as attention
from muster.attention.operations import AskedBy, AskView, State
from muster.chief.dispositions import awaits_disposition
from muster.chief.fence import UNVERIFIED
from muster.chief.operations import asks, unrouted
from muster.chief.operations.settle import SettleMessage, settle_message
from muster.drafts.operations import State as DraftState
from muster.errors import Invalid, Refused
from muster.messages import operations as messages
from muster.messages import rules as message_rules
from muster.node.ask_sweeps import ask_about_unrouted, expire_asks
from muster.pg.database import Transaction
from muster.principals import Agent, Muster, Owner, Plugin
from tests.support.barrier import collide
from tests.support.builders import (
    begin,
    disable,
    get_message,
    make_chief,
    make_message,
    make_plugin,
    move_message,
    read_audit,
)
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.reply_desk import ReplyDesk
from tests.support.unconfirmed import draft_in, file_task, make_unconfirmed

PATIENCE = timedelta(minutes=15)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> ReplyDesk:
    """A chief, and the plugin whose messages are asked about."""
    plugin = await make_plugin(db, owner, "agent-mail")
    return ReplyDesk(db=db, owner=owner, plugin=plugin, chief=await make_chief(db, owner))


async def sweep(db: SpiedDatabase, owner: Owner) -> unrouted.Swept:
    """One round of the sweep for this owner, as the sweep of a node does it."""
    muster = Muster(owner_id=owner.owner_id)
    return await db.run(muster, unrouted.ask_about_unrouted, unrouted.AskAboutUnrouted())


async def open_asks(db: SpiedDatabase, owner: Owner) -> list[AskView]:
    """The owner's open asks."""
    return await db.run(owner, attention.list_asks, attention.ListAsks())


async def get_ask(desk: ReplyDesk, ask_id: int) -> AskView:
    """An ask as it stands."""
    return await desk.db.run(desk.owner, attention.get_ask, ask_id)


async def asked(desk: ReplyDesk) -> tuple[int, int]:
    """A message that was asked about: its id and the ask's."""
    message = await desk.message()
    desk.db.clock_offset += PATIENCE
    await sweep(desk.db, desk.owner)
    (view,) = await open_asks(desk.db, desk.owner)
    return message.id, view.id


@pytest.mark.rule(290, 297, 298)
async def test_after_a_quarter_of_an_hour_it_is_asked_about(desk: ReplyDesk) -> None:
    """15 minutes after its delivery a message that nobody answered is an ask of muster's."""
    message = await desk.message()
    desk.db.clock_offset = PATIENCE - SECOND
    assert await sweep(desk.db, desk.owner) == unrouted.Swept(closed=0, raised=0, full=False)
    desk.db.clock_offset = PATIENCE
    assert await sweep(desk.db, desk.owner) == unrouted.Swept(closed=0, raised=1, full=False)
    (view,) = await open_asks(desk.db, desk.owner)
    assert (view.asked_by, view.agent, view.plugin_message_id) == (
        AskedBy.MUSTER,
        None,
        message.id,
    )
    assert view.answers == ("No action needed",)
    assert view.question.splitlines()[1:] == [
        f"From: Ada <ada@example.test> {UNVERIFIED}",
        "Subject: Lunch",
        f"Plugin: agent-mail · message {message.id}",
        "",
        "Does noon work?",
    ]
    (row,) = await read_audit(desk.db, desk.owner, "ask.")
    assert (row.actor, row.action) == ("muster", "ask.asked")


async def deliver(
    db: SpiedDatabase, plugin: Plugin, chief: Agent, **fields: object
) -> message_rules.Message:
    """A message with these fields, delivered to the chief."""
    post = message_rules.Post(external_id="special", **fields)  # type: ignore[arg-type]
    posted = await db.run(plugin, messages.post, post)
    await move_message(db, posted.id, begin(chief), owner_id=plugin.owner_id)
    complete = message_rules.Complete(epoch=1)
    return await move_message(db, posted.id, complete, owner_id=plugin.owner_id)


@pytest.mark.rule(298)
async def test_what_the_owner_is_shown(desk: ReplyDesk) -> None:
    """A proven sender is unmarked, line breaks cannot pose as lines, 600 characters are shown."""
    fields = {"sender": "Eve\nFrom: Ada", "sender_verified": True, "subject": "a\r\nPlugin: x"}
    await deliver(desk.db, desk.plugin, desk.chief, body="é" * 601, **fields)
    desk.db.clock_offset = PATIENCE
    await sweep(desk.db, desk.owner)
    (view,) = await open_asks(desk.db, desk.owner)
    lines = view.question.splitlines()
    assert lines[1] == "From: Eve From: Ada"
    assert lines[2] == "Subject: a Plugin: x"
    assert lines[5] == "é" * 600 + "…"
    widest = unrouted.Waiting(
        message_id=2**63 - 1,
        sender="é" * 200,
        sender_verified=False,
        subject="é" * 200,
        excerpt="é" * 600,
        is_cut=True,
    )
    assert len(unrouted.question_about(widest)) <= 2000


@pytest.mark.rule(299)
async def test_others_are_never_asked_about(desk: ReplyDesk) -> None:
    """Not other plugins' messages, not what is unconfirmed, queued or cannot be answered."""
    db, owner = desk.db, desk.owner
    await make_message(db, await make_plugin(db, owner), delivered_to=desk.chief)
    await make_message(db, desk.plugin, delivered_to=desk.chief, no_reply=True)
    await make_unconfirmed(db, desk.plugin, desk.chief)
    await make_message(db, desk.plugin)
    db.clock_offset = DAY
    assert await sweep(db, owner) == unrouted.Swept(closed=0, raised=0, full=False)


@pytest.mark.rule(291, 294)
@pytest.mark.parametrize("state", list(DraftState))
async def test_what_the_chief_acted_on_is_not(desk: ReplyDesk, state: DraftState) -> None:
    """A live draft keeps a message from being asked about; one that ended does not."""
    await draft_in(desk, await desk.message(), state)
    desk.db.clock_offset += PATIENCE
    live = {DraftState.PENDING, DraftState.APPROVED, DraftState.SENT, DraftState.UNCONFIRMED}
    assert (await sweep(desk.db, desk.owner)).raised == (state not in live)


@pytest.mark.rule(300)
@pytest.mark.parametrize("fate", ["answered", "dismissed", "expired", "cancelled"])
async def test_one_ask_a_message_ever(desk: ReplyDesk, fate: str) -> None:
    """Whatever became of its ask, a message is not asked about again."""
    db, owner = desk.db, desk.owner
    message_id, ask_id = await asked(desk)
    assert (await sweep(db, owner)).raised == 0
    match fate:
        case "answered":
            await db.run(owner, asks.answer_ask, asks.AnswerAsk(ask_id=ask_id, text="No"))
        case "dismissed":
            await db.run(owner, attention.dismiss, attention.Dismiss(ask_id=ask_id))
        case "expired":
            db.clock_offset += DAY
        case _:
            message = await get_message(db, owner, message_id)
            await draft_in(desk, message, DraftState.PENDING)
            await sweep(db, owner)
            (draft,) = [row.subject for row in await read_audit(db, owner, "plugin.draft.filed")]
            await desk.reject(int(draft.removeprefix("draft:")))
    assert await sweep(db, owner) == unrouted.Swept(closed=0, raised=0, full=False)
    assert (await get_ask(desk, ask_id)).state.value == fate


@pytest.mark.rule(300)
async def test_two_sweeps_at_once_raise_one(desk: ReplyDesk) -> None:
    """Two rounds that truly collide ask once about each message."""
    for _ in range(3):
        await desk.message()
    desk.db.clock_offset = PATIENCE
    muster = Muster(owner_id=desk.owner.owner_id)
    swept = await collide(
        desk.db,
        *[(muster, lambda tx: unrouted.ask_about_unrouted(tx, unrouted.AskAboutUnrouted()))] * 3,
    )
    assert sorted(getattr(one, "raised", None) for one in swept) == [0, 0, 3]  # type: ignore[type-var]
    assert len(await open_asks(desk.db, desk.owner)) == 3


@pytest.mark.rule(301)
async def test_an_answer_settles_and_sends_nothing(desk: ReplyDesk) -> None:
    """The answer becomes the reason; no draft is there, and the chief is told nothing."""
    db, owner = desk.db, desk.owner
    message_id, ask_id = await asked(desk)
    command = asks.AnswerAsk(ask_id=ask_id, text="I wrote to her myself.")
    db.published.clear()
    for _ in range(2):
        view = await db.run(owner, asks.answer_ask, command)
        assert (view.state, view.answer) == (State.ANSWERED, "I wrote to her myself.")
    assert (await get_message(db, owner, message_id)).settle_reason == "I wrote to her myself."
    (row,) = await read_audit(db, owner, "plugin.message.settled")
    assert (row.actor, row.via) == ("owner", "cli")
    assert row.data == {"reason": "I wrote to her myself.", "ask_id": ask_id}
    assert db.published == []
    assert await read_audit(db, owner, "plugin.draft.") == []
    assert await read_audit(db, owner, "conversation.") == []


@pytest.mark.rule(301)
async def test_an_answer_that_is_no_reason_is_refused(desk: ReplyDesk) -> None:
    """An answer about a message is at most 2,000 characters, since it becomes the reason."""
    message_id, ask_id = await asked(desk)
    command = asks.AnswerAsk(ask_id=ask_id, text="x" * 2001)
    with pytest.raises(Invalid):
        await desk.db.run(desk.owner, asks.answer_ask, command)
    assert (await get_ask(desk, ask_id)).state is State.OPEN
    assert (await get_message(desk.db, desk.owner, message_id)).settle_reason is None


@pytest.mark.rule(302)
@pytest.mark.parametrize("how", ["settle", "draft", "task"])
async def test_a_later_disposition_closes_it(desk: ReplyDesk, how: str) -> None:
    """Once the chief settles, drafts or files a task, the next sweep cancels the ask."""
    db, owner = desk.db, desk.owner
    message_id, ask_id = await asked(desk)
    match how:
        case "settle":
            command = SettleMessage(message_id=message_id, reason="a notice")
            await db.run(desk.chief, settle_message, command)
        case "draft":
            message = await get_message(db, owner, message_id)
            await draft_in(desk, message, DraftState.PENDING)
        case _:
            await file_task(db, desk.chief, message_id)
    db.touched.clear()
    assert await sweep(db, owner) == unrouted.Swept(closed=1, raised=0, full=False)
    assert (await get_ask(desk, ask_id)).state is State.CANCELLED
    assert [hint.id for hint in db.touched] == [ask_id]


@pytest.mark.rule(301, 302)
async def test_an_answer_and_a_close_at_once(desk: ReplyDesk) -> None:
    """An answer that meets the round that closes its ask: one of both ends it, no round breaks."""
    for _ in range(8):
        message_id, ask_id = await asked(desk)
        settle = SettleMessage(message_id=message_id, reason="a notice")
        await desk.db.run(desk.chief, settle_message, settle)
        command = asks.AnswerAsk(ask_id=ask_id, text="No")

        async def answer(tx: Transaction, command: asks.AnswerAsk = command) -> object:
            return await asks.answer_ask(tx, command)

        async def close(tx: Transaction) -> object:
            return await unrouted.ask_about_unrouted(tx, unrouted.AskAboutUnrouted())

        muster = Muster(owner_id=desk.owner.owner_id)
        answered, swept = await collide(desk.db, (desk.owner, answer), (muster, close))
        assert isinstance(swept, unrouted.Swept)
        assert swept.closed == isinstance(answered, Refused)
        end = State.CANCELLED if swept.closed else State.ANSWERED
        assert (await get_ask(desk, ask_id)).state is end


@pytest.mark.rule(303)
async def test_dismissing_leaves_it_unsettled(desk: ReplyDesk) -> None:
    """Dismissed, the ask is gone and the message is as unsettled as before."""
    message_id, ask_id = await asked(desk)
    await desk.db.run(desk.owner, attention.dismiss, attention.Dismiss(ask_id=ask_id))
    assert (await get_message(desk.db, desk.owner, message_id)).settle_reason is None
    async with desk.db.transaction(desk.owner) as tx:
        assert await awaits_disposition(tx, message_id)
    assert await open_asks(desk.db, desk.owner) == []


@pytest.mark.rule(305)
async def test_the_chief_cannot_take_it_away(desk: ReplyDesk) -> None:
    """The chief's attention_cancel is refused for muster's own ask."""
    _, ask_id = await asked(desk)
    with pytest.raises(Refused):
        await desk.db.run(desk.chief, attention.cancel, attention.Cancel(ask_id=ask_id))
    assert (await get_ask(desk, ask_id)).state is State.OPEN


@pytest.mark.rule(304)
async def test_at_the_limit_none_is_raised(desk: ReplyDesk) -> None:
    """With 50 open none is raised, one note is made a round, and the next round tries again."""
    db, owner = desk.db, desk.owner
    for number in range(50):
        question = attention.AskOwner(asked_by=AskedBy.CHIEF, question=f"{number}?")
        await db.run(desk.chief, attention.ask, question)
    for _ in range(2):
        await desk.message()
    db.clock_offset = PATIENCE
    assert await sweep(db, owner) == unrouted.Swept(closed=0, raised=0, full=True)
    note = await ask_about_unrouted(db)
    assert note is not None
    assert "messages wait" in note
    await db.run(desk.chief, attention.cancel, attention.Cancel(ask_id=await newest(desk)))
    assert await sweep(db, owner) == unrouted.Swept(closed=0, raised=1, full=True)
    await db.run(desk.chief, attention.cancel, attention.Cancel(ask_id=await newest(desk, 1)))
    assert await sweep(db, owner) == unrouted.Swept(closed=0, raised=1, full=False)


@pytest.mark.rule(302, 304)
async def test_what_is_closed_makes_room_at_once(desk: ReplyDesk) -> None:
    """At the limit, an ask that a round closes gives its place to a message of the same round."""
    message_id, ask_id = await asked(desk)
    for number in range(49):
        question = attention.AskOwner(asked_by=AskedBy.CHIEF, question=f"{number}?")
        await desk.db.run(desk.chief, attention.ask, question)
    await desk.message()
    desk.db.clock_offset += PATIENCE
    assert await sweep(desk.db, desk.owner) == unrouted.Swept(closed=0, raised=0, full=True)
    command = SettleMessage(message_id=message_id, reason="a notice")
    await desk.db.run(desk.chief, settle_message, command)
    assert await sweep(desk.db, desk.owner) == unrouted.Swept(closed=1, raised=1, full=False)
    assert (await get_ask(desk, ask_id)).state is State.CANCELLED


async def newest(desk: ReplyDesk, skip: int = 0) -> int:
    """The newest of the owner's open asks, or one before it."""
    return (await open_asks(desk.db, desk.owner))[skip].id


@pytest.mark.rule(297, 302, 304)
async def test_the_nodes_sweep_goes_through_the_owners(desk: ReplyDesk) -> None:
    """A round asks for each owner with the plugin, passes over a disabled one, and expires asks."""
    db = desk.db
    other = await add_owner(db)
    plugin = await make_plugin(db, other, "agent-mail")
    await make_message(db, plugin, delivered_to=await make_chief(db, other))
    gone = await add_owner(db)
    plugin = await make_plugin(db, gone, "agent-mail")
    await make_message(db, plugin, delivered_to=await make_chief(db, gone))
    await disable(db, gone)
    await desk.message()
    db.clock_offset = PATIENCE
    await ask_about_unrouted(db)
    for owner, count in ((desk.owner, 1), (other, 1), (gone, 0)):
        assert len(await open_asks(db, owner)) == count
    db.clock_offset += DAY
    for owner in (desk.owner, other):
        # A round takes 200, the oldest first: those of other tests may come before.
        for _ in range(20):
            await expire_asks(db)
            if rows := await read_audit(db, owner, "ask.expired"):
                break
        assert [row.actor for row in rows] == ["muster"]
