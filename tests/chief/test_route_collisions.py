"""Verbs of one route that truly collide, and each verb cancelled at every step."""

import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial

import attrs
import pytest
import trio

from actors.testing import cancel_at_every_step
from muster.chief.operations.routing.answering import (
    AnswerRoute,
    RelayRoute,
    RelaySettings,
    answer_route,
    relay_route,
)
from muster.chief.operations.routing.ending import (
    EndRoute,
    GiveBackRoute,
    OwnerAnswered,
    end_route,
    give_back,
    owner_answered,
)
from muster.chief.operations.routing.listing import RouteView, list_routes_of_message
from muster.chief.operations.routing.making import RouteMessage, route_message
from muster.drafts.operations import ListDrafts, list_drafts
from muster.errors import MusterError, Refused
from muster.messages.rules import Message
from muster.mirror.operations.queue import cancel_send
from muster.mirror.send_rules import CancelSend
from muster.principals import Owner
from muster.routes.rules import By, HandBack, Route, State
from tests.support.barrier import collide
from tests.support.cluster import SpiedDatabase
from tests.support.route_desk import RouteDesk, open_route_desk

ROUNDS = 6
LATE = timedelta(minutes=31)
OPEN = {State.ROUTED, State.ANSWERED}


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> RouteDesk:
    """A desk whose session can take a message."""
    return await open_route_desk(db, owner)


def answering(route: Route, body: str = "Noon works.") -> AnswerRoute:
    """A session's answer."""
    return AnswerRoute(
        route_id=route.id,
        body=body,
        via="tests",
        deny_words=frozenset(),
        claude_session=route.claude_session,
    )


def relaying(desk: RouteDesk, route: Route) -> RelayRoute:
    """The relay of what was kept."""
    settings = RelaySettings(allow=desk.allow, deny_words=frozenset())
    return RelayRoute(route_id=route.id, settings=settings)


async def routes_of(desk: RouteDesk, message: Message | Route) -> Sequence[RouteView]:
    """Every route of a message."""
    number = message.id if isinstance(message, Message) else message.message_id
    return await desk.db.run(desk.owner, list_routes_of_message, number)


async def meet(desk: RouteDesk, *operations: tuple[object, object]) -> list[object]:
    """Let them collide; no outcome may be anything but a result or a plain refusal."""
    outcomes = await collide(desk.db, *operations)  # type: ignore[arg-type]
    for outcome in outcomes:
        assert not isinstance(outcome, MusterError) or isinstance(outcome, Refused), outcome
    return list(outcomes)


@pytest.mark.rule(311)
async def test_ten_routes_of_one_message(desk: RouteDesk) -> None:
    """By the chief and by the owner at once: one is made, and the others name it."""
    for _ in range(ROUNDS):
        message = await desk.message()
        by_chief = RouteMessage(message_id=message.id, subject=desk.subject, by=By.CHIEF)
        by_owner = attrs.evolve(by_chief, by=By.OWNER)
        outcomes = await meet(
            desk,
            *[(desk.chief, partial(route_message, command=by_chief))] * 5,
            *[(desk.owner, partial(route_message, command=by_owner))] * 5,
        )
        (made,) = await routes_of(desk, message)
        refused = [one for one in outcomes if isinstance(one, Refused)]
        assert len(refused) == 9
        assert {(one.code, one.facts["route_id"]) for one in refused} == {
            ("already_routed", made.id)
        }


@pytest.mark.rule(319, 334)
async def test_an_answer_meets_the_deadline(desk: RouteDesk) -> None:
    """The route is answered or timed out, with one audit row of either, and owed accordingly."""
    for number in range(2 * ROUNDS):
        route = await desk.route()
        await desk.shift(LATE)
        given = [(desk.owner, partial(answer_route, command=answering(route)))] * 3
        over = [(desk.muster, partial(end_route, command=EndRoute(route_id=route.id)))] * 3
        await meet(desk, *(given + over if number % 2 else over + given))
        (ended,) = await routes_of(desk, route)
        assert ended.state in (State.ANSWERED, State.TIMED_OUT)
        owed = HandBack.OWED if ended.state is State.TIMED_OUT else HandBack.NONE
        assert ended.handback is owed
    actions = await desk.actions()
    assert actions.count("answered") + actions.count("timed_out") == 2 * ROUNDS


@pytest.mark.rule(330)
async def test_ten_relays_of_one_answer(desk: RouteDesk) -> None:
    """One draft is filed, whoever relays."""
    for _ in range(ROUNDS):
        route = await desk.route()
        await desk.keep(route)
        relay = partial(relay_route, command=relaying(desk, route))
        await meet(desk, *[(desk.muster, relay)] * 10)
    listed = await desk.db.run(desk.owner, list_drafts, ListDrafts())
    assert len(listed) == ROUNDS
    assert (await desk.actions()).count("fallback") == ROUNDS


@pytest.mark.rule(334)
async def test_ten_sweeps_of_one_debt(desk: RouteDesk) -> None:
    """The chief is told once."""
    for _ in range(ROUNDS):
        route = await desk.route()
        await desk.shift(LATE)
        await desk.db.run(desk.muster, end_route, EndRoute(route_id=route.id))
        back = partial(give_back, command=GiveBackRoute(route_id=route.id))
        outcomes = await meet(desk, *[(desk.muster, back)] * 10)
        assert sorted(map(bool, outcomes)) == [False] * 9 + [True]
    assert len([turn for turn in await desk.told() if turn.words]) == ROUNDS


@pytest.mark.rule(334, 343)
async def test_everything_at_once(desk: RouteDesk) -> None:
    """A route ends in one way, whatever meets, and leaves no debt that is not its own."""
    for _ in range(ROUNDS):
        message = await desk.message(thread="dm-1")
        route = await desk.route(message)
        (send,) = await desk.queue.listed()
        await desk.shift(LATE)
        stamp = OwnerAnswered(message_id=message.id, thread="dm-1")
        failing = EndRoute(route_id=route.id, why="its window is gone")
        await meet(
            desk,
            (desk.owner, partial(answer_route, command=answering(route))),
            (desk.muster, partial(relay_route, command=relaying(desk, route))),
            (desk.muster, partial(end_route, command=EndRoute(route_id=route.id))),
            (desk.muster, partial(end_route, command=failing)),
            (desk.plugin, partial(owner_answered, command=stamp)),
            (desk.owner, partial(cancel_send, command=CancelSend(send_id=send.id))),
            (desk.muster, partial(give_back, command=GiveBackRoute(route_id=route.id))),
        )
        await desk.shift(timedelta(minutes=2))
        await desk.sweep()
        (ended,) = await routes_of(desk, route)
        assert ended.state not in OPEN
        assert (ended.handback is HandBack.DELIVERED) == (
            ended.state in (State.TIMED_OUT, State.FAILED)
        )
        names_it = re.compile(rf"route {route.id}\b")
        told = [turn for turn in await desk.told() if names_it.search(turn.words or "")]
        assert len(told) == 1
        assert await desk.queue.listed() == []


@attrs.frozen(kw_only=True)
class Verb:
    """How to prepare a route, what to do to it, and what is on record when it was done."""

    prepare: Callable[[RouteDesk], Awaitable[Route]]
    act: Callable[[RouteDesk, Route], Awaitable[object]]
    state: State
    actions: tuple[str, ...]


async def _waiting(desk: RouteDesk) -> Route:
    return await desk.route(await desk.message(thread="dm-1"))


async def _late(desk: RouteDesk) -> Route:
    route = await desk.route()
    await desk.shift(LATE)
    return route


async def _kept(desk: RouteDesk) -> Route:
    route = await desk.route()
    await desk.keep(route)
    return route


async def _owing(desk: RouteDesk) -> Route:
    route = await _late(desk)
    await desk.db.run(desk.muster, end_route, EndRoute(route_id=route.id))
    return route


async def _stamp(desk: RouteDesk, route: Route) -> object:
    command = OwnerAnswered(message_id=route.message_id, thread="dm-1")
    return await desk.db.run(desk.plugin, owner_answered, command)


VERBS = {
    "answer": Verb(
        prepare=_waiting,
        act=lambda desk, route: desk.db.run(desk.owner, answer_route, answering(route)),
        state=State.ANSWERED,
        actions=("answered",),
    ),
    "relay": Verb(
        prepare=_kept,
        act=lambda desk, route: desk.db.run(desk.muster, relay_route, relaying(desk, route)),
        state=State.RELAYED,
        actions=("relayed",),
    ),
    "time out": Verb(
        prepare=_late,
        act=lambda desk, route: desk.db.run(desk.muster, end_route, EndRoute(route_id=route.id)),
        state=State.TIMED_OUT,
        actions=("timed_out",),
    ),
    "stamp": Verb(
        prepare=_waiting, act=_stamp, state=State.OWNER_ANSWERED, actions=("owner_answered",)
    ),
    "give back": Verb(
        prepare=_owing,
        act=lambda desk, route: desk.db.run(
            desk.muster, give_back, GiveBackRoute(route_id=route.id)
        ),
        state=State.TIMED_OUT,
        actions=(),
    ),
}


@pytest.mark.rule(334, 335)
@pytest.mark.parametrize("name", list(VERBS))
async def test_whole_or_not_at_all(desk: RouteDesk, name: str) -> None:
    """A cancelled verb leaves the row, its draft, its note, its text and its audit row together."""
    verb = VERBS[name]
    at = desk.allowing
    route: Route | None = None
    before: object = None
    seen = 0

    async def record() -> tuple[RouteView, int, int, list[str]]:
        assert route is not None
        view = await at.look(route)
        drafts = await at.db.run(at.owner, list_drafts, ListDrafts(limit=1000))
        words = [turn for turn in await at.told() if turn.words]
        return view, len(drafts), len(words), await at.actions()

    async def prepare() -> None:
        nonlocal route, before
        route = await verb.prepare(at)
        before = await record()

    async def check(completed: bool) -> None:
        nonlocal seen
        with trio.CancelScope(shield=True):
            assert isinstance(before, tuple)
            old, drafts, told, actions = before
            now, drafts_now, told_now, actions_now = await record()
            if now == old:
                assert not completed
                assert (drafts_now, told_now, actions_now) == (drafts, told, actions)
                return
            seen += 1
            assert now.state is verb.state
            assert tuple(actions_now[len(actions) :]) == verb.actions
            assert drafts_now - drafts == (name == "relay")
            assert told_now - told == (name in ("relay", "stamp", "give back"))
            assert now.send_state == "cancelled"
            await prepare()

    await prepare()
    assert await cancel_at_every_step(lambda: verb.act(at, _known(route)), check) >= 4
    assert seen


def _known(route: Route | None) -> Route:
    assert route is not None
    return route


async def test_a_route_is_made_wholly_or_not_at_all(desk: RouteDesk) -> None:
    """Cancelled anywhere, there is a row with its text and its audit row, or nothing."""
    message = await desk.message()
    command = RouteMessage(message_id=message.id, subject=desk.subject, by=By.CHIEF)
    made = 0

    async def check(completed: bool) -> None:
        nonlocal message, command, made
        with trio.CancelScope(shield=True):
            routes = await routes_of(desk, message)
            assert len(routes) == 1 or not completed
            made += len(routes)
            assert len(await desk.queue.listed()) == made
            assert await desk.actions() == ["routed"] * made
            if routes:
                message = await desk.message()
                command = attrs.evolve(command, message_id=message.id)

    async def act() -> None:
        await desk.db.run(desk.chief, route_message, command)

    assert await cancel_at_every_step(act, check) >= 4
    assert made
