"""The runner's tools: against a real MCP server, and against answers that are none."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import httpx2
import mcp_types
import pytest
import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from muster.clients.agent.backend import TurnError
from muster.clients.agent.mcp import ANSWER_BYTES_MAX, McpTools

TOKEN = "mag_secret-of-the-test"


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
async def tools_of(app: Any) -> AsyncIterator[McpTools]:
    """The runner's tools at an ASGI app on a port of 127.0.0.1."""
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.graceful_timeout = 0.1
    stop = trio.Event()

    async def with_lifespan(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await app(scope, receive, send)
            return
        for stage in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{stage}.complete"})

    async with (
        trio.open_nursery() as nursery,
        httpx2.AsyncClient(verify=False, trust_env=False) as http,
    ):
        binds = await nursery.start(
            partial(serve, with_lifespan, config, shutdown_trigger=stop.wait)
        )
        yield McpTools(http=http, url=f"{binds[0]}/", token=TOKEN)
        stop.set()


@asynccontextmanager
async def real_tools(*, json_response: bool) -> AsyncIterator[McpTools]:
    """The tools at a stateless MCP server of the mcp package."""
    server = Server("test", on_list_tools=list_tools, on_call_tool=call_tool)
    manager = StreamableHTTPSessionManager(server, stateless=True, json_response=json_response)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        assert headers[b"authorization"] == f"Bearer {TOKEN}".encode()
        assert scope["path"] == "/mcp"
        await manager.handle_request(scope, receive, send)

    async with manager.run(), tools_of(app) as tools:
        yield tools


@pytest.mark.parametrize("json_response", [True, False])
async def test_tools_are_listed_and_called(json_response: bool) -> None:
    """Every page of tools is read, and a call brings text, structure and muster's no."""
    async with real_tools(json_response=json_response) as tools:
        assert [(tool.name, tool.description) for tool in await tools.list()] == [
            ("reply_draft", "reply_draft it"),
            ("look", "look it"),
        ]
        yes = await tools.call("reply_draft", {"body": "grüße"})
        assert (yes.text, yes.is_error, yes.structured) == ("got\ngrüße", False, {"body": "grüße"})
        assert (await tools.call("reply_draft", {"body": "no"})).is_error


@pytest.mark.parametrize("json_response", [True, False])
async def test_a_protocol_error_is_an_answer_to_the_backend(json_response: bool) -> None:
    """A JSON-RPC error reaches the backend as a refusal that it can read."""
    async with real_tools(json_response=json_response) as tools:
        answer = await tools.call("launch", {})
        assert answer.is_error
        assert answer.text


@attrs.define
class Answering:
    """Answers each POST with the same status and body, or hangs up in the middle of it."""

    body: bytes = b""
    status: int = 200
    kind: bytes = b"application/json"
    asked: int = 0

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
        """Give the one answer."""
        self.asked += 1
        headers = [(b"content-type", self.kind)]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


@pytest.mark.parametrize(
    ("answering", "told"),
    [
        (Answering(status=401), "answered HTTP 401"),
        (Answering(status=307), "answered HTTP 307"),
        (Answering(status=503, body=b"{}"), "answered HTTP 503"),
        (Answering(b"hello"), "Expecting value"),
        (Answering(b"\xff\xfe"), "/mcp: "),
        (Answering(b"[]"), "gave no answer"),
        (Answering(b'{"id": 1}'), "gave no result"),
        (Answering(b'{"id": null, "error": {"message": "x"}}'), "gave no answer"),
        (Answering(b'{"id": 1, "result": 3}'), "gave no result"),
        (Answering(b'{"id": 99, "result": {}}'), "gave no answer"),
        (Answering(b" " * (ANSWER_BYTES_MAX + 1)), "an answer of more than"),
        (Answering(b": ping\n\n", kind=b"text/event-stream"), "gave no answer"),
        (Answering(b"data: {\n\n", kind=b"text/event-stream"), "/mcp: "),
        (Answering(b"data: " + b"x" * 2_000_000, kind=b"text/event-stream"), "of more than"),
    ],
)
async def test_what_is_no_answer_fails_the_turn_once(answering: Answering, told: str) -> None:
    """An answer that says nothing fails the turn with its reason; the call is not made again."""
    async with tools_of(answering) as tools:
        with pytest.raises(TurnError) as caught:
            await tools.call("reply_draft", {"body": "x"})
        assert told in str(caught.value)
        assert TOKEN not in str(caught.value)
        assert answering.asked == 1


async def test_a_door_that_is_shut_fails_the_turn() -> None:
    """Nobody listening is a failed turn, not a crash."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    async with httpx2.AsyncClient(verify=False, trust_env=False) as http:
        tools = McpTools(http=http, url=f"http://127.0.0.1:{port}", token=TOKEN)
        with pytest.raises(TurnError, match="/mcp: "):
            await tools.list()
