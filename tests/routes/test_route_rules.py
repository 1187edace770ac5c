"""The pure table of routes: each command in each state, exact times, what is recorded."""

from datetime import UTC, datetime, timedelta

import attrs
import pytest

from muster.errors import Refused
from muster.outcomes import Changed, HintKind, Unchanged
from muster.routes.rules import (
    RELAY_AGAIN,
    WHY_CHARACTERS_MAX,
    Answer,
    By,
    Command,
    Fail,
    GiveBack,
    HandBack,
    OwnerReplied,
    Relay,
    Route,
    State,
    TimeOut,
    Wait,
    decide,
    routed,
)

NOW = datetime(2030, 1, 9, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)
HALF_HOUR = timedelta(minutes=30)

ROUTED = Route(
    id=3,
    owner_id=2,
    message_id=42,
    agent_id=4,
    mirrored_id=5,
    claude_session="11111111-2222-4333-8444-555555555555",
    routed_by=By.CHIEF,
    routed_via=None,
    state=State.ROUTED,
    created_at=NOW - HALF_HOUR,
    deadline_at=NOW,
    answer=None,
    answered_at=None,
    answered_via=None,
    relay_due_at=None,
    owner_replied_at=None,
    ended_at=None,
    why=None,
    handback=HandBack.NONE,
    handed_back_at=None,
)
ANSWERED = attrs.evolve(
    ROUTED,
    state=State.ANSWERED,
    answer="yes",
    answered_at=NOW,
    answered_via="mcp",
    relay_due_at=NOW,
)
ENDED = attrs.evolve(ANSWERED, relay_due_at=None, ended_at=NOW)
ROUTES = {
    State.ROUTED: ROUTED,
    State.ANSWERED: ANSWERED,
    State.RELAYED: attrs.evolve(ENDED, state=State.RELAYED),
    State.FALLBACK: attrs.evolve(ENDED, state=State.FALLBACK),
    State.TIMED_OUT: attrs.evolve(
        ROUTED, state=State.TIMED_OUT, ended_at=NOW, why="late", handback=HandBack.OWED
    ),
    State.FAILED: attrs.evolve(
        ENDED, state=State.FAILED, why="20 drafts", handback=HandBack.DELIVERED, handed_back_at=NOW
    ),
    State.OWNER_ANSWERED: attrs.evolve(
        ROUTED, state=State.OWNER_ANSWERED, ended_at=NOW, owner_replied_at=NOW
    ),
}
COMMANDS: dict[str, Command] = {
    "answer": Answer(text="yes", via="api", repeats=True),
    "other answer": Answer(text="no", via="api", repeats=True),
    "session's answer": Answer(text="yes", via="mcp", repeats=False),
    "relay": Relay(draft_id=9, approved=True),
    "fall back": Relay(draft_id=9, approved=False),
    "wait": Wait(),
    "fail": Fail(why="its window is gone"),
    "time out": TimeOut(),
    "owner replied": OwnerReplied(),
    "give back": GiveBack(),
}
# In the order of ROUTES: routed, answered, relayed, fallback, timed_out, failed, owner_answered.
TABLE = {
    "answer": "answered = = = - - -",
    "other answer": "answered - - - - - -",
    "session's answer": "answered - - - - - -",
    "relay": "- relayed = = - - -",
    "fall back": "- fallback = = - - -",
    "wait": "- answered - - - - -",
    "fail": "failed failed - - - = -",
    "time out": "timed_out - - - = - -",
    "owner replied": "owner_answered - - - - - =",
    "give back": "= = = = timed_out = =",
}


@pytest.mark.rule(319, 321, 345)
@pytest.mark.parametrize("name", list(COMMANDS))
@pytest.mark.parametrize("state", list(ROUTES))
def test_each_command_in_each_state(name: str, state: State) -> None:
    """The table, cell by cell; what is refused names the route and its state."""
    outcome = decide(ROUTES[state], COMMANDS[name], NOW)
    match TABLE[name].split()[list(ROUTES).index(state)]:
        case "=":
            assert outcome == Unchanged(row=ROUTES[state])
        case "-":
            assert isinstance(outcome, Refused)
            assert outcome.facts == {"route_id": 3, "state": state.value}
        case becomes:
            assert isinstance(outcome, Changed)
            assert outcome.row.state is State(becomes)


def changed(route: Route, command: Command, now: datetime = NOW) -> Changed[Route]:
    """The outcome of what is not refused."""
    outcome = decide(route, command, now)
    assert isinstance(outcome, Changed)
    return outcome


@pytest.mark.rule(333)
def test_a_deadline_is_exact() -> None:
    """A microsecond before it nothing times out, and from it on an answer still counts."""
    assert decide(ROUTED, TimeOut(), NOW - TICK) == Unchanged(row=ROUTED)
    assert changed(ROUTED, TimeOut(), NOW).row.ended_at == NOW
    assert changed(ROUTED, COMMANDS["answer"], NOW + TICK).row.state is State.ANSWERED


@pytest.mark.rule(334)
def test_a_debt_is_written_down_with_its_end() -> None:
    """A timeout owes the message always, a failure unless it says not; each hints at the sweep."""
    for command in (TimeOut(), Fail(why="x")):
        outcome = changed(ROUTED, command)
        assert outcome.row.handback is HandBack.OWED
        (hint,) = outcome.hints
        assert (hint.kind, hint.owner_id, hint.id) == (HintKind.ROUTE_ENDED, 2, 3)
    known = changed(ROUTED, Fail(why="x", owed=False))
    assert (known.row.handback, known.hints) == (HandBack.NONE, ())
    assert changed(ROUTED, OwnerReplied()).row.handback is HandBack.NONE
    assert changed(ANSWERED, COMMANDS["relay"]).row.handback is HandBack.NONE


@pytest.mark.rule(334)
def test_a_debt_is_paid_once() -> None:
    """And leaves no row of its own; the state stays as it is."""
    owing = ROUTES[State.TIMED_OUT]
    paid = changed(owing, GiveBack(), NOW + HALF_HOUR)
    assert paid.facts == ()
    assert paid.row == attrs.evolve(
        owing, handback=HandBack.DELIVERED, handed_back_at=NOW + HALF_HOUR
    )
    assert decide(paid.row, GiveBack(), NOW + HALF_HOUR) == Unchanged(row=paid.row)


@pytest.mark.rule(332)
def test_a_relay_is_tried_again_a_minute_later() -> None:
    """From the answer on, and from each relay that was put off."""
    assert changed(ROUTED, COMMANDS["answer"]).row.relay_due_at == NOW + RELAY_AGAIN
    assert changed(ANSWERED, Wait(), NOW + HALF_HOUR).row.relay_due_at == (
        NOW + HALF_HOUR + timedelta(minutes=1)
    )
    assert changed(ANSWERED, COMMANDS["relay"]).row.relay_due_at is None


@pytest.mark.rule(343)
def test_a_late_answer_is_told_why() -> None:
    """That the sender had the reply already, where it is so."""
    for name in ("answer", "session's answer"):
        outcome = decide(ROUTES[State.OWNER_ANSWERED], COMMANDS[name], NOW)
        assert isinstance(outcome, Refused)
        assert "its reply was already sent to the sender directly" in outcome.sentence


@pytest.mark.rule(335)
@pytest.mark.parametrize(
    ("state", "name", "action"),
    [
        (State.ROUTED, "answer", "answered"),
        (State.ANSWERED, "relay", "relayed"),
        (State.ANSWERED, "fall back", "fallback"),
        (State.ROUTED, "fail", "failed"),
        (State.ANSWERED, "fail", "failed"),
        (State.ROUTED, "time out", "timed_out"),
        (State.ROUTED, "owner replied", "owner_answered"),
    ],
)
def test_each_step_leaves_one_row(state: State, name: str, action: str) -> None:
    """Of its own name, with the message and the session, and never the answer's text."""
    (fact,) = changed(ROUTES[state], COMMANDS[name]).facts
    assert (fact.action, fact.subject) == (f"session_route.{action}", "route:3")
    assert fact.data["message"] == 42
    assert fact.data["session"] == ROUTED.claude_session
    assert "yes" not in fact.data.values()


@pytest.mark.rule(335)
def test_the_row_of_an_answer_tells_its_bytes_and_its_door() -> None:
    """Bytes, of which a letter may have several."""
    (fact,) = changed(ROUTED, Answer(text="größer", via="mcp", repeats=False)).facts
    assert (fact.data["bytes"], fact.data["via"]) == (8, "mcp")


@pytest.mark.rule(335)
def test_the_first_row_says_who_routed_and_why() -> None:
    """The chief, the owner or muster itself, and what it was for."""
    by_chief = routed(ROUTED)
    assert (by_chief.action, by_chief.data["by"]) == ("session_route.routed", "chief")
    assert "routed_via" not in by_chief.data
    assert by_chief.data["deadline_at"] == NOW.isoformat()
    via = "thread t-1 started by 11111111-2222-4333-8444-555555555555"
    by_muster = routed(attrs.evolve(ROUTED, routed_by=By.MUSTER, routed_via=via))
    assert (by_muster.data["by"], by_muster.data["routed_via"]) == ("muster", via)


def test_no_time_goes_backwards() -> None:
    """A clock that was read before a lock was had ends nothing before it began."""
    early = NOW - 2 * HALF_HOUR
    assert changed(ROUTED, Fail(why="x"), early).row.ended_at == ROUTED.created_at
    assert changed(ANSWERED, COMMANDS["relay"], early).row.ended_at == NOW
    assert changed(ROUTES[State.TIMED_OUT], GiveBack(), early).row.handed_back_at == NOW


def test_a_reason_is_kept_to_its_length() -> None:
    """A long one is cut to what its column holds."""
    assert changed(ROUTED, Fail(why="x" * 9999)).row.why == "x" * WHY_CHARACTERS_MAX
