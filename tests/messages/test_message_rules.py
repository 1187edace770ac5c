"""The pure rules of messages: the table, the machine, the fields, the allowance."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from muster.errors import Invalid, Refused, TooMany
from muster.messages.rules import (
    Begin,
    Command,
    Complete,
    Fail,
    Message,
    Post,
    PutBack,
    Recover,
    State,
    check,
    check_allowance,
    decide,
)
from muster.outcomes import Changed, Unchanged
from muster.token_use import TokenUse

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
SECOND = timedelta(seconds=1)
USE = TokenUse(model="m", calls=1, input_tokens=9, cached_input_tokens=0, output_tokens=3)


def make(state: State = State.QUEUED) -> Message:
    """A message in a state; what was handed over was handed to agent 7 on connection 3."""
    handed = state is not State.QUEUED
    settled = state in (State.DELIVERED, State.UNCONFIRMED)
    return Message(
        id=1,
        owner_id=2,
        plugin_id=3,
        external_id="msg-1",
        sender=None,
        subject=None,
        body="hello",
        received_at=None,
        no_reply=False,
        sender_verified=False,
        thread=None,
        human_conversation=False,
        created_at=NOW - timedelta(minutes=1),
        state=state,
        agent_id=7 if handed else None,
        epoch=3 if handed else None,
        attempts=1 if handed else 0,
        delivering_at=NOW - SECOND if handed else None,
        settled_at=NOW if settled else None,
    )


BEGIN = Begin(agent_id=7, epoch=3)
TABLE: dict[State, dict[Command, State | str]] = {
    State.QUEUED: {
        BEGIN: State.DELIVERING,
        Complete(epoch=3): "refused",
        Fail(epoch=3): "refused",
        PutBack(epoch=3): "refused",
        Recover(): "refused",
    },
    State.DELIVERING: {
        BEGIN: "refused",
        Complete(epoch=3): State.DELIVERED,
        Complete(epoch=2): "refused",
        Fail(epoch=3): State.UNCONFIRMED,
        Fail(epoch=2): "refused",
        PutBack(epoch=3): State.QUEUED,
        PutBack(epoch=4): "refused",
        Recover(): State.UNCONFIRMED,
    },
    State.DELIVERED: {
        BEGIN: "refused",
        Complete(epoch=3): "unchanged",
        Complete(epoch=2): "refused",
        Fail(epoch=3): "refused",
        PutBack(epoch=3): "refused",
        Recover(): "refused",
    },
    State.UNCONFIRMED: {
        BEGIN: "refused",
        Complete(epoch=3): "refused",
        Fail(epoch=3): "unchanged",
        Fail(epoch=2): "refused",
        PutBack(epoch=3): "refused",
        Recover(): "refused",
    },
}
ROWS = [(state, command, end) for state, row in TABLE.items() for command, end in row.items()]


@pytest.mark.rule(74, 217, 218, 220, 221)
@pytest.mark.parametrize(("state", "command", "expected"), ROWS)
def test_table(state: State, command: Command, expected: State | str) -> None:
    """Each command in each state ends as the table says, and a refusal names no new row."""
    outcome = decide(make(state), command, NOW)
    match expected:
        case "refused":
            assert isinstance(outcome, Refused)
        case "unchanged":
            assert outcome == Unchanged(row=make(state))
        case _:
            assert isinstance(outcome, Changed)
            assert outcome.row.state is expected


def test_begin_names_the_chief_and_put_back_forgets_it() -> None:
    """A message names the chief from the turn's begin on, and none once it is queued again."""
    begun = decide(make(), BEGIN, NOW)
    assert isinstance(begun, Changed)
    assert (begun.row.agent_id, begun.row.epoch, begun.row.delivering_at) == (7, 3, NOW)
    assert begun.row.attempts == 1
    assert begun.facts == ()
    back = decide(begun.row, PutBack(epoch=3), NOW)
    assert isinstance(back, Changed)
    assert (back.row.agent_id, back.row.epoch, back.row.delivering_at) == (None, None, None)
    assert back.facts == ()
    assert back.row.attempts == 1


@pytest.mark.rule(223)
@pytest.mark.parametrize(
    ("command", "data"),
    [
        (Complete(epoch=3), {"state": "delivered"}),
        (Fail(epoch=3), {"state": "unconfirmed"}),
        (Complete(epoch=3, usage=USE), {"state": "delivered", "usage": attrs.asdict(USE)}),
        (Fail(epoch=3, usage=USE), {"state": "unconfirmed", "usage": attrs.asdict(USE)}),
        (Recover(), {"state": "unconfirmed", "recovered": True}),
    ],
)
def test_settling_leaves_plugin_delivered(command: Command, data: dict[str, object]) -> None:
    """A settled delivery leaves plugin.delivered, recovered when nobody answered for the turn."""
    outcome = decide(make(State.DELIVERING), command, NOW)
    assert isinstance(outcome, Changed)
    (fact,) = outcome.facts
    assert (fact.action, fact.subject) == ("plugin.delivered", "message:1")
    assert fact.data == data | {"attempts": 1, "agent_id": 7}
    assert outcome.row.settled_at == NOW


def test_time_never_runs_back() -> None:
    """A decision by an older clock takes the row's own time."""
    message = make(State.DELIVERING)
    outcome = decide(message, Complete(epoch=3), NOW - timedelta(hours=1))
    assert isinstance(outcome, Changed)
    assert outcome.row.settled_at == message.delivering_at


@pytest.mark.rule(35)
def test_status_while_delivering() -> None:
    """A plugin is told queued, delivered or unconfirmed; delivering is still queued to it."""
    told = {state.value: make(state).status for state in State}
    assert told == {
        "queued": "queued",
        "delivering": "queued",
        "delivered": "delivered",
        "unconfirmed": "unconfirmed",
    }


class Deliveries(RuleBasedStateMachine):
    """One message, chiefs that connect anew, answers that come late or never."""

    def __init__(self) -> None:
        super().__init__()
        self.message = make()
        self.now = NOW
        self.epoch = 0
        self.begun: list[int] = []
        self.settled: Message | None = None

    def apply(self, command: Command) -> None:
        """Decide, and keep what was decided."""
        self.now += SECOND
        outcome = decide(self.message, command, self.now)
        if isinstance(outcome, Changed):
            self.message = outcome.row
            if outcome.facts:
                assert self.settled is None, "settled twice"
                self.settled = outcome.row
            if isinstance(command, Begin):
                self.begun.append(command.epoch)

    @rule()
    def connect_and_begin(self) -> None:
        """A new connection is handed the message."""
        self.epoch += 1
        self.apply(Begin(agent_id=7, epoch=self.epoch))

    @precondition(lambda self: self.epoch)
    @rule(back=st.integers(0, 3), kind=st.sampled_from([Complete, Fail, PutBack]))
    def answer(self, back: int, kind: type[Complete | Fail | PutBack]) -> None:
        """A connection answers, perhaps one of long ago."""
        self.apply(kind(epoch=max(1, self.epoch - back)))

    @rule()
    def recover(self) -> None:
        """The next delivery settles what was left."""
        self.apply(Recover())

    @invariant()
    def names_its_chief(self) -> None:
        """A message names a connection unless it is queued, and then it is the last one begun."""
        if self.message.state is State.QUEUED:
            assert self.message.agent_id is None
        else:
            assert self.message.epoch == self.begun[-1]
        assert self.message.attempts == len(self.begun)

    @invariant()
    def settled_once(self) -> None:
        """What is settled stays as it was settled."""
        if self.settled is not None:
            assert self.message == self.settled


@pytest.mark.rule(74, 218)
def test_no_sequence_settles_a_message_twice() -> None:
    """However chiefs connect, answer late and stop, a message is settled once."""
    run_state_machine_as_test(Deliveries)


POST = Post(external_id="msg-1", body="hello")
WIDE = "\U0001f600"  # 4 bytes, 1 character

GOOD: list[dict[str, Any]] = [
    {"external_id": "x"},
    {"external_id": "x" * 200},
    {"external_id": WIDE * 50},
    {"external_id": "<a.b+c@example.test>"},
    {"body": "x"},
    {"body": "x" * 16384},
    {"body": WIDE * 4096},
    {"body": " \n\t\x01"},
    {"sender": "", "subject": ""},
    {"sender": WIDE * 200, "subject": WIDE * 200},
    {"sender": "with space\nand line"},
    {"thread": "t" * 200},
    {"received_at": NOW},
    {"received_at": datetime(1, 1, 1, tzinfo=UTC)},
    {"received_at": NOW.astimezone(timezone(timedelta(hours=-11)))},
]
BAD: list[tuple[str, Any]] = [
    ("external_id", ""),
    ("external_id", "x" * 201),
    ("external_id", WIDE * 50 + "x"),
    *(("external_id", f"a{space}b") for space in " \t\n\r\x0b\x0c\x85\xa0\u1680\u2003\u2028\u3000"),
    *(("external_id", f"a{control}b") for control in "\0\x01\x1c\x1f\x7f\x80\x9f"),
    ("external_id", "\ud800"),
    ("body", ""),
    ("body", "x" * 16385),
    ("body", WIDE * 4096 + "x"),
    ("body", "a\0b"),
    ("body", "\udfff"),
    ("sender", "x" * 201),
    ("sender", "\0"),
    ("sender", "\ud800"),
    ("subject", "x" * 201),
    ("subject", "\0"),
    ("thread", ""),
    ("thread", "t" * 201),
    ("thread", "a b"),
    ("thread", "a\u2029b"),
    ("received_at", NOW.replace(tzinfo=None)),
    ("received_at", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
    ("received_at", datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2)))),
]


@pytest.mark.rule(23, 25, 26, 27, 28, 31)
@pytest.mark.parametrize("fields", GOOD)
def test_fields_at_their_edge_pass(fields: dict[str, Any]) -> None:
    """What just keeps a field's rule is taken."""
    check(attrs.evolve(POST, **fields))


@pytest.mark.rule(23, 25, 26, 27, 28, 31, 36, 44)
@pytest.mark.parametrize(("field", "value"), BAD)
def test_fields_past_their_edge_are_refused(field: str, value: Any) -> None:
    """What just breaks a field's rule is refused by the field's name, and never cut."""
    with pytest.raises(Invalid) as refusal:
        check(attrs.evolve(POST, **{field: value}))
    assert refusal.value.field == field


@given(st.text(max_size=60))
def test_identifiers_have_no_spaces_or_controls(text: str) -> None:
    """An id passes just when it has 1 to 200 bytes, no white space and no control."""
    fits = 1 <= len(text.encode()) <= 200
    clean = not any(c.isspace() or ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in text)
    try:
        check(attrs.evolve(POST, external_id=text))
    except Invalid:
        assert not (fits and clean)
    else:
        assert fits
        assert clean


@pytest.mark.rule(37, 38, 39)
@given(
    undelivered=st.integers(0, 200),
    age=st.none() | st.timedeltas(timedelta(seconds=-5), timedelta(hours=2)),
)
@example(undelivered=0, age=timedelta(hours=1))
@example(undelivered=0, age=timedelta(minutes=59))
def test_allowance(undelivered: int, age: timedelta | None) -> None:
    """Both limits hold, and after the seconds that a full hour names, not before, it is open."""
    at = None if age is None else NOW - age
    try:
        check_allowance(undelivered, at, NOW)
    except TooMany as full:
        wait = full.retry_after_seconds
        if undelivered == 200:
            assert wait >= 60
        else:
            assert at is not None
            check_allowance(undelivered, at, NOW + wait * SECOND)
            with pytest.raises(TooMany):
                check_allowance(undelivered, at, NOW + (wait - 1) * SECOND)
    else:
        assert undelivered < 200
        assert at is None or at + timedelta(hours=1) <= NOW
