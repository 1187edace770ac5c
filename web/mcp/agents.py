"""`/mcp`: the tools of connected agents, by MCP over streamable HTTP, with the agent's token.

Stateless: each request proves its token and is served by that principal alone; a session that
outlived a request could be served to another token. Every answer is one JSON document, for no tool
sends anything before its result. A plain list or call takes the short road (web/mcp/short.py),
everything else the library's; what the tools answer is the same on both (web/mcp/tools.py).
"""

import importlib.metadata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from muster.errors import Unauthorized, Unavailable
from muster.node.node import Node
from muster.principals import Agent
from web.answers import Answer
from web.asgi import Message, Receive, Scope, Send
from web.auth import prove_agent
from web.errors import send_error, send_refusal
from web.mcp.short import CallTool, ListTools, Plain, answer_broken, answer_result, read_plain
from web.mcp.tools import ToolsBroke, call_tool, list_tools
from web.routes import send_answer

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
            agent = await prove_agent(self.node, scope["headers"])
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
        message = await receive()
        plain = read_plain(scope["headers"], message["body"])
        if plain is not None:
            await send_answer(send, await _answer(self.node, agent, plain))
            return
        scope[PRINCIPAL] = agent
        await self.manager.handle_request(scope, _again(message, receive), send)


async def _answer(node: Node, agent: Agent, plain: Plain) -> Answer:
    try:
        match plain:
            case ListTools():
                members = await list_tools(node, agent)
            case CallTool():
                members = await call_tool(node, agent, plain.params.name, plain.arguments)
        return answer_result(plain, members)
    except ToolsBroke as broke:
        return answer_broken(plain, broke.sentence)


def _again(first: Message, receive: Receive) -> Receive:
    """Give the whole body once more, for the library to read."""
    messages = [first]

    async def received() -> Message:
        return messages.pop() if messages else await receive()

    return received


@asynccontextmanager
async def open_agent_door(node: Node) -> AsyncIterator[AgentDoor]:
    """Open the door for the length of the block."""

    async def listing(context: Context, _params: Any) -> types.ListToolsResult:
        try:
            return types.ListToolsResult.model_validate(await list_tools(node, _agent(context)))
        except ToolsBroke as broke:
            raise MCPError(types.INTERNAL_ERROR, broke.sentence) from broke

    async def calling(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        arguments = params.arguments or {}
        try:
            members = await call_tool(node, _agent(context), params.name, arguments)
        except ToolsBroke as broke:
            raise MCPError(types.INTERNAL_ERROR, broke.sentence) from broke
        return types.CallToolResult.model_validate(members)

    version = importlib.metadata.version("muster-server")
    server: Server[Any] = Server(
        "muster", version=version, on_list_tools=listing, on_call_tool=calling
    )
    manager = StreamableHTTPSessionManager(server, stateless=True, json_response=True)
    async with manager.run():
        yield AgentDoor(node, manager)


def _is_json(scope: Scope) -> bool:
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    kind, _, _ = b", ".join(kinds).partition(b";")
    return kind.strip().lower() == b"application/json"


def _agent(context: Context) -> Agent:
    assert context.request is not None
    principal = context.request.scope[PRINCIPAL]
    assert isinstance(principal, Agent)
    return principal
