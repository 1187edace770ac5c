"""What a session asks the chief, as rows: all of it or nothing, and what it becomes."""

import attrs
import pytest
import trio

from actors.testing import cancel_at_every_step
from muster.agents.operations import retire_agent
from muster.agents.rules import RetireAgent
from muster.chief.operations.session_asks import (
    WAITING_MAX,
    AskChief,
    FindAsks,
    SessionAsk,
    ask_chief,
    find_asks,
)
from muster.errors import NotFound, Refused
from muster.pg.query import Query
from muster.principals import Owner
from muster.routes.rules import Route
from tests.support.builders import make_chief, read_audit
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.mirror_host import new_session
from tests.support.route_desk import RouteDesk, open_route_desk

COUNT = Query("select count(*) from session_asks where owner_id = %(owner_id)s")


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> RouteDesk:
    """A desk whose session can take a message."""
    return await open_route_desk(db, owner)


async def ask(desk: RouteDesk, route: Route | None = None, *, session: str | None = None) -> int:
    """The session asks; the ask's id."""
    command = AskChief(
        mirrored_id=desk.queue.mirrored_id,
        claude_session=session or desk.queue.session,
        host="box",
        question="Which gate?",
        route_id=None if route is None else route.id,
    )
    return await desk.db.run(desk.owner, ask_chief, command)


async def found(desk: RouteDesk, *ids: int) -> list[SessionAsk]:
    """The questions as they stand."""
    return await desk.db.run(
        desk.owner, find_asks, FindAsks(mirrored_id=desk.queue.mirrored_id, ids=ids)
    )


async def count(desk: RouteDesk) -> int:
    """How many questions there are."""
    async with desk.db.transaction(desk.owner) as tx:
        return int(await tx.scalar(COUNT))


@pytest.mark.rule(323)
async def test_a_question_is_said_in_the_right_conversation(desk: RouteDesk) -> None:
    """One about a route in that of its plugin, with the message; another in the default one."""
    route = await desk.route(await desk.message(body="Noon?"))
    await ask(desk)
    await ask(desk, route)
    plain, about = [turn for turn in await desk.told() if turn.state == "queued"]
    assert (plain.kind, about.kind) == ("default", "plugin")
    for turn in (plain, about):
        assert turn.said_by == "muster"
        assert turn.words is not None
        assert "\n> Which gate?\n" in turn.words
        assert f"mirror:{desk.queue.session} on box" in turn.words
    assert plain.words is not None
    assert about.words is not None
    assert "| Noon?" in about.words
    assert "| Noon?" not in plain.words
    assert len(await read_audit(desk.db, desk.owner, "conversation.said")) == 2


@pytest.mark.rule(323)
async def test_a_route_of_another_session_is_none(desk: RouteDesk, db: SpiedDatabase) -> None:
    """So is one of another owner's; nothing is said then."""
    route = await desk.route()
    with pytest.raises(NotFound):
        await ask(desk, route, session=new_session())
    theirs = await open_route_desk(db, await add_owner(db))
    with pytest.raises(NotFound):
        await ask(theirs, route, session=desk.queue.session)
    assert await count(desk) + await count(theirs) == 0


async def test_a_question_and_its_words_are_one(desk: RouteDesk) -> None:
    """Cancelled at each step: either both are there or neither is."""
    route = await desk.route()
    asked = 0

    async def attempt() -> None:
        await ask(desk, route)

    async def check(completed: bool) -> None:
        nonlocal asked
        with trio.CancelScope(shield=True):
            there = await count(desk)
            said = [turn for turn in await desk.told() if turn.state == "queued"]
            assert there == len(said)
            assert there - asked in ((1,) if completed else (0, 1))
            asked = there

    assert await cancel_at_every_step(attempt, check) >= 5


async def test_questions_at_once_keep_to_the_limit(desk: RouteDesk) -> None:
    """Of more calls at once than questions may wait, the rest are refused."""
    refused: list[str] = []

    async def try_it() -> None:
        try:
            await ask(desk)
        except Refused as refusal:
            refused.append(refusal.code)

    async with trio.open_nursery() as nursery:
        for _ in range(WAITING_MAX + 3):
            nursery.start_soon(try_it)
    assert refused == ["too_many_asks"] * 3
    assert await count(desk) == WAITING_MAX


async def test_a_retired_chief_answers_nothing(desk: RouteDesk) -> None:
    """Its questions are cut off and count no more; the next chief is asked anew."""
    asked = [await ask(desk) for _ in range(WAITING_MAX)]
    assert {one.state for one in await found(desk, *asked)} == {"waiting"}
    await desk.db.run(desk.owner, retire_agent, RetireAgent(name=desk.chief.name))
    assert {one.state for one in await found(desk, *asked)} == {"cut_off"}
    with pytest.raises(Refused, match="no chief"):
        await ask(desk)
    await make_chief(desk.db, desk.owner, "next")
    (one,) = await found(desk, await ask(desk))
    assert (one.state, one.answer) == ("waiting", None)


async def test_others_find_no_question(desk: RouteDesk, db: SpiedDatabase) -> None:
    """Neither another owner nor another session of the owner's."""
    asked = await ask(desk)
    command = FindAsks(mirrored_id=desk.queue.mirrored_id, ids=(asked,))
    assert await db.run(await add_owner(db), find_asks, command) == []
    elsewhere = attrs.evolve(command, mirrored_id=desk.queue.mirrored_id + 1)
    assert await db.run(desk.owner, find_asks, elsewhere) == []
