"""`task_create_gated` at the tools' door."""

import attrs
import pytest

from muster.chief import tools
from muster.chief.gating import GATED_ACTION, GATED_PER_DAY_MAX
from muster.chief.tools.gated_tasks import TASK_CREATE_GATED
from muster.errors import Unavailable
from muster.pg.database import Transaction
from tests.support.builders import new_agent, read_audit
from tests.support.desk import Desk, OpenDesk
from tests.support.server import call_mcp, call_tool

NAME = "task_create_gated"


async def units(at: Desk) -> int:
    """How many units were spent."""
    return len(await read_audit(at.db, at.owner, GATED_ACTION))


@pytest.mark.rule(239)
async def test_the_chief_alone_is_offered_it(desk: OpenDesk) -> None:
    """The chief sees it with a strict schema; another agent neither sees nor calls it."""
    async with desk() as at:
        _, other = await new_agent(at.db, at.owner, "other", chief=False)
        listed = (await call_mcp(at.server, at.chief_token, "tools/list", {}))["tools"]
        (tool,) = [each for each in listed if each["name"] == NAME]
        assert set(tool["inputSchema"]["required"]) == {"title", "body"}
        assert tool["inputSchema"]["additionalProperties"] is False
        others = (await call_mcp(at.server, other, "tools/list", {}))["tools"]
        assert NAME not in [each["name"] for each in others]
        refused = await call_tool(at.server, other, NAME, title="t", body="b")
        assert refused["isError"]
        assert refused["structuredContent"]["refused"] in ("no_tool", "not_chief")
        assert await units(at) == 0


@pytest.mark.rule(2, 239)
async def test_it_is_gone_while_plugins_are_off(desk: OpenDesk) -> None:
    """Without plugins nobody is offered it or can call it."""
    async with desk(MUSTER_PLUGINS="0") as at:
        listed = (await call_mcp(at.server, at.chief_token, "tools/list", {}))["tools"]
        assert NAME not in [each["name"] for each in listed]
        refused = await call_tool(at.server, at.chief_token, NAME, title="t", body="b")
        assert refused["structuredContent"]["refused"] == "no_tool"
        assert await units(at) == 0


@pytest.mark.rule(242, 246)
async def test_it_files_on_the_turn_that_delivers(desk: OpenDesk) -> None:
    """In its turn the chief files a task that cites the message, with the server's own gate."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        await agent.next_frame("turn")
        result = await call_tool(
            at.server,
            at.chief_token,
            NAME,
            title="Lunch",
            body="Book a table.",
            gate_reason="needs owner ok",
            message_id=message_id,
            tags=["In Box"],
        )
        assert not result.get("isError"), result
        told = result["structuredContent"]
        assert (told["status"], told["tags"]) == ("open", ["gate:needs-owner-ok", "in-box"])
        assert await units(at) == 1


@pytest.mark.rule(244, 249)
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"title": "t", "body": "b", "tags": ["GATE:x"]}, "tags"),
        ({"title": "t", "body": "nul\0"}, "body"),
        ({"title": "t\0", "body": "b"}, "title"),
        ({"title": "t", "body": "b", "repo": "a\0/b"}, "repository"),
        ({"title": "t", "body": "b", "gate": "none"}, "gate"),
        ({"title": "t"}, "body"),
        ({"title": "t", "body": "b", "message_id": "7"}, "message_id"),
        ({"title": "t", "body": "b", "tags": "inbox"}, "tags"),
    ],
)
async def test_a_refusal_names_the_field_and_costs_nothing(
    desk: OpenDesk, arguments: dict[str, object], field: str
) -> None:
    """What breaks a rule is a failed call with the field's name, before a unit is spent."""
    async with desk() as at:
        result = await call_tool(at.server, at.chief_token, NAME, **arguments)
        assert result["isError"]
        assert result["structuredContent"]["field"] == field
        assert await units(at) == 0


@pytest.mark.rule(247)
async def test_the_day_is_told_when_it_is_used_up(desk: OpenDesk) -> None:
    """The twenty-first call of a day is a failed call that says so."""
    async with desk() as at:
        for _ in range(GATED_PER_DAY_MAX):
            await call_tool(at.server, at.chief_token, NAME, title="t", body="b")
        result = await call_tool(at.server, at.chief_token, NAME, title="t", body="b")
        assert result["structuredContent"]["refused"] == "gated_tasks_per_day"
        assert await units(at) == GATED_PER_DAY_MAX


@pytest.mark.rule(248)
async def test_a_create_that_fails_has_spent_its_unit(
    desk: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unit is committed before the task is created, so a failed create gives none back."""

    async def fail(_tx: Transaction, _call: object) -> dict[str, object]:
        raise Unavailable("the disk is full")

    failing = attrs.evolve(TASK_CREATE_GATED, run=fail)
    others = tuple(tool for tool in tools.TOOLS if tool.name != NAME)
    monkeypatch.setattr(tools, "TOOLS", (*others, failing))
    async with desk() as at:
        result = await call_tool(at.server, at.chief_token, NAME, title="t", body="b")
        assert result["isError"]
        assert await units(at) == 1
        assert await read_audit(at.db, at.owner, "task.created") == []
