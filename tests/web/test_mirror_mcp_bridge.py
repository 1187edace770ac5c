"""`muster mirror mcp`, as Claude Code starts it, at a whole server."""

import json
from collections.abc import AsyncIterator

import pytest

from muster.principals import Owner
from tests.support.agent_mail import mail_desk
from tests.support.builders import make_draft
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.mcp_bridge import started
from tests.support.session_door import Setting, session_setting


@pytest.fixture
async def at(db: SpiedDatabase, owner: Owner, cluster: Cluster) -> AsyncIterator[Setting]:
    """A server with routing, a chief that is not connected, and a host with two sessions."""
    async with mail_desk(db, owner, cluster) as desk, session_setting(desk) as setting:
        yield setting


@pytest.mark.rule(266, 267, 318)
async def test_a_session_works_through_its_bridge(at: Setting) -> None:
    """It has muster's tools, routes a message to itself, answers it, and decides the draft."""
    message = await at.message()
    environ = {"TMUX_PANE": "%1", "MUSTER_MIRROR_TOKEN": at.door.token}
    async with started("--url", at.desk.server.url, **environ) as bridge:
        await bridge.ask("initialize", protocolVersion="2025-06-18")
        assert set(await bridge.tools()) == await at.door.tools()
        told, is_no = await bridge.call("plugin_message_route", message_id=message.id)
        assert not is_no
        route_id = json.loads(told)["route_id"]
        told, is_no = await bridge.call("route_reply", route_id=route_id, body="Noon works.")
        assert not is_no
        told, is_no = await bridge.call("plugin_drafts_list")
        (draft,) = json.loads(told)["drafts"]
        assert (draft["reply"], draft["route_id"]) == ("Noon works.", route_id)
        decision = {"id": draft["id"], "decision": "approve", "body_sha256": draft["body_sha256"]}
        told, is_no = await bridge.call("plugin_draft_decide", **decision)
        assert (json.loads(told)["state"], is_no) == ("approved", False)
        told, is_no = await bridge.call("plugin_draft_decide", **decision)
        assert is_no
        assert json.loads(told)["refused"] == "draft_state"


@pytest.mark.rule(318)
async def test_another_panes_bridge_is_another_session(at: Setting) -> None:
    """What is routed to one session is not answered from the pane beside it."""
    message = await at.message()
    route_id = (await at.door.call("plugin_message_route", message_id=message.id))["route_id"]
    environ = {"TMUX_PANE": "%2", "MUSTER_MIRROR_TOKEN": at.door.token}
    async with started("--url", at.desk.server.url, **environ) as bridge:
        told, is_no = await bridge.call("route_reply", route_id=route_id, body="No.")
        assert is_no
        assert json.loads(told)["refused"] == "not_its_session"


async def test_a_pane_that_shows_no_session_is_told_why(at: Setting) -> None:
    """Its only tool says so, and every call does."""
    environ = {"TMUX_PANE": "%9", "MUSTER_MIRROR_TOKEN": at.door.token}
    draft = await make_draft(at.desk.db, at.chief, await at.message())
    async with started("--url", at.desk.server.url, **environ) as bridge:
        assert await bridge.tools() == ["muster_status"]
        for name in ("muster_status", "plugin_drafts_list"):
            told, is_no = await bridge.call(name)
            assert is_no
            assert "No online window of box shows a Claude Code session in this pane" in told
            assert draft.body not in told
