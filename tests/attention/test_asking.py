"""Asks on the real database: who asks, who answers, what is listed, what collides."""

from datetime import timedelta

import pytest
import trio

from actors.testing import cancel_at_every_step
from muster.attention import operations as attention
from muster.attention.operations import AskedBy, State
from muster.errors import Invalid, NotFound, Refused
from muster.outcomes import HintKind
from muster.pg.database import Database
from muster.principals import Agent, Muster, Owner
from tests.support.barrier import collide
from tests.support.builders import (
    make_agent,
    make_chief,
    make_message,
    make_plugin,
    read_audit,
)
from tests.support.cluster import SpiedDatabase, add_owner

DAY = timedelta(days=1)


async def ask(db: Database, agent: Agent, question: str = "Noon?") -> int:
    """Ask as an agent; the ask's id."""
    command = attention.AskOwner(asked_by=AskedBy.AGENT, question=question, answers=("yes",))
    asked = await db.run(agent, attention.ask, command)
    assert asked is not None
    return asked.id


async def states(db: Database, owner: Owner) -> dict[int, State]:
    """The state of each of the owner's asks, as the two listings have it."""
    found: dict[int, State] = {}
    for ended in (False, True):
        listed = await db.run(owner, attention.list_asks, attention.ListAsks(ended=ended))
        assert all((view.state is State.OPEN) is not ended for view in listed)
        found |= {view.id: view.state for view in listed}
    return found


async def test_an_ask_is_listed_answered_and_told_of(db: SpiedDatabase, owner: Owner) -> None:
    """An ask stands among the open ones with its asker's name, and after the answer no more."""
    agent = await make_agent(db, owner, "scout")
    ask_id = await ask(db, agent)
    (view,) = await db.run(owner, attention.list_asks, attention.ListAsks())
    assert (view.agent, view.asked_by, view.question) == ("scout", AskedBy.AGENT, "Noon?")
    assert (view.answers, view.expires_at - view.created_at) == (("yes",), DAY)
    command = attention.Answer(ask_id=ask_id, text="make it one")
    await db.run(owner, attention.answer, command)
    await db.run(owner, attention.answer, command)
    with pytest.raises(Refused):
        await db.run(owner, attention.answer, attention.Answer(ask_id=ask_id, text="no"))
    assert await db.run(owner, attention.list_asks, attention.ListAsks()) == []
    view = await db.run(owner, attention.get_ask, ask_id)
    assert (view.answer, view.answered_via) == ("make it one", "cli")
    rows = await read_audit(db, owner, "ask.")
    assert [(row.action, row.actor) for row in rows] == [
        ("ask.asked", "agent:scout"),
        ("ask.answered", "owner"),
    ]
    hints = [hint.id for hint in db.touched if hint.kind is HintKind.ASK_CHANGED]
    assert hints == [ask_id, ask_id]


async def test_others_asks_are_not_there(db: SpiedDatabase, owner: Owner) -> None:
    """Another owner finds, answers, dismisses and cancels none of them; the answer is not found."""
    ask_id = await ask(db, await make_agent(db, owner))
    other = await add_owner(db)
    agent = await make_agent(db, other)
    for principal, verb, command in (
        (other, attention.answer, attention.Answer(ask_id=ask_id, text="yes")),
        (other, attention.dismiss, attention.Dismiss(ask_id=ask_id)),
        (agent, attention.cancel, attention.Cancel(ask_id=ask_id)),
        (other, attention.get_ask, ask_id),
    ):
        with pytest.raises(NotFound):
            await db.run(principal, verb, command)  # type: ignore[arg-type]
    assert await states(db, owner) == {ask_id: State.OPEN}


@pytest.mark.rule(305)
async def test_each_cancels_its_own(db: SpiedDatabase, owner: Owner) -> None:
    """An agent withdraws what it asked, nobody else's, and least of all what muster asked."""
    chief, agent = await make_chief(db, owner), await make_agent(db, owner)
    message = await make_message(db, await make_plugin(db, owner), delivered_to=chief)
    muster = Muster(owner_id=owner.owner_id)
    about = attention.AskOwner(
        asked_by=AskedBy.MUSTER,
        question="What now?",
        message_id=message.id,
        plugin_message_id=message.id,
    )
    musters = await db.run(muster, attention.ask, about)
    assert musters is not None
    own, others = await ask(db, chief), await ask(db, agent)
    await db.run(chief, attention.cancel, attention.Cancel(ask_id=own))
    await db.run(chief, attention.cancel, attention.Cancel(ask_id=own))
    with pytest.raises(NotFound):
        await db.run(chief, attention.cancel, attention.Cancel(ask_id=others))
    with pytest.raises(Refused) as refusal:
        await db.run(chief, attention.cancel, attention.Cancel(ask_id=musters.id))
    assert refusal.value.code == "muster_asked"
    assert await states(db, owner) == {
        own: State.CANCELLED,
        others: State.OPEN,
        musters.id: State.OPEN,
    }
    # One ask a message, ever: not even once the first has ended.
    assert await db.run(muster, attention.ask, about) is None
    await db.run(owner, attention.dismiss, attention.Dismiss(ask_id=musters.id))
    assert await db.run(muster, attention.ask, about) is None


@pytest.mark.rule(304)
async def test_an_ask_lives_for_a_day(db: SpiedDatabase, owner: Owner) -> None:
    """After a day an ask counts as expired at once, and the sweep's verb only writes it down."""
    ask_id = await ask(db, await make_agent(db, owner))
    expire = attention.Expire(ask_id=ask_id)
    muster = Muster(owner_id=owner.owner_id)
    assert (await db.run(muster, attention.expire, expire)).state is State.OPEN
    db.clock_offset = DAY
    assert await states(db, owner) == {ask_id: State.EXPIRED}
    with pytest.raises(Refused):
        await db.run(owner, attention.answer, attention.Answer(ask_id=ask_id, text="yes"))
    written = await db.run(muster, attention.expire, expire)
    assert (written.state, written.ended_at) == (State.EXPIRED, written.expires_at)
    assert await states(db, owner) == {ask_id: State.EXPIRED}


@pytest.mark.rule(304)
async def test_fifty_are_open_at_once(db: SpiedDatabase, owner: Owner) -> None:
    """The agents of an owner share 50 open asks; one that ends, or is overdue, makes room."""
    agents = [await make_agent(db, owner) for _ in range(2)]
    asked = [await ask(db, agents[number % 2]) for number in range(48)]
    outcomes = await collide(
        db,
        *[
            (
                agents[number % 2],
                lambda tx: attention.ask(
                    tx, attention.AskOwner(asked_by=AskedBy.AGENT, question="Me?")
                ),
            )
            for number in range(5)
        ],
    )
    refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    assert [refusal.code for refusal in refused] == ["too_many_asks"] * 3
    await db.run(owner, attention.dismiss, attention.Dismiss(ask_id=asked[0]))
    await ask(db, agents[0])
    with pytest.raises(Refused):
        await ask(db, agents[1])
    db.clock_offset = DAY
    await ask(db, agents[1])
    assert await db.run(await add_owner(db), lambda tx, _: attention.count_places(tx), None) == 50


async def test_two_answers_are_one(db: SpiedDatabase, owner: Owner) -> None:
    """Of two different answers at once one counts, and the other is told what the state is."""
    ask_id = await ask(db, await make_agent(db, owner))
    outcomes = await collide(
        db,
        *[
            (
                owner,
                lambda tx, text=text: attention.answer(
                    tx, attention.Answer(ask_id=ask_id, text=text)
                ),
            )
            for text in ("yes", "no")
        ],
    )
    assert sum(isinstance(outcome, Refused) for outcome in outcomes) == 1
    assert len(await read_audit(db, owner, "ask.answered")) == 1


async def test_words_in_the_chat_answer_what_the_agent_asked(
    db: SpiedDatabase, owner: Owner
) -> None:
    """What the owner writes to an agent answers all that it has open, and nobody else's."""
    one, other = await make_agent(db, owner), await make_agent(db, owner)
    asked = [await ask(db, one), await ask(db, one)]
    others = await ask(db, other)
    await db.run(owner, attention.dismiss, attention.Dismiss(ask_id=await ask(db, one)))

    async def write(text: str) -> list[int]:
        async with db.transaction(owner) as tx:
            return await attention.settle_by_chat(tx, one.agent_id, text)

    assert await write("both at noon") == asked
    assert await write("and a third") == []
    for ask_id in asked:
        view = await db.run(owner, attention.get_ask, ask_id)
        assert (view.answer, view.answered_via) == ("both at noon", "chat")
    assert (await states(db, owner))[others] is State.OPEN
    late = await ask(db, one)
    db.clock_offset = DAY
    assert await write("too late") == []
    assert (await states(db, owner))[late] is State.EXPIRED


async def test_a_question_is_checked_before_anything(db: SpiedDatabase, owner: Owner) -> None:
    """A question that cannot be kept is refused by its field, and leaves nothing."""
    with pytest.raises(Invalid):
        await ask(db, await make_agent(db, owner), "x" * 2001)
    assert await read_audit(db, owner, "ask.") == []


@pytest.mark.parametrize("verb", ["ask", "answer", "dismiss", "cancel", "expire", "chat"])
async def test_whole_or_not_at_all(db: SpiedDatabase, owner: Owner, verb: str) -> None:
    """A cancelled verb leaves the row, its fact and its hint all together or not at all."""
    agent = await make_agent(db, owner)
    muster = Muster(owner_id=owner.owner_id)
    ask_id = 0

    async def prepare() -> None:
        nonlocal ask_id
        db.clock_offset = timedelta(0)
        if verb != "ask":
            ask_id = await ask(db, agent)
        if verb == "expire":
            db.clock_offset = DAY
        db.touched.clear()

    async def chat() -> None:
        async with db.transaction(owner) as tx:
            await attention.settle_by_chat(tx, agent.agent_id, "yes")

    async def attempt() -> None:
        match verb:
            case "ask":
                await ask(db, agent)
            case "answer":
                command = attention.Answer(ask_id=ask_id, text="yes")
                await db.run(owner, attention.answer, command)
            case "dismiss":
                await db.run(owner, attention.dismiss, attention.Dismiss(ask_id=ask_id))
            case "cancel":
                await db.run(agent, attention.cancel, attention.Cancel(ask_id=ask_id))
            case "expire":
                await db.run(muster, attention.expire, attention.Expire(ask_id=ask_id))
            case _:
                await chat()

    async def check(completed: bool) -> None:
        with trio.CancelScope(shield=True):
            hinted = [hint.id for hint in db.touched]
            rows = await read_audit(db, owner, "ask.")
            facts = [row for row in rows if row.subject == f"ask:{hinted[0] if hinted else ask_id}"]
            if hinted:
                assert len(hinted) == 1
                assert len(facts) == (1 if verb == "ask" else 2)
                await prepare()
            else:
                assert not completed
                assert len(facts) == (0 if verb == "ask" else 1)

    await prepare()
    assert await cancel_at_every_step(attempt, check) >= 3
