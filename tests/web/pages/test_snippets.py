"""What is shown to be copied runs: the manual, the README, the SDK's docstrings, the pages."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import click
import pytest
import trio

from muster.clients.agent.script import load
from muster.credentials.operations.personal import add_personal
from muster.credentials.rules import AddPersonal
from muster.messages.operations import ListMessages, list_messages
from muster.messages.rules import Complete, Message
from muster.push.sinks import sign
from tests.support import snippets
from tests.support.builders import begin, make_draft, move_message, new_plugin
from tests.support.owner_desk import OpenOwnerDesk, OwnerDesk
from tests.support.snippets import HERE, Snippet
from tests.support.waiting import until

MANUAL = snippets.of_manual()
PROGRAMS = [
    snippet
    for snippet in [*MANUAL, *snippets.whole_programs()]
    if snippet.language == "python" and snippet.place != "notifications.md"
]
LOOPS = [snippet for snippet in PROGRAMS if "run_plugin" in snippet.text]
SHELL = [snippet for snippet in MANUAL if snippet.language == "sh"]
PATIENCE = 30.0


def named(snippet: Snippet) -> str:
    """Where it stands, as the name of a test."""
    return snippet.place


@contextmanager
def running(program: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in its folder, which ends with the test."""
    with Path(program.parent, "said.txt").open("wb") as said:
        child = subprocess.Popen(
            [sys.executable, program.name], cwd=program.parent, stdout=said, stderr=said
        )
        try:
            yield child
        finally:
            child.kill()
            child.wait()


async def placed(at: OwnerDesk, snippet: Snippet, folder: Path) -> tuple[Path, str]:
    """The snippet as a program for this server, its token beside it; and its plugin's name."""
    (name,) = re.findall(r'"(\w+)\.token"', snippet.text)
    _, token = await new_plugin(at.db, at.owner, name)
    (folder / f"{name}.token").write_text(token)
    (folder / "in.txt").write_text("Does noon work?\n")
    assert HERE in snippet.text
    program = folder / "program.py"
    program.write_text(snippet.text.replace(HERE, at.server.url))
    return program, name


def test_there_is_something_to_run() -> None:
    """The manual's plugin, the README's and the docstring's are found, and nothing is unnamed."""
    assert {snippet.language for snippet in MANUAL} == {"python", "sh", "json", "text"}
    assert [loop.place for loop in LOOPS] == ["plugins.md", "README.md", "__init__.py: the module"]
    assert len(SHELL) > 8


@pytest.mark.parametrize("snippet", LOOPS, ids=named)
async def test_a_plugin_that_is_shown_is_whole(
    owner_desk: OpenOwnerDesk, tmp_path: Path, snippet: Snippet
) -> None:
    """Copied as it stands it brings a message in, and sends the reply that was approved."""
    async with owner_desk() as at:
        program, name = await placed(at, snippet, tmp_path)
        with running(program) as child:

            async def came() -> list[Message]:
                assert child.poll() is None, (tmp_path / "said.txt").read_text()
                return await at.db.run(at.owner, list_messages, ListMessages(plugin=name))

            (message,) = await until(came, PATIENCE)
            owner_id = at.owner.owner_id
            await move_message(at.db, message.id, begin(at.chief), owner_id=owner_id)
            done = await move_message(at.db, message.id, Complete(epoch=1), owner_id=owner_id)
            store = at.server.node.db
            draft = await make_draft(store, at.chief, done, body="Noon.", approved_by=at.owner)

            async def sent() -> bool:
                assert child.poll() is None, (tmp_path / "said.txt").read_text()
                return await at.state(draft) == "sent"

            await until(sent, PATIENCE)
        assert "Noon." in written(tmp_path)


async def test_a_notice_that_is_shown_is_whole(owner_desk: OpenOwnerDesk, tmp_path: Path) -> None:
    """Copied as it stands it files a task, and the second time it finds it."""
    (snippet,) = [program for program in PROGRAMS if "post_task" in program.text]
    async with owner_desk(MUSTER_PLUGIN_TASK_NAMESPACES="tracker") as at:
        program, _ = await placed(at, snippet, tmp_path)
        for end in ("new", "known"):
            command = [sys.executable, program.name]
            done = await trio.run_process(
                command, cwd=tmp_path, capture_stdout=True, capture_stderr=True, check=False
            )
            assert done.returncode == 0, done.stderr
            assert re.fullmatch(rf"task \d+, {end}\n", done.stdout.decode())


def test_the_check_of_a_webhook_is_right() -> None:
    """What the manual shows takes what muster signs, and nothing that is old or another's."""
    (snippet,) = [one for one in MANUAL if one.language == "python" and "is_ours" in one.text]
    names: dict[str, object] = {}
    exec(compile(snippet.text, snippet.place, "exec"), names)
    is_ours = names["is_ours"]
    assert callable(is_ours)
    body = b'{"event": "show"}'

    def headers(at: float, secret: str = "secret") -> dict[str, str]:
        stamp = str(int(at))
        signature = f"v1={sign(secret, stamp, body)}"
        return {"Muster-Timestamp": stamp, "Muster-Signature": signature}

    assert is_ours("secret", headers(time.time()), body)
    assert not is_ours("secret", headers(time.time()), body + b" ")
    assert not is_ours("secret", headers(time.time(), "other"), body)
    assert not is_ours("secret", headers(time.time() - 301), body)


@pytest.mark.parametrize("snippet", SHELL, ids=named)
def test_commands_that_are_shown_are_commands(snippet: Snippet) -> None:
    """A shell reads each block, and muster's command line each command of muster's in it."""
    read_by_shell(snippet.text)
    commands = snippets.muster_commands(snippet.text)
    assert len(commands) == len(re.findall(r"\bmuster [a-z]", snippet.text))
    for arguments in commands:
        snippets.parse(arguments)


def test_a_command_that_is_none_would_be_found() -> None:
    """The check of the commands refuses an option and a subcommand that do not exist."""
    for wrong in (
        "muster agent run --backend script --rules x",
        "muster agents",
        "muster plugin x",
    ):
        (arguments,) = snippets.muster_commands(wrong)
        with pytest.raises((click.UsageError, click.exceptions.NoSuchOption)):
            snippets.parse(arguments)


@pytest.mark.parametrize("snippet", [one for one in MANUAL if one.language == "json"], ids=named)
def test_json_that_is_shown_is_json(snippet: Snippet) -> None:
    """It can be read."""
    assert json.loads(snippet.text)


async def test_requests_that_are_shown_are_answered(
    owner_desk: OpenOwnerDesk, tmp_path: Path
) -> None:
    """The manual's curl at the board finds and files a task."""
    (snippet,) = [one for one in SHELL if "curl" in one.text]
    async with owner_desk() as at:
        _, token = await at.db.run(at.owner, add_personal, AddPersonal(name="board"))
        (tmp_path / "board.token").write_text(token)
        _, *requests = snippet.text.replace(HERE, at.server.url).split("curl ")
        answers = [await in_shell(f"curl -sf {request}", tmp_path) for request in requests]
    assert [json.loads(answers[0])["tasks"], json.loads(answers[1])["title"]] == [[], "Dig"]


async def test_what_the_pages_show_runs(owner_desk: OpenOwnerDesk, tmp_path: Path) -> None:
    """The commands of the next steps, of a new plugin and of a new agent are whole."""
    async with owner_desk() as at:
        made = await at.visiting.post("/plugins", name="notes", label="Notes", scope="notes")
        agent = await at.visiting.post("/settings/agents", name="second", part="agent")
        pages = {
            "steps": await at.page("/attention"),
            "plugin": made.text,
            "agent": agent.text,
        }
        blocks = [(name, block) for name, page in pages.items() for block in shown(page)]
        for _, block in blocks:
            if "import" not in block:
                read_by_shell(block)
            for arguments in snippets.muster_commands(block):
                snippets.parse(arguments)
        (tmp_path / "mail.token").write_text((await new_plugin(at.db, at.owner, "other"))[1])
        (token,) = re.findall(r">(mpl_[^<]+)<", made.text)
        (tmp_path / "notes.token").write_text(token)
        for name, block in blocks:
            if block.startswith("curl"):
                here = block.replace(at.server.node.config.public_url, at.server.url)
                answer = json.loads(await in_shell(here.replace("curl", "curl -sf", 1), tmp_path))
                assert answer.get("id"), (name, answer)
    assert sum(block.startswith("curl") for _, block in blocks) == 2


async def test_the_rules_that_are_shown_are_rules(
    owner_desk: OpenOwnerDesk, tmp_path: Path
) -> None:
    """The script of the manual's first steps and of a new agent's page can be read."""
    async with owner_desk() as at:
        agent = await at.visiting.post("/settings/agents", name="second", part="agent")
    texts = [*shown(agent.text), *(snippet.text for snippet in SHELL)]
    lines = [line for text in texts for line in text.splitlines() if line.startswith("printf")]
    assert len(lines) == 2
    for line in lines:
        await in_shell(line, tmp_path)
        assert load(tmp_path / "rules.toml")


def shown(page: str) -> list[str]:
    """The blocks of code of a page."""
    found = re.findall(r'<pre class="code"[^>]*>\n?(.*?)</pre>', page, re.DOTALL)
    return [unescape(block) for block in found]


def written(folder: Path) -> str:
    """All that the texts of a folder say."""
    return "".join(path.read_text() for path in folder.glob("*.txt"))


def read_by_shell(text: str) -> None:
    """Let a shell read it, and do nothing."""
    subprocess.run(["/bin/sh", "-n"], input=text.encode(), check=True, timeout=10)


async def in_shell(line: str, folder: Path) -> str:
    """What a line prints."""
    done = await trio.run_process(
        ["/bin/sh", "-c", line], cwd=folder, capture_stdout=True, capture_stderr=True, check=False
    )
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    return done.stdout.decode()
