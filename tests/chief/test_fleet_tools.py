"""The chief's tools that tell of sessions: whom they find, and what they never tell others."""

import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import attrs
import pytest

from muster.chief.tools import Call, find_tool
from muster.errors import Invalid, Refused
from muster.fleet.requests import encode
from muster.mirror.operations.focus import note_task_focus
from muster.mirror.rules import NoteTaskFocus
from muster.pg.query import Query
from muster.principals import Agent, Owner
from tests.support.builders import make_agent, read_now
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.fleet_desk import FleetDesk, fleet_desk, focus
from tests.support.mirror_host import new_session
from web.mcp.results import decode

CONNECT = Query("""
    update agents set epoch = epoch + 1, node = %(node)s, connected_at = %(now)s
    where owner_id = %(owner_id)s and id = %(agent_id)s
""")
NAMES = ("focus_search", "sessions_overview", "fleet_list", "fleet_report")


@attrs.frozen(kw_only=True)
class Tools:
    """The desk, and its chief's tools in short; `at` is when the test began."""

    desk: FleetDesk
    at: datetime

    async def call(self, name: str, agent: Agent | None = None, **arguments: object) -> Any:
        """What a tool answers."""
        tool = find_tool(name)
        assert tool is not None
        call = Call(arguments=decode(arguments, tool.arguments), deny_words=frozenset())
        told = await self.desk.mail.server.node.db.run(agent or self.desk.chief, tool.run, call)
        return json.loads(encode(told))

    async def helper(self, title: str, agent: Agent | None = None) -> Agent:
        """An agent that is connected and about something."""
        helper = agent or await make_agent(self.desk.mail.db, self.desk.mail.owner, "helper")
        async with self.desk.mail.db.transaction(self.desk.mail.muster) as tx:
            node = self.desk.mail.server.node.node_id
            await tx.execute(CONNECT, agent_id=helper.agent_id, node=node)
            await note_task_focus(tx, NoteTaskFocus(agent_id=helper.agent_id, title=title))
        return helper


@pytest.fixture
async def tools(cluster: Cluster, db: SpiedDatabase, owner: Owner) -> AsyncIterator[Tools]:
    """The owner's desk."""
    async with fleet_desk(db, owner, cluster) as desk:
        yield Tools(desk=desk, at=await read_now(db))


@pytest.mark.rule(281, 289)
async def test_a_search_finds_who_was_about_it(tools: Tools) -> None:
    """Sessions and agents by shared terms, those that share most first, the newest titles first."""
    one, two, three = [new_session() for _ in range(3)]
    minute = timedelta(minutes=1)
    async with tools.desk.mail.host(one, two, three) as host:
        await focus(host, one, "Look at the pump", at=tools.at - minute)
        await focus(host, two, "Mend the pump of node-7k", at=tools.at - 2 * minute)
        await focus(host, two, "Order a pump", at=tools.at - minute)
        await focus(host, three, "Weed the garden", at=tools.at)
        await tools.helper("A new pump")
        found = await tools.call("focus_search", query="the pump on NODE-7K")
        assert [hit["subject"] for hit in found["sessions"]] == [
            f"mirror:{two}",
            "agent:helper",
            f"mirror:{one}",
        ]
        first = found["sessions"][0]
        assert [told["title"] for told in first["focus"]] == [
            "Order a pump",
            "Mend the pump of node-7k",
        ]
        assert first["host"] == "box"
        assert found["total"] == 3
        part = await tools.call("focus_search", query="he gard")
        assert [hit["subject"] for hit in part["sessions"]] == [f"mirror:{three}"]


@pytest.mark.rule(281)
async def test_a_search_looks_back_as_far_as_it_is_told(tools: Tools) -> None:
    """A day unless told otherwise; one that no window shows is not found."""
    session = new_session()
    async with tools.desk.mail.host(session) as host:
        await focus(host, session, "Mend the pump", at=tools.at - timedelta(hours=30))
        assert (await tools.call("focus_search", query="pump"))["sessions"] == []
        assert (await tools.call("focus_search", query="pump", hours=31))["total"] == 1
        await host.show()
        assert (await tools.call("focus_search", query="pump", hours=31))["total"] == 0


@pytest.mark.rule(281, 289)
async def test_an_overview_tells_of_all_that_are_live_but_the_chief(tools: Tools) -> None:
    """Those that were about something last come first; one without a title comes too."""
    quiet, busy, ended = [new_session() for _ in range(3)]
    async with tools.desk.mail.host(quiet, busy, ended) as host:
        await focus(host, busy, "Mend the pump", at=tools.at - timedelta(days=2))
        await focus(host, ended, "Over", at=tools.at)
        await host.show(quiet, busy)
        await tools.helper("A task")
        await tools.helper("The chief's own", tools.desk.chief)
        told = await tools.call("sessions_overview")
    assert [one["subject"] for one in told["sessions"]] == [
        "agent:helper",
        f"mirror:{busy}",
        f"mirror:{quiet}",
    ]
    assert told["sessions"][1]["focus"][0]["title"] == "Mend the pump"
    assert told["sessions"][2]["focus"] == []
    assert told["sessions"][2]["can_take"] is True


@pytest.mark.rule(281)
async def test_a_list_tells_of_hosts_sessions_and_agents(tools: Tools) -> None:
    """With what stands against handing a session a message."""
    session = new_session()
    await tools.helper("A task")
    async with tools.desk.mail.host(session, interactive=False):
        told = await tools.call("fleet_list")
        assert told["hosts"] == [{"name": "box", "online": True}]
        assert told["agents"] == [{"subject": "agent:helper", "name": "helper", "connected": True}]
        (one,) = told["sessions"]
        assert one["subject"] == f"mirror:{session}"
        assert one["can_take"] is False
        assert "--interactive" in one["why_not"]


@pytest.mark.rule(373)
async def test_the_chiefs_report_is_not_narrowed(tools: Tools) -> None:
    """It names hosts, sessions elsewhere, agents and prompts, over the last day or another time."""
    session = new_session()
    async with tools.desk.mail.host(session, name="attic") as host:
        await focus(host, session, "private", at=tools.at, source="prompt", cwd="/srv/private")
        await focus(host, session, "older", at=tools.at - timedelta(days=2), cwd="/srv/private")
        await tools.helper("A task")
        told = await tools.call("fleet_report")
        assert [one["id"] for one in told["sessions"]] == ["agent:helper", f"mirror:{session}"]
        assert (told["sessions"][0]["kind"], told["sessions"][0]["state"]) == ("agent", "waiting")
        shown = told["sessions"][1]
        assert (shown["host"], shown["repo"]) == ("attic", "example/work")
        assert [one["title"] for one in shown["focus"]] == ["private"]
        assert told["coverage"]["hosts"] == ["attic"]
        since = (tools.at - timedelta(days=3)).isoformat()
        longer = await tools.call("fleet_report", since=since)
        assert [one["title"] for one in longer["sessions"][1]["focus"]] == ["private", "older"]


@pytest.mark.rule(373)
@pytest.mark.parametrize(
    "window",
    [
        {"since": "2026-01-01T00:00:00Z", "until": "2026-01-06T00:00:00Z"},
        {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
        {"since": "2026-01-01T00:00:00", "until": "2026-01-02T00:00:00Z"},
        {"until": "0001-01-01T00:00:00+10:00"},
        {"until": "9999-12-31T23:59:59-10:00"},
    ],
)
async def test_a_window_that_cannot_be_is_refused(tools: Tools, window: dict[str, Any]) -> None:
    """Empty, longer than four days, without an offset, beyond any clock."""
    with pytest.raises(Invalid):
        await tools.call("fleet_report", **window)


@pytest.mark.rule(373)
@pytest.mark.parametrize("name", NAMES)
async def test_only_the_chief_is_told(tools: Tools, name: str) -> None:
    """Another agent of the owner's is refused, whatever it was offered."""
    helper = await tools.helper("A task")
    query = {"query": "pump"} if name == "focus_search" else {}
    with pytest.raises(Refused, match="chief's alone"):
        await tools.call(name, helper, **query)
