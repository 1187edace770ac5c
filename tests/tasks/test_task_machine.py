"""A board under every sequence of notices, edits and merges, by its rules alone."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from muster.outcomes import Changed
from muster.tasks.rules import (
    CLOSED,
    TAGS_MAX,
    Command,
    Edit,
    Lose,
    Status,
    Task,
    Ungate,
    Win,
    decide,
)

START = datetime(2030, 1, 1, tzinfo=UTC)
KEYS = ("tracker:1", "tracker:2")


class Board(RuleBasedStateMachine):
    """Tasks kept as the operations keep them, with the board locked for each step."""

    tasks = Bundle("tasks")

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.rows: dict[int, Task] = {}
        self.losers: dict[int, int] = {}

    def add(self, *tags: str) -> int:
        """File a task."""
        task_id = len(self.rows) + 1
        self.rows[task_id] = Task(
            id=task_id,
            owner_id=1,
            title="t",
            body="",
            status=Status.OPEN,
            tags=tuple(sorted(tags)),
            repository=None,
            model=None,
            message_id=None,
            created_by="owner",
            created_at=self.now,
            updated_at=self.now,
            closed_at=None,
            merged_into=None,
        )
        return task_id

    def apply(self, task_id: int, command: Command) -> bool:
        """Decide about a task; whether it was changed."""
        outcome = decide(self.rows[task_id], command, self.now)
        if isinstance(outcome, Changed):
            assert outcome.facts
            self.rows[task_id] = outcome.row
        return isinstance(outcome, Changed)

    def find_open(self, key: str) -> Task | None:
        """The oldest open task with a key, as the store finds it."""
        return next((row for row in self.rows.values() if row.open and key in row.tags), None)

    @rule(hours=st.integers(-2, 5))
    def pass_time(self, hours: int) -> None:
        """The clock goes on, or back."""
        self.now += timedelta(hours=hours)

    @rule(target=tasks, tags=st.sets(st.sampled_from(["a", "gate:x", *KEYS])))
    def create(self, tags: set[str]) -> int:
        """The owner files a task."""
        return self.add(*tags)

    @rule(target=tasks, key=st.sampled_from(KEYS))
    def notice(self, key: str) -> object:
        """A plugin files a task, unless an open one carries the key."""
        return multiple() if self.find_open(key) is not None else self.add(key)

    @rule(
        task_id=tasks,
        status=st.none() | st.sampled_from(Status),
        more=st.lists(st.sampled_from([*KEYS, *(f"t{n}" for n in range(30))]), max_size=15),
        less=st.lists(st.sampled_from(["gate:x", *KEYS]), max_size=2),
    )
    def edit(self, task_id: int, status: Status | None, more: list[str], less: list[str]) -> None:
        """The owner changes a task."""
        edit = Edit(status=status, add_tags=tuple(more), remove_tags=tuple(less))
        if self.apply(task_id, edit):
            assert set(more) <= set(self.rows[task_id].tags)
        elif self.rows[task_id].merged_into is None and len(more) == 0:
            assert not set(less) & set(self.rows[task_id].tags)

    @rule(task_id=tasks)
    def ungate(self, task_id: int) -> None:
        """The owner lets work begin."""
        self.apply(task_id, Ungate())
        assert self.rows[task_id].merged_into is not None or not self.rows[task_id].gates

    @rule(loser_id=tasks, winner_id=tasks)
    def merge(self, loser_id: int, winner_id: int) -> None:
        """The owner merges two tasks, both rows or neither."""
        before = dict(self.rows)
        loser, winner = self.rows[loser_id], self.rows[winner_id]
        if self.apply(loser_id, Lose(winner=winner)) and self.apply(winner_id, Win(loser=loser)):
            self.losers[loser_id] = winner_id
            carried = {tag for tag in loser.tags if not tag.startswith("superseded-by:")}
            assert carried <= set(self.rows[winner_id].tags)
        else:
            self.rows = before

    @invariant()
    def losers_stay(self) -> None:
        """What was merged away names its winner for ever, is not open, and leads to a root."""
        for loser_id, winner_id in self.losers.items():
            assert self.rows[loser_id].merged_into == winner_id
            assert f"superseded-by:{winner_id}" in self.rows[loser_id].tags
            assert not self.rows[loser_id].open
            seen = {loser_id}
            at = winner_id
            while (into := self.rows[at].merged_into) is not None:
                assert at not in seen
                seen.add(at)
                at = into

    @invariant()
    def keeps_the_database_rules(self) -> None:
        """No row breaks what the schema's constraints say, or the cap on tags."""
        for row in self.rows.values():
            assert (row.closed_at is not None) == (row.status in CLOSED)
            assert row.merged_into != row.id
            assert list(row.tags) == sorted(set(row.tags))
            own = [tag for tag in row.tags if not tag.startswith("superseded-by:")]
            assert len(own) <= TAGS_MAX
            assert (len(own) < len(row.tags)) == (row.merged_into is not None)
            assert row.updated_at >= row.created_at


@pytest.mark.rule(113, 114, 129)
def test_no_sequence_makes_a_circle() -> None:
    """However tasks are filed, changed and merged, each loser leads to a root with its tags."""
    run_state_machine_as_test(Board)
