"""What holds for tests: a sentence each, no sleeping, no switching off, no theatre."""

import ast
import re
from collections.abc import Iterator

from tests.support.tidy.code import Check
from tests.support.tidy.source import Found, Function, Source

# A clock that jumps makes a sleep a fact about time instead of a wait for something.
CLOCKS = frozenset({"autojump_clock", "mock_clock"})
_WAIT = (
    "tests/support/waiting.py has until() to wait for something, and dawdle() where the time"
    " itself is tested"
)
_SECOND_SENTENCE = re.compile(r"[.!?][\"'`)]*\s+[A-Z]")
_SWITCHES = frozenset({"skip", "skipif", "xfail"})


def check_docstring(source: Source) -> Found:
    """Each test says in one sentence what it shows; more may follow after a blank line."""
    if not source.is_test:
        return
    for test in _tests(source.tree.body):
        text = ast.get_docstring(test)
        if not text:
            yield test.lineno, f"{test.name} needs a docstring: one sentence of behaviour"
            continue
        sentence = text.partition("\n\n")[0]
        if not sentence.endswith(".") or _SECOND_SENTENCE.search(sentence):
            yield test.lineno, f"{test.name}: its docstring begins with one whole sentence"


def check_sleep(source: Source) -> Found:
    """No test waits for a time in the hope that it is enough."""
    if not source.is_in("tests/") or source.is_in("tests/support/waiting.py"):
        return
    fine = _lines_on_a_jumping_clock(source)
    for call, name in source.calls():
        if name in {"trio.sleep", "trio.sleep_until"} and call.lineno not in fine:
            seconds = call.args[0] if call.args else None
            if isinstance(seconds, ast.Constant) and seconds.value == 0:
                continue
            yield call.lineno, f"{name} on the real clock: {_WAIT}"


def check_switched_off(source: Source) -> Found:
    """A test that is skipped, or expected to fail, says why."""
    if not source.is_in("tests/"):
        return
    used = {id(call.func): call for call, _ in source.calls()}
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Attribute):
            continue
        name = source.name_of(node)
        kind = name.rpartition(".")[2]
        if kind not in _SWITCHES or name not in {f"pytest.{kind}", f"pytest.mark.{kind}"}:
            continue
        call = used.get(id(node))
        if call is None or not _says_why(call, kind):
            yield node.lineno, f"{name} needs a reason that a reader can check"


def check_theatre(source: Source) -> Found:
    """No mock that only asserts that it was called."""
    if not source.is_in("tests/"):
        return
    for node in ast.walk(source.tree):
        match node:
            case ast.Attribute(attr=name) if re.match(r"assert_(any_|not_)?(called|await)", name):
                yield node.lineno, f"{name} shows that code is written so; show what it does"
            case (
                ast.ImportFrom(module="unittest.mock")
                | ast.Import(names=[ast.alias(name="unittest.mock")])
            ):
                yield node.lineno, "no mocks: use the real thing, or a fake that behaves"
            case ast.ImportFrom(module="unittest", names=[ast.alias(name="mock")]):
                yield node.lineno, "no mocks: use the real thing, or a fake that behaves"
            case _:
                pass


def _tests(body: list[ast.stmt]) -> Iterator[Function]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name.startswith("test"):
                yield node
            case ast.ClassDef() if node.name.startswith("Test"):
                yield from _tests(node.body)
            case _:
                pass


def _lines_on_a_jumping_clock(source: Source) -> set[int]:
    """The lines of tests that ask for such a clock; and, where one does, of what is no test."""
    tests = list(_tests(source.tree.body))
    jumping = [test for test in tests if CLOCKS & _arguments(test)]
    if not jumping:
        return set()
    lines = set(range(1, len(source.text.splitlines()) + 1))
    for test in tests:
        if test not in jumping:
            lines -= set(range(test.lineno, (test.end_lineno or test.lineno) + 1))
    return lines


def _arguments(function: Function) -> set[str]:
    return {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}


def _says_why(call: ast.Call, kind: str) -> bool:
    words = {word.arg: word.value for word in call.keywords}
    reason = words.get("reason") or words.get("msg")
    if reason is None and kind == "skip" and call.args:
        reason = call.args[0]
    if reason is None:
        return False
    return not (isinstance(reason, ast.Constant) and not str(reason.value).strip())


CHECKS: tuple[Check, ...] = (check_docstring, check_sleep, check_switched_off, check_theatre)
