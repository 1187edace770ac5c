"""The pure rules of messages: the table and the machine."""

from datetime import UTC, datetime, timedelta

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from muster.errors import Refused
from muster.messages.rules import (
    Begin,
    Command,
    Complete,
    Fail,
    Message,
    PutBack,
    Recover,
    Retry,
    Settle,
    State,
    decide,
)
from muster.outcomes import Changed, HintKind, Unchanged
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
SETTLE = Settle(reason="a notice")
TABLE: dict[State, dict[Command, State | str]] = {
    State.QUEUED: {
        BEGIN: State.DELIVERING,
        Complete(epoch=3): "refused",
        Fail(epoch=3): "refused",
        PutBack(epoch=3): "refused",
        Recover(): "refused",
        Retry(): "refused",
        SETTLE: "refused",
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
        Retry(): "refused",
        SETTLE: State.DELIVERING,
    },
    State.DELIVERED: {
        BEGIN: "refused",
        Complete(epoch=3): "unchanged",
        Complete(epoch=2): "refused",
        Fail(epoch=3): "refused",
        PutBack(epoch=3): "refused",
        Recover(): "refused",
        Retry(): "refused",
        SETTLE: State.DELIVERED,
    },
    State.UNCONFIRMED: {
        BEGIN: "refused",
        Complete(epoch=3): "refused",
        Fail(epoch=3): "unchanged",
        Fail(epoch=2): "refused",
        PutBack(epoch=3): "refused",
        Recover(): "refused",
        Retry(): State.QUEUED,
        SETTLE: "refused",
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


@pytest.mark.rule(227, 228)
def test_a_retry_queues_it_anew_and_is_counted() -> None:
    """A retried message names no chief, keeps its attempts, and leaves plugin.retried."""
    outcome = decide(make(State.UNCONFIRMED), Retry(), NOW)
    assert isinstance(outcome, Changed)
    row = outcome.row
    assert (row.agent_id, row.epoch, row.delivering_at, row.settled_at) == (None,) * 4
    assert (row.attempts, row.retries) == (1, 1)
    (fact,) = outcome.facts
    assert (fact.action, fact.subject) == ("plugin.retried", "message:1")
    assert fact.data == {"retry": 1, "attempts": 1, "agent_id": 7}
    assert [(hint.kind, hint.id) for hint in outcome.hints] == [(HintKind.MESSAGE_QUEUED, 1)]


@pytest.mark.rule(295)
def test_a_second_settle_keeps_the_first_reason() -> None:
    """A settle notes its reason once; what comes after it changes nothing, a retry's turn too."""
    settled = decide(make(State.DELIVERING), SETTLE, NOW)
    assert isinstance(settled, Changed)
    (fact,) = settled.facts
    assert (fact.action, fact.data) == ("plugin.message.settled", {"reason": "a notice"})
    assert (settled.row.settle_reason, settled.row.dispositioned_at) == ("a notice", NOW)
    again = decide(settled.row, Settle(reason="another"), NOW + SECOND)
    assert again == Unchanged(row=settled.row)
    answered = decide(make(State.DELIVERED), Settle(reason="no", ask_id=5), NOW)
    assert isinstance(answered, Changed)
    assert answered.facts[0].data == {"reason": "no", "ask_id": 5}


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
        self.settled: State | None = None
        self.reason: str | None = None

    def apply(self, command: Command) -> None:
        """Decide, and keep what was decided."""
        self.now += SECOND
        outcome = decide(self.message, command, self.now)
        if isinstance(outcome, Changed):
            self.message = outcome.row
            match command:
                case Begin(epoch=epoch):
                    self.begun.append(epoch)
                case Retry():
                    assert self.settled is not None
                    self.settled = None
                case Settle(reason=reason):
                    assert self.reason is None, "a reason was replaced"
                    self.reason = reason
                case _ if outcome.facts:
                    assert self.settled is None, "settled twice"
                    self.settled = outcome.row.state
                case _:
                    pass

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

    @rule()
    def retry(self) -> None:
        """The owner has it handed over again."""
        self.apply(Retry())

    @rule(reason=st.sampled_from(["a notice", "dealt with"]))
    def dispose(self, reason: str) -> None:
        """The chief says that it needs nothing more."""
        self.apply(Settle(reason=reason))

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
        """What is settled stays as it was settled, until its owner retries it."""
        if self.settled is not None:
            assert self.message.state is self.settled
            assert self.message.settled_at is not None
        assert self.message.settle_reason == self.reason


@pytest.mark.rule(74, 218)
def test_no_sequence_settles_a_message_twice() -> None:
    """However chiefs connect, answer late and stop, a message is settled once for each retry."""
    run_state_machine_as_test(Deliveries)
