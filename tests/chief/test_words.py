"""Words on the database: stored, begun, settled; collisions, cancels and what a stop left."""

from functools import partial

import pytest

from actors.testing import cancel_at_every_step
from muster.agents.operations import retire_agent
from muster.agents.rules import RetireAgent
from muster.chief import operations, words
from muster.chief.operations.conversations import look_at_chief
from muster.chief.turns import WAITING_MAX, By, Heard, State
from muster.chief.words import BeginWords, Say, begin_words, say
from muster.errors import MusterError, NotFound, Refused
from muster.messages import rules as message_rules
from muster.messages.rules import Complete, PutBack
from muster.messages.rules import State as MessageState
from muster.outcomes import HintKind
from muster.pg.database import Transaction
from muster.principals import Muster, Owner
from muster.token_use import TokenUse
from tests.support.barrier import collide
from tests.support.builders import (
    disable,
    get_message,
    make_agent,
    make_chief,
    make_message,
    make_plugin,
    read_audit,
)
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.speaking import begin, connect, end, speak, turns

USAGE = TokenUse(model="m", calls=1, input_tokens=2, cached_input_tokens=0, output_tokens=3)


async def test_words_wait_in_the_default_conversation(db: SpiedDatabase, owner: Owner) -> None:
    """Words are stored with a fact that quotes nothing and a hint for their agent alone."""
    chief = await make_chief(db, owner)
    db.published.clear()
    first, second = [await speak(db, owner, chief, text) for text in ("one", "two")]
    assert first < second
    (line,) = (await db.run(owner, look_at_chief, None)).conversations
    assert (line.kind, line.title, line.words) == ("default", words.DEFAULT_TITLE, "two")
    assert [(hint.kind, hint.id) for hint in db.published] == [
        (HintKind.WORDS_QUEUED, chief.agent_id)
    ] * 2
    assert {(hint.kind, hint.id) for hint in db.touched} >= {
        (HintKind.CONVERSATION_CHANGED, line.id)
    }
    rows = await read_audit(db, owner, "conversation.")
    assert [(row.action, row.subject, row.data) for row in rows] == [
        (
            "conversation.said",
            f"conversation:{line.id}",
            {"turn_id": turn_id, "by": "owner", "bytes": 3},
        )
        for turn_id in (first, second)
    ]


async def test_words_go_to_any_live_agent_of_ones_own(db: SpiedDatabase, owner: Owner) -> None:
    """An agent that is no chief has its own default conversation; others' and ended ones none."""
    plain = await make_agent(db, owner)
    await speak(db, owner, plain)
    epoch = await connect(db, plain)
    assert await begin(db, plain, epoch) is not None
    with pytest.raises(NotFound):
        await speak(db, await add_owner(db), plain)
    await db.run(owner, retire_agent, RetireAgent(name=plain.name))
    with pytest.raises(NotFound):
        await speak(db, owner, plain)


async def test_no_more_of_the_owners_words_wait_than_the_limit(
    db: SpiedDatabase, owner: Owner
) -> None:
    """The owner is told once 50 wait for an agent; an answer to an ask still finds its way."""
    chief = await make_chief(db, owner)
    for number in range(WAITING_MAX):
        await speak(db, owner, chief, f"{number}")
    with pytest.raises(Refused) as caught:
        await speak(db, owner, chief)
    assert caught.value.code == "words_waiting"
    await speak(db, owner, chief, by=By.MUSTER)


async def test_words_are_begun_oldest_first_and_one_at_a_time(
    db: SpiedDatabase, owner: Owner
) -> None:
    """Each turn of words ends before the next begins, and keeps what the agent said and took."""
    chief = await make_chief(db, owner)
    ids = [await speak(db, owner, chief, text) for text in ("one", "two")]
    epoch = await connect(db, chief)
    for turn_id, text in zip(ids, ("one", "two"), strict=True):
        spoken = await begin(db, chief, epoch)
        assert spoken is not None
        assert (spoken.turn.id, spoken.turn.words) == (turn_id, text)
        await end(db, chief, turn_id, Complete(epoch=epoch, usage=USAGE))
    assert await begin(db, chief, epoch) is None
    for turn in await turns(db, owner):
        assert (turn.state, turn.attempt) == (State.DELIVERED, 1)
        assert (turn.answer, turn.left_out, turn.usage) == ("Noon.", 7, USAGE)
    rows = await read_audit(db, owner, "conversation.delivered")
    assert [row.data["turn_id"] for row in rows] == ids


async def test_words_that_are_put_back_are_first_again(db: SpiedDatabase, owner: Owner) -> None:
    """A busy agent's words wait where they were, with no answer and no fact."""
    chief = await make_chief(db, owner)
    first, _ = [await speak(db, owner, chief, text) for text in ("one", "two")]
    epoch = await connect(db, chief)
    assert await begin(db, chief, epoch) is not None
    await end(db, chief, first, PutBack(epoch=epoch))
    spoken = await begin(db, chief, epoch)
    assert spoken is not None
    assert (spoken.turn.id, spoken.turn.attempt) == (first, 2)
    assert await read_audit(db, owner, "conversation.delivered") == []


async def test_words_are_begun_for_the_current_connection_alone(
    db: SpiedDatabase, owner: Owner
) -> None:
    """An older connection, a retired agent and a disabled account begin nothing."""
    chief = await make_chief(db, owner)
    await speak(db, owner, chief)
    older, newer = await connect(db, chief), await connect(db, chief)
    assert await begin(db, chief, older) is None
    await disable(db, owner)
    assert await begin(db, chief, newer) is None
    (turn,) = await turns(db, owner)
    assert (turn.state, turn.attempt) == (State.QUEUED, 0)


async def test_words_that_a_stop_left_are_never_said_again(db: SpiedDatabase, owner: Owner) -> None:
    """The next connection settles them as unconfirmed, also when nothing else is to be said."""
    chief = await make_chief(db, owner)
    left = await speak(db, owner, chief)
    killed = await connect(db, chief)
    assert await begin(db, chief, killed) is not None
    epoch = await connect(db, chief)
    assert await begin(db, chief, epoch) is None
    (turn,) = await turns(db, owner)
    assert (turn.id, turn.state) == (left, State.UNCONFIRMED)
    (row,) = await read_audit(db, owner, "conversation.delivered")
    assert row.data["recovered"] is True
    await end(db, chief, left, Complete(epoch=killed))  # the word of the older connection
    assert (await turns(db, owner))[0].state is State.UNCONFIRMED


@pytest.mark.rule(221, 222)
async def test_a_message_that_a_stop_left_waits_for_the_next_turn(
    db: SpiedDatabase, owner: Owner
) -> None:
    """A connection alone leaves it delivering; the chief's next turn, words too, settles it."""
    chief, plugin = await make_chief(db, owner), await make_plugin(db, owner)
    message = await make_message(db, plugin)
    killed = await connect(db, chief)
    command = operations.Begin(agent_id=chief.agent_id, epoch=killed, message_id=message.id)
    assert await db.run(Muster(owner_id=owner.owner_id), operations.begin, command) is not None
    epoch = await connect(db, chief)
    assert await begin(db, chief, epoch) is None
    assert (await get_message(db, owner, message.id)).state is MessageState.DELIVERING
    await speak(db, owner, chief)
    assert await begin(db, chief, epoch) is not None
    assert (await get_message(db, owner, message.id)).state is MessageState.UNCONFIRMED
    of_message, of_words = await turns(db, owner)
    assert (of_message.message_id, of_message.state) == (message.id, State.UNCONFIRMED)
    assert of_words.state is State.DELIVERING
    (row,) = await read_audit(db, owner, "plugin.delivered")
    assert row.data["recovered"] is True


async def test_a_messages_turn_settles_words_that_a_stop_left(
    db: SpiedDatabase, owner: Owner
) -> None:
    """Words left delivering do not keep the chief's next message from its turn."""
    chief, plugin = await make_chief(db, owner), await make_plugin(db, owner)
    await speak(db, owner, chief)
    killed = await connect(db, chief)
    assert await begin(db, chief, killed) is not None
    message = await make_message(db, plugin)
    epoch = await connect(db, chief)
    command = operations.Begin(agent_id=chief.agent_id, epoch=epoch, message_id=message.id)
    handover = await db.run(Muster(owner_id=owner.owner_id), operations.begin, command)
    assert handover is not None
    assert not handover.words_wait
    assert [turn.state for turn in await turns(db, owner)] == [State.UNCONFIRMED, State.DELIVERING]


async def test_a_messages_turn_keeps_what_was_said(db: SpiedDatabase, owner: Owner) -> None:
    """The turn of a message ends with it; one of which nothing was sent was none."""
    chief, plugin = await make_chief(db, owner), await make_plugin(db, owner)
    message = await make_message(db, plugin)
    await speak(db, owner, chief)
    epoch = await connect(db, chief)
    muster = Muster(owner_id=owner.owner_id)
    command = operations.Begin(agent_id=chief.agent_id, epoch=epoch, message_id=message.id)
    endings: list[operations.Ending] = [
        message_rules.PutBack(epoch=epoch),
        message_rules.Complete(epoch=epoch, usage=USAGE),
    ]
    for attempt, ending in enumerate(endings, start=1):
        handover = await db.run(muster, operations.begin, command)
        assert handover is not None
        assert handover.words_wait
        assert handover.message.attempts == attempt
        settle = operations.Settle(
            message_id=message.id,
            attempt=attempt,
            turn_id=handover.turn_id,
            conversation_id=handover.conversation_id,
            ending=ending,
            heard=Heard(text="Drafted.", left_out=0),
        )
        await db.run(muster, operations.settle_turn, settle)
    of_message = [turn for turn in await turns(db, owner) if turn.message_id is not None]
    (turn,) = of_message
    assert (turn.state, turn.attempt) == (State.DELIVERED, 2)
    assert (turn.answer, turn.usage) == ("Drafted.", USAGE)


async def test_many_that_begin_at_once_begin_one_turn(db: SpiedDatabase, owner: Owner) -> None:
    """Of deliveries of words and of messages that collide, one begins, and one waits or is left."""
    chief, plugin = await make_chief(db, owner), await make_plugin(db, owner)
    message = await make_message(db, plugin)
    for number in range(4):
        await speak(db, owner, chief, f"{number}")
    epoch = await connect(db, chief)
    muster = Muster(owner_id=owner.owner_id)
    say_it = BeginWords(agent_id=chief.agent_id, epoch=epoch)
    hand_over = operations.Begin(agent_id=chief.agent_id, epoch=epoch, message_id=message.id)

    async def words_too(tx: Transaction) -> object:
        return await begin_words(tx, say_it)

    async def message_too(tx: Transaction) -> object:
        return await operations.begin(tx, hand_over)

    works = [(muster, words_too)] * 3 + [(muster, message_too)] * 2
    outcomes = await collide(db, *works)
    assert not [outcome for outcome in outcomes if isinstance(outcome, MusterError)]
    running = [turn for turn in await turns(db, owner) if turn.state is State.DELIVERING]
    assert len(running) == 1


async def test_many_that_say_something_at_once_share_one_conversation(
    db: SpiedDatabase, owner: Owner
) -> None:
    """First words that collide all are stored, in one default conversation."""
    chief = await make_chief(db, owner)
    commands = [Say(agent_id=chief.agent_id, text=f"{n}", by=By.MUSTER) for n in range(5)]
    outcomes = await collide(db, *[(owner, partial(_say, command=command)) for command in commands])
    assert len({outcome for outcome in outcomes if isinstance(outcome, int)}) == 5
    page = await db.run(owner, look_at_chief, None)
    assert len(page.conversations) == 1
    assert {turn.words for turn in await turns(db, owner)} == {"0", "1", "2", "3", "4"}


async def _say(tx: Transaction, *, command: Say) -> int:
    return (await say(tx, command)).turn_id


async def test_saying_and_beginning_stopped_anywhere_leave_no_half(
    db: SpiedDatabase, owner: Owner
) -> None:
    """Cancelled at any step, words are stored with their fact or not at all, begun or waiting."""
    chief = await make_chief(db, owner)
    epoch = await connect(db, chief)

    async def operation() -> None:
        await speak(db, owner, chief)
        await begin(db, chief, epoch)

    async def check(completed: bool) -> None:
        stored = await turns(db, owner)
        facts = await read_audit(db, owner, "conversation.said")
        assert [turn.id for turn in stored] == [row.data["turn_id"] for row in facts]
        running = [turn for turn in stored if turn.state is State.DELIVERING]
        assert len(running) <= 1
        assert running or not completed
        assert all((turn.begun_at is None) == (turn.state is State.QUEUED) for turn in stored)
        assert db.pool.free == db.pool.size

    assert await cancel_at_every_step(operation, check) >= 4


async def test_no_more_words_wait_than_may_when_many_are_said_at_once(
    db: SpiedDatabase, owner: Owner
) -> None:
    """Of five that are said at once one finds the last place, and four are refused."""
    chief = await make_chief(db, owner)
    for number in range(WAITING_MAX - 1):
        await speak(db, owner, chief, f"{number}")
    command = Say(agent_id=chief.agent_id, text="hello", by=By.OWNER)
    outcomes = await collide(db, *[(owner, partial(say, command=command))] * 5)
    assert sum(isinstance(outcome, Refused) for outcome in outcomes) == 4, outcomes
