"""The files of the house, and all checks over one of them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.tidy import code, testing, text
from tests.support.tidy.source import parse

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("actors", "muster", "web", "tests", "bench", ".ci")
PICTURES = (".png",)
_SKIPPED = frozenset({"__pycache__"})


def list_files() -> list[str]:
    """Every file of the house, relative to the top.

    In a checkout that is what git knows or would take, else all in the folders of the plan.
    """
    if (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split("\0")
        return sorted({path for path in listed if path and (ROOT / path).is_file()})
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    return sorted(
        path.relative_to(ROOT).as_posix()
        for path in [*found, *ROOT.glob("*.*")]
        if path.is_file() and not _SKIPPED & set(path.parts)
    )


def check_file(path: str, content: str) -> Iterator[str]:
    """Run every check over one file: `muster/ids.py:12 …`; a picture has a name and no lines."""
    if path.endswith(PICTURES):
        content = ""
    for check in text.CHECKS:
        for line, sentence in check(path, content):
            yield f"{path}:{line} {sentence}"
    if path.endswith(".py"):
        source = parse(path, content)
        for python_check in (*code.CHECKS, *testing.CHECKS):
            for line, sentence in python_check(source):
                yield f"{path}:{line} {sentence}"


def misplaced_packages(files: list[str]) -> Iterator[str]:
    """Tell the folders of the wheel that are no packages, and those of tests that are."""
    known = set(files)
    for path in files:
        folder, _, name = path.rpartition("/")
        top = path.partition("/")[0]
        if top in {"actors", "muster", "web"} and name.endswith(".py"):
            if f"{folder}/__init__.py" not in known:
                yield f"{folder} has no __init__.py, and so would not be in the wheel"
        elif top == "tests" and name == "__init__.py" and folder != "tests":
            yield f"{path}: test folders are no packages; only tests/ is"


def twin_tests(files: list[str]) -> Iterator[str]:
    """Tell the test files of one name: a report that names one must be clear."""
    seen: dict[str, str] = {}
    for path in files:
        name = path.rpartition("/")[2]
        if path.startswith("tests/") and name.startswith("test_"):
            if name in seen:
                yield f"{path} and {seen[name]} have one name"
            seen[name] = path
