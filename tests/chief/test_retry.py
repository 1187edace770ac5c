"""An unconfirmed message is handed over again, when nothing speaks against it."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from actors.testing import cancel_at_every_step
from muster.agents.operations import accept_gateway, retire_agent
from muster.agents.rules import Accept, RetireAgent
from muster.chief import operations
from muster.chief.operations.retry import (
    ListUnconfirmed,
    RetryMessage,
    list_unconfirmed,
    retry_message,
)
from muster.drafts.operations import State as DraftState
from muster.errors import NotFound, Refused
from muster.messages import rules as message_rules
from muster.messages.rules import State
from muster.outcomes import HintKind
from muster.principals import Agent, Muster, Owner, Plugin
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
from tests.support.reply_desk import open_desk
from tests.support.unconfirmed import (
    cut_off,
    draft_in,
    file_task,
    make_delivering,
    make_unconfirmed,
)


async def listed(db: SpiedDatabase, owner: Owner) -> list[int]:
    """The ids on the list of what the chief did not confirm."""
    shown = await db.run(owner, list_unconfirmed, ListUnconfirmed())
    return [message.message_id for message in shown.messages]


async def refusal_of(db: SpiedDatabase, owner: Owner, message_id: int) -> str:
    """The slug with which a retry is refused; the message is as it was before."""
    before = await get_message(db, owner, message_id)
    with pytest.raises(Refused) as refusal:
        await db.run(owner, retry_message, RetryMessage(message_id=message_id))
    assert await get_message(db, owner, message_id) == before
    assert await read_audit(db, owner, "plugin.retried") == []
    return refusal.value.code


@pytest.mark.rule(227, 228)
async def test_a_retry_puts_it_back_into_the_queue(db: SpiedDatabase, owner: Owner) -> None:
    """A retried message is queued with its attempts, hinted at, recorded, and off the list."""
    plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
    message = await make_unconfirmed(db, plugin, chief)
    (shown,) = (await db.run(owner, list_unconfirmed, ListUnconfirmed())).messages
    assert (shown.message_id, shown.plugin, shown.attempts, shown.retries) == (
        message.id,
        plugin.name,
        1,
        0,
    )
    db.published.clear()
    await db.run(owner, retry_message, RetryMessage(message_id=message.id))
    stored = await get_message(db, owner, message.id)
    assert (stored.state, stored.agent_id, stored.attempts) == (State.QUEUED, None, 1)
    assert stored.retries == 1
    assert [(hint.kind, hint.id) for hint in db.published] == [
        (HintKind.MESSAGE_QUEUED, message.id)
    ]
    (row,) = await read_audit(db, owner, "plugin.retried")
    assert (row.actor, row.via, row.subject) == ("owner", "cli", f"message:{message.id}")
    assert await listed(db, owner) == []


@pytest.mark.rule(230)
async def test_only_an_unconfirmed_one_is_retried(db: SpiedDatabase, owner: Owner) -> None:
    """What is queued (a second click), being delivered or delivered is refused, by its state."""
    plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
    again = await make_unconfirmed(db, plugin, chief)
    await db.run(owner, retry_message, RetryMessage(message_id=again.id))
    with pytest.raises(Refused) as refusal:
        await db.run(owner, retry_message, RetryMessage(message_id=again.id))
    assert refusal.value.facts["state"] == "queued"
    await move_message(db, again.id, begin(chief), owner_id=owner.owner_id)
    delivered = await make_message(db, plugin)
    with pytest.raises(Refused) as refusal:
        await db.run(owner, retry_message, RetryMessage(message_id=delivered.id))
    assert refusal.value.code == "message_state"
    complete = message_rules.Complete(epoch=1)
    for expected in ("delivering", "delivered"):
        with pytest.raises(Refused) as refusal:
            await db.run(owner, retry_message, RetryMessage(message_id=again.id))
        assert refusal.value.facts["state"] == expected
        if expected == "delivering":
            await move_message(db, again.id, complete, owner_id=owner.owner_id)
    assert len(await read_audit(db, owner, "plugin.retried")) == 1


LIVE = ["pending", "approved", "sent", "unconfirmed"]


@pytest.mark.rule(231, 294)
@pytest.mark.parametrize("state", list(DraftState))
async def test_a_live_draft_is_against_it(
    db: SpiedDatabase, owner: Owner, state: DraftState
) -> None:
    """A draft that lives refuses the retry and takes the message off the list; an ended one no."""
    desk = await open_desk(db, owner)
    message = await make_delivering(db, desk.plugin, desk.chief)
    await draft_in(desk, message, state)
    await cut_off(db, message)
    if state.value in LIVE:
        assert await listed(db, owner) == []
        assert await refusal_of(db, owner, message.id) == "reply_exists"
    else:
        assert await listed(db, owner) == [message.id]
        await db.run(owner, retry_message, RetryMessage(message_id=message.id))


@pytest.mark.rule(234, 294)
async def test_a_citing_task_is_against_it(db: SpiedDatabase, owner: Owner) -> None:
    """A gated task that cites the message refuses the retry; one that speaks of it does not."""
    plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
    message = await make_delivering(db, plugin, chief)
    await file_task(db, chief, message.id)
    await cut_off(db, message)
    other = await make_delivering(db, plugin, chief)
    await file_task(db, chief, None, f"From plugin message {other.id}.")
    await cut_off(db, other)
    assert await listed(db, owner) == [other.id]
    assert await refusal_of(db, owner, message.id) == "task_exists"
    await db.run(owner, retry_message, RetryMessage(message_id=other.id))


@pytest.mark.rule(235)
async def test_a_revoked_plugin_is_against_it(db: SpiedDatabase, owner: Owner) -> None:
    """What a revoked plugin brought is not listed and not handed over again."""
    plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
    message = await make_unconfirmed(db, plugin, chief)
    await revoke(db, owner, plugin)
    assert await listed(db, owner) == []
    assert await refusal_of(db, owner, message.id) == "plugin_revoked"


@pytest.mark.rule(225, 236)
async def test_without_a_chief_they_are_listed_and_refused(db: SpiedDatabase, owner: Owner) -> None:
    """With no chief the list says so, still shows the messages, and a retry is refused."""
    plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
    message = await make_unconfirmed(db, plugin, chief)
    assert (await db.run(owner, list_unconfirmed, ListUnconfirmed())).has_chief
    await db.run(owner, retire_agent, RetireAgent(name=chief.name))
    shown = await db.run(owner, list_unconfirmed, ListUnconfirmed())
    assert not shown.has_chief
    assert [one.message_id for one in shown.messages] == [message.id]
    assert await refusal_of(db, owner, message.id) == "no_chief"


@pytest.mark.rule(237)
async def test_somebody_elses_is_not_there(db: SpiedDatabase, owner: Owner) -> None:
    """Another user's message is not found, as one that does not exist is not."""
    plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
    message = await make_unconfirmed(db, plugin, chief)
    other = await add_owner(db)
    await make_agent(db, other, chief=True)
    for message_id in (message.id, 2**62):
        with pytest.raises(NotFound):
            await db.run(other, retry_message, RetryMessage(message_id=message_id))
    assert await listed(db, other) == []


@pytest.mark.rule(227)
async def test_it_goes_to_the_chief_of_now(db: SpiedDatabase, owner: Owner) -> None:
    """A retried message is handed to whoever is chief then, and its attempts count on."""
    plugin, former = await make_plugin(db, owner), await make_chief(db, owner)
    message = await make_unconfirmed(db, plugin, former)
    await db.run(owner, retire_agent, RetireAgent(name=former.name))
    chief = await make_chief(db, owner)
    await db.run(owner, retry_message, RetryMessage(message_id=message.id))
    muster = Muster(owner_id=owner.owner_id)
    accept = Accept(agent_id=chief.agent_id, node="one")
    epoch = await db.run(muster, accept_gateway, accept)
    command = operations.Begin(agent_id=chief.agent_id, epoch=epoch, message_id=message.id)
    handover = await db.run(muster, operations.begin, command)
    assert handover is not None
    assert (handover.message.agent_id, handover.message.attempts) == (chief.agent_id, 2)
    assert handover.message.retries == 1


@pytest.mark.rule(227)
async def test_a_turn_of_a_former_chief_ends_nothing_of_the_next(
    db: SpiedDatabase, owner: Owner
) -> None:
    """A late end of the first turn leaves the second as it is, though both epochs are the same."""
    plugin, former = await make_plugin(db, owner), await make_chief(db, owner)
    muster = Muster(owner_id=owner.owner_id)
    message = await make_message(db, plugin)

    async def hand_over(agent: Agent) -> operations.Handover:
        accept = Accept(agent_id=agent.agent_id, node="one")
        epoch = await db.run(muster, accept_gateway, accept)
        assert epoch == 1
        command = operations.Begin(agent_id=agent.agent_id, epoch=epoch, message_id=message.id)
        handover = await db.run(muster, operations.begin, command)
        assert handover is not None
        return handover

    late = await hand_over(former)
    await move_message(db, message.id, message_rules.Recover(), owner_id=owner.owner_id)
    await db.run(owner, retire_agent, RetireAgent(name=former.name))
    chief = await make_chief(db, owner)
    await db.run(owner, retry_message, RetryMessage(message_id=message.id))
    await hand_over(chief)
    for ending in (message_rules.Complete(epoch=1), message_rules.PutBack(epoch=1)):
        settle = operations.Settle(
            message_id=message.id,
            attempt=late.message.attempts,
            turn_id=late.turn_id,
            conversation_id=late.conversation_id,
            ending=ending,
        )
        await db.run(muster, operations.settle_turn, settle)
        assert (await get_message(db, owner, message.id)).state is State.DELIVERING


async def test_two_clicks_are_one_retry(db: SpiedDatabase, owner: Owner) -> None:
    """Of two retries at once one counts, and the other is refused."""
    plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
    message = await make_unconfirmed(db, plugin, chief)
    command = RetryMessage(message_id=message.id)
    outcomes = await collide(db, *[(owner, lambda tx: retry_message(tx, command))] * 2)
    assert sum(isinstance(outcome, Refused) for outcome in outcomes) == 1
    assert len(await read_audit(db, owner, "plugin.retried")) == 1


async def test_a_retry_is_whole_or_not_at_all(db: SpiedDatabase, owner: Owner) -> None:
    """A cancelled retry leaves the row, the fact and the hint together, or nothing."""
    plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
    message_id = 0

    async def prepare() -> None:
        nonlocal message_id
        message_id = (await make_unconfirmed(db, plugin, chief)).id
        db.published.clear()

    async def check(completed: bool) -> None:
        with trio.CancelScope(shield=True):
            stored = await get_message(db, owner, message_id)
            rows = await read_audit(db, owner, "plugin.retried")
            told = [row for row in rows if row.subject == f"message:{message_id}"]
            done = stored.state is State.QUEUED
            assert done or not completed
            assert (len(told), len(db.published), stored.retries) == (done, done, done)
            if done:
                await prepare()

    await prepare()
    retry: Callable[[], Awaitable[object]] = lambda: db.run(  # noqa: E731 - named for its type
        owner, retry_message, RetryMessage(message_id=message_id)
    )
    assert await cancel_at_every_step(retry, check) >= 4


async def test_the_database_agrees_on_whose_plugin(db: SpiedDatabase, owner: Owner) -> None:
    """The list names each message's own plugin, newest first, and no more than were asked for."""
    plugins: list[Plugin] = [await make_plugin(db, owner) for _ in range(2)]
    chief = await make_chief(db, owner)
    made = [await make_unconfirmed(db, plugin, chief) for plugin in plugins]
    shown = await db.run(owner, list_unconfirmed, ListUnconfirmed())
    assert [(one.message_id, one.plugin) for one in shown.messages] == [
        (message.id, plugin.name)
        for message, plugin in reversed(list(zip(made, plugins, strict=True)))
    ]
    one = await db.run(owner, list_unconfirmed, ListUnconfirmed(limit=1))
    assert [each.message_id for each in one.messages] == [made[1].id]
