"""What the agents' tools answer at `/mcp`; both roads of the door lead here.

What is offered depends on who asks, and a call asks again.
"""

from collections.abc import Mapping

import attrs

from muster.chief import tools as chief_tools
from muster.errors import MusterError
from muster.node.node import Node
from muster.pg.database import Transaction
from muster.principals import Agent
from web.mcp.door import Called
from web.mcp.results import Members, contained, decode, describe, no_tool, refused, told


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
    with contained(node, "mcp tools/list"):
        async with node.db.transaction(agent) as tx:
            offered = await _offered(node, tx, agent)
        return {"tools": [describe(t.name, t.description, t.arguments) for t in offered]}


async def call_tool(node: Node, agent: Agent, called: Called) -> Members:
    """The result of `tools/call`. Raises ToolsBroke."""
    with contained(node, "mcp tools/call"):
        wanted = _Wanted(node, agent, called.name, called.arguments)
        known = chief_tools.find_tool(called.name)
        try:
            if known is not None and known.reserve is not None:
                await node.db.run(agent, _reserve, wanted)
            result = await node.db.run(agent, _run, wanted)
        except _NoTool:
            return no_tool(called.name)
        except MusterError as refusal:
            return refused(refusal)
        return told(result)


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
    decoded = decode(wanted.arguments, tool.arguments)
    deny_words = wanted.node.config.deny_words
    return tool, chief_tools.Call(arguments=decoded, deny_words=deny_words)
