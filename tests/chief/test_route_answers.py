"""A session's answer: taken once, relayed once, as a draft that waits or that goes."""

from datetime import timedelta

import pytest

from muster.chief.dispositions import find_acted
from muster.chief.operations.routing.answering import (
    RelayRoute,
    RelaySettings,
    relay_route,
)
from muster.drafts.operations import DraftView, ListDrafts, list_drafts
from muster.drafts.rules import PENDING_PER_AGENT_MAX
from muster.drafts.rules import State as DraftState
from muster.errors import Invalid, MusterError, NotFound
from muster.mirror.send_rules import SendState
from muster.principals import Owner
from muster.routes.rules import HandBack, State
from tests.support.builders import make_draft, read_audit
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.mirror_host import new_session
from tests.support.route_desk import RouteDesk, open_route_desk


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> RouteDesk:
    """A desk whose session can take a message."""
    return await open_route_desk(db, owner)


async def drafts(desk: RouteDesk) -> list[DraftView]:
    """The owner's drafts, newest first."""
    return await desk.db.run(desk.owner, list_drafts, ListDrafts())


@pytest.mark.rule(325, 330, 331, 335)
async def test_an_answer_becomes_a_draft_that_waits(desk: RouteDesk) -> None:
    """It names its route, the chief gets a note, and the text leaves the queue."""
    route = await desk.route()
    ended = await desk.answer(route)
    assert ended.state is State.FALLBACK
    (draft,) = await drafts(desk)
    assert (draft.state, draft.body, draft.route_id) == (
        DraftState.PENDING,
        "Noon works.",
        route.id,
    )
    assert await desk.actions() == ["routed", "answered", "fallback"]
    (note,) = [turn for turn in await desk.told() if turn.state == "noted"]
    assert f"draft {draft.id}" in (note.words or "")
    (send,) = await desk.queue.listed(ended=True)
    assert send.state is SendState.CANCELLED
    assert (await desk.look(route)).handback is HandBack.NONE


@pytest.mark.rule(51, 324, 336)
async def test_an_allowlisted_verified_sender_is_answered_unasked(desk: RouteDesk) -> None:
    """The draft is filed approved, and says so; the plugin's next claim has it."""
    ended = await desk.allowing.answer(await desk.route())
    assert ended.state is State.RELAYED
    (draft,) = await drafts(desk)
    assert draft.state is DraftState.APPROVED
    rows = await read_audit(desk.db, desk.owner, "plugin.draft.")
    assert [row.action for row in rows] == ["plugin.draft.filed", "plugin.draft.approved"]
    assert rows[1].data["auto"] is True
    assert await desk.actions() == ["routed", "answered", "relayed"]


@pytest.mark.rule(51, 325)
async def test_an_unverified_or_unlisted_sender_waits(desk: RouteDesk) -> None:
    """The same address without proof, and another one, are for the owner to decide."""
    for fields in ({"sender_verified": False}, {"sender": "Bob <bob@example.test>"}):
        route = await desk.route(await desk.message(**fields))
        assert (await desk.allowing.answer(route)).state is State.FALLBACK


@pytest.mark.rule(326, 334)
async def test_at_twenty_pending_drafts_the_route_fails(desk: RouteDesk) -> None:
    """The answer is kept with the route, and the chief is owed the message."""
    for _ in range(PENDING_PER_AGENT_MAX):
        await make_draft(desk.db, desk.chief, await desk.message())
    route = await desk.route()
    ended = await desk.answer(route)
    assert (ended.state, ended.handback) == (State.FAILED, HandBack.OWED)
    assert "20" in (ended.why or "")
    approved = await desk.allowing.answer(await desk.route())
    assert approved.state is State.RELAYED, "what is approved at once awaits nobody"


@pytest.mark.rule(326)
async def test_a_reply_that_is_on_its_way_fails_the_route(desk: RouteDesk) -> None:
    """The chief's own draft was approved meanwhile."""
    message = await desk.message()
    route = await desk.route(message)
    await make_draft(desk.db, desk.chief, message, approved_by=desk.owner)
    assert (await desk.answer(route)).state is State.FAILED


@pytest.mark.rule(318, 319)
async def test_only_the_routes_session_answers_and_only_once(desk: RouteDesk) -> None:
    """Another session is refused; so is a second answer at a session's door, naming the state."""
    route = await desk.route()
    with pytest.raises(MusterError) as other:
        await desk.answer(route, session=new_session())
    assert other.value.code == "not_its_session"
    await desk.answer(route, session=desk.queue.session)
    with pytest.raises(MusterError) as again:
        await desk.answer(route, session=desk.queue.session)
    assert (again.value.code, again.value.facts["state"]) == ("route_state", "fallback")


@pytest.mark.rule(321)
async def test_the_same_answer_again_changes_nothing(desk: RouteDesk, db: SpiedDatabase) -> None:
    """A different one is refused, and so is a stranger's."""
    route = await desk.route()
    first = await desk.answer(route)
    assert await desk.answer(route) == first
    with pytest.raises(MusterError) as other:
        await desk.answer(route, "One works.")
    assert other.value.code == "other_answer"
    stranger = await open_route_desk(db, await add_owner(db))
    with pytest.raises(NotFound):
        await stranger.answer(route)
    assert len(await drafts(desk)) == 1


@pytest.mark.rule(340)
async def test_an_answer_is_screened_like_any_draft(desk: RouteDesk) -> None:
    """What no reply may hold is refused with its rule, and the route still waits."""
    route = await desk.route()
    with pytest.raises(Invalid) as refused:
        await desk.answer(route, "Look at 10.0.0.1, it is there.")
    assert refused.value.code == "screened"
    for body in ("", "x" * (16 * 1024 + 1)):
        with pytest.raises(Invalid):
            await desk.answer(route, body)
    assert (await desk.look(route)).state is State.ROUTED


@pytest.mark.rule(332)
async def test_an_answer_whose_relay_was_cut_off_is_relayed_later(desk: RouteDesk) -> None:
    """It is kept, and the sweep relays it a minute later, once."""
    route = await desk.route()
    await desk.keep(route)
    await desk.sweep()
    assert (await desk.look(route)).state is State.ANSWERED
    await desk.shift(timedelta(seconds=61))
    await desk.sweep()
    await desk.sweep()
    assert (await desk.look(route)).state is State.FALLBACK
    assert len(await drafts(desk)) == 1


@pytest.mark.rule(330)
async def test_a_relay_is_made_once(desk: RouteDesk) -> None:
    """Again, it changes nothing; the database holds one reply a route."""
    route = await desk.route()
    await desk.answer(route)
    settings = RelaySettings(allow=desk.allow, deny_words=frozenset())
    again = RelayRoute(route_id=route.id, settings=settings)
    assert (await desk.db.run(desk.muster, relay_route, again)).state is State.FALLBACK
    assert len(await drafts(desk)) == 1


@pytest.mark.rule(292)
async def test_a_live_route_is_something_that_the_chief_did(desk: RouteDesk) -> None:
    """While it is routed, answered or relayed; one that failed is nothing."""
    message = await desk.message()
    route = await desk.route(message)

    async def is_routed() -> bool:
        async with desk.db.transaction(desk.owner) as tx:
            acted = await find_acted(tx, message.id)
        assert acted is not None
        return acted.routed

    assert await is_routed()
    await desk.keep(route)
    assert await is_routed()
    await make_draft(desk.db, desk.chief, message, approved_by=desk.owner)
    await desk.answer(route)
    assert (await desk.look(route)).state is State.FAILED
    assert not await is_routed()
