"""`python -m tests` itself: what it holds back, what it runs, and how it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import __main__ as command

CLOSING = [
    "======================== 2 failed, 209 passed in 7.53s =========================",
    "1 passed, 11 deselected in 0.03s",
    "================= 900 passed, 1 skipped in 301.20s (0:05:01) ==================",
    "============================ no tests ran in 0.01s =============================",
    "\x1b[32m\x1b[32m\x1b[1m1 passed\x1b[0m\x1b[32m in 0.01s\x1b[0m\x1b[0m",
]


@pytest.mark.parametrize("line", CLOSING)
def test_the_closing_line_is_known(line: str) -> None:
    """Pytest's last line is told from the others, in colour and with any mix of outcomes."""
    assert command._CLOSING.match(line)


@pytest.mark.parametrize(
    "line",
    [
        "=================================== FAILURES ===================================",
        "tests/test_rules.py .....F.....                                          [100%]",
        "E   assert '3 passed in 1s' in text",
    ],
)
def test_other_lines_are_not_held_back(line: str) -> None:
    """What is no closing line is printed as it comes."""
    assert not command._CLOSING.match(line)


def test_the_closing_line_of_a_failed_run_is_held_back(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A failed run says so by its code, and its closing line is handed back, not printed."""
    planted = tmp_path / "test_planted.py"
    planted.write_text("def test_one():\n    assert 1 == 2\n\ndef test_two():\n    pass\n")
    step, closing = command.run_pytest(["-q", str(planted)])
    printed = capfd.readouterr().out
    assert step.code == 1
    assert closing.startswith("1 failed, 1 passed in ")
    assert "assert 1 == 2" in printed
    assert closing not in printed


def test_a_run_without_a_closing_line_says_so() -> None:
    """A pytest that never ran a test leaves a last line that nobody takes for a success."""
    step, closing = command.run_pytest(["--no-such-option"])
    assert step.code != 0
    assert closing == "pytest ended without a closing line"


def test_a_linter_is_heard_and_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a linter says is printed under its name, and its code decides."""
    planted = tmp_path / "planted.py"
    planted.write_text("import os\n")
    with command.start("ruff", ("ruff", "check", "--select", "F", str(planted))) as ruff:
        step = command.finish(ruff)
    assert step == command.Step(name="ruff", code=1)
    said = capsys.readouterr().out
    assert said.startswith("ruff: ")
    assert "F401" in said


def test_a_linter_does_not_outlive_the_command() -> None:
    """A run that is interrupted leaves no linter behind."""
    with command.start("http", ("http.server", "--bind", "127.0.0.1", "0")) as running:
        assert running.process.poll() is None
    assert running.process.returncode is not None


def test_the_list_of_rules_needs_no_database() -> None:
    """`python -m tests --rules` prints the rules without a test and how many are carried."""
    done = subprocess.run(
        [sys.executable, "-m", "tests", "--rules"],
        cwd=command.ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    *missing, last = done.stdout.splitlines()
    assert last.endswith(" built rules are carried")
    assert done.returncode == (1 if missing else 0)
