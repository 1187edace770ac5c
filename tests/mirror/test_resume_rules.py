"""The machine of resumes: every state with every command, and what a host's answers prove."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import Refused
from muster.mirror.resuming import (
    ASK_FOR,
    MOVES,
    OPEN,
    WINDOW_FOR,
    Ask,
    Cause,
    Command,
    Denied,
    Follow,
    Gate,
    GiveUp,
    Lapse,
    Refuse,
    Resume,
    Route,
    Started,
    State,
    decide,
    follow,
    goes_on,
    is_lapsed,
    why_not,
)
from muster.outcomes import Changed

T = datetime(2026, 3, 1, 10, tzinfo=UTC)
NEW = Resume(
    id=1,
    owner_id=2,
    message_id=3,
    sender="example/gate",
    claude_session="c0ffee00-0000-4000-8000-000000000001",
    cause=Cause.THREAD,
    routed_via="thread t started by c0ffee00",
    wanted_host_id=None,
    joined_id=None,
    state=State.WANTED,
    created_at=T,
    asked=[],
    host_id=None,
    epoch=None,
    asked_at=None,
    started_at=None,
    tmux_window=None,
    waits_until=None,
    route_id=None,
    ended_at=None,
    why=None,
)
LATER = T + timedelta(seconds=5)
ASK = Ask(host_id=7, epoch=1)
STARTED = Started(host_id=7, window="@4")
DENIED = Denied(host_id=7, why="There is no transcript.")
COMMANDS: tuple[Command, ...] = (
    ASK,
    STARTED,
    DENIED,
    Lapse(),
    Follow(until=T),
    Route(route_id=9),
    Refuse(why="no"),
    GiveUp(why="late"),
)


def moved(*commands: Command, start: Resume = NEW, now: datetime = LATER) -> Resume:
    """The row after these commands, each of which must be accepted."""
    row = start
    for command in commands:
        outcome = decide(row, command, now)
        assert isinstance(outcome, Changed), outcome
        row = outcome.row
    return row


ROWS = {
    State.WANTED: NEW,
    State.ASKING: moved(ASK),
    State.WAITING: moved(ASK, Lapse()),
    State.ROUTED: moved(ASK, STARTED, Route(route_id=9)),
    State.REFUSED: moved(Refuse(why="no")),
    State.TIMED_OUT: moved(GiveUp(why="late")),
}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: type(one).__name__)
def test_the_table_is_the_machine(state: State, command: Command) -> None:
    """A command that the table has moves the row there, and any other is refused."""
    outcome = decide(ROWS[state], command, LATER)
    target = MOVES.get((state, type(command)))
    if target is None or (state is State.WAITING and isinstance(command, Ask)):
        assert isinstance(outcome, Refused)
    else:
        assert isinstance(outcome, Changed)
        assert outcome.row.state is target
        assert (outcome.row.ended_at is None) == (target in OPEN)


@pytest.mark.rule(384)
def test_a_host_is_asked_once_and_a_denial_leads_to_the_next() -> None:
    """The same host is not asked again; another one is."""
    denied = moved(ASK, DENIED)
    assert (denied.state, denied.why, denied.asked) == (State.WANTED, DENIED.why, [7])
    assert isinstance(decide(denied, ASK, LATER), Refused)
    assert moved(Ask(host_id=8, epoch=1), start=denied).asked == [7, 8]


@pytest.mark.rule(384)
def test_silence_may_have_started_a_window_and_a_late_answer_proves() -> None:
    """After a lapse it counts as started; the host's late denial takes that back."""
    asked = moved(ASK)
    assert not is_lapsed(asked, LATER + ASK_FOR - timedelta(seconds=1))
    assert is_lapsed(asked, LATER + ASK_FOR)
    lapsed = moved(Lapse(), start=asked, now=LATER + ASK_FOR)
    assert lapsed.started_at == LATER
    assert lapsed.waits_until == LATER + ASK_FOR + WINDOW_FOR
    denied = moved(DENIED, start=lapsed)
    assert (denied.state, denied.started_at, denied.waits_until) == (State.WANTED, None, None)
    started = moved(STARTED, start=lapsed, now=LATER + ASK_FOR + timedelta(seconds=9))
    assert started.waits_until == lapsed.waits_until
    assert (started.started_at, started.tmux_window) == (LATER, "@4")
    assert isinstance(decide(started, DENIED, LATER), Refused)


@pytest.mark.rule(385)
@pytest.mark.parametrize("end", [Refuse(why="no"), GiveUp(why="late")])
def test_what_ends_while_a_host_is_asked_may_have_started_a_window(end: Command) -> None:
    """It counts as a start of the session and of the host; what nobody was asked for does not."""
    assert moved(ASK, end).started_at == LATER
    assert moved(ASK, DENIED, end).started_at is None
    assert moved(end).started_at is None


def test_only_the_host_that_was_asked_last_answers() -> None:
    """What another host says changes nothing."""
    asked = moved(ASK)
    for answer in (attrs.evolve(STARTED, host_id=8), attrs.evolve(DENIED, host_id=8)):
        assert isinstance(decide(asked, answer, LATER), Refused)


@pytest.mark.rule(392)
def test_a_message_that_joined_waits_for_the_others_window() -> None:
    """It asks nobody, waits while the host is asked, and ends as the other does."""
    joined = attrs.evolve(NEW, id=2, message_id=4, joined_id=1)
    assert isinstance(decide(joined, ASK, LATER), Refused)
    assert follow(joined, NEW, LATER) is None
    assert follow(joined, ROWS[State.ASKING], LATER) is None
    waiting = moved(ASK, STARTED)
    assert waiting.waits_until is not None
    assert follow(joined, waiting, LATER) == Follow(until=waiting.waits_until)
    assert isinstance(follow(joined, ROWS[State.ROUTED], LATER), Follow)
    assert follow(joined, ROWS[State.REFUSED], LATER) == Refuse(why="no")
    assert follow(joined, ROWS[State.TIMED_OUT], LATER) == GiveUp(why="late")


@pytest.mark.rule(392)
@pytest.mark.parametrize("state", State)
def test_a_resume_goes_on_while_its_window_may_still_come(state: State) -> None:
    """While a host is to be asked or was, and until the wait for its window is over."""
    leader = ROWS[state]
    assert goes_on(leader, LATER) == (state in OPEN)
    late = LATER + WINDOW_FOR
    assert goes_on(leader, late) == (state in {State.WANTED, State.ASKING})


@pytest.mark.rule(383, 384, 385)
@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        ({}, True),
        ({"is_shown": True}, False),
        ({"hosts": 0}, False),
        ({"session_starts": 1}, True),
        ({"session_starts": 2}, False),
    ],
)
def test_the_gate(change: dict[str, Any], allowed: bool) -> None:
    """No window, a host that offers, and fewer than two starts of the session in an hour."""
    gate = attrs.evolve(Gate(is_shown=False, hosts=1, session_starts=0), **change)
    assert (why_not(gate) is None) == allowed


@given(st.lists(st.sampled_from(COMMANDS), max_size=12))
def test_whatever_comes_the_row_is_one_that_the_database_takes(commands: list[Command]) -> None:
    """The constraints of the table hold after any sequence of commands."""
    row = NEW
    for command in commands:
        outcome = decide(row, command, LATER)
        if isinstance(outcome, Changed):
            row = outcome.row
    assert (row.host_id is None) == (row.asked_at is None) == (row.epoch is None)
    assert row.state is not State.ASKING or row.host_id is not None
    assert row.started_at is None or row.host_id is not None
    assert row.state is not State.WAITING or row.waits_until is not None
    assert (row.state is State.ROUTED) == (row.route_id is not None)
    assert (row.ended_at is not None) == (row.state not in OPEN)
    assert row.state not in {State.REFUSED, State.TIMED_OUT} or row.why is not None
