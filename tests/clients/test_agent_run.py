"""`muster agent run` as a process: its exit codes, its token, its environment."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio_websocket

from muster.commands.exits import Exit

TOKEN = "mag_secret-of-the-test"
SCRIPT = '[[rule]]\nreply = "Thanks {sender_name}"\n'
DEADLINE_SECONDS = 20


@attrs.define
class Ran:
    """A runner that has ended."""

    code: int
    stdout: str
    stderr: str


@attrs.define
class Child:
    """A runner that runs, and the socket it opened."""

    process: trio.Process
    ended: trio.Event = attrs.field(factory=trio.Event)
    peers: Any = attrs.field(factory=lambda: trio.open_memory_channel[Any](1))
    ran: Ran | None = None

    async def finish(self) -> Ran:
        """Wait for the end."""
        with trio.fail_after(DEADLINE_SECONDS):
            await self.ended.wait()
        assert self.ran is not None
        return self.ran

    async def accept(self) -> trio_websocket.WebSocketConnection:
        """Wait for the runner to connect."""
        with trio.fail_after(DEADLINE_SECONDS):
            peer: trio_websocket.WebSocketConnection = await self.peers[1].receive()
            return peer


async def read(stream: Any) -> str:
    """All that a stream holds until its end."""
    whole = bytearray()
    async for chunk in stream:
        whole += chunk
    return whole.decode()


@asynccontextmanager
async def run_agent(*arguments: str, **environ: str) -> AsyncIterator[Child]:
    """Start `muster agent run` against a gateway of the test's own."""
    peers = trio.open_memory_channel[Any](1)

    async def answer(request: trio_websocket.WebSocketRequest) -> None:
        await peers[0].send(await request.accept())
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        server = await nursery.start(trio_websocket.serve_websocket, answer, "127.0.0.1", 0, None)
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "muster", "agent", "run", "--backend", "script", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={
                "PATH": os.environ["PATH"],
                "MUSTER_URL": f"http://127.0.0.1:{server.port}",
                **environ,
            },
        )
        child = Child(process, peers=peers)

        async def watch() -> None:
            told: dict[str, str] = {}

            async def keep(name: str) -> None:
                told[name] = await read(getattr(process, name))

            async with trio.open_nursery() as reading:
                reading.start_soon(keep, "stdout")
                reading.start_soon(keep, "stderr")
            child.ran = Ran(await process.wait(), **told)
            child.ended.set()

        nursery.start_soon(watch)
        try:
            yield child
        finally:
            if process.returncode is None:
                process.kill()
        await child.finish()
        nursery.cancel_scope.cancel()


@pytest.fixture
def script(tmp_path: Path) -> str:
    """A script that answers everything."""
    path = tmp_path / "script.toml"
    path.write_text(SCRIPT)
    return str(path)


async def test_the_token_shows_nowhere(tmp_path: Path, script: str) -> None:
    """The token of a file reaches the gateway, and neither arguments nor output hold it."""
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    async with run_agent("--script", script, "--token-file", str(file), "--json") as child:
        peer = await child.accept()
        arguments = await trio.Path(f"/proc/{child.process.pid}/cmdline").read_bytes()
        await peer.send_message('{"type":"welcome","agent_id":1,"name":"helper"}')
        await peer.send_message(
            '{"type":"turn","turn_id":"1","text":"hello","deadline_seconds":9}',
        )
        kinds = [json.loads(await peer.get_message())["type"] for _ in range(2)]
        assert kinds == ["turn.started", "turn.done"]
        child.process.send_signal(signal.SIGTERM)
        ran = await child.finish()
        assert ran.code == Exit.OK
        events = [json.loads(line)["event"] for line in ran.stdout.splitlines()]
        assert events == ["connected", "turn.started", "turn.done"]
        assert TOKEN not in arguments.decode() + ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("close", "code", "told"),
    [
        (4401, Exit.NOT_SIGNED_IN, "refuses the token"),
        (4403, Exit.REFUSED, "does not let this agent in"),
        (4409, Exit.CONFLICT, "Another runner of this agent took over"),
    ],
)
async def test_being_turned_away_is_an_exit_code(
    script: str, close: int, code: Exit, told: str
) -> None:
    """A runner that is turned away for good says why and exits with the code of it."""
    async with run_agent("--script", script, MUSTER_AGENT_TOKEN=TOKEN) as child:
        peer = await child.accept()
        await peer.aclose(code=close)
        ran = await child.finish()
        assert ran.code == code
        assert told in ran.stderr
        assert TOKEN not in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "environ", "code", "told"),
    [
        ([], {"MUSTER_AGENT_TOKEN": TOKEN}, Exit.USAGE, "needs --script"),
        (["--script", "{folder}/good.toml"], {}, Exit.BAD_CONFIGURATION, "No token"),
        (
            ["--script", "{folder}/good.toml"],
            {"MUSTER_AGENT_TOKEN": "mpl_of-a-plugin"},
            Exit.BAD_CONFIGURATION,
            "begin with mag_",
        ),
        (
            ["--script", "{folder}/good.toml", "--token-file", "/dev/null/none"],
            {},
            Exit.BAD_CONFIGURATION,
            "Cannot read /dev/null/none",
        ),
        (
            ["--script", "{folder}/good.toml", "--url", "localhost"],
            {"MUSTER_AGENT_TOKEN": TOKEN},
            Exit.BAD_CONFIGURATION,
            "is not an address like",
        ),
        (
            ["--script", "{folder}/bad.toml"],
            {"MUSTER_AGENT_TOKEN": TOKEN},
            Exit.BAD_CONFIGURATION,
            "Rule 1, colour: no such field",
        ),
    ],
)
async def test_what_cannot_start_says_why(
    tmp_path: Path, arguments: list[str], environ: dict[str, str], code: Exit, told: str
) -> None:
    """A missing or wrong setting ends the runner at once with a sentence that names it."""
    (tmp_path / "bad.toml").write_text('[[rule]]\ncolour = "red"\n')
    (tmp_path / "good.toml").write_text(SCRIPT)
    given = [each.format(folder=tmp_path) for each in arguments]
    async with run_agent(*given, **environ) as child:
        ran = await child.finish()
        assert ran.code == code
        assert told in ran.stderr
        assert "of-a-plugin" not in ran.stderr


def test_a_backend_finds_no_setting_in_the_process(script: str) -> None:
    """By the time turns can come, the process holds no variable of muster's."""
    show = (
        "import os\n"
        "from muster.clients import stopping\n"
        "from muster.__main__ import main\n"
        "async def show(_run):\n"
        "    print(sorted(name for name in os.environ if name.startswith('MUSTER_')))\n"
        "stopping.until_stopped = show\n"
        f"main(['agent', 'run', '--backend', 'script', '--script', {script!r}])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", show],
        env={"MUSTER_AGENT_TOKEN": TOKEN, "MUSTER_DATABASE_URL": "postgres://x", "HOME": "/"},
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_SECONDS,
    )
    assert ran.stdout == "[]\n"
