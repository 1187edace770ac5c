"""The house rules: what a file, a line, a call and a test may look like.

Each check stands in tests/support/tidy/ and has a planted violation here, so that none is dead.
"""

import pytest

from tests.support.tidy import code, testing, text, tree
from tests.support.tidy.source import parse

JUMPING = "import trio\nasync def test_x(autojump_clock): await trio.sleep(1)\n"
# (check, path, content, where) - written so that this file does not break the rules it plants.
PLANTED_TEXT = [
    (text.check_length, "web/app.py", "x\n" * 401),
    (text.check_width, "web/app.py", "x" * 101),
    (text.check_width, "web/pages/static/a.css", "é" * 101),
    (text.check_left_over, "web/app.py", "# TO" + "DO: later"),
    (text.check_left_over, "muster/pg/migrations/0002_x.sql", "-- FIX" + "ME"),
    (text.check_machine, "README.md", "see /wor" + "k/main"),
    (text.check_machine, "tests/test_x.py", 'open("/roo' + 't/x")'),
    (text.check_machine, "tests/test_x.py", "/hom" + "e/somebody/x"),
    (text.check_machine, ".ci/run", "cd /tm" + "p/bash_jobs"),
    (text.check_registry, "README.md", "from https://pypi" + ".org/simple"),
    (text.check_rerun, "pyproject.toml", "pytest-rerun" + "failures"),
    (text.check_name, "muster/drafts/utils.py", ""),
    (text.check_name, "tests/common/test_x.py", ""),
    (text.check_top_level, "scripts/run.py", ""),
    (text.check_top_level, "setup.cfg", ""),
    (text.check_sql_clock, "muster/pg/migrations/0002_x.sql", "at timestamptz default now()"),
    (text.check_sql_clock, "muster/pg/migrations/0002_x.sql", "at timestamptz = CURRENT_TIMESTAMP"),
]
FINE_TEXT = [
    (text.check_length, "web/app.py", "x\n" * 400),
    (text.check_length, "tests/rules.md", "x\n" * 401),
    (text.check_width, "web/app.py", "x" * 100),
    (text.check_width, "web/app.py", "x" * 90 + "  # noqa: S311 - only spreads retries"),
    (text.check_width, "muster/pg/migrations/0002_x.sql", "x" * 101),
    (text.check_machine, "tests/test_x.py", 'Path("/home/ada/.local") or "/a/home/b" or "//root/"'),
    (text.check_name, "muster/drafts/operations.py", ""),
    (text.check_top_level, ".ci/run", ""),
    (text.check_sql_clock, "muster/pg/migrations/0002_x.sql", "-- now() is nowhere"),
]
PLANTED_CODE = [
    (code.check_function_length, "web/app.py", "def f():\n" + "    x\n" * 60),
    (code.check_banned, "web/app.py", "import time\ntime.sleep(1)"),
    (code.check_banned, "tests/test_x.py", "from time import sleep as nap\nnap(1)"),
    (code.check_banned, "muster/drafts/rules.py", "import datetime as dt\ndt.datetime.now()"),
    (code.check_banned, "muster/drafts/rules.py", "from datetime import datetime\ndatetime.now()"),
    (code.check_banned, "actors/timers.py", "import time\ntime.time()"),
    (code.check_banned, "muster/node/tree.py", "print(1)"),
    (code.check_banned, "tests/support/cluster.py", "import os\nos.system('x')"),
    (
        code.check_unbounded,
        "actors/mailbox.py",
        "import math, trio\ntrio.open_memory_channel(math.inf)",
    ),
    (code.check_unbounded, "actors/mailbox.py", "trio.open_memory_channel[int](float('inf'))"),
    (code.check_unbounded, "web/app.py", "import queue\nqueue.Queue()"),
    (code.check_asyncio, "tests/test_x.py", "import asyncio.subprocess"),
    (code.check_asyncio, "web/app.py", "def f():\n    from asyncio import run"),
    (code.check_swallowed, "web/app.py", "try: x\nexcept Exception: pass"),
    (code.check_swallowed, "web/app.py", "try: x\nexcept (OSError, Exception) as error: raise"),
    (code.check_swallowed, "web/app.py", "try: x\nexcept: pass"),
    (code.check_swallowed, "web/app.py", "import trio\ntry: x\nexcept trio.Cancelled: raise"),
    (code.check_swallowed, "web/app.py", "def f():\n  try: x\n  except BaseException as e: y = e"),
    (
        code.check_swallowed,
        "web/app.py",
        "import contextlib\nwith contextlib.suppress(Exception): x",
    ),
    (code.check_stub, "web/app.py", "def f(): raise NotImplementedError"),
    (code.check_stub, "web/app.py", "def f(): raise NotImplementedError('x')"),
    (code.check_stub, "tests/test_x.py", "assert True"),
    (code.check_sql_clock, "muster/drafts/store.py", "FIND = Query('select now()')"),
    (
        code.check_sql_clock,
        "muster/drafts/store.py",
        "FIND = f'update {x} set at = clock_timestamp()'",
    ),
    (testing.check_docstring, "tests/test_x.py", "def test_x(): pass"),
    (testing.check_docstring, "tests/test_x.py", "def test_x():\n    'It works'"),
    (testing.check_docstring, "tests/test_x.py", "async def test_x():\n    'One. Two.'"),
    (testing.check_docstring, "tests/test_x.py", "class TestX:\n    def test_x(self): pass"),
    (
        testing.check_sleep,
        "tests/test_x.py",
        "import trio\nasync def test_x(): await trio.sleep(1)",
    ),
    (
        testing.check_sleep,
        "tests/support/x.py",
        "from trio import sleep\nasync def f(): await sleep(n)",
    ),
    (
        testing.check_sleep,
        "tests/test_x.py",
        JUMPING + "async def test_y(): await trio.sleep(1)",
    ),
    (testing.check_switched_off, "tests/test_x.py", "import pytest\n@pytest.mark.skip\ndef f(): 1"),
    (testing.check_switched_off, "tests/test_x.py", "import pytest\npytest.skip('')"),
    (testing.check_switched_off, "tests/test_x.py", "import pytest\npytest.mark.skipif(x)"),
    (
        testing.check_switched_off,
        "tests/test_x.py",
        "from pytest import mark\nmark.xfail(strict=1)",
    ),
    (testing.check_theatre, "tests/test_x.py", "send.assert_called_once_with(1)"),
    (testing.check_theatre, "tests/test_x.py", "from unittest.mock import Mock"),
    (testing.check_theatre, "tests/test_x.py", "from unittest import mock"),
]
FINE_CODE = [
    (code.check_function_length, "web/app.py", "class C:\n" + "    x = 1\n" * 99),
    (code.check_function_length, "web/app.py", "def f():\n" + "    x\n" * 59),
    (code.check_banned, "bench/claim.py", "import time\nprint(time.time())"),
    (code.check_banned, "web/app.py", "import trio\nlog.print(trio.current_time())"),
    (code.check_unbounded, "web/app.py", "import trio\ntrio.open_memory_channel(8)"),
    (code.check_swallowed, "actors/supervisor.py", "try: x\nexcept Exception: y"),
    (code.check_swallowed, "web/app.py", "try: x\nexcept BaseException:\n    y\n    raise"),
    (
        code.check_swallowed,
        "actors/opening.py",
        "def f():\n  try: x\n  except BaseException as error: kept = error\n  raise kept",
    ),
    (
        code.check_swallowed,
        "muster/pg/driver.py",
        "import trio\ntry: x\nexcept trio.Cancelled: raise",
    ),
    (code.check_stub, "tests/test_x.py", "assert x\nassert False, 'reached'"),
    (code.check_sql_clock, "muster/pg/session.py", "OPEN = 'select now()'"),
    (code.check_sql_clock, "muster/drafts/store.py", "'No now() here.'\nFIND = 'at <= %(now)s'"),
    (testing.check_docstring, "tests/test_x.py", "def test_x():\n    'It works.'\ndef helper(): 1"),
    (
        testing.check_docstring,
        "tests/test_x.py",
        "def test_x():\n    '''It works.\n\n    So. It does.\n    '''",
    ),
    (
        testing.check_sleep,
        "tests/test_x.py",
        "import trio\nasync def test_x(): await trio.sleep(0)",
    ),
    (
        testing.check_sleep,
        "muster/node/sweeps.py",
        "import trio\nasync def f(): await trio.sleep(1)",
    ),
    (
        testing.check_sleep,
        "tests/test_x.py",
        JUMPING + "async def slow(): await trio.sleep(1)",
    ),
    (
        testing.check_switched_off,
        "tests/test_x.py",
        "import pytest\npytest.skip('no chromium here')",
    ),
    (
        testing.check_switched_off,
        "tests/test_x.py",
        "import pytest\npytest.mark.skipif(x, reason=y)",
    ),
]


def test_the_house_is_tidy() -> None:
    """Every file of the house keeps every house rule."""
    wrong = [
        sentence
        for path in tree.list_files()
        for sentence in tree.check_file(
            path, (tree.ROOT / path).read_text(encoding="utf-8", errors="replace")
        )
    ]
    assert not wrong, "\n".join(wrong)


def test_packages_are_where_they_belong() -> None:
    """Folders of the wheel are packages, test folders are none, and test files differ in name."""
    files = tree.list_files()
    wrong = [*tree.misplaced_packages(files), *tree.twin_tests(files)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("check", "path", "content"), PLANTED_TEXT)
def test_a_planted_line_is_caught(check: text.Check, path: str, content: str) -> None:
    """Each rule for text files catches what it is there for."""
    assert list(check(path, content))
    assert list(tree.check_file(path, content if not path.endswith(".py") else f"'''{content}'''"))


@pytest.mark.parametrize(("check", "path", "content"), FINE_TEXT)
def test_a_fine_line_is_let_be(check: text.Check, path: str, content: str) -> None:
    """No rule for text files complains at its very edge."""
    assert list(check(path, content)) == []


@pytest.mark.parametrize(("check", "path", "content"), PLANTED_CODE)
def test_planted_code_is_caught(check: code.Check, path: str, content: str) -> None:
    """Each rule for Python files catches what it is there for."""
    assert len(list(check(parse(path, content)))) == 1
    assert list(tree.check_file(path, content))


@pytest.mark.parametrize(("check", "path", "content"), FINE_CODE)
def test_fine_code_is_let_be(check: code.Check, path: str, content: str) -> None:
    """No rule for Python files complains about what the plan allows."""
    assert list(check(parse(path, content))) == []


def test_every_check_has_a_planted_violation() -> None:
    """No check is dead: each has something above that it catches."""
    planted = {case[0] for case in PLANTED_TEXT} | {case[0] for case in PLANTED_CODE}
    assert planted == {*text.CHECKS, *code.CHECKS, *testing.CHECKS}


def test_misplaced_packages_and_twins_are_caught() -> None:
    """A folder without its package file, a package among tests, and twin test files are told."""
    files = ["web/pages/views.py", "tests/pg/__init__.py", "tests/pg/test_a.py", "tests/test_a.py"]
    assert len(list(tree.misplaced_packages(files))) == 2
    assert len(list(tree.twin_tests(files))) == 1
    assert list(tree.misplaced_packages(["web/__init__.py", "web/app.py", "tests/x/y.py"])) == []


def test_the_walk_sees_the_house() -> None:
    """The checks run over the files that there are, this one among them."""
    files = tree.list_files()
    assert {"tests/test_tidy.py", "muster/errors.py", "pyproject.toml", ".ci/run"} <= set(files)
    assert not [path for path in files if "__pycache__" in path or path.startswith(".git/")]
