"""The life of one push, what an answer means, and what a push says."""

from datetime import UTC, datetime, timedelta

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster.outcomes import Changed, Unchanged
from muster.push.rules.deliveries import (
    ATTEMPTS_MAX,
    ENDED,
    LEASE,
    RETRY_AFTER_SECONDS_MAX,
    Answer,
    Answered,
    Claim,
    Command,
    Delivery,
    Over,
    Settle,
    State,
    Unanswered,
    Verdict,
    decide,
    judge,
    retry_seconds,
    spell,
)
from muster.push.rules.devices import Sink
from muster.push.rules.words import Kind, words

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
TAKEN = Answered(status=201)
GONE = Answered(status=410)
NEVER = Answered(status=403)
LATER = Answered(status=503)
SILENCE = Unanswered(reason="nobody could be reached there")


def push(state: State = State.WAITING, **fields: object) -> Delivery:
    """A push in this state."""
    values: dict[str, object] = {
        "id": 1,
        "owner_id": 7,
        "device_id": 3,
        "kind": Kind.DRAFT,
        "item_id": 17,
        "state": state,
        "created_at": NOW,
        "due_at": NOW,
        "attempts": 0,
        "leased_until": None,
        "sent_at": NOW if state is State.SENT else None,
        "ended_at": NOW if state in ENDED else None,
        "error": None,
    }
    return Delivery(**values | fields)  # type: ignore[arg-type]


def settle(was: State, answer: Answer, sink: Sink = Sink.BROWSER) -> Settle:
    """What came of a push that was claimed in this state."""
    return Settle(was=was, sink=sink, answer=answer, chance=0.5)


W, S, C = State.WAITING, State.SENT, State.CLEARING
TRIED = {"attempts": 1, "leased_until": NOW + LEASE}
TABLE: list[tuple[Delivery, Command, State]] = [
    (push(W), Claim(shown=False), W),
    (push(W), Claim(shown=True), State.SEEN),
    (push(W, attempts=1), Claim(shown=True), W),
    (push(W, attempts=ATTEMPTS_MAX), Claim(shown=False), State.FAILED),
    (push(C), Claim(shown=True), C),
    (push(W), Over(silent=True), State.DROPPED),
    (push(W), Over(silent=False), State.DROPPED),
    (push(W, **TRIED), Over(silent=True), C),
    (push(W, **TRIED), Over(silent=False), State.DROPPED),
    (push(S), Over(silent=True), C),
    (push(S), Over(silent=False), State.DROPPED),
    (push(W, **TRIED), settle(W, TAKEN), S),
    (push(W, **TRIED), settle(W, GONE), State.DROPPED),
    (push(W, **TRIED), settle(W, GONE, Sink.WEBHOOK), State.FAILED),
    (push(W, **TRIED), settle(W, NEVER), State.FAILED),
    (push(W, **TRIED), settle(W, LATER), W),
    (push(W, **TRIED), settle(W, SILENCE), W),
    (push(W, attempts=ATTEMPTS_MAX), settle(W, LATER), State.FAILED),
    (push(W, kind=Kind.TEST, item_id=None), settle(W, TAKEN), State.CLEARED),
    (push(W, kind=Kind.TEST, item_id=None), settle(W, LATER), State.FAILED),
    (push(C, **TRIED), settle(C, TAKEN), State.CLEARED),
    (push(C, **TRIED), settle(C, GONE), State.DROPPED),
    (push(C, **TRIED), settle(C, NEVER), State.FAILED),
    (push(C, **TRIED), settle(C, LATER), C),
    (push(C, attempts=ATTEMPTS_MAX), settle(C, SILENCE), State.FAILED),
    # Decided while it was on its way.
    (push(C, leased_until=NOW), settle(W, TAKEN), C),
    (push(C, leased_until=NOW), settle(W, NEVER), C),
    (push(C, leased_until=NOW), settle(W, GONE), State.DROPPED),
]


@pytest.mark.parametrize(("delivery", "command", "state"), TABLE)
def test_moves(delivery: Delivery, command: Command, state: State) -> None:
    """Each state and command lead where the table of the rules says."""
    outcome = decide(delivery, command, NOW)
    assert isinstance(outcome, Changed)
    assert outcome.row.state is state
    assert (outcome.row.ended_at is not None) == (state in ENDED)
    if isinstance(command, Settle):
        assert outcome.row.leased_until is None


@pytest.mark.parametrize("state", [State.SEEN, State.DROPPED, State.FAILED, State.CLEARED])
@pytest.mark.parametrize(
    "command", [Claim(shown=False), Over(silent=True), settle(W, TAKEN), settle(C, TAKEN)]
)
def test_what_ended_stays(state: State, command: Command) -> None:
    """Nothing moves a push that has ended."""
    assert isinstance(decide(push(state), command, NOW), Unchanged)


def test_a_claim_is_a_lease() -> None:
    """A claim counts an attempt and lasts a minute; a retry is later each time."""
    waits = []
    delivery = push()
    for attempt in range(1, ATTEMPTS_MAX):
        delivery = decide(delivery, Claim(shown=False), NOW).row
        assert (delivery.attempts, delivery.leased_until) == (attempt, NOW + LEASE)
        delivery = decide(delivery, settle(W, LATER), NOW).row
        waits.append((delivery.due_at - NOW).total_seconds())
    assert waits == [5.0, 20.0, 80.0, 320.0, 1280.0, 3600.0, 3600.0]


def test_a_retry_is_spread_and_no_sooner_than_asked() -> None:
    """Chance moves a retry by half either way; Retry-After is kept, up to six hours."""
    assert [retry_seconds(1, LATER, chance) for chance in (0.0, 1.0)] == [2.5, 7.5]
    asked = Answered(status=429, retry_after_seconds=90)
    assert retry_seconds(1, asked, 0.0) == 90
    for_ever = Answered(status=429, retry_after_seconds=10**8)
    assert retry_seconds(1, for_ever, 0.0) == RETRY_AFTER_SECONDS_MAX


@pytest.mark.parametrize(
    ("status", "browser", "others"),
    [
        (200, Verdict.TAKEN, Verdict.TAKEN),
        (201, Verdict.TAKEN, Verdict.TAKEN),
        (204, Verdict.TAKEN, Verdict.TAKEN),
        (301, Verdict.NEVER, Verdict.NEVER),
        (307, Verdict.NEVER, Verdict.NEVER),
        (400, Verdict.NEVER, Verdict.NEVER),
        (404, Verdict.GONE, Verdict.NEVER),
        (410, Verdict.GONE, Verdict.NEVER),
        (408, Verdict.LATER, Verdict.LATER),
        (429, Verdict.LATER, Verdict.LATER),
        (500, Verdict.LATER, Verdict.LATER),
        (503, Verdict.LATER, Verdict.LATER),
    ],
)
def test_what_an_answer_means(status: int, browser: Verdict, others: Verdict) -> None:
    """404 and 410 end a browser's subscription; a redirect is never followed; the rest is HTTP."""
    answer = Answered(status=status)
    assert judge(Sink.BROWSER, answer) is browser
    assert {judge(sink, answer) for sink in (Sink.NTFY, Sink.WEBHOOK)} == {others}
    assert (spell(answer) is None) == (browser is Verdict.TAKEN)


@pytest.mark.rule(58, 130, 258)
def test_words_are_musters_own() -> None:
    """Each kind has fixed words, a tap leads to the item, and an unverified sender is told."""
    draft = words(Kind.DRAFT, 17)
    assert draft.title == "A reply draft awaits your approval"
    assert (draft.tag, draft.path) == ("draft-17", "/drafts/17")
    assert words(Kind.DRAFT, 17, unverified=True).body == "Unverified sender"
    assert "nverified" not in draft.body
    assert (words(Kind.TASK, 3).title, words(Kind.TASK, 3).path) == ("New task", "/tasks/3")
    assert words(Kind.ASK, 4).path == "/asks/4"


class Life(RuleBasedStateMachine):
    """One push, two servers that may hold an old lease, a device that shows what reached it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.delivery = push()
        self.held: list[tuple[datetime, State]] = []  # leases, and what is sent under each
        self.over = False
        self.shows = False  # the device

    @property
    def free(self) -> bool:
        """Whether its lease is over, or there is none."""
        return self.delivery.leased_until is None or self.delivery.leased_until <= self.now

    @rule(seconds=st.integers(1, 90))
    def time_passes(self, seconds: int) -> None:
        """The clock goes on."""
        self.now += timedelta(seconds=seconds)

    @precondition(lambda self: self.free)
    @rule(shown=st.booleans())
    def claim(self, shown: bool) -> None:
        """A server takes it, if it is free."""
        was = self.delivery.state
        self.delivery = decide(self.delivery, Claim(shown=shown), self.now).row
        if self.delivery.leased_until is not None and not self.free:
            self.held.append((self.delivery.leased_until, was))

    @rule()
    def decided(self) -> None:
        """The item waits no more."""
        self.over = True
        self.delivery = decide(self.delivery, Over(silent=True), self.now).row

    @precondition(lambda self: self.held)
    @rule(number=st.integers(0, 5), arrives=st.booleans(), told=st.booleans())
    def sent(self, number: int, arrives: bool, told: bool) -> None:
        """What a server held arrives or not, and the server is told of it or not."""
        lease, was = self.held.pop(number % len(self.held))
        arrives = arrives and lease > self.now  # no sending takes as long as a lease
        if arrives:
            self.shows = was is State.WAITING
        answer: Answer = TAKEN if arrives and told else SILENCE
        if self.delivery.leased_until == lease:
            self.delivery = decide(self.delivery, settle(was, answer), self.now).row

    @precondition(lambda self: self.held)
    @rule(arrives=st.booleans())
    def killed(self, arrives: bool) -> None:
        """A server ends with what it held, before or after it was sent."""
        lease, was = self.held.pop()
        if arrives and lease > self.now:
            self.shows = was is State.WAITING

    @invariant()
    def what_is_shown_and_over_is_being_cleared(self) -> None:
        """What a device shows though it is over is cleared yet, unless that was tried in vain."""
        if self.over and self.shows:
            assert self.delivery.state in (State.CLEARING, State.FAILED)

    @invariant()
    def over_is_not_shown_again(self) -> None:
        """What is over waits no more and counts as sent no more."""
        if self.over:
            assert self.delivery.state not in (State.WAITING, State.SENT)


Life.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
TestLife = Life.TestCase


def test_the_rows_of_the_table_are_whole() -> None:
    """Every field of a push is one that a move may leave as it was."""
    moved = decide(push(), Claim(shown=False), NOW).row
    same = {field.name for field in attrs.fields(Delivery)} - {"attempts", "leased_until"}
    assert all(getattr(moved, name) == getattr(push(), name) for name in same)
