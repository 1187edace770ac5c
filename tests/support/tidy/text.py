"""What holds for every text file of the house, whatever language it is in."""

import re
from collections.abc import Callable
from pathlib import PurePosixPath

from tests.support.tidy.source import Found

Check = Callable[[str, str], Found]
LINES_MAX = 400
COLUMNS_MAX = 100
# Prose wraps in the reader's window; SQL reads better in one line; mail is as it was sent.
ANY_WIDTH = frozenset({".md", ".sql", ".eml", ".svg", ".json"})
# One line a rule, or a word, and there are more of them than that.
ANY_LENGTH = frozenset({"tests/rules.md", "muster/mirror/word_lists/english.txt"})
EMPTY_NAMES = frozenset(
    {"util", "utils", "helper", "helpers", "common", "manager", "managers", "misc"}
)
TOP_LEVEL = frozenset({"pyproject.toml", "README.md", "actors", "muster", "web", "tests", "bench"})

# Each pattern is written so that it does not find itself.
_LEFT_OVER = re.compile(r"\b(TOD[O]|FIXM[E]|XX[X]|HAC[K])\b")
_MACHINE = re.compile(  # ada is nobody's machine: she stands in examples
    r"(?<![\w./:-])/(wor[k]|roo[t]|far[m]|hom[e](?!/ada\b))/|/tm[p]/(bash|venv|brief)"
)
# What tells a linter or type checker something may stand past the edge, as ruff has it.
_PRAGMA = re.compile(r"\s+#\s*(noqa|type:|fmt:|pragma:).*$")
_REGISTRY = re.compile(
    r"\b(pypi\.(org|python\.org)|pythonhosted\.org|registry\.npmjs\.(org|com)|crates\.io"
    r"|proxy\.golang\.org|rubygems\.org|deb\.debian\.org)\b"
)
_RERUN = re.compile(r"(pytest[-_]rerun)(failures)|--rerun[s]|mark\.flak[y]")


def check_length(path: str, text: str) -> Found:
    """A file has at most 400 lines."""
    lines = len(text.splitlines())
    if lines > LINES_MAX and path not in ANY_LENGTH and not path.endswith(".eml"):
        yield LINES_MAX, f"{lines} lines: split it by verb, into a folder of its name"


def check_width(path: str, text: str) -> Found:
    """A line has at most 100 columns; a vendored file is as it was published."""
    if PurePosixPath(path).suffix in ANY_WIDTH or path.endswith(".min.js"):
        return
    for number, line in enumerate(text.splitlines(), 1):
        columns = len(_PRAGMA.sub("", line))
        if columns > COLUMNS_MAX:
            yield number, f"{columns} columns, more than {COLUMNS_MAX}"


def check_left_over(path: str, text: str) -> Found:
    """Nothing is left to do in a comment."""
    del path
    for number, line in enumerate(text.splitlines(), 1):
        found = _LEFT_OVER.search(line)
        if found:
            yield number, f"{found[0]}: do it, or file it where work is planned"


def check_machine(path: str, text: str) -> Found:
    """No path of the machine it was written on."""
    del path
    for number, line in enumerate(text.splitlines(), 1):
        found = _MACHINE.search(line)
        if found:
            yield number, f"{found[0]} is a path of one machine; derive it, or take it as a setting"


def check_registry(path: str, text: str) -> Found:
    """No host name of a package registry: which one is used is pip's configuration."""
    del path
    for number, line in enumerate(text.splitlines(), 1):
        found = _REGISTRY.search(line)
        if found:
            yield number, f"{found[0]}: packages come from wherever pip is configured to look"


def check_rerun(path: str, text: str) -> Found:
    """No test runs again until it passes."""
    del path
    for number, line in enumerate(text.splitlines(), 1):
        if _RERUN.search(line):
            yield number, "a test that fails sometimes is wrong or has found something: no reruns"


def check_name(path: str, text: str) -> Found:
    """Files and folders are named after what they hold."""
    del text
    for part in PurePosixPath(path).parts:
        if part.partition(".")[0] in EMPTY_NAMES:
            yield 1, f"{part} names nothing: name it after what it holds"


def check_top_level(path: str, text: str) -> Found:
    """The top level holds what the plan of the house names, and dot-files."""
    del text
    top = PurePosixPath(path).parts[0]
    if top not in TOP_LEVEL and not top.startswith("."):
        yield 1, f"{top} has no place at the top level; it holds {', '.join(sorted(TOP_LEVEL))}"


def check_sql_clock(path: str, text: str) -> Found:
    """No SQL file of muster asks for the time."""
    if not path.endswith(".sql"):
        return
    for number, line in enumerate(text.splitlines(), 1):
        found = SQL_CLOCK.search(line.partition("--")[0])
        if found:
            yield number, f"{found[0]}: {NO_SQL_CLOCK}"


SQL_CLOCK = re.compile(
    r"\bnow\s*\(\s*\)|\b(current_(timestamp|date|time)|local(timestamp|time)"
    r"|(clock|statement|transaction)_timestamp)\b",
    re.IGNORECASE,
)
NO_SQL_CLOCK = "the time is %(now)s, the transaction's own, or tests could not shift it"

CHECKS: tuple[Check, ...] = (
    check_length,
    check_width,
    check_left_over,
    check_machine,
    check_registry,
    check_rerun,
    check_name,
    check_top_level,
    check_sql_clock,
)
