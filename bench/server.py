"""A real `muster serve`, as a child in a folder of its own, with accounts made by command line."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
COMMAND_SECONDS_MAX = 60.0
_OWNER = "bench"
_PARALLEL = 2


@attrs.frozen(kw_only=True)
class Server:
    """A running server, and the environment in which the command line finds its database."""

    port: int
    environment: dict[str, str]

    async def run(self, *arguments: str, stdin: str = "") -> Any:
        """Run a `muster` command with --json and return what it prints."""
        with trio.fail_after(COMMAND_SECONDS_MAX):
            done = await trio.run_process(
                _muster(*arguments, "--json"),
                env=self.environment,
                stdin=stdin.encode(),
                capture_stdout=True,
            )
        return json.loads(done.stdout)

    async def add_owner(self) -> None:
        """Make the account that everything here belongs to."""
        await self.run(
            "user", "add", _OWNER, "--email", "bench@example.test", "--password-stdin",
            stdin="a long enough password",
        )  # fmt: skip

    async def add_plugins(self, count: int, *, prefix: str) -> list[str]:
        """Register plugins and return their tokens; each has an allowance of its own."""
        tokens: dict[int, str] = {}
        limit = trio.CapacityLimiter(_PARALLEL)

        async def add(number: int) -> None:
            async with limit:
                made = await self.run(
                    "plugin", "add", f"{prefix}{number}", "--owner", _OWNER,
                    "--label", "Bench", "--scope", "bench",
                )  # fmt: skip
            tokens[number] = made["token"]

        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(add, number)
        return [tokens[number] for number in range(count)]


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    """Start a server with a database of its own, and stop both at the end."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        # As root the database runs as another user, who has to get here.
        os.chmod(folder, 0o711)  # noqa: PTH101 - a path object here is taken for blocking work
        port = _free_port()
        environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith("MUSTER_")},
            "MUSTER_BIND": f"127.0.0.1:{port}",
            "MUSTER_DATA_DIR": str(Path(folder) / "data"),
            "MUSTER_PLUGINS": "1",
            "MUSTER_LOG": "warning",
        }
        async with trio.open_nursery() as nursery:
            process: trio.Process = await nursery.start(
                partial(
                    trio.run_process,
                    _muster("serve"),
                    env=environment,
                    stdout=subprocess.PIPE,
                    check=False,
                    deliver_cancel=_stop,
                )
            )
            await _await_ready(process)
            nursery.start_soon(_drain, process)
            server = Server(port=port, environment=environment)
            await server.add_owner()
            yield server
            nursery.cancel_scope.cancel()


async def _stop(process: trio.Process) -> None:
    process.terminate()
    with trio.move_on_after(STOP_SECONDS_MAX):
        await process.wait()
        return
    process.kill()


async def _await_ready(process: trio.Process) -> None:
    assert process.stdout is not None
    line = b""
    with trio.fail_after(START_SECONDS_MAX):
        while not line.endswith(b"\n"):
            part = await process.stdout.receive_some()
            if not part:
                raise ConnectionError("the server ended before it was ready")
            line += part
    event = json.loads(line.splitlines()[0])
    assert event["event"] == "ready", event


async def _drain(process: trio.Process) -> None:
    assert process.stdout is not None
    async for _ in process.stdout:
        pass


def _muster(*arguments: str) -> Sequence[str]:
    return [sys.executable, "-m", "muster", *arguments]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
