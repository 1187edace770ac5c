"""The pure rules of asks: the table, the machine, what a question and an answer may be."""

from datetime import UTC, datetime, timedelta

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from muster.attention.rules import (
    LIFE,
    Answer,
    Ask,
    AskedBy,
    AskOwner,
    Cancel,
    Command,
    Dismiss,
    Expire,
    State,
    check_answer,
    check_ask,
    check_places,
    decide,
    standing,
)
from muster.errors import Invalid, Refused
from muster.outcomes import Changed, Unchanged

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
SECOND = timedelta(seconds=1)
YES = Answer(ask_id=1, text="yes")


def make(state: State = State.OPEN, *, age: timedelta = SECOND) -> Ask:
    """An ask in a state; one that was answered was answered with yes."""
    answered = state is State.ANSWERED
    return Ask(
        id=1,
        owner_id=2,
        asked_by=AskedBy.AGENT,
        agent_id=3,
        question="Noon?",
        answers=("yes", "no"),
        message_id=None,
        task_id=None,
        plugin_message_id=None,
        state=state,
        created_at=NOW - age,
        expires_at=NOW - age + LIFE,
        answer="yes" if answered else None,
        answered_via="cli" if answered else None,
        ended_at=None if state is State.OPEN else NOW,
    )


OTHER = Answer(ask_id=1, text="no")
COMMANDS: list[Command] = [YES, OTHER, Dismiss(ask_id=1), Cancel(ask_id=1), Expire(ask_id=1)]
TABLE: dict[str, tuple[Ask, list[State | str]]] = {
    "open": (
        make(),
        [State.ANSWERED, State.ANSWERED, State.DISMISSED, State.CANCELLED, "unchanged"],
    ),
    "overdue": (make(age=LIFE), ["refused"] * 4 + [State.EXPIRED]),
    "answered": (
        make(State.ANSWERED),
        ["unchanged", "refused", "refused", "refused", "unchanged"],
    ),
    "dismissed": (
        make(State.DISMISSED),
        ["refused", "refused", "unchanged", "refused", "unchanged"],
    ),
    "cancelled": (
        make(State.CANCELLED),
        ["refused", "refused", "refused", "unchanged", "unchanged"],
    ),
    "expired": (
        make(State.EXPIRED),
        ["refused", "refused", "refused", "refused", "unchanged"],
    ),
}
ROWS = [
    (ask, command, end)
    for ask, ends in TABLE.values()
    for command, end in zip(COMMANDS, ends, strict=True)
]


@pytest.mark.rule(303, 304)
@pytest.mark.parametrize(("ask", "command", "expected"), ROWS)
def test_table(ask: Ask, command: Command, expected: State | str) -> None:
    """Each command in each standing ends as the table says; a change leaves one fact."""
    outcome = decide(ask, command, NOW, via="browser")
    match expected:
        case "refused":
            assert isinstance(outcome, Refused)
            assert outcome.code == "ask_state"
            assert outcome.facts["state"] == standing(ask, NOW).value
        case "unchanged":
            assert outcome == Unchanged(row=ask)
        case _:
            assert isinstance(outcome, Changed)
            assert outcome.row.state is expected
            (fact,) = outcome.facts
            assert (fact.action, fact.subject) == (f"ask.{outcome.row.state.value}", "ask:1")


def test_an_answer_is_kept_with_its_door() -> None:
    """The words and the door of an answer are kept; no other ending has either."""
    answered = decide(make(), YES, NOW, via="browser")
    assert isinstance(answered, Changed)
    assert (answered.row.answer, answered.row.answered_via) == ("yes", "browser")
    assert answered.row.ended_at == NOW
    dismissed = decide(make(), Dismiss(ask_id=1), NOW, via="browser")
    assert isinstance(dismissed, Changed)
    assert (dismissed.row.answer, dismissed.row.answered_via) == (None, None)


def test_long_words_of_a_chat_answer_without_being_kept() -> None:
    """Words of a chat may be longer than an answer: then the ask knows that they were said."""
    for text, kept in (("é" * 2048, True), ("é" * 2048 + "x", False)):
        outcome = decide(make(), Answer(ask_id=1, text=text), NOW, via="chat")
        assert isinstance(outcome, Changed)
        assert outcome.row.state is State.ANSWERED
        assert (outcome.row.answer is not None) is kept


def test_an_expiry_is_dated_by_the_clock_and_not_by_the_sweep() -> None:
    """However late the sweep comes, an ask ended when its day was over."""
    late = make(age=LIFE + timedelta(hours=5))
    outcome = decide(late, Expire(ask_id=1), NOW, via="muster")
    assert isinstance(outcome, Changed)
    assert outcome.row.ended_at == late.expires_at


class Life(RuleBasedStateMachine):
    """One ask under every sequence of commands and waits."""

    def __init__(self) -> None:
        super().__init__()
        self.ask = make(age=timedelta(0))
        self.now = NOW
        self.ended: Ask | None = None

    @rule(wait=st.sampled_from([SECOND, timedelta(hours=23), LIFE]))
    def pass_time(self, wait: timedelta) -> None:
        """The clock goes on."""
        self.now += wait

    @rule(command=st.sampled_from(COMMANDS))
    def decide(self, command: Command) -> None:
        """Somebody commands."""
        was_over = self.now >= self.ask.expires_at
        outcome = decide(self.ask, command, self.now, via="cli")
        if isinstance(outcome, Changed):
            assert self.ended is None, "ended twice"
            assert isinstance(command, Expire) is was_over
            self.ask = self.ended = outcome.row

    @invariant()
    def keeps_the_database_rules(self) -> None:
        """No row breaks what the schema's constraints say, and what ended stays."""
        row = self.ask
        assert (row.ended_at is not None) == (row.state is not State.OPEN)
        assert (row.answered_via is not None) == (row.state is State.ANSWERED)
        assert self.ended is None or row == self.ended
        assert row.ended_at is None or row.ended_at <= row.expires_at


def test_no_sequence_ends_an_ask_twice() -> None:
    """However an ask is answered, dismissed, cancelled and swept, it ends once, within its day."""
    run_state_machine_as_test(Life)


ASK = AskOwner(asked_by=AskedBy.AGENT, question="Noon?")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"question": ""}, "question"),
        ({"question": " \n"}, "question"),
        ({"question": "x" * 2001}, "question"),
        ({"question": "a\0b"}, "question"),
        ({"question": "\ud800"}, "question"),
        ({"answers": ("a", "b", "c", "d", "e")}, "answers"),
        ({"answers": ("",)}, "answers"),
        ({"answers": ("x" * 81,)}, "answers"),
        ({"answers": ("a\nb",)}, "answers"),
        ({"answers": ("yes", "yes")}, "answers"),
    ],
)
def test_what_cannot_be_asked(fields: dict[str, object], field: str) -> None:
    """A question has 1 to 2,000 characters; there are at most 4 answers of one line, 80 each."""
    check_ask(attrs.evolve(ASK, question="é\n" * 1000, answers=("é" * 80, "b", "c", "d")))
    with pytest.raises(Invalid) as refusal:
        check_ask(attrs.evolve(ASK, **fields))  # type: ignore[arg-type]
    assert refusal.value.field == field


@pytest.mark.parametrize("text", ["", " \n", "é" * 2049, "a\0b", "\ud800"])
def test_what_is_no_answer(text: str) -> None:
    """An answer is 1 to 4,096 bytes that say something."""
    check_answer("é" * 2048)
    with pytest.raises(Invalid) as refusal:
        check_answer(text)
    assert refusal.value.field == "answer"


@pytest.mark.rule(304)
def test_places() -> None:
    """The fiftieth ask has a place, the next one has none."""
    check_places(49)
    with pytest.raises(Refused) as refusal:
        check_places(50)
    assert refusal.value.code == "too_many_asks"
