"""The numbered rules in tests/rules.md, and which tests say that they carry them.

The marks are read from the source, not collected by pytest: a test that is deselected still
carries its rules, and a list of what is missing needs no database.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

TESTS = Path(__file__).resolve().parent.parent
_LINE = re.compile(r"(?P<number>\d+) \| (?P<stages>[A-Z]\d?(?:\+[A-Z]\d?)*) \| (?P<sentence>\S.*)")
_BUILT = re.compile(r"^Built so far: (?P<stages>[A-Z]\d?(?: [A-Z]\d?)*)$", re.MULTILINE)


@attrs.frozen(kw_only=True)
class Rule:
    """One line of the list; `stages` are the parts of the work that build it, in order."""

    number: int
    stages: tuple[str, ...]
    sentence: str


@attrs.frozen(kw_only=True)
class RuleList:
    """The whole list, and the stages that are built so far."""

    rules: tuple[Rule, ...]
    built_stages: frozenset[str]

    @property
    def built(self) -> tuple[Rule, ...]:
        """The rules that some finished stage builds, and that a test must carry."""
        return tuple(rule for rule in self.rules if self.built_stages & set(rule.stages))


@attrs.frozen(kw_only=True)
class Carrier:
    """A test that says it carries a rule: `tests/drafts/test_claim.py:12`."""

    number: int
    place: str


def read_rules(text: str) -> RuleList:
    """Read the list; a line that begins like a rule and does not follow the form is an error."""
    rules = []
    for line in text.splitlines():
        if not re.match(r"\s*\d+ *\|", line):
            continue
        match = _LINE.fullmatch(line)
        assert match, f"not `number | stages | rule`: {line!r}"
        stages = tuple(match["stages"].split("+"))
        rules.append(
            Rule(number=int(match["number"]), stages=stages, sentence=match["sentence"].strip())
        )
    built = _BUILT.search(text)
    assert built, "the list has no line `Built so far: A1 …`"
    return RuleList(rules=tuple(rules), built_stages=frozenset(built["stages"].split()))


def load_rules() -> RuleList:
    """Read tests/rules.md."""
    return read_rules((TESTS / "rules.md").read_text(encoding="utf-8"))


def load_carriers() -> list[Carrier]:
    """Read the marks of every test file below tests/."""
    carriers: list[Carrier] = []
    for path in sorted(TESTS.rglob("test_*.py")):
        place = path.relative_to(TESTS.parent).as_posix()
        carriers.extend(find_carriers(place, path.read_text(encoding="utf-8")))
    return carriers


def find_carriers(place: str, source: str) -> list[Carrier]:
    """List the rule marks of one file: on its tests, their classes, `pytestmark` and parameters.

    A mark on anything else (a fixture, a function that pytest does not run) counts for nothing.
    """
    carriers = []
    for call in _marks(ast.parse(source).body):
        for argument in call.args:
            assert isinstance(argument, ast.Constant), f"{place}:{call.lineno}: write numbers"
            assert isinstance(argument.value, int), f"{place}:{call.lineno}: write numbers"
            carriers.append(Carrier(number=argument.value, place=f"{place}:{call.lineno}"))
    return carriers


def uncarried(rules: RuleList, carriers: Iterable[Carrier]) -> list[Rule]:
    """List the built rules that no test carries, in their order."""
    carried = {carrier.number for carrier in carriers}
    return [rule for rule in rules.built if rule.number not in carried]


def unknown(rules: RuleList, carriers: Iterable[Carrier]) -> list[Carrier]:
    """List the marks whose number is no rule."""
    numbers = {rule.number for rule in rules.rules}
    return [carrier for carrier in carriers if carrier.number not in numbers]


def _marks(body: Iterable[ast.stmt]) -> Iterator[ast.Call]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name.startswith("test"):
                for decorator in node.decorator_list:
                    yield from _calls(decorator)
            case ast.ClassDef() if node.name.startswith("Test"):
                for decorator in node.decorator_list:
                    yield from _calls(decorator)
                yield from _marks(node.body)
            case ast.Assign(targets=[target]) if _is_pytestmark(target):
                yield from _calls(node.value)
            case _:
                pass


def _is_pytestmark(target: ast.expr) -> bool:
    match target:
        case ast.Name(id="pytestmark") | ast.Attribute(attr="pytestmark"):
            return True
        case _:
            return False


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    for inner in ast.walk(node):
        match inner:
            case ast.Call(
                func=ast.Attribute(
                    attr="rule", value=ast.Attribute(attr="mark", value=ast.Name(id="pytest"))
                )
            ):
                yield inner
            case _:
                pass
