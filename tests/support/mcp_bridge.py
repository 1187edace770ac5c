"""`muster mirror mcp` as Claude Code starts it for a session: a program on two pipes."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import trio

TOKEN = "mmh_" + "0" * 43


@attrs.define
class Client:
    """A client of the program, as Claude Code is one."""

    process: trio.Process
    _rest: bytes = b""

    async def send(self, *messages: Any) -> None:
        """Send messages; texts as they are."""
        assert self.process.stdin is not None
        for each in messages:
            text = each if isinstance(each, str) else json.dumps(each)
            await self.process.stdin.send_all(text.encode() + b"\n")

    async def next(self) -> dict[str, Any]:
        """The next message."""
        assert self.process.stdout is not None
        with trio.fail_after(15):
            while b"\n" not in self._rest:
                some = await self.process.stdout.receive_some()
                assert some, "it ended"
                self._rest += some
        line, self._rest = self._rest.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    async def ask(self, method: str, asked: object = 1, **params: Any) -> dict[str, Any]:
        """One request and its answer."""
        await self.send({"jsonrpc": "2.0", "id": asked, "method": method, "params": params})
        answer = await self.next()
        assert answer["id"] == asked
        return answer

    async def tools(self) -> list[str]:
        """The names of the tools."""
        return [tool["name"] for tool in (await self.ask("tools/list"))["result"]["tools"]]

    async def call(self, name: str, **arguments: Any) -> tuple[str, bool]:
        """What a tool says, and whether that is a no."""
        result = (await self.ask("tools/call", name=name, arguments=arguments))["result"]
        said = "\n".join(each["text"] for each in result["content"])
        return said, result.get("isError", False)


@asynccontextmanager
async def started(*arguments: str, **environ: str) -> AsyncIterator[Client]:
    """The program, ended by the end of its input."""
    clean = {name: each for name, each in os.environ.items() if not name.startswith("MUSTER_")}
    own = {"TMUX_PANE": "%7", "MUSTER_MIRROR_TOKEN": TOKEN, **environ}
    begin = partial(
        trio.run_process,
        [sys.executable, "-m", "muster", "mirror", "mcp", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**clean, **own},
    )
    async with trio.open_nursery() as nursery:
        process: trio.Process = await nursery.start(begin)
        yield Client(process)
        assert process.stdin is not None
        await process.stdin.aclose()
        with trio.fail_after(15):
            assert await process.wait() == 0
