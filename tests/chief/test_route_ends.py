"""Routes that end without a reply: the chief has its message back, once; a stamp settles them."""

from datetime import timedelta

import attrs
import pytest

from muster.accounts.operations.sessions import sign_out_everywhere
from muster.agents.operations import accept_gateway, retire_agent
from muster.agents.rules import Accept, RetireAgent
from muster.chief import operations
from muster.chief.deliveries import fenced
from muster.chief.notes import with_notes
from muster.errors import MusterError, NotFound
from muster.messages import rules as message_rules
from muster.mirror.operations.pasting import refuse_standing
from muster.mirror.operations.queue import cancel_send
from muster.mirror.send_rules import CancelSend, RefuseStanding, SendState
from muster.principals import Owner
from muster.routes.rules import HandBack, Route, State
from tests.support.builders import disable, make_chief, make_message, make_plugin
from tests.support.cluster import SpiedDatabase
from tests.support.mirror_host import new_session
from tests.support.route_desk import NODE, RouteDesk, open_route_desk
from tests.support.send_desk import STEPUP_SECONDS, show, window_of


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> RouteDesk:
    """A desk whose session can take a message."""
    return await open_route_desk(db, owner)


async def connect(desk: RouteDesk) -> None:
    """The chief's socket is open."""
    await desk.db.run(desk.muster, accept_gateway, Accept(agent_id=desk.chief.agent_id, node=NODE))


async def given_back(desk: RouteDesk, route: Route) -> list[str]:
    """In which form the chief had the message back, each time."""
    named = f"route {route.id} "
    return [turn.state for turn in await desk.told() if turn.words and named in turn.words]


@pytest.mark.rule(333, 334, 335)
async def test_without_an_answer_a_route_times_out(desk: RouteDesk) -> None:
    """At its deadline and not before: its text is cancelled, and the chief told once, by a note."""
    route = await desk.route()
    await desk.shift(timedelta(minutes=29, seconds=59))
    await desk.sweep()
    assert (await desk.look(route)).state is State.ROUTED
    await desk.shift(timedelta(seconds=2))
    await desk.sweep()
    ended = await desk.look(route)
    assert (ended.state, ended.handback) == (State.TIMED_OUT, HandBack.DELIVERED)
    (send,) = await desk.queue.listed(ended=True)
    assert send.state is SendState.CANCELLED
    await desk.sweep()
    assert await given_back(desk, route) == ["noted"]
    assert await desk.actions() == ["routed", "timed_out"]
    with pytest.raises(MusterError) as late:
        await desk.answer(route)
    assert late.value.facts["state"] == "timed_out"


@pytest.mark.rule(333)
async def test_a_free_chief_is_told_in_a_turn(desk: RouteDesk) -> None:
    """While it is connected and in no turn, it gets the message back as one."""
    route = await desk.route()
    await desk.shift(timedelta(minutes=31))
    await connect(desk)
    await desk.sweep()
    assert await given_back(desk, route) == ["queued"]


@pytest.mark.rule(333)
async def test_a_chief_in_a_turn_gets_a_note(desk: RouteDesk) -> None:
    """And has it with the next turn of that conversation, once."""
    route = await desk.route()
    await connect(desk)
    epoch = 1
    queued = await make_message(desk.db, desk.plugin)
    begin = operations.Begin(agent_id=desk.chief.agent_id, epoch=epoch, message_id=queued.id)
    first = await desk.db.run(desk.muster, operations.begin, begin)
    assert first is not None
    assert first.notes == ()
    await desk.shift(timedelta(minutes=31))
    await desk.sweep()
    assert await given_back(desk, route) == ["noted"]
    other = await make_message(desk.db, desk.plugin)
    begin = operations.Begin(agent_id=desk.chief.agent_id, epoch=epoch, message_id=other.id)
    second = await desk.db.run(desk.muster, operations.begin, begin)
    assert second is not None
    (note,) = second.notes
    assert f"route {route.id} " in note
    assert fenced(second).startswith("muster: since your last turn in this conversation")
    put_back = operations.Settle(
        message_id=other.id,
        attempt=second.message.attempts,
        turn_id=second.turn_id,
        conversation_id=second.conversation_id,
        ending=message_rules.PutBack(epoch=epoch),
    )
    await desk.db.run(desk.muster, operations.settle_turn, put_back)
    again = await desk.db.run(desk.muster, operations.begin, begin)
    assert again is not None
    assert again.notes == second.notes, "nothing of that turn was sent"


@pytest.mark.rule(316, 334)
async def test_a_cancelled_text_ends_its_route_at_once(desk: RouteDesk) -> None:
    """By its owner, in the queue; the chief has the message back before any deadline."""
    route = await desk.route()
    (send,) = await desk.queue.listed()
    await desk.db.run(desk.owner, cancel_send, CancelSend(send_id=send.id))
    await desk.sweep()
    ended = await desk.look(route)
    assert (ended.state, ended.handback) == (State.FAILED, HandBack.DELIVERED)
    assert await given_back(desk, route) == ["noted"]


@pytest.mark.rule(316)
@pytest.mark.parametrize("how", ["disabled", "signed out everywhere"])
async def test_a_text_that_is_refused_ends_its_route(desk: RouteDesk, how: str) -> None:
    """A disabled account, and a sign-out everywhere after the route."""
    route = await desk.route()
    await desk.shift(timedelta(seconds=1))
    if how == "disabled":
        await disable(desk.db, desk.owner)
    else:
        await desk.db.run(desk.owner, sign_out_everywhere, None)
    refuse = RefuseStanding(stepup_window_seconds=STEPUP_SECONDS)
    await desk.db.run(desk.muster, refuse_standing, refuse)
    await desk.sweep()
    assert (await desk.look(route)).state is State.FAILED


@pytest.mark.rule(316, 334)
async def test_a_text_that_did_not_arrive_ends_its_route(desk: RouteDesk) -> None:
    """By the owner's word on an unconfirmed paste; until then the route waits for its answer."""
    route = await desk.route()
    send = await desk.queue.offer()
    assert send is not None
    await desk.queue.settle(send, "unconfirmed")
    await desk.sweep()
    assert (await desk.look(route)).state is State.ROUTED
    await desk.queue.resolve(send, arrived=False)
    await desk.sweep()
    ended = await desk.look(route)
    assert (ended.state, ended.why) == (State.FAILED, "its text did not arrive")
    assert await given_back(desk, route) == ["noted"]


@pytest.mark.rule(317)
async def test_a_session_that_no_window_shows_gives_its_message_up(desk: RouteDesk) -> None:
    """After 2 minutes, while its text still waits; a window that came back keeps it."""
    route = await desk.route()
    gone, back = window_of(new_session(), 2), window_of(desk.queue.session)
    await desk.shift(timedelta(minutes=3))
    await show(desk.db, desk.owner, desk.queue.host_id, gone)
    await desk.shift(timedelta(seconds=110))
    await desk.sweep()
    assert (await desk.look(route)).state is State.ROUTED
    await show(desk.db, desk.owner, desk.queue.host_id, back)
    await desk.shift(timedelta(seconds=20))
    await desk.sweep()
    assert (await desk.look(route)).state is State.ROUTED
    await show(desk.db, desk.owner, desk.queue.host_id, gone)
    await desk.shift(timedelta(seconds=121))
    await desk.sweep()
    assert (await desk.look(route)).state is State.FAILED


@pytest.mark.rule(317, 337)
async def test_a_window_that_moved_on_ends_its_routes(desk: RouteDesk) -> None:
    """The pane shows another conversation now: nothing is pasted, and the route fails."""
    route = await desk.route()
    await desk.shift(timedelta(minutes=3))
    await show(desk.db, desk.owner, desk.queue.host_id, window_of(new_session()))
    await desk.sweep()
    assert (await desk.look(route)).state is State.FAILED


@pytest.mark.rule(317)
async def test_a_host_that_went_away_gives_its_routes_up(desk: RouteDesk) -> None:
    """After 2 minutes, also where its server was killed and wrote nothing down."""
    route = await desk.route()
    await desk.shift(timedelta(seconds=110), alive=False)
    await desk.sweep()
    assert (await desk.look(route)).state is State.ROUTED
    await desk.shift(timedelta(seconds=20), alive=False)
    await desk.sweep()
    assert (await desk.look(route)).state is State.FAILED


@pytest.mark.rule(317)
async def test_a_pasted_text_waits_for_its_answer_without_a_window(desk: RouteDesk) -> None:
    """The session has the message, and may answer until the deadline."""
    route = await desk.route()
    send = await desk.queue.offer()
    assert send is not None
    await desk.queue.settle(send, "pasted")
    await show(desk.db, desk.owner, desk.queue.host_id, window_of(new_session()))
    await desk.shift(timedelta(minutes=10))
    await desk.sweep()
    assert (await desk.look(route)).state is State.ROUTED


@pytest.mark.rule(334)
async def test_a_hand_back_goes_to_the_chief_of_now(desk: RouteDesk, db: SpiedDatabase) -> None:
    """The chief that routed it was replaced meanwhile; it is told once, and nobody else."""
    route = await desk.route()
    await db.run(desk.owner, retire_agent, RetireAgent(name=desk.chief.name))
    successor = await make_chief(db, desk.owner)
    await desk.shift(timedelta(minutes=31))
    await desk.sweep()
    await desk.sweep()
    assert await given_back(desk, route) == ["noted"]
    assert [turn.agent_id for turn in await desk.told()] == [successor.agent_id]


@pytest.mark.rule(341, 343, 344)
async def test_a_stamp_settles_a_route_that_waits(desk: RouteDesk) -> None:
    """Its text is cancelled, a late answer refused, a note written; again changes nothing."""
    message = await desk.message(thread="dm-1")
    route = await desk.route(message)
    stamped = await desk.stamp(message)
    assert (stamped.settled, stamped.state, stamped.route_id) == (True, "owner_answered", route.id)
    again = await desk.stamp(message)
    assert (again.settled, again.state, again.error) == (False, "owner_answered", None)
    ended = await desk.look(route)
    assert ended.owner_replied_at is not None
    assert ended.handback is HandBack.NONE
    (send,) = await desk.queue.listed(ended=True)
    assert send.state is SendState.CANCELLED
    with pytest.raises(MusterError, match="already sent to the sender directly"):
        await desk.answer(route, session=desk.queue.session)
    assert await desk.actions() == ["routed", "owner_answered"]
    assert [turn.state for turn in await desk.told() if turn.words] == ["noted"]


@pytest.mark.rule(342, 345, 347)
async def test_a_stamp_that_settles_nothing_says_why(desk: RouteDesk) -> None:
    """Another thread, none, no route, and one that waits no more; a draft stays as it was."""
    message = await desk.message(thread="dm-1")
    assert (await desk.stamp(message)).state == "none"
    route = await desk.route(message)
    other = await desk.stamp(message, "dm-2")
    assert (other.state, other.settled) == ("routed", False)
    assert "thread" in (other.error or "")
    bare = await desk.message()
    await desk.route(bare)
    assert "no thread" in ((await desk.stamp(bare)).error or "")
    await desk.answer(route)
    late = await desk.stamp(message)
    assert (late.state, late.settled) == ("fallback", False)
    assert late.error is not None
    assert (await desk.look(route)).state is State.FALLBACK


@pytest.mark.rule(346)
async def test_a_stamp_is_the_messages_own_plugins(desk: RouteDesk) -> None:
    """Another plugin of the same owner's knows no such message."""
    message = await desk.message(thread="dm-1")
    other = await make_plugin(desk.db, desk.owner)
    with pytest.raises(NotFound):
        await attrs.evolve(desk, plugin=other).stamp(message)


def test_words_without_notes_are_as_they_are() -> None:
    """No note, no line about notes."""
    assert with_notes("text", ()) == "text"
