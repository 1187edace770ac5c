"""`python -m tests` itself: what it holds back, what it runs, and how it ends."""

import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from tests import __main__ as command
from tests.support.parallel import FIRST, OPTIONS, one_seed, put_first, side_by_side


@attrs.frozen(kw_only=True)
class Placed:
    """A test as the order of the files sees it."""

    path: Path
    number: int


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


def test_files_run_side_by_side_unless_told_otherwise() -> None:
    """Whoever says how many workers there are, or wants the debugger, is not overruled."""
    assert side_by_side(["-m", "not long", "tests/drafts"]) == list(OPTIONS)
    for told in (["-n", "0"], ["-n2"], ["--numprocesses=1"], ["--pdb"]):
        assert side_by_side(told) == []


def test_all_workers_see_a_set_in_one_order() -> None:
    """Each run hashes in its own way, the same for all its workers, or as somebody wants it."""
    seeds = {one_seed({})["PYTHONHASHSEED"] for _ in range(20)}
    assert len(seeds) > 1
    assert all(0 < int(seed) < 2**32 for seed in seeds)
    assert one_seed({"PYTHONHASHSEED": "7", "A": "b"}) == {"PYTHONHASHSEED": "7", "A": "b"}


def test_the_longest_files_begin_first() -> None:
    """Files of the list come first, in its order; the others, and the tests of a file, stay."""
    assert [name for name in FIRST if not (command.ROOT / name).is_file()] == []
    names = ["tests/a.py", FIRST[1], "tests/b.py", FIRST[0], FIRST[1], "tests/a.py"]
    tests = [Placed(path=command.ROOT / name, number=n) for n, name in enumerate(names)]
    put_first(tests)
    assert [test.number for test in tests] == [3, 1, 4, 0, 2, 5]
