"""The machine of turns, as a table and as Hypothesis drives it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from muster.chief.turns import WORDS_BYTES_MAX, Begin, By, Command, State, Turn, check, decide, said
from muster.errors import Invalid, Refused
from muster.messages.rules import Complete, Fail, PutBack, Recover
from muster.outcomes import Changed, Hint, HintKind, Unchanged
from muster.token_use import TokenUse

NOW = datetime(2000, 1, 2, tzinfo=UTC)
WAITING = Turn(
    id=5,
    owner_id=1,
    conversation_id=8,
    agent_id=31,
    message_id=None,
    words="hello",
    said_by=By.OWNER,
    ask_id=None,
    state=State.QUEUED,
    attempt=0,
    epoch=None,
    created_at=NOW,
    begun_at=None,
    ended_at=None,
)
RUNNING = attrs.evolve(WAITING, state=State.DELIVERING, attempt=1, epoch=3, begun_at=NOW)
SAID = attrs.evolve(RUNNING, state=State.DELIVERED, ended_at=NOW)
CUT_OFF = attrs.evolve(RUNNING, state=State.UNCONFIRMED, ended_at=NOW)
OF_MESSAGE: dict[str, Any] = {"message_id": 42, "words": None, "said_by": None}
HINT = Hint(kind=HintKind.CONVERSATION_CHANGED, owner_id=1, id=8)
USAGE = TokenUse(model="m", calls=1, input_tokens=2, cached_input_tokens=0, output_tokens=3)

BEGIN, COMPLETE, FAIL, BACK = Begin(epoch=3), Complete(epoch=3), Fail(epoch=3), PutBack(epoch=3)
NOTE = attrs.evolve(WAITING, state=State.NOTED, said_by=By.MUSTER, ended_at=NOW)
STATES = {turn.state: turn for turn in (WAITING, RUNNING, SAID, CUT_OFF, NOTE)}
COMMANDS: tuple[Command, ...] = (BEGIN, COMPLETE, FAIL, BACK, Recover())
ALLOWED = {
    (State.QUEUED, Begin): State.DELIVERING,
    (State.DELIVERING, Complete): State.DELIVERED,
    (State.DELIVERING, Fail): State.UNCONFIRMED,
    (State.DELIVERING, PutBack): State.QUEUED,
    (State.DELIVERING, Recover): State.UNCONFIRMED,
}
REPEATED = {(State.DELIVERED, Complete), (State.UNCONFIRMED, Fail)}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_each_command_in_each_state(state: State, command: Command) -> None:
    """Each pair of a state and a command moves, repeats or is refused, as the table says."""
    outcome = decide(STATES[state], command, NOW)
    move = (state, type(command))
    if move in ALLOWED:
        assert isinstance(outcome, Changed)
        assert outcome.row.state is ALLOWED[move]
    elif move in REPEATED:
        assert outcome == Unchanged(row=STATES[state])
    else:
        assert isinstance(outcome, Refused)
        assert outcome.code == "turn_state"


@pytest.mark.parametrize("command", [Complete(epoch=2), Fail(epoch=4), PutBack(epoch=2)])
@pytest.mark.parametrize("turn", [RUNNING, SAID, CUT_OFF])
def test_another_connections_word_changes_nothing(turn: Turn, command: Command) -> None:
    """An answer of an older or newer connection is refused in every state."""
    assert isinstance(decide(turn, command, NOW), Refused)


def test_words_that_are_put_back_are_as_if_never_begun() -> None:
    """They wait again and name no connection; that they were begun is counted."""
    outcome = decide(RUNNING, BACK, NOW)
    assert isinstance(outcome, Changed)
    assert outcome.row == attrs.evolve(WAITING, attempt=1)
    assert (outcome.facts, outcome.hints) == ((), (HINT,))


def test_a_messages_turn_is_never_put_back() -> None:
    """Nothing was sent of it, so it was none: the message waits, and no turn of it."""
    assert isinstance(decide(attrs.evolve(RUNNING, **OF_MESSAGE), BACK, NOW), Refused)


@pytest.mark.parametrize(
    ("command", "more"),
    [
        (Complete(epoch=3, usage=USAGE), {"state": "delivered", "usage": attrs.asdict(USAGE)}),
        (COMPLETE, {"state": "delivered"}),
        (FAIL, {"state": "unconfirmed"}),
        (Recover(), {"state": "unconfirmed", "recovered": True}),
    ],
)
def test_words_leave_a_fact_of_how_they_ended(command: Command, more: dict[str, object]) -> None:
    """The fact is about the conversation and names the turn; a message's turn has none."""
    outcome = decide(RUNNING, command, NOW + timedelta(seconds=1))
    assert isinstance(outcome, Changed)
    (fact,) = outcome.facts
    assert (fact.action, fact.subject) == ("conversation.delivered", "conversation:8")
    assert fact.data == {"turn_id": 5, "attempts": 1, "agent_id": 31} | more
    assert outcome.row.ended_at == NOW + timedelta(seconds=1)
    silent = decide(attrs.evolve(RUNNING, **OF_MESSAGE), command, NOW)
    assert isinstance(silent, Changed)
    assert (silent.facts, silent.hints) == ((), (HINT,))


def test_the_fact_of_words_quotes_nothing() -> None:
    """That something was said is recorded with its size alone."""
    fact = said(5, 8, By.ASK, "é, secret")
    assert fact.data == {"turn_id": 5, "by": "ask", "bytes": 10}
    assert fact.subject == "conversation:8"


def test_time_never_runs_backwards() -> None:
    """A clock that was set back ends no turn before it began."""
    outcome = decide(RUNNING, COMPLETE, NOW - timedelta(hours=1))
    assert isinstance(outcome, Changed)
    assert outcome.row.ended_at == RUNNING.begun_at


@pytest.mark.parametrize("words", ["x", "é" * (WORDS_BYTES_MAX // 2), " a "])
def test_words_up_to_the_limit_pass(words: str) -> None:
    """One byte to 16 KiB of UTF-8 can be said."""
    check(words)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("", "invalid"),
        (" \n\t", "invalid"),
        ("a\0b", "invalid"),
        ("\ud800", "invalid"),
        ("é" * (WORDS_BYTES_MAX // 2) + "x", "words_too_long"),
    ],
)
def test_words_that_cannot_be_said(words: str, code: str) -> None:
    """Nothing, blanks, what cannot be stored and what is too long are refused, never cut."""
    with pytest.raises(Invalid) as caught:
        check(words)
    assert (caught.value.code, caught.value.field) == (code, "text")


class TurnLife(RuleBasedStateMachine):
    """Words among commands of any epoch: once begun and not put back, they are never begun again.

    A model of what an agent may have seen stands beside the machine.
    """

    @initialize()
    def begin_life(self) -> None:
        """Words wait."""
        self.turn = WAITING
        self.facts = 0
        self.written = 0

    @rule(
        command=st.one_of(
            st.builds(Begin, epoch=st.integers(1, 3)),
            st.builds(Complete, epoch=st.integers(1, 3)),
            st.builds(Fail, epoch=st.integers(1, 3)),
            st.builds(PutBack, epoch=st.integers(1, 3)),
            st.just(Recover()),
        )
    )
    def command(self, command: Command) -> None:
        """Apply a command; what is refused or repeated changes nothing."""
        outcome = decide(self.turn, command, NOW)
        if not isinstance(outcome, Changed):
            return
        if isinstance(command, Begin):
            self.written += 1
        if isinstance(command, PutBack):
            self.written -= 1
        self.turn = outcome.row
        self.facts += len(outcome.facts)

    @invariant()
    def at_most_once(self) -> None:
        """At most one turn may have reached the agent, and its end is told once."""
        assert self.written == (self.turn.state is not State.QUEUED)
        assert self.facts == (self.turn.ended_at is not None)
        assert (self.turn.epoch is None) == (self.turn.state is State.QUEUED)
        assert self.turn.words == WAITING.words


TestTurnLife = TurnLife.TestCase
TestTurnLife.settings = settings(max_examples=50, stateful_step_count=20)
