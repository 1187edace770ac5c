"""The real programs as children that a test kills, stops and starts again.

A server keeps its address over its lives, so that clients find it again. What the children print
goes to files, one for each life, so that nobody has to read along and nothing is lost to a kill.
"""

import json
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx2
import trio

from tests.support.program import Program
from tests.support.server import http_client
from tests.support.waiting import until

START_SECONDS = 60.0
# Below the ports that clients get: one that looks for a dead server there could meet itself.
PORTS = (20_000, 30_000)


@attrs.frozen(kw_only=True)
class Stopped:
    """How a server ended: its exit code, how long that took, its event lines."""

    code: int
    seconds: float
    events: list[dict[str, Any]]


@attrs.define(kw_only=True)
class Child:
    """One program with its arguments and settings; each `start` begins a new life of it."""

    program: Program
    arguments: Sequence[str]
    folder: Path
    name: str
    process: trio.Process | None = None
    lives: int = 0

    async def start(self) -> None:
        """Begin a life."""
        assert self.process is None, "it runs"
        self.lives += 1
        with self._file("out").open("wb") as out, self._file("err").open("wb") as err:
            self.process = await trio.lowlevel.open_process(
                [sys.executable, "-m", "muster", *self.arguments],
                env=self.program.environ,
                stdout=out,
                stderr=err,
            )

    async def kill(self) -> None:
        """End it as a power cut would; no error if it does not run."""
        if self.process is not None:
            self.process.kill()
            with trio.CancelScope(shield=True):
                await self.process.wait()
            self.process = None

    async def wait(self, seconds: float) -> int:
        """Wait for its end; its exit code."""
        assert self.process is not None, "it does not run"
        with trio.fail_after(seconds):
            code = await self.process.wait()
        self.process = None
        return code

    def send(self, what: signal.Signals) -> None:
        """Send a signal to this life."""
        assert self.process is not None, "it does not run"
        self.process.send_signal(what)

    def events(self) -> list[dict[str, Any]]:
        """The JSON lines that this life printed; one that a kill cut short is left out."""
        return _read_lines(self._file("out"))

    def all_events(self) -> list[dict[str, Any]]:
        """Those of all lives, in order."""
        numbers = range(1, self.lives + 1)
        return [each for life in numbers for each in _read_lines(self._file("out", life))]

    def complaints(self) -> list[dict[str, Any]]:
        """What all lives put into their logs on stderr."""
        numbers = range(1, self.lives + 1)
        return [each for life in numbers for each in _read_lines(self._file("err", life))]

    def last_words(self) -> str:
        """The end of this life's stderr."""
        return self._file("err").read_text(errors="replace")[-3000:]

    def _file(self, kind: str, life: int | None = None) -> Path:
        return self.folder / f"{self.name}-{life or self.lives}.{kind}"


@attrs.define(kw_only=True)
class ServerChild(Child):
    """`muster serve` at a port that stays."""

    port: int

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    async def begin(self) -> None:
        """Begin a life, without waiting for it to be ready."""
        await Child.start(self)

    async def start(self) -> None:
        """Begin a life, and wait until it says that it is ready."""
        await self.begin()
        await self.until_event("ready", START_SECONDS)

    async def until_event(self, event: str, seconds: float = 10.0) -> None:
        """Wait until it printed an event."""

        def printed() -> bool:
            ended = self.process is None or self.process.poll() is not None
            found = any(each["event"] == event for each in self.events())
            assert found or not ended, f"the server ended: {self.last_words()}"
            return found

        await until(printed, seconds)

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
        program=Program(environ=program.environ | own | settings),
        arguments=["serve"],
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
    return Child(
        program=Program(environ=program.environ | {"MUSTER_AGENT_TOKEN": token}),
        arguments=[
            *("agent", "run", "--backend", "script", "--script", str(rules)),
            *("--url", url, "--json"),
        ],
        folder=folder,
        name="agent",
    )


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens at, for a server that keeps it over its lives."""
    for _ in range(100):
        port = random.randrange(*PORTS)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError("no port is free")


def _read_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    whole = path.read_text(errors="replace").split("\n")[:-1]
    return [json.loads(line) for line in whole if line.startswith("{")]
