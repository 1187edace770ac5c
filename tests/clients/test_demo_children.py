"""The demo's child processes: started with little, watched, and ended in every ending."""

import os
import subprocess
import sys

import pytest
import trio

from muster.clients.demo.children import (
    COMPLAINTS_MAX,
    ChildEndedError,
    CommandError,
    DemoError,
    environment,
    muster,
    run,
    running,
)
from tests.support.program import is_at_work
from tests.support.waiting import until

DEADLINE_SECONDS = 20


def python(source: str) -> list[str]:
    """A child that runs this."""
    return [sys.executable, "-u", "-c", source]


def is_gone(pid: int) -> bool:
    """Whether a child was ended and taken note of."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_a_child_is_heard_and_ended_with_its_block() -> None:
    """Lines reach the listener while the block lasts, and SIGTERM ends the child after it."""
    said: list[str] = []
    came = trio.Event()

    def hear(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            came.set()

    source = "import time\nprint('one\\ntw\\u00f6')\ntime.sleep(600)"
    with trio.fail_after(DEADLINE_SECONDS):
        async with running(
            "sleeper",
            python(source),
            environment({"PYTHONUTF8": "1"}),
            heard=hear,
            patience_seconds=DEADLINE_SECONDS,
        ) as child:
            await came.wait()
    assert said == ["one", "twö"]
    assert is_gone(child.process.pid)


async def test_a_child_that_will_not_end_is_killed() -> None:
    """SIGKILL follows when SIGTERM was not heeded in time, even for one that floods its pipes."""
    came = trio.Event()
    source = (
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('up')\n"
        "while True: print('x' * 100_000)"
    )
    with trio.fail_after(DEADLINE_SECONDS):
        async with running(
            "mule",
            python(source),
            environment({}),
            heard=lambda _line: came.set(),
            patience_seconds=0.2,
        ) as child:
            await came.wait()
    assert child.process.returncode == -9


async def test_a_child_is_ended_when_the_demo_is_cancelled() -> None:
    """A cancelled block ends its child all the same."""
    came = trio.Event()
    with trio.CancelScope() as scope:
        async with running(
            "sleeper",
            python("import time\nprint('up')\ntime.sleep(600)"),
            environment({}),
            heard=lambda _line: came.set(),
            patience_seconds=DEADLINE_SECONDS,
        ) as child:
            with trio.fail_after(DEADLINE_SECONDS):
                await came.wait()
            scope.cancel()
            await trio.sleep_forever()
    assert is_gone(child.process.pid)


async def test_a_child_that_dies_ends_the_block_with_its_last_words() -> None:
    """The error names the child, its exit code and the last lines of its stderr."""
    source = "import sys\nfor n in range(99): print('line', n, file=sys.stderr)\nsys.exit(3)"
    group = pytest.RaisesGroup(pytest.RaisesExc(ChildEndedError, match="the liar ended by itself"))
    with trio.fail_after(DEADLINE_SECONDS), group as caught:
        async with running(
            "liar",
            python(source),
            environment({}),
            heard=lambda _line: None,
            patience_seconds=DEADLINE_SECONDS,
        ):
            await trio.sleep_forever()
    told = caught.value.exceptions[0]
    assert isinstance(told, ChildEndedError)
    assert (told.code, "exit code 3" in str(told)) == (3, True)
    assert list(told.complaints) == [f"line {number}" for number in range(99 - COMPLAINTS_MAX, 99)]


async def test_nothing_of_a_killed_child_lives_on() -> None:
    """What a child had started itself is ended with it, when it could not see to that."""
    numbers: list[int] = []
    came = trio.Event()

    def hear(line: str) -> None:
        numbers.append(int(line))
        came.set()

    source = (
        "import subprocess, sys, time\n"
        "heir = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(heir.pid)\n"
        "time.sleep(600)"
    )
    with trio.fail_after(DEADLINE_SECONDS):
        async with running(
            "parent",
            python(source),
            environment({}),
            heard=hear,
            patience_seconds=DEADLINE_SECONDS,
        ):
            await came.wait()
    await until(lambda: not is_at_work(numbers[0]))


async def test_a_heir_of_the_pipes_does_not_hide_a_death(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child's own child that keeps its stderr open does not keep the demo waiting for it."""
    for name in ("LAST_WORDS_SECONDS", "SWEEP_SECONDS"):
        monkeypatch.setattr(f"muster.clients.demo.children.{name}", 0.2)
    source = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'],"
        " stdin=subprocess.PIPE)\n"
        "import os; os._exit(5)"
    )
    group = pytest.RaisesGroup(pytest.RaisesExc(DemoError, match="exit code 5"))
    with trio.fail_after(DEADLINE_SECONDS), group:
        async with running(
            "parent",
            python(source),
            environment({}),
            heard=lambda _line: None,
            patience_seconds=DEADLINE_SECONDS,
        ):
            await trio.sleep_forever()


async def test_a_command_gives_its_document_or_its_reason() -> None:
    """A command's JSON is read; one that fails is told with its exit code and its words."""
    assert await run(python("import sys; print(sys.stdin.read())"), {}, stdin=b"[1]") == [1]
    failing = muster("drafts", "list")
    with pytest.raises(CommandError, match=r"`muster drafts list` exited 78: .*MUSTER_NONSENSE"):
        await run(failing, environment({"MUSTER_NONSENSE": "1"}))


def test_a_child_sees_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of muster's and no secret of the person's shell is handed on by itself."""
    monkeypatch.setenv("MUSTER_DATABASE_URL", "postgres://elsewhere")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    seen = subprocess.run(
        python("import os; print(' '.join(sorted(os.environ)))"),
        env=environment({"MUSTER_DATA_DIR": "y"}),
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_SECONDS,
    ).stdout.split()
    assert "MUSTER_DATA_DIR" in seen
    assert "PATH" in seen
    assert not {"MUSTER_DATABASE_URL", "AWS_SECRET_ACCESS_KEY"} & set(seen)
