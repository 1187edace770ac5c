"""The list of rules against the tests: each built rule is carried, each mark names a rule."""

import pytest

from tests.support.rules import (
    find_carriers,
    load_carriers,
    load_rules,
    read_rules,
    uncarried,
    unknown,
)

LIST = """
Built so far: A1

## A part

1 | A1 | the first
2 | B | the second
3 | A1+B | the third
4 | B+C | the fourth
"""

MARKED = '''
import pytest

pytestmark = [pytest.mark.long, pytest.mark.rule(1)]

@pytest.fixture
@pytest.mark.rule(90)
def helper(): ...

@pytest.mark.rule(91)
def not_a_test(): ...

@pytest.mark.rule(2, 3)
async def test_some(): """pytest.mark.rule(92)"""

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.rule(4))])
def test_more(x): ...

@pytest.mark.rule(5)
class TestClass:
    pytestmark = pytest.mark.rule(6)

    @pytest.mark.rule(7)
    def test_method(self): ...

TestMachine = Machine.TestCase
TestMachine.pytestmark = [pytest.mark.rule(8)]
'''


def test_each_built_rule_is_carried() -> None:
    """Every rule that is built has a test that would catch its loss."""
    rules = load_rules()
    missing = uncarried(rules, load_carriers())
    lines = "\n".join(f"{rule.number} | {rule.sentence}" for rule in missing)
    assert not missing, f"{len(missing)} of {len(rules.built)} built rules have no test:\n{lines}"


def test_each_mark_names_a_rule() -> None:
    """No test claims to carry a number that is not on the list."""
    assert unknown(load_rules(), load_carriers()) == []


def test_the_numbers_of_the_list_are_whole() -> None:
    """The rules are numbered from 1 without a gap, since tests and commits cite the numbers."""
    rules = load_rules().rules
    assert [rule.number for rule in rules] == list(range(1, len(rules) + 1))
    assert len(rules) == 407


def test_no_rule_is_written_twice() -> None:
    """Two numbers never stand for one sentence."""
    sentences = [rule.sentence for rule in load_rules().rules]
    assert len(sentences) == len(set(sentences))


def test_a_rule_is_built_with_its_first_finished_stage() -> None:
    """A rule of several stages must be carried as soon as one of them is finished."""
    rules = read_rules(LIST)
    assert [rule.number for rule in rules.built] == [1, 3]
    later = read_rules(LIST.replace("far: A1", "far: A1 B"))
    assert [rule.number for rule in later.built] == [1, 2, 3, 4]


def test_a_missing_and_an_unknown_number_are_found() -> None:
    """A built rule without a mark, and a mark without a rule, are both told."""
    rules = read_rules(LIST)
    carriers = find_carriers("test_x.py", "import pytest\npytestmark = pytest.mark.rule(1, 77)")
    assert [rule.number for rule in uncarried(rules, carriers)] == [3]
    assert [carrier.place for carrier in unknown(rules, carriers)] == ["test_x.py:2"]


def test_marks_are_found_wherever_pytest_applies_them() -> None:
    """Marks count on tests, classes, parameters and `pytestmark`, and nowhere else."""
    numbers = [carrier.number for carrier in find_carriers("test_x.py", MARKED)]
    assert sorted(numbers) == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    "line", ["5 | A1 |", "5|A1|no spaces", "5 | a1 | lower case", "x\n 5 | A1 | indented"]
)
def test_a_line_out_of_form_is_an_error(line: str) -> None:
    """A rule that would silently drop off the list by a slip of the pen is an error."""
    with pytest.raises(AssertionError, match="not `number"):
        read_rules(LIST + line)


def test_a_list_that_does_not_say_what_is_built_is_an_error() -> None:
    """Without its line on what is built, the list would ask for nothing."""
    with pytest.raises(AssertionError, match="Built so far"):
        read_rules(LIST.replace("Built so far", "Built"))
