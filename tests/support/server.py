"""A whole server inside the test: the node's tree, the doors, a real port on loopback."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self

import attrs
import httpx2
import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, open_websocket_url

from actors import ChildSpec, Log
from muster.config import Config
from muster.node.database import Listening
from muster.node.node import Node, open_node
from muster.node.reports import ReportsSink
from muster.pg.database import Database
from muster.pg.listener import notify
from tests.support.cluster import SpiedDatabase
from web.app import open_app
from web.serve import serve

MCP_HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-06-18",
}


@attrs.frozen(kw_only=True)
class Server:
    """A running server and how to reach it."""

    node: Node
    port: int
    crashes: list[BaseException]

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def client(self, token: str | None = None) -> httpx2.AsyncClient:
        """An HTTP client, with a bearer token if one is given."""
        return http_client(self.url, token)


def http_client(url: str, token: str | None = None) -> httpx2.AsyncClient:
    """An HTTP client of the server at `url`, with a bearer token if one is given."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    # There is no TLS here, and reading the system's certificates takes 30 ms each time.
    return httpx2.AsyncClient(
        base_url=url, headers=headers, timeout=40, trust_env=False, verify=False
    )


@asynccontextmanager
async def running_server(db: SpiedDatabase, app_url: str, **settings: str) -> AsyncIterator[Server]:
    """Serve on the pool of `db` and with its clock; `settings` are MUSTER_* names."""
    environ = {"HOME": "/nonexistent", "MUSTER_BIND": "127.0.0.1:0", "MUSTER_PLUGINS": "1"}
    config = Config.from_environ(environ | settings)
    crashes: list[BaseException] = []
    own = _FollowingDatabase(db)
    node = Node(node_id=f"test-{id(own):x}", config=config, db=own, log=Log())
    own.node = node
    children = [
        ChildSpec(
            name="listener",
            start=lambda: Listening(app_url, node.fanout.publish, node.fanout.resync),
        ),
        ChildSpec(
            name="supervision-sink",
            start=lambda: ReportsSink(node.log, node.db, node=node.node_id),
        ),
    ]
    shutdown = trio.Event()
    async with (
        open_node(node, database=children, notify=partial(notify, own)),
        open_app(node) as app,
        trio.open_nursery() as doors,
    ):
        start = partial(
            serve,
            app,
            host="127.0.0.1",
            port=0,
            report=lambda crash, _where: crashes.append(crash),
            shutdown=shutdown,
            grace_seconds=0.5,
        )
        port = await doors.start(start)
        node.config = node.config.listening_on(port)
        yield Server(node=node, port=port, crashes=crashes)
        await node.drain()
        shutdown.set()
    if crashes:
        raise BaseExceptionGroup("the server reported crashes", crashes)


class _FollowingDatabase(Database):
    """The test's database as the server's: same pool, same shifted clock, hints to the node."""

    def __init__(self, db: SpiedDatabase) -> None:
        self.node: Node | None = None
        self._of_test = db
        super().__init__(db.pool, publish=self._pass_on, clock_offset=db.clock_offset)

    def _pass_on(self, hints: Any) -> None:
        assert self.node is not None
        self.node.publish(hints)

    @property
    def clock_offset(self) -> Any:
        """The test's."""
        return self._of_test.clock_offset

    @clock_offset.setter
    def clock_offset(self, _value: Any) -> None:
        return


class ScriptedAgent:
    """An agent's end of the gateway socket, driven by the test frame by frame."""

    path = "/agent/v1/socket"

    def __init__(self, url: str, token: str) -> None:
        self._url = url.replace("http://", "ws://") + self.path
        self._token = token
        self._opening: Any = None
        self._socket: WebSocketConnection | None = None

    async def __aenter__(self) -> Self:
        headers = [(b"Authorization", f"Bearer {self._token}".encode())]
        self._opening = open_websocket_url(self._url, extra_headers=headers)
        self._socket = await self._opening.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._opening.__aexit__(kind, error, traceback)
        # After a close by the server the library leaves its end of the stream open.
        await trio.aclose_forcefully(self.socket._stream)

    @property
    def socket(self) -> WebSocketConnection:
        """The open socket."""
        assert self._socket is not None
        return self._socket

    async def next_frame(self, kind: str, seconds: float = 5.0) -> dict[str, Any]:
        """The next frame, which must be of this type."""
        with trio.fail_after(seconds):
            frame: dict[str, Any] = json.loads(await self.socket.get_message())
        assert frame["type"] == kind, frame
        return frame

    async def send(self, kind: str, **members: object) -> None:
        """Send a frame."""
        await self.socket.send_message(json.dumps({"type": kind, **members}))

    async def close_code(self, seconds: float = 5.0) -> int | None:
        """Read until the server closes; its code."""
        with trio.fail_after(seconds):
            try:
                while True:
                    await self.socket.get_message()
            except ConnectionClosed:
                closed = self.socket.closed
        assert closed is not None
        return int(closed.code)


async def call_tool(server: Server, token: str, name: str, **arguments: object) -> dict[str, Any]:
    """Call a tool at /mcp as one request; the result object of MCP."""
    return await call_mcp(server, token, "tools/call", {"name": name, "arguments": arguments})


async def call_mcp(
    server: Server, token: str, method: str, params: dict[str, object]
) -> dict[str, Any]:
    """Call a method at /mcp as one stateless request; its result."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with server.client(token) as client:
        answer = await client.post("/mcp", json=body, headers=MCP_HEADERS)
    assert answer.status_code == 200, answer.text
    data = [line[5:] for line in answer.text.splitlines() if line.startswith("data:")]
    decoded = json.loads(data[-1] if data else answer.text)
    result: dict[str, Any] = decoded["result"]
    return result
