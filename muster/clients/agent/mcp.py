"""muster's tools over `/mcp`: MCP's streamable HTTP, as much of it as a stateless server needs.

Three JSON-RPC methods (`initialize`, `tools/list`, `tools/call`), each one POST, answered as JSON
or as an event stream. The `mcp` package's own client was rejected here: it costs a second to import
and keeps four tasks and a session for what is one request and one answer.

A call is made once. When its answer is lost the tool may have run, so nothing is sent again.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import httpx2

from muster.clients.agent.backend import Tool, ToolAnswer, TurnError
from muster.clients.agent.members import read_object, read_objects
from muster.clients.agent.sse import EventReader

PROTOCOL_VERSION = "2025-11-25"  # the newest revision with a handshake
ANSWER_BYTES_MAX = 1 << 20
LIST_PAGES_MAX = 20
# The server's comments every 15 s keep a long call alive; the turn's deadline bounds it.
TIMEOUT = httpx2.Timeout(connect=10.0, read=60.0, write=30.0, pool=10.0)


@attrs.define(kw_only=True, eq=False)
class McpTools:
    """The tools of the agent that `token` proves, at muster's `url`."""

    http: httpx2.AsyncClient
    url: str
    token: str = attrs.field(repr=False)
    _greeted: bool = attrs.field(default=False, init=False)
    _last_id: int = attrs.field(default=0, init=False)

    async def list(self) -> list[Tool]:
        """The tools on offer; TurnError when the door can't be reached or refuses."""
        await self._greet()
        tools: list[Tool] = []
        cursor: dict[str, object] = {}
        for _page in range(LIST_PAGES_MAX):
            result = await self._ask("tools/list", cursor)
            tools.extend(_tool(each) for each in read_objects(result, "tools"))
            following = result.get("nextCursor")
            if not isinstance(following, str):
                break
            cursor = {"cursor": following}
        return tools

    async def call(self, name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        """Call a tool; a refusal and a JSON-RPC error are answers, TurnError means no answer."""
        await self._greet()
        try:
            result = await self._ask("tools/call", {"name": name, "arguments": dict(arguments)})
        except _RpcError as error:
            return ToolAnswer(text=str(error), is_error=True)
        texts = [each.get("text") for each in read_objects(result, "content")]
        structured = result.get("structuredContent")
        return ToolAnswer(
            text="\n".join(text for text in texts if isinstance(text, str)),
            is_error=result.get("isError") is True,
            structured=structured if isinstance(structured, dict) else None,
        )

    async def _greet(self) -> None:
        if self._greeted:
            return
        client = {"name": "muster-agent-runner", "version": "1"}
        hello = {"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": client}
        await self._ask("initialize", hello)
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, None)
        self._greeted = True

    async def _ask(self, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        answer = await self._post(request, self._last_id)
        if answer is None:
            raise TurnError(f"{self._door} gave no answer to {method}")
        error = answer.get("error")
        if isinstance(error, dict):
            raise _RpcError(str(error.get("message") or f"{method} failed"))
        result = answer.get("result")
        if not isinstance(result, dict):
            raise TurnError(f"{self._door} gave no result to {method}")
        return result

    @property
    def _door(self) -> str:
        return f"{self.url.rstrip('/')}/mcp"

    async def _post(
        self, message: Mapping[str, object], rpc_id: int | None
    ) -> dict[str, Any] | None:
        headers = {
            "accept": "application/json, text/event-stream",
            "authorization": f"Bearer {self.token}",
            "mcp-protocol-version": PROTOCOL_VERSION,
        }
        try:
            async with self.http.stream(
                "POST", self._door, json=message, headers=headers, timeout=TIMEOUT
            ) as response:
                if response.status_code >= 300:
                    raise TurnError(f"{self._door} answered HTTP {response.status_code}")
                if rpc_id is None:
                    return None
                kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
                body = await _whole(response)
            messages = [each for each in _messages(body, kind) if isinstance(each, dict)]
        except (httpx2.HTTPError, json.JSONDecodeError, UnicodeDecodeError) as error:
            raise TurnError(f"{self._door}: {error or type(error).__name__}") from error
        return next((each for each in messages if each.get("id") == rpc_id), None)


class _RpcError(TurnError):
    """The server's no in JSON-RPC's own words: an unknown tool, arguments of the wrong shape."""


async def _whole(response: httpx2.Response) -> bytes:
    # Read to the end even past the limit: httpx2 leaves generators behind when one stops early,
    # which Trio rightly complains about. A stateless server ends the stream after its answer.
    body, size = bytearray(), 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size <= ANSWER_BYTES_MAX:
            body += chunk
    if size > ANSWER_BYTES_MAX:
        raise TurnError(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
    return bytes(body)


def _messages(body: bytes, kind: str) -> Iterator[Any]:
    if kind != "text/event-stream":
        yield json.loads(body)
        return
    # An answer is over with its stream, also where no blank line ends its last event.
    for text in EventReader().feed(body + b"\n\n"):
        if text:
            yield json.loads(text)


def _tool(each: Mapping[str, Any]) -> Tool:
    return Tool(
        name=str(each.get("name", "")),
        description=str(each.get("description", "")),
        input_schema=read_object(each, "inputSchema"),
    )
