"""A session's answer by the API, a plugin's stamp, and the chief's tool, over a socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import attrs
import httpx2
import pytest

from muster.credentials.operations import issue
from muster.credentials.operations.personal import add_personal
from muster.credentials.rules import AddPersonal, Issue, Scope
from muster.drafts.operations import ListDrafts, list_drafts
from muster.ids import CredentialKind
from muster.mirror.operations.queue import cancel_send
from muster.mirror.send_rules import CancelSend
from muster.pg.driver import Connection
from muster.principals import Agent, Owner, Plugin
from muster.routes.rules import State
from tests.support.builders import make_plugin, new_agent, read_audit
from tests.support.cluster import Cluster, SpiedDatabase, add_owner
from tests.support.desk import error_of
from tests.support.route_desk import RouteDesk, open_route_desk
from tests.support.server import ScriptedAgent, Server, call_mcp, call_tool, running_server
from tests.support.waiting import until

HOOK = "a-hook-token-of-32-characters-or-more"


@attrs.frozen(kw_only=True)
class House:
    """A desk of routes behind the doors of a server."""

    desk: RouteDesk
    server: Server

    async def token(self, scope: Scope = Scope.WRITE, owner: Owner | None = None) -> str:
        """A personal token."""
        command = AddPersonal(name=f"mine-{scope.value}", scope=scope)
        _, token = await self.desk.db.run(owner or self.desk.owner, add_personal, command)
        return token

    async def token_of(self, holder: Plugin | Agent) -> str:
        """A token of a plugin's or an agent's."""
        kind, number = (
            (CredentialKind.PLUGIN, holder.plugin_id)
            if isinstance(holder, Plugin)
            else (CredentialKind.AGENT, holder.agent_id)
        )
        command = Issue(kind=kind, holder_id=number)
        return (await self.desk.db.run(self.desk.owner, issue, command)).token.text

    async def reply(
        self, token: str | None, route_id: object, body: object = "Noon works."
    ) -> httpx2.Response:
        """Answer a route."""
        async with self.server.client(token) as client:
            return await client.post(f"/api/routes/{route_id}/reply", json={"body": body})

    async def stamp(self, token: str | None, message_id: object, body: object) -> httpx2.Response:
        """Say that a message was answered directly."""
        path = f"/plugin/v1/messages/{message_id}/owner-answered"
        async with self.server.client(token) as client:
            return await client.post(path, json=body)


@asynccontextmanager
async def open_house(
    db: SpiedDatabase, owner: Owner, cluster: Cluster, **settings: str
) -> AsyncIterator[House]:
    """A house with routing on, unless told otherwise."""
    desk = await open_route_desk(db, owner)
    known = {"MUSTER_SESSION_ROUTING": "1"}
    async with running_server(db, cluster.app_url, **(known | settings)) as server:
        yield House(desk=desk, server=server)


@pytest.fixture
async def house(db: SpiedDatabase, owner: Owner, cluster: Cluster) -> AsyncIterator[House]:
    """A house that has a hook token too."""
    hook = {"MUSTER_HOOK_TOKEN": HOOK, "MUSTER_HOOK_OWNER": f"user-{owner.owner_id}"}
    async with open_house(db, owner, cluster, **hook) as opened:
        yield opened


@pytest.mark.rule(320, 321)
async def test_a_reply_is_taken_once(house: House) -> None:
    """By a personal token or the hook token; the same again changes nothing, another is refused."""
    route = await house.desk.route()
    token = await house.token()
    expected = {"route_id": route.id, "message_id": route.message_id, "state": "fallback"}
    for key in (token, token, HOOK):
        answer = await house.reply(key, route.id)
        assert (answer.status_code, answer.json()) == (200, expected)
    other = await house.reply(token, route.id, "One works.")
    assert (other.status_code, error_of(other)["code"]) == (409, "other_answer")
    assert other.json()["state"] == "fallback"
    (row,) = await read_audit(house.desk.db, house.desk.owner, "session_route.answered")
    assert row.data["via"] == row.via == "token mine-write"


@pytest.mark.rule(318, 320)
async def test_no_other_credential_answers(house: House) -> None:
    """Those of plugins and agents, the chief's too, and a token that may only read."""
    route = await house.desk.route()
    tokens = {
        None: 401,
        await house.token_of(house.desk.plugin): 401,
        await house.token_of(house.desk.chief): 401,
        HOOK + "x": 401,
        await house.token(Scope.READ): 403,
    }
    for token, status in tokens.items():
        answer = await house.reply(token, route.id)
        assert answer.status_code == status
        error_of(answer)
    assert (await house.desk.look(route)).state is State.ROUTED


@pytest.mark.rule(321)
async def test_a_route_of_somebody_else_is_none(house: House) -> None:
    """As is what is no number at all."""
    route = await house.desk.route()
    stranger = await house.token(owner=await add_owner(house.desk.db))
    for wrong in (route.id, 2**62, 2**63, "0", "x"):
        answer = await house.reply(stranger, wrong)
        assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")


@pytest.mark.rule(319, 340)
async def test_what_a_reply_may_not_be_is_told(house: House) -> None:
    """A body that breaks the screen with its rule, one of no shape, and a route that is over."""
    route = await house.desk.route()
    token = await house.token()
    screened = await house.reply(token, route.id, "It is at 10.0.0.1, look.")
    assert (screened.status_code, error_of(screened)["code"]) == (400, "screened")
    assert screened.json()["offset"] == 9
    for wrong in ("", 7, None, "x" * (16 * 1024 + 1)):
        answer = await house.reply(token, route.id, wrong)
        assert (answer.status_code, error_of(answer)["code"]) == (400, "invalid")
    await house.desk.shift(timedelta(minutes=31))
    await house.desk.sweep()
    late = await house.reply(token, route.id)
    assert (late.status_code, error_of(late)["code"]) == (409, "route_state")
    assert late.json()["state"] == "timed_out"


@pytest.mark.rule(332)
async def test_a_relay_that_has_to_wait_is_202(house: House, cluster: Cluster) -> None:
    """No draft can be written for a moment: the answer is kept, and relayed a minute later."""
    route = await house.desk.route()
    token = await house.token()
    admin = await Connection.open(cluster.admin_url)
    try:
        await admin.script("begin; lock table drafts in share row exclusive mode")
        answer = await house.reply(token, route.id)
        assert (answer.status_code, answer.json()["state"]) == (202, "answered")
    finally:
        admin.close()
    assert (await house.desk.look(route)).answer == "Noon works."
    await house.desk.shift(timedelta(seconds=61))
    house.server.node.tree.address("root/sweeps/routes").tell("round", key="round")

    async def is_relayed() -> bool:
        return (await house.desk.look(route)).state is State.FALLBACK

    await until(is_relayed)
    assert (await house.reply(token, route.id)).status_code == 200
    listed = await house.desk.db.run(house.desk.owner, list_drafts, ListDrafts())
    assert [draft.body for draft in listed] == ["Noon works."]


@pytest.mark.rule(341, 342, 344, 345)
async def test_a_stamp_settles_the_one_route(house: House) -> None:
    """200 settled, 200 again, and 409 with the state for what does not wait."""
    token = await house.token_of(house.desk.plugin)
    message = await house.desk.message(thread="dm-1")
    named = {"message_id": message.id, "settled": False, "code": "not_waiting"}
    never = await house.stamp(token, message.id, {"thread": "dm-1"})
    assert never.status_code == 409
    told = error_of(never)
    assert named.items() <= told.items()
    assert (told["state"], told["route_id"]) == ("none", None)
    route = await house.desk.route(message)
    other = await house.stamp(token, message.id, {"thread": "dm-2"})
    assert (other.status_code, error_of(other)["state"]) == (409, "routed")
    settled = {"message_id": message.id, "route_id": route.id, "state": "owner_answered"}
    for first in (True, False):
        answer = await house.stamp(token, message.id, {"thread": "dm-1"})
        assert (answer.status_code, answer.json()) == (200, settled | {"settled": first})
    late = await house.reply(await house.token(), route.id)
    assert late.status_code == 409
    assert "its reply was already sent to the sender directly" in error_of(late)["error"]


@pytest.mark.rule(345, 347)
@pytest.mark.parametrize("state", ["answered", "relayed", "fallback", "timed_out", "failed"])
async def test_a_stamp_changes_nothing_of_what_does_not_wait(house: House, state: str) -> None:
    """Whatever the route became, its draft and the debt of it included."""
    desk = house.desk.allowing if state == "relayed" else house.desk
    message = await desk.message(thread="dm-1")
    route = await desk.route(message)
    if state in ("timed_out", "failed"):
        (send,) = await desk.queue.listed()
        if state == "failed":
            await desk.db.run(desk.owner, cancel_send, CancelSend(send_id=send.id))
        await desk.shift(timedelta(minutes=31 if state == "timed_out" else 0))
        await desk.sweep()
    elif state == "answered":
        await desk.keep(route)
    else:
        await desk.answer(route)
    before = await desk.look(route)
    token = await house.token_of(desk.plugin)
    answer = await house.stamp(token, message.id, {"thread": "dm-1"})
    assert answer.status_code == 409
    assert (error_of(answer)["state"], answer.json()["route_id"]) == (state, route.id)
    assert await desk.look(route) == before


@pytest.mark.rule(346)
async def test_whose_message_it_is_comes_before_the_shape(house: House) -> None:
    """404 for what is not this plugin's, whatever the body; 400 for a body that is no thread."""
    message = await house.desk.message(thread="dm-1")
    own = await house.token_of(house.desk.plugin)
    other = await house.token_of(await make_plugin(house.desk.db, house.desk.owner))
    bodies: list[Any] = [{}, [], {"thread": 1}, {"thread": None}, {"thread": ""},
                         {"thread": "x" * 201}, {"thread": "dm-1", "more": 1}]  # fmt: skip
    for body in bodies:
        missing = await house.stamp(other, message.id, body)
        assert (missing.status_code, error_of(missing)["code"]) == (404, "not_found")
        wrong = await house.stamp(own, message.id, body)
        assert (wrong.status_code, error_of(wrong)["code"]) == (400, "invalid")
    for number in (2**62, 2**63, "0", "x"):
        assert (await house.stamp(own, number, {})).status_code == 404
    for token in (None, HOOK, await house.token()):
        assert (await house.stamp(token, message.id, {"thread": "dm-1"})).status_code == 401


@pytest.mark.rule(307, 346)
@pytest.mark.parametrize("off", ["MUSTER_SESSION_ROUTING", "MUSTER_PLUGINS"])
async def test_without_routing_there_is_none_of_it(
    db: SpiedDatabase, owner: Owner, cluster: Cluster, off: str
) -> None:
    """The doors answer 404, and the chief is not offered the tool."""
    async with open_house(db, owner, cluster, **{off: "0"}) as house:
        message = await house.desk.message(thread="dm-1")
        route = await house.desk.route(message)
        assert (await house.reply(await house.token(), route.id)).status_code == 404
        plugin = await house.token_of(house.desk.plugin)
        stamped = await house.stamp(plugin, message.id, {"thread": "dm-1"})
        assert stamped.status_code == 404
        chief = await house.token_of(house.desk.chief)
        told = await call_tool(house.server, chief, "route_to_session", message_id=1, subject="x")
        assert told["structuredContent"]["refused"] == "no_tool"


@pytest.mark.rule(308)
async def test_the_chief_routes_by_its_tool(house: House) -> None:
    """It alone has it, for a message; the answer names the route and its deadline."""
    chief = await house.token_of(house.desk.chief)
    message = await house.desk.message()

    async def call(token: str, **arguments: object) -> dict[str, Any]:
        told = await call_tool(house.server, token, "route_to_session", **arguments)
        members: dict[str, Any] = told["structuredContent"]
        return members

    subject = house.desk.subject
    for wrong in ({"message_id": message.id, "task_id": 1}, {"task_id": 1}, {}):
        assert (await call(chief, subject=subject, **wrong))["refused"] == "bad_arguments"
    lost = await call(chief, subject="main:1", message_id=message.id)
    assert lost["refused"] == "subject_not_found"
    assert lost["candidates"][0]["subject"] == subject
    _, other = await new_agent(house.desk.db, house.desk.owner, "other", chief=False)
    assert (await call(other, subject=subject, message_id=message.id))["refused"] == "no_tool"
    made = await call(chief, subject=subject, message_id=message.id)
    assert (made["message_id"], made["state"]) == (message.id, "routed")
    again = await call(chief, subject=subject, message_id=message.id)
    assert (again["refused"], again["route_id"]) == ("already_routed", made["route_id"])
    listed = await call_mcp(house.server, chief, "tools/list", {})
    assert "route_to_session" in [tool["name"] for tool in listed["tools"]]


@pytest.mark.rule(316, 334)
async def test_a_cancelled_text_comes_back_at_once(house: House) -> None:
    """In a turn of the chief's, without waiting for the sweep's next round."""
    async with ScriptedAgent(house.server.url, await house.token_of(house.desk.chief)) as chief:
        await chief.next_frame("welcome")
        await house.server.node.heartbeat.beat()
        route = await house.desk.route()
        (send,) = await house.desk.queue.listed()
        db = house.server.node.db
        await db.run(house.desk.owner, cancel_send, CancelSend(send_id=send.id))
        turn = await chief.next_frame("turn", 10)
        assert f"Message {route.message_id} is with you again" in turn["text"]
        await chief.send("turn.started", turn_id=turn["turn_id"])
        await chief.send("turn.done", turn_id=turn["turn_id"], text="Seen.")
