"""The one command: ruff, mypy --strict and pytest, with the interpreter that runs this.

    python -m tests [--long] [--rules] [what pytest takes …]

pytest runs in a few workers (tests/support/parallel.py), unless the arguments say how many: `-n 0`
is none. ruff and mypy run beside it, a little behind it in the queue for the processors; what they
said is printed when pytest has finished. All three run to their end whatever the others say. The
last line is pytest's own, so that whoever reads only that sees how many passed; the line above says
which of the three failed, and so does the exit code. The house rules (imports, tidiness, the rules
that must be carried) are tests like the others.
"""
# ruff: noqa: T201 - what it prints is what it is for

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import attrs

from tests.support.parallel import one_seed, side_by_side
from tests.support.rules import load_carriers, load_rules, uncarried

ROOT = Path(__file__).resolve().parent.parent
_CLOSING = re.compile(
    r"(\x1b\[[0-9;]*m)*=*\s?(\x1b\[[0-9;]*m)*"
    r"(\d+ (passed|failed|error|skipped|deselected|xfailed|xpassed|warning)|no tests ran)"
    r".* in [0-9.]+s"
)
_LINTERS = {
    "ruff": ("ruff", "check", "."),
    "mypy": ("mypy",),
}
_NICENESS = 5


@attrs.frozen(kw_only=True)
class Step:
    """One of the three, finished."""

    name: str
    code: int


@attrs.define(kw_only=True)
class Running:
    """A linter at work; what it says goes to a file."""

    name: str
    process: subprocess.Popen[bytes]
    said: IO[bytes]


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments ask for; 0 only if nothing failed."""
    parser = argparse.ArgumentParser(prog="python -m tests", description="Run all checks.")
    parser.add_argument("--long", action="store_true", help="also run the tests marked long")
    parser.add_argument("--rules", action="store_true", help="list the built rules without a test")
    options, for_pytest = parser.parse_known_args(arguments)
    if options.rules:
        return list_rules()
    if not options.long and "-m" not in for_pytest:
        for_pytest = ["-m", "not long", *for_pytest]
    return run_all([*side_by_side(for_pytest), *for_pytest])


def list_rules() -> int:
    """Print each built rule that no test carries; 1 if there is one."""
    rules = load_rules()
    missing = uncarried(rules, load_carriers())
    for rule in missing:
        print(f"{rule.number} | {rule.sentence}")
    print(f"{len(rules.built) - len(missing)} of {len(rules.built)} built rules are carried")
    return 1 if missing else 0


def run_all(for_pytest: Sequence[str]) -> int:
    """Run the three, print what they said, and end with pytest's closing line."""
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        linters = [stack.enter_context(start(name, command)) for name, command in _LINTERS.items()]
        tests, closing = run_pytest(for_pytest)
        steps = [*(finish(linter) for linter in linters), tests]
    failed = [step.name for step in steps if step.code != 0]
    verdict = f"failed: {', '.join(failed)}" if failed else "ruff, mypy and pytest are content"
    print(f"{verdict} ({time.monotonic() - began:.0f} s)")
    print(closing, flush=True)
    return 1 if failed else 0


@contextlib.contextmanager
def start(name: str, command: Sequence[str]) -> Iterator[Running]:
    """Start a linter in the background; it is ended if the block is left before it has finished."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        # The tests have deadlines and go first.
        os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
        try:
            yield Running(name=name, process=process, said=said)
        finally:
            process.kill()
            process.wait()


def finish(running: Running) -> Step:
    """Wait for a linter and print what it said."""
    code = running.process.wait()
    running.said.seek(0)
    text = running.said.read().decode(errors="replace").strip()
    print(f"{running.name}: {text or 'nothing to say'}")
    return Step(name=running.name, code=code)


def run_pytest(arguments: Sequence[str]) -> tuple[Step, str]:
    """Run pytest, pass on what it prints line by line, and hold back its closing line."""
    colour = ["--color=yes"] if sys.stdout.isatty() else []
    closing = ""
    command = [sys.executable, "-m", "pytest", *colour, *arguments]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=one_seed(os.environ),
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if _CLOSING.match(line):
                line, closing = closing, line  # noqa: PLW2901 - only the last of its kind is held
            print(line, end="", flush=True)
    step = Step(name="pytest", code=process.returncode)
    return step, closing.rstrip("\n") or "pytest ended without a closing line"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
