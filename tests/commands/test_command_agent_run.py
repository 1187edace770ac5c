"""The options of `muster agent run`: which backend takes which, and what is told of a wrong one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from muster.commands.agent_backends import NEEDED, TAKEN, BackendOptions, Door, prepare
from tests.support.program import Program, bare_program
from tests.support.waiting import until

TOKEN = "mag_secret-of-the-test"
KEY = "sk-secret-of-the-test"
TIMEOUT_SECONDS = 30


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The program, with an agent's token and no database."""
    bare = bare_program(tmp_path)
    return Program(environ=bare.environ | {"MUSTER_AGENT_TOKEN": TOKEN, "HOME": str(tmp_path)})


VALUES = {
    "script": "rules.toml",
    "model": "some-model",
    "base_url": "http://127.0.0.1:1/v1",
    "api_key_file": "key",
    "max_output_tokens": "100",
    "claude": "claude",
    "allow_tools": "Read",
    "state": "state",
}


@pytest.mark.parametrize("backend", list(TAKEN))
@pytest.mark.parametrize("name", list(VALUES))
def test_an_option_of_another_backend_is_named(program: Program, backend: str, name: str) -> None:
    """An option that the backend does not take is a usage error, and one it takes is none."""
    option = f"--{name.replace('_', '-')}"
    needed = (
        [f"--{each}={VALUES[each]}" for each, _ in [NEEDED[backend]]] if backend in NEEDED else []
    )
    ended = program.call(
        "agent", "run", "--backend", backend, *needed, option, VALUES[name], "--url", "x"
    )
    if name in TAKEN[backend]:
        assert "is not an address like" in ended.err
    else:
        assert ended.code == 2
        assert f"{option} is for --backend" in ended.err
        assert f"not for {backend}" in ended.err


@pytest.mark.parametrize("backend", list(NEEDED))
def test_an_option_that_is_needed_is_named(program: Program, backend: str) -> None:
    """A backend without what it needs is a usage error that says what."""
    ended = program.call("agent", "run", "--backend", backend)
    assert ended.code == 2
    assert f"--backend {backend} needs --{NEEDED[backend][0]} {NEEDED[backend][1]}" in ended.err


@pytest.mark.parametrize("tools", ["", "Read,", "Bash(git *)", "Read Grep", "--x", "a" * 65])
def test_tools_are_names(program: Program, tools: str) -> None:
    """What is no list of names is a usage error that quotes it."""
    ended = program.call("agent", "run", "--backend", "claude-code", f"--allow-tools={tools}")
    assert ended.code == 2
    assert "--allow-tools takes names such as Read,Grep, not" in ended.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["openai", "--model", "m"], "No key of the model's: give --api-key-file or set OPENAI"),
        (["anthropic", "--model", "m"], "give --api-key-file or set ANTHROPIC_API_KEY"),
        (["openai", "--model", "m", "--api-key-file", "none"], "Cannot read none: No such file"),
        (["anthropic", "--model", "m", "--api-key-file", "bad"], "no key has"),
        (["openai", "--model", "m", "--base-url", "localhost"], "is not an address like"),
        (["claude-code", "--claude", "none/claude"], "There is no program none/claude: install"),
        (["claude-code"], "There is no program claude: install Claude Code, or name it"),
    ],
)
def test_what_cannot_be_used_is_told_at_once(
    program: Program,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    told: str,
) -> None:
    """A key, an address or a program that is not there ends the runner before it connects."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad").write_text(f"{KEY} x")
    ended = program.call("agent", "run", "--backend", *arguments, PATH="/nowhere")
    assert ended.code == 78
    assert told in ended.err
    assert KEY not in ended.err


def test_a_state_folder_that_cannot_be_used_is_told(program: Program, tmp_path: Path) -> None:
    """A state folder that is a file is a bad setting, and one that is held a conflict."""
    (tmp_path / "file").write_text("x")
    claude = ("agent", "run", "--backend", "claude-code", "--claude", "/bin/true", "--state")
    ended = program.run(*claude, str(tmp_path / "file"))
    assert ended.code == 78
    assert "The state folder cannot be used" in ended.err
    held = tmp_path / "held"
    with subprocess.Popen(
        [sys.executable, "-m", "muster", *claude, str(held)],
        env=program.environ,
        stderr=subprocess.DEVNULL,
    ) as first:
        trio.run(until, (held / "runs").exists)
        ended = program.run(*claude, str(held))
        first.send_signal(signal.SIGTERM)
        assert first.wait(TIMEOUT_SECONDS) == 0
    assert ended.code == 7
    assert "is in use by process" in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--backend=openai", "--model=m", "--api-key-file=key"],
        ["--backend=openai", "--model=m", "--base-url=http://127.0.0.1:1/v1"],
        ["--backend=anthropic", "--model=m", "--api-key-file=key", "--max-output-tokens=9"],
        ["--backend=claude-code", "--claude=./claude"],
        ["--backend=script", "--script=rules.toml"],
    ],
)
def test_a_backend_works_where_nothing_is(tmp_path: Path, arguments: list[str]) -> None:
    """Whoever answers runs without a variable of muster's in an empty folder, which no end leaves.

    It is gone already while the runner runs, so that it does not matter how the runner ends.
    """
    (tmp_path / "temporary").mkdir()
    (tmp_path / "key").write_text(f"{KEY}\n")
    (tmp_path / "rules.toml").write_text("[[rule]]\nnothing = true\n")
    (tmp_path / "claude").write_text("#!/bin/sh\n")
    (tmp_path / "claude").chmod(0o755)
    show = (
        "import os, sys\n"
        "from muster.clients.agent import gateway\n"
        "from muster.__main__ import main\n"
        "async def run(self):\n"
        "    mine = [name for name in os.environ if name.startswith('MUSTER_')]\n"
        "    print(type(self.backend).__name__, mine, os.listdir(), end=' ')\n"
        "    print(os.listdir(os.environ['TMPDIR']), os.readlink('/proc/self/cwd'))\n"
        "    return gateway.Closed(code=4409, reason='')\n"
        "gateway.Gateway.run = run\n"
        f"main(['agent', 'run', *{arguments!r}])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", show],
        env={
            "MUSTER_AGENT_TOKEN": TOKEN,
            "MUSTER_URL": "http://127.0.0.1:1",
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path / "home"),
            "TMPDIR": str(tmp_path / "temporary"),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    assert ran.returncode == 7, ran.stderr
    name, mine, there, temporary, where = ran.stdout.split(maxsplit=4)
    assert name in {"ModelBackend", "ClaudeCodeBackend", "ScriptBackend"}
    assert (mine, there, temporary) == ("[]", "[]", "[]")
    assert where.startswith(f"{tmp_path}/temporary/muster-agent-")
    assert TOKEN not in ran.stderr + str(list((tmp_path / "home").rglob("*")))
    assert KEY not in ran.stderr


def test_two_agents_have_two_state_folders(tmp_path: Path) -> None:
    """Without --state what is remembered is kept apart by server and by agent."""
    state = tmp_path / "state"
    options = BackendOptions(claude="/bin/true")

    async def look(url: str, holder: str) -> None:
        environ = {"XDG_STATE_HOME": str(state)}
        door = Door(url=url, token="mag_a", holder=holder, environ=environ)
        async with prepare("claude-code", options, door)():
            pass

    for holder, url in (
        ("a", "http://a"),
        ("b", "http://a"),
        ("a", "http://b"),
        ("a", "http://b/"),
    ):
        trio.run(look, url, holder)
    assert len(list((state / "muster").iterdir())) == 3
