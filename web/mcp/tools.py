"""What the agents' tools answer, as the members of MCP's results; both roads of the door lead here.

What is offered depends on who asks, and a call asks again. Arguments are decoded strictly, as
bodies are; a refusal is a failed call (`isError`) whose text and structure are
`{"error", "refused", …}`, so that a model can read what to change.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import attrs
import msgspec

from actors import Event
from muster.chief import tools as chief_tools
from muster.errors import MusterError
from muster.node.node import Node
from muster.pg.database import Transaction
from muster.principals import Agent
from web.bodies import explain
from web.errors import sentence_of

Members = dict[str, object]


class ToolsBroke(Exception):
    """A list or a call ended with no result; `sentence` is what the agent is told."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


@attrs.frozen
class _Wanted:
    """A call as the agent asked for it."""

    node: Node
    agent: Agent
    name: str
    arguments: Mapping[str, object]


class _NoTool(Exception):
    """The agent is not offered the tool that it called."""


async def list_tools(node: Node, agent: Agent) -> Members:
    """The result of `tools/list`. Raises ToolsBroke."""
    with _contained(node, "tools/list"):
        async with node.db.transaction(agent) as tx:
            offered = await _offered(node, tx, agent)
        return {"tools": [_describe(tool) for tool in offered]}


async def call_tool(
    node: Node, agent: Agent, name: str, arguments: Mapping[str, object]
) -> Members:
    """The result of `tools/call`. Raises ToolsBroke."""
    with _contained(node, "tools/call"):
        wanted = _Wanted(node, agent, name, arguments)
        known = chief_tools.find_tool(name)
        try:
            if known is not None and known.reserve is not None:
                await node.db.run(agent, _reserve, wanted)
            result = await node.db.run(agent, _run, wanted)
        except _NoTool:
            sentence = f"You have no tool named {name[:100]!r}."
            return _failed({"error": sentence, "refused": "no_tool"})
        except MusterError as refusal:
            return _refused(refusal)
        return _told(result)


async def _offered(node: Node, tx: Transaction, agent: Agent) -> tuple[chief_tools.Tool, ...]:
    config = node.config
    return await chief_tools.offered(tx, agent, plugins=config.plugins, routing=config.routing)


async def _reserve(tx: Transaction, wanted: _Wanted) -> None:
    """Take what the tool needs of a budget; committed before it runs, and kept if it fails."""
    tool, call = await _chosen(tx, wanted)
    if tool.reserve is not None:
        await tool.reserve(tx, call)


async def _run(tx: Transaction, wanted: _Wanted) -> Mapping[str, object]:
    """Look whether the tool is offered and run it, in the one transaction of both."""
    tool, call = await _chosen(tx, wanted)
    return await tool.run(tx, call)


async def _chosen(tx: Transaction, wanted: _Wanted) -> tuple[chief_tools.Tool, chief_tools.Call]:
    offered = await _offered(wanted.node, tx, wanted.agent)
    tool = next((tool for tool in offered if tool.name == wanted.name), None)
    if tool is None:
        raise _NoTool
    try:
        decoded = msgspec.convert(wanted.arguments, tool.arguments, strict=True)
    except msgspec.ValidationError as problem:
        raise explain(str(problem)) from None
    deny_words = wanted.node.config.deny_words
    return tool, chief_tools.Call(arguments=decoded, deny_words=deny_words)


@contextmanager
def _contained(node: Node, method: str) -> Iterator[None]:
    """Let nothing but words of ours out of a handler; what crashed it becomes a report.

    The library would tell the agent the text of any exception, with the SQL that it quotes.
    """
    try:
        yield
    except MusterError as refusal:
        raise ToolsBroke(sentence_of(refusal)) from refusal
    except Exception as crash:  # a tool call is a child task, as a request is
        node.log.report(f"root/web/mcp {method}", Event.CRASHED, reason="crash", error=crash)
        raise ToolsBroke("Something broke on our side; it was reported.") from crash


def _describe(tool: chief_tools.Tool) -> Members:
    (_, components) = msgspec.json.schema_components([tool.arguments])
    schema = components[tool.arguments.__name__]
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": {**schema, "additionalProperties": False},
    }


def _told(result: Mapping[str, object]) -> Members:
    text = msgspec.json.encode(result).decode()
    return {"content": [{"type": "text", "text": text}], "structuredContent": dict(result)}


def _refused(refusal: MusterError) -> Members:
    members: dict[str, object] = {**refusal.facts, "error": sentence_of(refusal)}
    members["refused"] = refusal.code
    if refusal.field is not None:
        members["field"] = refusal.field
    return _failed(members)


def _failed(members: Members) -> Members:
    return {**_told(members), "isError": True}
