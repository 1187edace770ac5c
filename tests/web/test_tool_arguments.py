"""What a model may say to a tool: numbers that no row has, texts that no database keeps, odd times.

Each is a refusal or nothing, and never a crash of ours.
"""

import json
from collections.abc import Iterator

import httpx2

from muster.principals import Agent, Owner
from tests.support.agent_mail import mail_desk
from tests.support.builders import make_message, new_agent
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.server import MCP_HEADERS
from tests.support.session_door import session_door

NUMBERS = (0, -1, 2**53, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30)
TEXTS = ("", "\0", "a\0b", "\ud800", "mirror:", "mirror:\0", "mirror:\ud800", "\u202e", "\ufdd0")
TIMES = (
    "0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59",
    "9999-12-31T23:59:59Z", "2026-01-01T00:00:00", "\0",
)  # fmt: skip
Calls = Iterator[tuple[str, dict[str, object]]]


def of_a_session(message_id: int) -> Calls:
    """Calls at /mirror/mcp."""
    for number in NUMBERS:
        yield "route_reply", {"route_id": number, "body": "x"}
        yield "plugin_message_route", {"message_id": number}
        yield "chief_ask", {"question": "q", "route_id": number}
        yield "attention_wait", {"ids": [number], "wait_seconds": 0}
        yield "attention_answer", {"ask_id": number, "text": "x"}
        yield "plugin_draft_decide", {"id": number, "decision": "approve", "body_sha256": "0"}
    for text in TEXTS:
        yield "route_reply", {"route_id": 1, "body": text}
        yield "plugin_message_route", {"message_id": message_id, "subject": text}
        yield "chief_ask", {"question": text}
        yield "attention_answer", {"ask_id": 1, "text": text}
        yield "plugin_draft_decide", {"id": 1, "decision": "reject", "body_sha256": text}


def of_the_chief(message_id: int) -> Calls:
    """Calls at /mcp."""
    for number in NUMBERS:
        yield "reply_draft", {"message_id": number, "body": "x"}
        yield "task_create_gated", {"title": "t", "body": "b", "message_id": number}
        yield "plugin_message_settle", {"message_id": number, "reason": "r"}
        yield "route_to_session", {"message_id": number, "subject": "mirror:x"}
        yield "route_to_session", {"task_id": number, "subject": "mirror:x"}
        yield "attention_ask", {"question": "q", "message_id": number}
        yield "attention_ask", {"question": "q", "task_id": number}
        yield "attention_cancel", {"ask_id": number}
    for text in TEXTS:
        yield "reply_draft", {"message_id": message_id, "body": text}
        yield "task_create_gated", {"title": text, "body": "b"}
        yield "task_create_gated", {"title": "t", "body": text, "gate_reason": text}
        yield "task_create_gated", {"title": "t", "body": "b", "repo": text, "tags": [text]}
        yield "plugin_message_settle", {"message_id": message_id, "reason": text}
        yield "route_to_session", {"message_id": message_id, "subject": text}
        yield "focus_search", {"query": text or "x"}
        yield "attention_ask", {"question": text, "answers": [text]}
    for time in TIMES:
        yield "fleet_report", {"since": time}
        yield "fleet_report", {"until": time}
        yield "fleet_report", {"since": time, "until": time}


async def broken(client: httpx2.AsyncClient, path: str, calls: Calls) -> list[str]:
    """The calls that our side broke at, with what it said."""
    found = []
    for name, arguments in calls:
        params = {"name": name, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"content-type": "application/json", "Muster-Pane": "%1"}
        # The escapes of json.dumps say what no UTF-8 can.
        answer = await client.post(
            path, content=json.dumps(body).encode(), headers=MCP_HEADERS | headers
        )
        if answer.status_code >= 500 or "broke on our side" in answer.text:
            found.append(f"{name} {arguments!a}: {answer.status_code} {answer.text[:200]}")
    return found


async def test_no_argument_breaks_a_tool(db: SpiedDatabase, owner: Owner, cluster: Cluster) -> None:
    """At both doors, through every argument."""
    async with mail_desk(db, owner, cluster) as desk, session_door(desk) as door:
        agent_id, token = await new_agent(db, owner, "first", chief=True)
        holder = Agent(owner_id=owner.owner_id, agent_id=agent_id, name="first", credential_id=1)
        message = await make_message(db, desk.plugin, delivered_to=holder)
        async with desk.server.client(door.token) as session:
            found = await broken(session, "/mirror/mcp", of_a_session(message.id))
        async with desk.server.client(token) as chief:
            found += await broken(chief, "/mcp", of_the_chief(message.id))
        assert not found, "\n".join(found)
        assert not desk.server.crashes
