"""A tool door: MCP over streamable HTTP, for callers of one kind of credential.

Stateless: each request proves its token and is served by that principal alone; a session that
outlived a request could be served to another token. Every answer is one JSON document, for no tool
sends anything before its result. A plain list or call takes the short road (web/mcp/short.py),
everything else the library's; what the tools answer is the same on both.
"""

import importlib.metadata
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

import attrs
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from muster.errors import MusterError
from muster.node.node import Node
from web.answers import Answer
from web.asgi import Message, Receive, Scope, Send
from web.auth import Headers
from web.departures import WHILE_THERE, WhileThere
from web.errors import send_error, send_refusal
from web.mcp.results import Members, ToolsBroke
from web.mcp.short import CallTool, ListTools, Plain, answer_broken, answer_result, read_plain
from web.routes import send_answer

CALLER = "muster.caller"
Caller = TypeVar("Caller")
Context = ServerRequestContext[Any, Any]


@attrs.frozen
class Called:
    """A call of a tool, as it was asked for."""

    name: str
    arguments: Mapping[str, object]
    while_there: WhileThere


@attrs.frozen(kw_only=True)
class Tools(Generic[Caller]):
    """Who is served at a door, and what: the results of `tools/list` and `tools/call`.

    `prove` raises a MusterError for whoever may not come in; the other two raise ToolsBroke. A
    tool that waits for something does that in a block that ends when its client leaves.
    """

    prove: Callable[[Node, Headers], Awaitable[Caller]]
    list_tools: Callable[[Node, Caller], Awaitable[Members]]
    call_tool: Callable[[Node, Caller, Called], Awaitable[Members]]


@attrs.frozen
class ToolDoor(Generic[Caller]):
    """The door, once it is open."""

    node: Node
    tools: Tools[Caller]
    manager: StreamableHTTPSessionManager

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            caller = await self.tools.prove(self.node, scope["headers"])
        except MusterError as refusal:
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
            while_there = scope["extensions"][WHILE_THERE]
            await send_answer(send, await self._answer(caller, plain, while_there))
            return
        scope[CALLER] = caller
        await self.manager.handle_request(scope, _again(message, receive), send)

    async def _answer(self, caller: Caller, plain: Plain, while_there: WhileThere) -> Answer:
        tools = self.tools
        try:
            match plain:
                case ListTools():
                    members = await tools.list_tools(self.node, caller)
                case CallTool():
                    called = Called(plain.params.name, plain.arguments, while_there)
                    members = await tools.call_tool(self.node, caller, called)
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
async def open_tool_door(node: Node, tools: Tools[Caller]) -> AsyncIterator[ToolDoor[Caller]]:
    """Open the door for the length of the block."""

    async def listing(context: Context, _params: Any) -> types.ListToolsResult:
        try:
            listed = await tools.list_tools(node, _caller(context))
        except ToolsBroke as broke:
            raise MCPError(types.INTERNAL_ERROR, broke.sentence) from broke
        return types.ListToolsResult.model_validate(listed)

    async def calling(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        assert context.request is not None
        while_there = context.request.scope["extensions"][WHILE_THERE]
        called = Called(params.name, params.arguments or {}, while_there)
        try:
            members = await tools.call_tool(node, _caller(context), called)
        except ToolsBroke as broke:
            raise MCPError(types.INTERNAL_ERROR, broke.sentence) from broke
        return types.CallToolResult.model_validate(members)

    version = importlib.metadata.version("muster-server")
    server: Server[Any] = Server(
        "muster", version=version, on_list_tools=listing, on_call_tool=calling
    )
    manager = StreamableHTTPSessionManager(server, stateless=True, json_response=True)
    async with manager.run():
        yield ToolDoor(node, tools, manager)


def _is_json(scope: Scope) -> bool:
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    kind, _, _ = b", ".join(kinds).partition(b";")
    return kind.strip().lower() == b"application/json"


def _caller(context: Context) -> Any:
    assert context.request is not None
    return context.request.scope[CALLER]
