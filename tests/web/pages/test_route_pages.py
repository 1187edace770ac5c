"""/routes, and where a message's page and a draft's card name their route."""

import re

import pytest

from muster.allowlists import Allowlist
from muster.chief.operations.routing.answering import (
    AnswerRoute,
    RelayRoute,
    RelaySettings,
    answer_route,
    relay_route,
)
from muster.chief.operations.routing.ending import EndRoute, GiveBackRoute, end_route, give_back
from muster.principals import Muster
from muster.routes.rules import By
from tests.support.mirrored_desk import MirroredDesk, mirrored
from tests.support.owner_desk import OpenOwnerDesk, text_of
from tests.support.person import add_person
from tests.support.visitor import sign_in

ROUTING = {"MUSTER_SESSION_ROUTING": "1"}


async def answer(m: MirroredDesk, route_id: int, body: str) -> None:
    """The session answers, and its answer becomes a draft that waits for the owner."""
    given = AnswerRoute(route_id=route_id, body=body, via="mcp", deny_words=frozenset())
    await m.at.db.run(m.at.owner, answer_route, given)
    settings = RelaySettings(allow=Allowlist.parse(""), deny_words=frozenset())
    muster = Muster(owner_id=m.at.owner.owner_id)
    await m.at.db.run(muster, relay_route, RelayRoute(route_id=route_id, settings=settings))


async def fail(m: MirroredDesk, route_id: int, why: str) -> None:
    """The route fails, and the chief gets its message back."""
    muster = Muster(owner_id=m.at.owner.owner_id)
    await m.at.db.run(muster, end_route, EndRoute(route_id=route_id, why=why))
    await m.at.db.run(muster, give_back, GiveBackRoute(route_id=route_id))


def routes_on(page: str) -> list[int]:
    """The routes of a page, in order."""
    return [int(found) for found in re.findall(r'id="route-(\d+)"', page)]


async def test_open_routes_come_first(owner_desk: OpenOwnerDesk) -> None:
    """With message, session, deadline and who made each; then those that ended, newest first."""
    async with mirrored(owner_desk, settings=ROUTING) as m:
        assert "Nothing was routed yet" in await m.at.page("/routes")
        ended = await m.route(await m.at.message("One?"))
        later = await m.route(await m.at.message("Two?"))
        first = await m.route(
            await m.at.message("Three <b>\u202e?", sender="Ada"), By.OWNER, "mcp from box/main:1"
        )
        second = await m.route(await m.at.message("Four?", human_conversation=True))
        await fail(m, ended.id, "its window <moved> on")
        await answer(m, later.id, "Noon & nothing else.")
        page = await m.at.page("/routes")
        assert routes_on(page) == [first.id, second.id, later.id, ended.id]
        told = text_of(page)
        for text in (
            "Three <b>", "Routed byyou (mcp from box/main:1)", "main:1 on box", "Deadline",
            "not pasted yet: it waits in the queue", "its window <moved> on",
            "to your chief", "Noon & nothing else.", "yours to approve",
        ):  # fmt: skip
            assert text in told, text
        assert "<b>" not in page.partition('id="route-')[2].partition("</article>")[0]
        assert "\u202e" not in page
        assert f'href="/messages/{first.message_id}"' in page
        assert f'href="/sessions/{m.mirrored_id}"' in page
        assert routes_on(await m.at.page(f"/routes?before={later.id}")) == [ended.id]
        assert "There are no older routes" in await m.at.page(f"/routes?before={ended.id}")


async def test_a_route_is_named_wherever_it_matters(owner_desk: OpenOwnerDesk) -> None:
    """On its message's way, on the card of its draft, at its session and on its text."""
    async with mirrored(owner_desk, settings=ROUTING) as m:
        message = await m.at.message("Does noon work?")
        route = await m.route(message)
        link = f'href="/routes/{route.id}"'
        session = await m.page()
        assert session.count(link) == 2
        assert "The text: a message of somebody outside" in text_of(session)
        assert link in await m.at.page(f"/messages/{message.id}")
        await answer(m, route.id, "Noon works.")
        way = text_of((await m.at.page(f"/messages/{message.id}")).partition('id="way"')[2])
        steps = [f"Route {route.id} {what}" for what in ("to a session", "answered", "fallback")]
        places = [way.index(step) for step in steps]
        assert places == sorted(places)
        assert f"made of a session's answer via route {route.id}" in way
        alone = await m.at.page(f"/routes/{route.id}")
        (draft,) = re.findall(r'href="/drafts/(\d+)"', alone)
        assert link in await m.at.page(f"/drafts/{draft}")
        assert link in await m.at.page("/attention?tab=drafts")


@pytest.mark.rule(315)
async def test_a_routed_text_is_cancelled_in_its_queue(owner_desk: OpenOwnerDesk) -> None:
    """The text stands in the session's queue; cancelling it is told to be the route's end."""
    async with mirrored(owner_desk, settings=ROUTING) as m:
        route = await m.route(await m.at.message("Does noon work?"))
        (send,) = await m.texts()
        assert "Its route ends, and the message goes back to your chief" in text_of(await m.page())
        answer = await m.at.visiting.post(f"{m.path}/sends/{send.id}/cancel")
        assert answer.status_code == 303
        (gone,) = await m.texts(ended=True)
        assert (gone.route_id, gone.state.value) == (route.id, "cancelled")


async def test_routes_of_somebody_else_are_not_found(owner_desk: OpenOwnerDesk) -> None:
    """Neither on the list nor by number."""
    async with mirrored(owner_desk, settings=ROUTING) as m:
        route = await m.route(await m.at.message("Does noon work?"))
        other = await sign_in(m.at.server, (await add_person(m.at.db)).owner)
        async with other.client:
            assert routes_on((await other.get("/routes")).text) == []
            for number in (route.id, 0, 2**63, "x"):
                assert (await other.get(f"/routes/{number}")).status_code == 404


async def test_without_routing_the_page_says_so(owner_desk: OpenOwnerDesk) -> None:
    """Where routing is off there is nothing to show, and a line that tells how to turn it on."""
    async with owner_desk() as at:
        assert "Routing is off" in await at.page("/routes")
