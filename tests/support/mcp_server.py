"""A stateless MCP server of the `mcp` package, on a real socket."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import mcp_types
import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

Check = Callable[[str, dict[bytes, bytes]], None]
"""Looks at the path and the headers of each request."""


async def list_tools(_context: Any, params: Any) -> mcp_types.ListToolsResult:
    """Two pages of one tool each."""
    schema = {"type": "object", "properties": {"body": {"type": "string"}}}
    first = params is None or params.cursor is None
    name = "reply_draft" if first else "look"
    tool = mcp_types.Tool(name=name, description=f"{name} it", input_schema=schema)
    return mcp_types.ListToolsResult(tools=[tool], next_cursor="2" if first else None)


async def call_tool(
    _context: Any, params: mcp_types.CallToolRequestParams
) -> mcp_types.CallToolResult:
    """Echo the body, refuse "no", and know no other tool."""
    if params.name != "reply_draft":
        raise ValueError(f"no tool {params.name}")
    body = (params.arguments or {})["body"]
    return mcp_types.CallToolResult(
        content=[mcp_types.TextContent(text="got"), mcp_types.TextContent(text=body)],
        structured_content={"body": body},
        is_error=body == "no",
    )


@asynccontextmanager
async def serving_app(app: Any, *, port: int = 0) -> AsyncIterator[str]:
    """Serve an ASGI app on a port of 127.0.0.1; yields its address."""
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.graceful_timeout = 0.1
    stop = trio.Event()

    async def with_lifespan(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await app(scope, receive, send)
            return
        for stage in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{stage}.complete"})

    async with trio.open_nursery() as nursery:
        binds = await nursery.start(
            partial(serve, with_lifespan, config, shutdown_trigger=stop.wait)
        )
        yield binds[0]
        stop.set()


@asynccontextmanager
async def mcp_app(check: Check, *, json_response: bool) -> AsyncIterator[Any]:
    """The server as an ASGI app; it answers as JSON or as a stream of events."""
    server = Server("test", on_list_tools=list_tools, on_call_tool=call_tool)
    manager = StreamableHTTPSessionManager(server, stateless=True, json_response=json_response)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        check(scope["path"], dict(scope["headers"]))
        await manager.handle_request(scope, receive, send)

    async with manager.run():
        yield app
