"""The real programs as children that a test kills, stops and starts again (bench/chaos)."""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx2
import trio

from bench.chaos import children
from bench.chaos.cast import make_agent
from bench.chaos.children import Child, muster
from bench.ports import free_port
from tests.support.program import Program
from tests.support.server import http_client

__all__ = ["Child", "ServerChild", "Stopped", "agent_child", "server_child"]


@attrs.frozen(kw_only=True)
class Stopped:
    """How a server ended: its exit code, how long that took, its event lines."""

    code: int
    seconds: float
    events: list[dict[str, Any]]


@attrs.define(kw_only=True)
class ServerChild(children.ServerChild):
    """`muster serve` at a port that stays."""

    async def stop(self, seconds: float = 30.0) -> Stopped:
        """Send SIGTERM and wait for the end."""
        self.send(signal.SIGTERM)
        return await self.stopped(seconds)

    async def stopped(self, seconds: float = 30.0) -> Stopped:
        """Wait for the end of a server that was told to stop."""
        began = trio.current_time()
        code = await self.wait(seconds)
        return Stopped(code=code, seconds=trio.current_time() - began, events=self.events())

    def client(self, token: str | None = None) -> httpx2.AsyncClient:
        """An HTTP client, with a bearer token if one is given."""
        return http_client(self.url, token)

    async def readiness(self) -> tuple[int, list[str]]:
        """Ask /readyz: its status and its reasons."""
        async with self.client() as client:
            answer = await client.get("/readyz")
        reasons: list[str] = answer.json()["reasons"]
        return answer.status_code, reasons

    async def is_healthy(self) -> bool:
        """Ask /healthz."""
        async with self.client() as client:
            return (await client.get("/healthz")).status_code == 200


@asynccontextmanager
async def server_child(
    program: Program, folder: Path, *, name: str = "server", **settings: str
) -> AsyncIterator[ServerChild]:
    """A server that runs for the block, and that is killed at its end if it still does."""
    port = free_port()
    own = {"MUSTER_BIND": f"127.0.0.1:{port}", "MUSTER_PLUGINS": "1", "MUSTER_LOG": "warning"}
    server = ServerChild(
        command=muster("serve"),
        environ=program.environ | own | settings,
        folder=folder,
        name=name,
        port=port,
    )
    try:
        await server.start()
        yield server
    finally:
        await server.kill()


def agent_child(program: Program, folder: Path, *, url: str, token: str, script: str) -> Child:
    """`muster agent run --backend script` with these rules, not started yet."""
    rules = folder / "rules.toml"
    rules.write_text(script)
    return make_agent(folder, rules, name="agent", url=url, token=token, environ=program.environ)
