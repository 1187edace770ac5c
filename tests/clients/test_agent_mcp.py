"""The runner's tools: against a real MCP server, and against answers that are none."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx2
import pytest
import trio

from muster.clients.agent.backend import TurnError
from muster.clients.agent.mcp import ANSWER_BYTES_MAX, McpTools
from tests.support.mcp_server import mcp_app, serving_app

TOKEN = "mag_secret-of-the-test"


@asynccontextmanager
async def tools_of(app: Any) -> AsyncIterator[McpTools]:
    """The runner's tools at an ASGI app on a port of 127.0.0.1."""
    async with (
        serving_app(app) as url,
        httpx2.AsyncClient(verify=False, trust_env=False) as http,
    ):
        yield McpTools(http=http, url=f"{url}/", token=TOKEN)


@asynccontextmanager
async def real_tools(*, json_response: bool) -> AsyncIterator[McpTools]:
    """The tools at a stateless MCP server of the mcp package."""

    def check(path: str, headers: dict[bytes, bytes]) -> None:
        assert headers[b"authorization"] == f"Bearer {TOKEN}".encode()
        assert path == "/mcp"

    async with mcp_app(check, json_response=json_response) as app, tools_of(app) as tools:
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
