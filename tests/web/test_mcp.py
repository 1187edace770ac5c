"""The agents' tool door, `/mcp`: who is offered what, and how a call is refused."""

import json

import pytest

from muster.agents.operations import add_agent
from muster.agents.rules import AddAgent
from tests.support.builders import new_agent
from tests.support.desk import Desk, OpenDesk, error_of
from tests.support.server import call_mcp, call_tool

FOR_ALL = {"attention_ask", "attention_cancel"}


async def names(at: Desk, token: str) -> set[str]:
    """The names of the tools that the holder of this token is offered."""
    return {tool["name"] for tool in (await call_mcp(at.server, token, "tools/list", {}))["tools"]}


@pytest.mark.rule(5, 250)
async def test_the_chief_alone_is_offered_reply_draft(desk: OpenDesk) -> None:
    """The chief sees the tool with a strict schema; another agent neither sees nor calls it."""
    async with desk() as at:
        _, other = await new_agent(at.db, at.owner, "other", chief=False)
        offered = (await call_mcp(at.server, at.chief_token, "tools/list", {}))["tools"]
        (tool,) = [each for each in offered if each["name"] == "reply_draft"]
        assert tool["inputSchema"]["type"] == "object"
        assert set(tool["inputSchema"]["required"]) == {"message_id", "body"}
        assert tool["inputSchema"]["additionalProperties"] is False
        assert await names(at, other) == FOR_ALL
        refused = await call_tool(at.server, other, "reply_draft", message_id=1, body="hello")
        assert refused["isError"]
        assert refused["structuredContent"]["refused"] == "no_tool"


@pytest.mark.rule(250)
async def test_a_chief_that_was_replaced_loses_the_tool(desk: OpenDesk) -> None:
    """Who is chief is asked at each call, not at a session's beginning."""
    async with desk() as at:
        await at.db.run(at.owner, add_agent, AddAgent(name="next", chief=True, replace=True))
        assert await names(at, at.chief_token) == FOR_ALL


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"body": "hello"}, "message_id"),
        ({"message_id": "7", "body": "hello"}, "message_id"),
        ({"message_id": 7}, "body"),
        ({"message_id": 7, "body": None}, "body"),
        ({"message_id": 7, "body": "hello", "send": True}, "send"),
        ({"message_id": 7.5, "body": "hello"}, "message_id"),
    ],
)
async def test_arguments_are_decoded_strictly(
    desk: OpenDesk, arguments: dict[str, object], field: str
) -> None:
    """Unknown, missing and coerced arguments are a failed call that names the field."""
    async with desk() as at:
        result = await call_tool(at.server, at.chief_token, "reply_draft", **arguments)
        assert result["isError"]
        assert result["structuredContent"]["field"] == field
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


@pytest.mark.rule(251, 252, 254)
async def test_refusals_say_what_to_change_and_file_nothing(desk: OpenDesk) -> None:
    """A message that is not the chief's and a text that is screened are failed calls with words."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        missing = await call_tool(
            at.server, at.chief_token, "reply_draft", message_id=2**62, body="hello"
        )
        assert missing["structuredContent"]["refused"] == "not_found"
        message_id = await at.post()
        await agent.next_frame("turn")
        screened = await call_tool(
            at.server, at.chief_token, "reply_draft", message_id=message_id, body="Ask 10.0.0.1."
        )
        assert screened["isError"]
        assert screened["structuredContent"]["offset"] == 4
        nul = await call_tool(
            at.server, at.chief_token, "reply_draft", message_id=message_id, body="a\0b"
        )
        assert nul["isError"]


async def test_the_deployments_own_words_are_refused(desk: OpenDesk) -> None:
    """MUSTER_FLOW_AGENT_DENY_WORDS reaches the screen."""
    async with desk(MUSTER_FLOW_AGENT_DENY_WORDS="bluebird,otter") as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        await agent.next_frame("turn")
        result = await call_tool(
            at.server, at.chief_token, "reply_draft", message_id=message_id, body="On Otter, yes."
        )
        assert result["isError"]


@pytest.mark.rule(45, 46, 53)
async def test_a_no_reply_message_is_told_and_takes_no_draft(desk: OpenDesk) -> None:
    """The turn says that no reply is possible, and the tool refuses one."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post(no_reply=True)
        turn = await agent.next_frame("turn")
        assert "No reply to this message is possible" in turn["text"]
        assert "UNVERIFIED" in turn["text"]
        result = await call_tool(
            at.server, at.chief_token, "reply_draft", message_id=message_id, body="hello"
        )
        assert result["structuredContent"]["refused"] == "no_reply"


async def test_a_handshake_an_unknown_method_and_nonsense_are_answered(desk: OpenDesk) -> None:
    """`initialize` works without a session; what is not MCP gets an error, and it serves on."""
    async with desk() as at, at.server.client(at.chief_token) as client:
        hello: dict[str, object] = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        told = await call_mcp(at.server, at.chief_token, "initialize", hello)
        assert told["serverInfo"]["name"] == "muster"
        headers = {"Accept": "application/json, text/event-stream"}
        for content in (b"", b"{", b"[]", b"\xff", b'{"jsonrpc":"2.0"}'):
            answer = await client.post("/mcp", content=content, headers=headers)
            assert 400 <= answer.status_code < 500, (content, answer.text)
        for method in ("GET", "DELETE", "PUT"):
            answer = await client.request(method, "/mcp", headers=headers)
            assert answer.status_code == 405, method
        assert (await call_mcp(at.server, at.chief_token, "tools/list", {}))["tools"]


async def test_the_door_takes_an_agent_token_alone(desk: OpenDesk) -> None:
    """No token, a stranger's and a plugin's are 401 before anything is read."""
    async with desk() as at:
        for token in (None, "mag_unknown", "mst_" + "a" * 43, at.plugin_token):
            async with at.server.client(token) as client:
                answer = await client.post("/mcp", json={})
                assert answer.status_code == 401
                error_of(answer)
