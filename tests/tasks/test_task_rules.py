"""The table of tasks, row by row, and what a task may hold."""

from datetime import UTC, datetime, timedelta

import attrs
import pytest

from muster.errors import Invalid, Refused
from muster.outcomes import Changed, Unchanged
from muster.tasks.rules import (
    TAGS_MAX,
    CreateTask,
    Edit,
    Lose,
    Status,
    Task,
    Ungate,
    Win,
    check_comment,
    check_create,
    check_edit,
    decide,
)

START = datetime(2030, 1, 1, tzinfo=UTC)
LATER = START + timedelta(hours=1)


def task(number: int = 1, **fields: object) -> Task:
    """An open task, but for the fields that are given."""
    plain = {
        "id": number,
        "owner_id": 1,
        "title": "Rotate the key",
        "body": "It is old.",
        "status": Status.OPEN,
        "tags": (),
        "repository": None,
        "model": None,
        "message_id": None,
        "created_by": "owner",
        "created_at": START,
        "updated_at": START,
        "closed_at": None,
        "merged_into": None,
    }
    return Task(**plain | fields)  # type: ignore[arg-type]


def changed(before: Task, command: object) -> Changed[Task]:
    """What the command makes of it; it must be a change."""
    outcome = decide(before, command, LATER)  # type: ignore[arg-type]
    assert isinstance(outcome, Changed)
    return outcome


@pytest.mark.parametrize("before", list(Status))
@pytest.mark.parametrize("after", list(Status))
def test_any_status_may_follow_any(before: Status, after: Status) -> None:
    """A task moves from any status to any, and is closed in two of them."""
    closed = START if before in (Status.COMPLETE, Status.DISMISSED) else None
    outcome = decide(task(status=before, closed_at=closed), Edit(status=after), LATER)
    if before is after:
        assert isinstance(outcome, Unchanged)
        return
    assert isinstance(outcome, Changed)
    row = outcome.row
    assert row.open == (after not in (Status.COMPLETE, Status.DISMISSED))
    assert (row.closed_at is None) == row.open
    assert outcome.facts[0].data["status"] == [before.value, after.value]
    if closed is not None and not row.open:
        assert row.closed_at == closed


def test_an_edit_changes_what_it_names_alone() -> None:
    """What an edit leaves out stays, and an empty repository or model is none."""
    before = task(repository="ada/garden", model="large", tags=("inbox", "old"))
    edit = Edit(title="New", repository="", add_tags=("new",), remove_tags=("old", "never"))
    outcome = changed(before, edit)
    assert outcome.row == attrs.evolve(
        before, title="New", repository=None, tags=("inbox", "new"), updated_at=LATER
    )
    (fact,) = outcome.facts
    assert fact.action == "task.changed"
    assert fact.subject == "task:1"
    assert fact.data == {
        "added": ["new"],
        "removed": ["old"],
        "fields": ["title", "repository"],
    }


def test_a_clock_that_went_back_does_not_undo_an_update() -> None:
    """A decision counts from the later of the clock and the row."""
    before = task(updated_at=LATER)
    outcome = decide(before, Edit(status=Status.COMPLETE), START)
    assert isinstance(outcome, Changed)
    assert (outcome.row.updated_at, outcome.row.closed_at) == (LATER, LATER)


@pytest.mark.rule(243)
def test_ungating_takes_every_gate_and_nothing_else() -> None:
    """Ungate is its own act, which the audit log names; without a gate it changes nothing."""
    before = task(tags=("auto:codex", "gate:a", "gate:b", "inbox"))
    outcome = changed(before, Ungate())
    assert outcome.row.tags == ("auto:codex", "inbox")
    assert outcome.facts[0].action == "task.ungated"
    assert isinstance(decide(task(tags=("inbox",)), Ungate(), LATER), Unchanged)
    by_hand = changed(before, Edit(remove_tags=("gate:a", "gate:b")))
    assert by_hand.facts[0].action == "task.ungated"
    assert changed(before, Edit(remove_tags=("gate:a",))).facts[0].action == "task.changed"


@pytest.mark.rule(113, 114)
def test_a_merge_moves_the_tags_and_closes_the_loser() -> None:
    """The winner has the tags of both; the loser keeps its own, names its winner and is closed."""
    loser, winner = task(1, tags=("tracker:1", "x")), task(2, tags=("tracker:2", "x"))
    lost = changed(loser, Lose(winner=winner))
    assert lost.row.tags == ("superseded-by:2", "tracker:1", "x")
    assert (lost.row.merged_into, lost.row.open, lost.row.status) == (2, False, Status.OPEN)
    won = changed(winner, Win(loser=loser))
    assert won.row.tags == ("tracker:1", "tracker:2", "x")
    assert won.row.open
    assert (lost.facts[0].data["into"], won.facts[0].data["from"]) == (2, 1)


def test_a_loser_takes_no_change_any_more() -> None:
    """Each command to a loser is refused, with the id of its winner."""
    loser, other = task(1, merged_into=2), task(3)
    for command in (Edit(title="x"), Ungate(), Lose(winner=other), Win(loser=other)):
        outcome = decide(loser, command, LATER)
        assert isinstance(outcome, Refused)
        assert (outcome.code, outcome.facts["merged_into"]) == ("task_merged", 2)


def test_merges_make_no_circle() -> None:
    """A task is not merged into itself, and not into one that lost already."""
    me = task(1)
    for command in (Lose(winner=me), Win(loser=me)):
        outcome = decide(me, command, LATER)
        assert isinstance(outcome, Refused)
        assert outcome.code == "merge_self"
    outcome = decide(me, Lose(winner=task(2, merged_into=1)), LATER)
    assert isinstance(outcome, Refused)
    assert outcome.code == "task_merged"


def test_twenty_tags_are_the_most() -> None:
    """A twenty-first tag is refused, by an edit and by a merge; superseded-by is not counted."""
    full = task(tags=tuple(sorted(f"t{n}" for n in range(TAGS_MAX))))
    for command in (Edit(add_tags=("one-more",)), Win(loser=task(2, tags=("one-more",)))):
        outcome = decide(full, command, LATER)
        assert isinstance(outcome, Refused)
        assert outcome.code == "too_many_tags"
    assert len(changed(full, Lose(winner=task(2))).row.tags) == TAGS_MAX + 1
    swapped = changed(full, Edit(add_tags=("one-more",), remove_tags=("t0",)))
    assert len(swapped.row.tags) == TAGS_MAX


GOOD = CreateTask(title="t" * 512, body="é" * 8192, tags=("In Box", "in_box", "A:b"))


def test_the_largest_task_is_taken() -> None:
    """A title of 512 characters and a body of 16 KiB pass, and tags are folded to one spelling."""
    made = attrs.evolve(GOOD, repository="Ada-1/a.b_c", model="large 2")
    assert check_create(made).tags == ("a:b", "in-box")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", ""),
        ("title", " "),
        ("title", "t" * 513),
        ("title", "two\nlines"),
        ("title", "nul\0"),
        ("title", "half \ud800"),
        ("body", "é" * 8193),
        ("body", "nul\0"),
        ("body", "half \ud800"),
        ("tags", ("a,b",)),
        ("tags", tuple(f"t{n}" for n in range(21))),
        ("tags", ("Superseded_By:3",)),
        ("repository", "no-slash"),
        ("repository", "a/b/c"),
        ("repository", ""),
        ("model", ""),
        ("model", "m" * 101),
    ],
)
def test_a_field_outside_its_rule_is_named(field: str, value: object) -> None:
    """Each field that breaks its rule is refused by name."""
    with pytest.raises(Invalid) as caught:
        check_create(attrs.evolve(GOOD, **{field: value}))  # type: ignore[arg-type]
    assert caught.value.field == field


def test_the_tags_of_an_edit_are_named_apart() -> None:
    """A bad tag is told with the list that it stands in; only a merge writes superseded-by."""
    for field in ("add_tags", "remove_tags"):
        for tag in ("a b,", "superseded-by:1"):
            with pytest.raises(Invalid) as caught:
                check_edit(attrs.evolve(Edit(), **{field: (tag,)}))  # type: ignore[arg-type]
            assert caught.value.field == field


@pytest.mark.parametrize("text", ["", " \n", "é" * 8193, "nul\0"])
def test_a_comment_says_something_within_16_kib(text: str) -> None:
    """A blank comment, one that is too long and one that cannot be kept are refused."""
    with pytest.raises(Invalid):
        check_comment(text)
    check_comment("é" * 8192)
