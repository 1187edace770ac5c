"""`/mirror/mcp`: who may knock, and what a session of the owner's may do there."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from muster.chief.fence import UNVERIFIED
from muster.chief.operations.routing.listing import look_at_route
from muster.drafts.rules import State as DraftState
from muster.principals import Owner
from muster.routes.rules import By
from tests.support.agent_mail import mail_desk
from tests.support.builders import (
    make_chief,
    make_draft,
    make_message,
    make_plugin,
    new_agent,
    read_audit,
)
from tests.support.cluster import Cluster, SpiedDatabase, add_owner
from tests.support.server import MCP_HEADERS, call_tool
from tests.support.session_door import Setting, session_door, session_setting
from tests.support.waiting import until

TOOLS = {
    "attention_answer", "attention_wait", "chief_ask", "plugin_draft_decide", "plugin_drafts_list",
    "plugin_message_route", "plugin_messages_list", "route_reply",
}  # fmt: skip


@pytest.fixture
async def at(db: SpiedDatabase, owner: Owner, cluster: Cluster) -> AsyncIterator[Setting]:
    """A server with routing, a chief that is not connected, and a host with two sessions."""
    async with mail_desk(db, owner, cluster) as desk, session_setting(desk) as setting:
        yield setting


@pytest.mark.rule(269, 407)
async def test_a_session_has_its_tools(at: Setting) -> None:
    """They are offered to it alone: an agent, the chief among them, has none of them."""
    assert await at.door.tools() == TOOLS
    _, token = await new_agent(at.desk.db, at.desk.owner, "other", chief=False)
    told = await call_tool(at.desk.server, token, "plugin_drafts_list")
    assert told["isError"]


@pytest.mark.rule(307, 407)
async def test_without_routing_no_tool_routes(
    db: SpiedDatabase, owner: Owner, cluster: Cluster
) -> None:
    """The tools of routes are not there while routing is off."""
    off = mail_desk(db, owner, cluster, MUSTER_SESSION_ROUTING="0", MUSTER_PR_MAIL_SENDERS="")
    async with off as desk, session_door(desk) as door:
        assert await door.tools() == {
            tool for tool in TOOLS if "message" not in tool and tool != "route_reply"
        }
        told = await door.call("route_reply", route_id=1, body="x")
        assert told["refused"] == "no_tool"


@pytest.mark.parametrize("pane", [None, "", "%9", "%1 %2", "x" * 50])
async def test_a_call_names_a_pane_that_shows_a_session(at: Setting, pane: str | None) -> None:
    """Otherwise it is refused with a sentence."""
    answer = await at.door.ask("tools/list", {}, pane=pane)
    assert (answer.status_code, answer.json()["code"]) == (409, "no_session")


async def test_a_call_that_names_two_panes_is_of_neither(at: Setting) -> None:
    """Both show a session, and none of them is guessed."""
    headers = [*MCP_HEADERS.items(), ("Muster-Pane", "%1"), ("Muster-Pane", "%2")]
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    async with at.desk.server.client(at.door.token) as client:
        answer = await client.post("/mirror/mcp", json=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (409, "no_session")


async def test_the_session_is_the_one_that_the_pane_shows_now(at: Setting) -> None:
    """A new conversation in the pane is another session, from the host's next list on."""
    await at.door.host.show(at.door.other, at.door.session, state="working")
    message = await at.message()
    told = await at.door.call("plugin_message_route", message_id=message.id)
    assert told["subject"] == f"mirror:{at.door.other}"
    await at.door.host.show(at.door.session, state="working")
    gone = await at.door.ask("tools/list", {}, pane="%2")
    assert (gone.status_code, gone.json()["code"]) == (409, "no_session")


async def test_only_a_hosts_token_is_taken(at: Setting) -> None:
    """An agent's, a plugin's and none at all are 401."""
    _, agent = await new_agent(at.desk.db, at.desk.owner, "other", chief=False)
    for token in (agent, await at.desk.new_token(), "mmh_" + "0" * 43, None):
        async with at.desk.server.client(token) as client:
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
            headers = MCP_HEADERS | {"Muster-Pane": "%1"}
            answer = await client.post("/mirror/mcp", json=body, headers=headers)
        assert answer.status_code == 401


async def test_an_offline_host_shows_no_session(at: Setting) -> None:
    """Its panes are of the past."""
    await at.door.host.socket.aclose()

    async def answers_409() -> bool:
        return (await at.door.ask("tools/list", {})).status_code == 409

    with trio.fail_after(5):
        while not await answers_409():
            await trio.lowlevel.checkpoint()


@pytest.mark.rule(266)
async def test_pending_drafts_are_listed_with_what_is_read_before_a_decision(at: Setting) -> None:
    """Newest first, with the mark of an unproven sender, the exact reply and its digest."""
    first = await make_draft(at.desk.db, at.chief, await at.message(subject="One"))
    second = await make_draft(at.desk.db, at.chief, await at.message(sender_verified=True))
    told = await at.door.call("plugin_drafts_list")
    assert [draft["id"] for draft in told["drafts"]] == [second.id, first.id]
    newest, oldest = told["drafts"]
    assert oldest["sender"].endswith(UNVERIFIED)
    assert UNVERIFIED not in newest["sender"]
    assert oldest["reply"] == first.body
    assert oldest["body_sha256"] == first.body_sha256.hex()
    assert (told["total"], told["truncated"]) == (2, False)


@pytest.mark.rule(267, 268, 270)
async def test_a_draft_is_decided_on_exactly_what_was_read(at: Setting) -> None:
    """By its digest, while it is pending; the audit row tells where."""
    draft = await make_draft(at.desk.db, at.chief, await at.message())
    sha256 = draft.body_sha256.hex()
    wrong = await at.door.call(
        "plugin_draft_decide", id=draft.id, decision="approve", body_sha256="0" * 64
    )
    assert wrong["refused"] == "other_text"
    told = await at.door.call(
        "plugin_draft_decide", id=draft.id, decision="approve", body_sha256=sha256
    )
    assert told["state"] == DraftState.APPROVED.value
    (row,) = await read_audit(at.desk.db, at.desk.owner, "plugin.draft.approved")
    assert row.data["decided_via"] == f"mcp from box/{at.door.session}"
    withdrawn = await at.door.call(
        "plugin_draft_decide", id=draft.id, decision="reject", body_sha256=sha256
    )
    assert withdrawn["refused"] == "draft_state"
    async with at.desk.server.client(await at.desk.new_token()) as client:
        claimed = await client.post("/plugin/v1/drafts/claim", json={"wait_seconds": 0})
    assert claimed.json().get("draft_id") == draft.id, claimed.text


@pytest.mark.rule(267)
async def test_an_approval_wakes_the_claim_that_waits(at: Setting) -> None:
    """As the card's does: the plugin has the reply at once."""
    draft = await make_draft(at.desk.db, at.chief, await at.message())
    waiters, plugin_id = at.desk.server.node.waiters, at.desk.plugin.plugin_id
    claims: list[dict[str, Any]] = []

    async def claim() -> None:
        async with at.desk.server.client(await at.desk.new_token()) as client:
            answer = await client.post("/plugin/v1/drafts/claim", json={"wait_seconds": 25})
        claims.append(answer.json())

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(claim)
            await until(lambda: plugin_id in waiters.plugin_ids())
            sha256 = draft.body_sha256.hex()
            await at.door.call(
                "plugin_draft_decide", id=draft.id, decision="approve", body_sha256=sha256
            )
    assert [one["draft_id"] for one in claims] == [draft.id]


@pytest.mark.rule(268)
async def test_what_is_somebody_elses_is_no_such_draft(at: Setting, db: SpiedDatabase) -> None:
    """So is a number that is none."""
    stranger = await add_owner(db)
    chief = await make_chief(db, stranger)
    theirs = await make_message(db, await make_plugin(db, stranger), delivered_to=chief)
    draft = await make_draft(db, chief, theirs)
    for number in (draft.id, 2**62, 0):
        told = await at.door.call(
            "plugin_draft_decide", id=number, decision="reject", body_sha256="0" * 64
        )
        assert told["error"] == "No such draft."


async def test_a_decision_is_one_of_two(at: Setting) -> None:
    """Another word, and another argument, name their field."""
    told = await at.door.call("plugin_draft_decide", id=1, decision="maybe", body_sha256="0")
    assert (told["refused"], told["field"]) == ("invalid", "decision")
    told = await at.door.call("plugin_drafts_list", limit=1)
    assert told["refused"] == "invalid"


async def routes_of(at: Setting) -> dict[int, str]:
    """The state of each message's route, as the session sees it."""
    told = await at.door.call("plugin_messages_list")
    return {one["message_id"]: one["route"]["state"] for one in told["messages"]}


@pytest.mark.rule(402)
async def test_routable_messages_are_listed_with_their_routes(at: Setting) -> None:
    """Those that the chief has and that can be answered; each route in the words of the door."""
    plain, quiet = await at.message(body="y" * 400), await at.message(no_reply=True)
    queued = await make_message(at.desk.db, at.desk.plugin)
    routed = await at.message(thread="t")
    await at.door.call("plugin_message_route", message_id=routed.id)
    seen = await routes_of(at)
    assert seen == {plain.id: "none", routed.id: "pending"}
    assert {quiet.id, queued.id}.isdisjoint(seen)
    told = await at.door.call("plugin_messages_list")
    shown = {one["message_id"]: one for one in told["messages"]}
    assert shown[plain.id]["body"] == "y" * 280
    assert shown[plain.id]["sender"].endswith(UNVERIFIED)
    assert "deadline_at" in shown[routed.id]["route"]
    route_id = shown[routed.id]["route"]["route_id"]
    await at.door.call("route_reply", route_id=route_id, body="Noon works.")
    assert (await routes_of(at))[routed.id] == "relayed"


@pytest.mark.rule(403, 405)
async def test_a_session_routes_a_message_to_itself_or_to_another(at: Setting) -> None:
    """The row is the owner's, tells the session, and belongs to the chief that has the message."""
    message, second = await at.message(), await at.message()
    told = await at.door.call("plugin_message_route", message_id=message.id)
    assert told["subject"] == f"mirror:{at.door.session}"
    other = f"mirror:{at.door.other}"
    there = await at.door.call("plugin_message_route", message_id=second.id, subject=other)
    assert there["subject"] == other
    route = await at.desk.db.run(at.desk.owner, look_at_route, told["route_id"])
    assert (route.routed_by, route.agent) == (By.OWNER, at.chief.name)
    row = (await read_audit(at.desk.db, at.desk.owner, "session_route.routed"))[0]
    assert (row.actor, row.via) == ("owner", "mirror-host")
    assert row.data["routed_via"] == f"mcp from box/{at.door.session}"


@pytest.mark.rule(404)
@pytest.mark.parametrize("subject", ["", "mirror:", "main:1", "{bare}"])
async def test_another_subject_is_refused_with_candidates(at: Setting, subject: str) -> None:
    """A bare id, an empty one and a title: the online sessions are told."""
    message = await at.message()
    told = await at.door.call(
        "plugin_message_route",
        message_id=message.id,
        subject=subject.replace("{bare}", at.door.session),
    )
    assert told["refused"] == "subject_not_found"
    named = {one["subject"] for one in told["candidates"]}
    assert named == {f"mirror:{at.door.session}", f"mirror:{at.door.other}"}


@pytest.mark.rule(406)
async def test_what_cannot_be_routed_is_refused_by_its_code(at: Setting) -> None:
    """Routed already, not delivered, no reply, and no message at all."""
    routed, queued = await at.message(), await make_message(at.desk.db, at.desk.plugin)
    await at.door.call("plugin_message_route", message_id=routed.id)
    quiet = await at.message(no_reply=True)
    for number, code in (
        (routed.id, "already_routed"),
        (queued.id, "not_delivered"),
        (quiet.id, "no_reply"),
        (2**62, "not_found"),
    ):
        told = await at.door.call("plugin_message_route", message_id=number)
        assert told["refused"] == code
    assert told["error"] == f"no such plugin message: {2**62}"


@pytest.mark.rule(318, 319)
async def test_a_route_is_answered_by_its_own_session(at: Setting) -> None:
    """Another pane's session is refused, and so is a second answer."""
    message = await at.message()
    route_id = (await at.door.call("plugin_message_route", message_id=message.id))["route_id"]
    other = await at.door.call("route_reply", pane="%2", route_id=route_id, body="No.")
    assert other["refused"] == "not_its_session"
    told = await at.door.call("route_reply", route_id=route_id, body="Noon works.")
    assert told["state"] == "fallback"
    again = await at.door.call("route_reply", route_id=route_id, body="Noon works.")
    assert (again["refused"], again["state"]) == ("route_state", "fallback")
    screened = await at.door.call("route_reply", route_id=route_id, body="See 10.0.0.1")
    assert screened["refused"] == "screened"


@pytest.mark.rule(318)
async def test_another_hosts_session_answers_nothing(at: Setting) -> None:
    """A pane of the same name on another host is another session."""
    message = await at.message()
    route_id = (await at.door.call("plugin_message_route", message_id=message.id))["route_id"]
    async with session_door(at.desk, "attic") as attic:
        told = await attic.call("route_reply", route_id=route_id, body="No.")
    assert told["refused"] == "not_its_session"
