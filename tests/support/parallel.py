"""Tests side by side: `python -m tests` gives whole files to a few workers (pytest-xdist).

Each worker is a process with a cluster of its own, so that nothing of one file is seen by another.
The suite waits more than it computes: four workers keep two cores busy, and more of them only make
the tests of time wait for a processor. A file is given to one worker as a whole, because its tests
share fixtures and what they counted. `python -m pytest tests/x` by hand is one process, as ever.

Files begin in the order below, so that the longest are not what the others wait for at the end.
The order decides nothing but time: a file that is not named begins when those are under way.
"""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
WORKERS = 4
OPTIONS = ("-n", str(WORKERS), "--dist", "loadfile", "--no-loadscope-reorder")

# The first worker gets one more file at once, behind its long one: the fifth is a short one.
FIRST = (
    "tests/failure/test_chaos_short.py",
    "tests/failure/test_postgres_gone.py",
    "tests/web/pages/test_newcomer.py",
    "tests/failure/test_sigterm.py",
    "tests/test_plans.py",
    "tests/failure/test_kill.py",
    "tests/clients/test_demo.py",
    "tests/bench/test_bench_scenarios.py",
    "tests/clients/test_plugin_new.py",
    "tests/clients/test_mail_program.py",
    "tests/clients/test_plugin_tester.py",
    "tests/pg/test_boot.py",
    "tests/web/test_openapi_fuzzed.py",
    "tests/commands/test_command_drafts.py",
    "tests/clients/test_imap_in.py",
    "tests/test_command.py",
    "tests/test_tidy.py",
    "tests/pg/test_embedded.py",
    "tests/pg/test_places.py",
    "tests/pg/test_boot_breaks.py",
    "tests/web/pages/test_docs_in_browser.py",
    "tests/web/pages/test_pages_in_browser.py",
    "tests/web/pages/test_task_pages.py",
    "tests/web/pages/test_sign_in_in_browser.py",
)


class Placed(Protocol):
    """What lies in a file."""

    @property
    def path(self) -> Path:
        """The file."""


T = TypeVar("T", bound=Placed)


def side_by_side(arguments: Sequence[str]) -> list[str]:
    """What pytest is told beside `arguments`; nothing if these rule workers out or count them."""
    told = ("-n", "--numprocesses", "--pdb", "--trace")
    return [] if any(argument.startswith(told) for argument in arguments) else list(OPTIONS)


def one_seed(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which all workers see a set in one order, another one in each run.

    Workers have to collect the same tests in the same order, and some are made from sets.
    """
    return {"PYTHONHASHSEED": str(random.randrange(1, 2**32)), **environ}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest files first, where there are workers; within a file nothing moves."""
    if hasattr(config, "workerinput"):
        put_first(items)


def put_first(items: list[T]) -> None:
    """Move the tests of the files named above to the front, in that order."""
    places = {ROOT / name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
