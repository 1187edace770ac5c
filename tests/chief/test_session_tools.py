"""The tools of mirrored sessions: how they are described, and what arguments they take."""

from typing import Any

import msgspec
import pytest

from muster.chief import tools as agents_tools
from muster.chief.tools import sessions
from muster.errors import Invalid
from web.mcp.results import decode, describe

SHA256 = "0" * 64
TAKEN: dict[str, list[dict[str, Any]]] = {
    "route_reply": [{"route_id": 1, "body": "x"}],
    "chief_ask": [{"question": "x"}, {"question": "x", "route_id": 1}],
    "attention_wait": [{"ids": [1]}, {"ids": [1, 2], "wait_seconds": 25}, {"ids": [*range(20)]}],
    "attention_answer": [{"ask_id": 1, "text": "x"}],
    "plugin_drafts_list": [{}],
    "plugin_draft_decide": [
        {"id": 1, "decision": decision, "body_sha256": SHA256} for decision in ("approve", "reject")
    ],
    "plugin_messages_list": [{}],
    "plugin_message_route": [{"message_id": 1}, {"message_id": 1, "subject": "mirror:x"}],
}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("route_reply", {"route_id": "1", "body": "x"}, "route_id"),
    ("route_reply", {"route_id": 1}, "body"),
    ("chief_ask", {"question": "x", "route_id": None}, "route_id"),
    ("chief_ask", {"question": "x", "route_id": 1.5}, "route_id"),
    ("attention_wait", {"ids": []}, "ids"),
    ("attention_wait", {"ids": [*range(21)]}, "ids"),
    ("attention_wait", {"ids": [1], "wait_seconds": 26}, "wait_seconds"),
    ("attention_wait", {"ids": [1], "wait_seconds": -1}, "wait_seconds"),
    ("attention_answer", {"ask_id": True, "text": "x"}, "ask_id"),
    ("plugin_draft_decide", {"id": 1, "decision": "withdraw", "body_sha256": ""}, "decision"),
    ("plugin_draft_decide", {"id": 1, "decision": "approve"}, "body_sha256"),
    ("plugin_message_route", {"message_id": 1, "subject": None}, "subject"),
]
BY_NAME = {tool.name: tool for tool in sessions.TOOLS}


def schema_of(name: str) -> dict[str, Any]:
    """What `tools/list` tells of a tool's arguments."""
    tool = BY_NAME[name]
    schema = describe(tool.name, tool.description, tool.arguments)["inputSchema"]
    assert isinstance(schema, dict)
    return schema


@pytest.mark.parametrize("name", sorted(TAKEN))
def test_each_schema_tells_all_that_is_taken_and_nothing_else(name: str) -> None:
    """Plain JSON without references; a member beside the schema's is refused."""
    schema = schema_of(name)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert "$ref" not in msgspec.json.encode(schema).decode()
    told = set(schema["properties"])
    assert set(schema["required"]) <= told
    assert told == set().union(*TAKEN[name])
    for arguments in TAKEN[name]:
        decode(arguments, BY_NAME[name].arguments)
        for missing in schema["required"]:
            rest = {key: value for key, value in arguments.items() if key != missing}
            with pytest.raises(Invalid):
                decode(rest, BY_NAME[name].arguments)
        with pytest.raises(Invalid):
            decode({**arguments, "extra": 1}, BY_NAME[name].arguments)


@pytest.mark.parametrize(("name", "arguments", "field"), REFUSED)
def test_a_wrong_argument_is_named(name: str, arguments: dict[str, Any], field: str) -> None:
    """Nothing is coerced: the model reads which argument to change."""
    with pytest.raises(Invalid) as refused:
        decode(arguments, BY_NAME[name].arguments)
    assert (refused.value.field or "").split("[")[0] == field


def test_the_limits_of_a_wait_stand_in_its_schema() -> None:
    """1 to 20 questions, 0 to 25 seconds."""
    told = schema_of("attention_wait")["properties"]
    assert (told["ids"]["minItems"], told["ids"]["maxItems"]) == (1, 20)
    assert (told["wait_seconds"]["minimum"], told["wait_seconds"]["maximum"]) == (0, 25)


@pytest.mark.rule(269, 407)
def test_no_agent_has_a_tool_of_that_name() -> None:
    """An agent's door knows none of them, whoever asks."""
    assert BY_NAME.keys() == TAKEN.keys()
    assert not [name for name in BY_NAME if agents_tools.find_tool(name) is not None]


@pytest.mark.rule(307, 407)
@pytest.mark.parametrize("plugins", [True, False])
@pytest.mark.parametrize("routing", [True, False])
def test_what_is_off_offers_nothing(plugins: bool, routing: bool) -> None:
    """Routes need both; drafts need plugins; the chief and the owner's asks are there always."""
    offered = {tool.name for tool in sessions.offered(plugins=plugins, routing=routing)}
    assert {"chief_ask", "attention_wait", "attention_answer"} <= offered
    assert ("plugin_draft_decide" in offered) is plugins
    assert ("plugin_drafts_list" in offered) is plugins
    for name in ("route_reply", "plugin_messages_list", "plugin_message_route"):
        assert (name in offered) is (plugins and routing)
        found = sessions.find_tool(name, plugins=plugins, routing=routing)
        assert (found is not None) is (plugins and routing)
