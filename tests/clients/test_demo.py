"""`muster demo` as a person meets it: the whole loop, and every way out."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio

from muster.clients.demo.children import ChildEndedError
from muster.commands.demo import _run
from muster.commands.exits import Exit
from muster.errors import MusterError
from muster.pg.embedded import Embedded
from tests.support.program import is_at_work
from tests.support.waiting import until_blocking

START_SECONDS = 90
END_SECONDS = 60


def processes() -> Iterator[tuple[int, int, str]]:
    """Every process that lives: its id, its parent's and its command."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield int(entry.name), int(parent), command


def running_with(words: str) -> list[int]:
    """The processes that were started with these words."""
    return [pid for pid, _parent, command in processes() if words in command]


@attrs.define
class Demo:
    """A demo that runs, with its folder below `temporary`."""

    process: subprocess.Popen[str]
    temporary: Path
    output: Path

    def said(self, words: str) -> bool:
        """Whether the words were printed; a demo that ended says nothing more."""
        text = self.output.read_text()
        assert words in text or self.process.poll() is None, text
        return words in text

    def children(self) -> dict[int, str]:
        """The children of the demo that live: process id to command."""
        return {pid: command for pid, parent, command in processes() if parent == self.process.pid}

    def end(self) -> int:
        """Wait for the end and give the exit code."""
        return self.process.wait(timeout=END_SECONDS)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    """A demo for a person, started in a folder of the test's own."""
    temporary, output = tmp_path / "temporary", tmp_path / "output"
    temporary.mkdir()
    with output.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "muster", "demo"],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONUNBUFFERED": "1",
                "TMPDIR": str(temporary),
                "MUSTER_BIND": "127.0.0.1:0",
            },
            text=True,
        )
    running = Demo(process, temporary, output)
    yield running
    if process.poll() is None:
        process.terminate()
        running.end()


@pytest.mark.rule(1, 4, 7)
def test_the_loop_runs_without_a_person(tmp_path: Path) -> None:
    """Every shipped mail ends as its kind should, in one JSON document, and nothing is left."""
    ran = subprocess.run(
        [sys.executable, "-m", "muster", "demo", "--once", "--json"],
        env={
            "PATH": os.environ["PATH"],
            "TMPDIR": str(tmp_path),
            "MUSTER_BIND": "127.0.0.1:0",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=START_SECONDS + 150,
    )
    told = json.loads(ran.stdout)
    assert [problem for mail in told["messages"] for problem in mail["problems"]] == []
    assert (ran.returncode, told["ok"]) == (Exit.OK, True)
    kinds = [mail["kind"] for mail in told["messages"]]
    assert (kinds.count("replyable"), kinds.count("no_reply"), kinds.count("unverified")) == (
        6,
        1,
        1,
    )
    for mail in told["messages"]:
        steps = {"posted_to_delivered"}
        if mail["kind"] == "replyable":
            assert mail["in_reply_to_ok"] is True
            steps |= {
                "posted_to_drafted",
                "drafted_to_approved",
                "approved_to_claimed",
                "claimed_to_sent",
            }
        assert set(mail["seconds"]) == steps
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_dies_ends_the_demo(demo: Demo) -> None:
    """When the server is killed the demo says so, ends all else and tidies up."""
    until_blocking(lambda: demo.said("Ctrl-C ends the demo."), START_SECONDS)
    children = demo.children()
    assert len(children) == 3
    (folder,) = demo.temporary.glob("muster-demo-*")
    home = Embedded(folder / "muster").places.home
    assert running_with(str(home)) != []
    server = next(pid for pid, command in children.items() if command.endswith(" serve "))
    os.kill(server, signal.SIGKILL)
    assert demo.end() == Exit.FAILED
    assert "The server ended by itself with exit code -9" in demo.output.read_text()
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert list(demo.temporary.iterdir()) == []
    assert not home.exists()
    assert running_with(str(home)) == []


def test_nothing_outlives_a_demo_that_is_killed(demo: Demo) -> None:
    """A kill -9 of the demo ends its server with the database, its chief and its mail plugin."""
    until_blocking(lambda: demo.said("Ctrl-C ends the demo."), START_SECONDS)
    children = demo.children()
    assert len(children) == 3
    (folder,) = demo.temporary.glob("muster-demo-*")
    home = Embedded(folder / "muster").places.home
    assert running_with(str(home)) != []
    demo.process.kill()
    demo.end()
    until_blocking(lambda: not any(is_at_work(pid) for pid in children), END_SECONDS)
    assert running_with(str(home)) == []
    shutil.rmtree(home)


@pytest.mark.parametrize(
    ("complaints", "last"),
    [
        (("{}", "muster: The address is in use.", "{}"), "The address is in use."),
        (("Killed",), "Killed."),
    ],
)
def test_what_a_child_died_of_is_told_in_json(
    capsys: pytest.CaptureFixture[str], complaints: tuple[str, ...], last: str
) -> None:
    """With --json the error is one, and holds the last sentence of the child that failed."""

    async def play() -> None:
        async with trio.open_nursery():
            raise ChildEndedError("server", 7, complaints)

    with pytest.raises(MusterError) as caught:
        _run(play, as_json=True)
    assert caught.value.sentence == f"The server ended by itself with exit code 7: {last}"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_demo_can_be_stopped_while_it_starts(demo: Demo, stop: signal.Signals) -> None:
    """Ctrl-C at the start ends what was started and leaves nothing behind."""
    until_blocking(lambda: demo.said("starting the server"), START_SECONDS)
    until_blocking(demo.children, START_SECONDS)
    children = demo.children()
    demo.process.send_signal(stop)
    assert demo.end() == Exit.OK
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert list(demo.temporary.iterdir()) == []
