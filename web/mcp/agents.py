"""`/mcp`: the tools of connected agents, by MCP over streamable HTTP, with the agent's token.

Stateless: each request proves its token and is served by that principal alone; a session that
outlived a request could be served to another token. What is offered depends on who asks, and a call
asks again. Arguments are decoded strictly, as bodies are; a refusal is a failed call (`isError`)
whose text and structure are `{"error", "refused", …}`, so that a model can read what to change.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import attrs
import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from actors import Event
from muster.chief import tools as chief_tools
from muster.errors import MusterError, Unauthorized, Unavailable
from muster.node.node import Node
from muster.principals import Agent
from web.asgi import Receive, Scope, Send
from web.auth import prove_agent
from web.bodies import explain
from web.errors import send_error, send_refusal, sentence_of

PRINCIPAL = "muster.principal"

Context = ServerRequestContext[Any, Any]


@attrs.frozen
class AgentDoor:
    """The door, once it is open."""

    node: Node
    manager: StreamableHTTPSessionManager

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request of an agent's."""
        try:
            scope[PRINCIPAL] = await prove_agent(self.node, scope["headers"])
        except (Unauthorized, Unavailable) as refusal:
            await send_refusal(send, refusal)
            return
        if scope["method"] != "POST":
            # There is no session to end and no stream of the server's own to read.
            sentence = "This door takes POST alone."
            allow = [(b"allow", b"POST")]
            await send_error(send, 405, "method_not_allowed", sentence, headers=allow)
            return
        if not _is_json(scope):
            sentence = "The body must be application/json."
            await send_error(send, 415, "unsupported_media_type", sentence)
            return
        await self.manager.handle_request(scope, receive, send)


@asynccontextmanager
async def open_agent_door(node: Node) -> AsyncIterator[AgentDoor]:
    """Open the door for the length of the block."""

    async def list_tools(context: Context, _params: Any) -> types.ListToolsResult:
        with _contained(node, "tools/list"):
            offered = await _offered(node, _agent(context))
            return types.ListToolsResult(tools=[_describe(tool) for tool in offered])

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        with _contained(node, "tools/call"):
            return await _call(node, _agent(context), params.name, params.arguments or {})

    server: Server[Any] = Server("muster", on_list_tools=list_tools, on_call_tool=call_tool)
    manager = StreamableHTTPSessionManager(server, stateless=True)
    async with manager.run():
        yield AgentDoor(node, manager)


@contextmanager
def _contained(node: Node, method: str) -> Iterator[None]:
    """Let nothing but words of ours out of a handler; what crashed it becomes a report.

    The library would tell the agent the text of any exception, with the SQL that it quotes.
    """
    try:
        yield
    except MusterError as refusal:
        raise MCPError(types.INTERNAL_ERROR, sentence_of(refusal)) from refusal
    except Exception as crash:  # a tool call is a child task, as a request is
        node.log.report(f"root/web/mcp {method}", Event.CRASHED, reason="crash", error=crash)
        sentence = "Something broke on our side; it was reported."
        raise MCPError(types.INTERNAL_ERROR, sentence) from crash


def _is_json(scope: Scope) -> bool:
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    kind, _, _ = b", ".join(kinds).partition(b";")
    return kind.strip().lower() == b"application/json"


def _agent(context: Context) -> Agent:
    assert context.request is not None
    principal = context.request.scope[PRINCIPAL]
    assert isinstance(principal, Agent)
    return principal


async def _offered(node: Node, agent: Agent) -> tuple[chief_tools.Tool, ...]:
    if not node.config.plugins:
        return ()
    async with node.db.transaction(agent) as tx:
        return await chief_tools.offered(tx, agent)


def _describe(tool: chief_tools.Tool) -> types.Tool:
    (_, components) = msgspec.json.schema_components([tool.arguments])
    schema = components[tool.arguments.__name__]
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema={**schema, "additionalProperties": False},
    )


async def _call(
    node: Node, agent: Agent, name: str, arguments: Mapping[str, object]
) -> types.CallToolResult:
    try:
        offered = {tool.name: tool for tool in await _offered(node, agent)}
    except MusterError as refusal:
        return _refused(refusal)
    tool = offered.get(name)
    if tool is None:
        return _failed({"error": f"You have no tool named {name[:100]!r}.", "refused": "no_tool"})
    try:
        decoded = msgspec.convert(arguments, tool.arguments, strict=True)
    except msgspec.ValidationError as problem:
        return _refused(explain(str(problem)))
    try:
        call = chief_tools.Call(arguments=decoded, deny_words=node.config.deny_words)
        result = await node.db.run(agent, tool.run, call)
    except MusterError as refusal:
        return _refused(refusal)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=msgspec.json.encode(result).decode())],
        structured_content=dict(result),
    )


def _refused(refusal: MusterError) -> types.CallToolResult:
    members: dict[str, object] = {**refusal.facts, "error": sentence_of(refusal)}
    members["refused"] = refusal.code
    if refusal.field is not None:
        members["field"] = refusal.field
    return _failed(members)


def _failed(members: dict[str, object]) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=msgspec.json.encode(members).decode())],
        structured_content=members,
        is_error=True,
    )
