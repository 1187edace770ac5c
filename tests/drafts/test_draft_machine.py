"""One message's drafts under every sequence of commands, clocks and late results."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from muster.drafts.rules import (
    LIFE,
    Approve,
    Claim,
    Command,
    Draft,
    Expire,
    Lapse,
    Reject,
    Replace,
    Report,
    Standing,
    State,
    decide,
    find_in_flight,
    overtaken,
    standing,
    write_due,
)
from muster.ids import digest
from muster.outcomes import Changed

START = datetime(2030, 1, 1, tzinfo=UTC)
WAITS = [timedelta(0), timedelta(seconds=1), timedelta(seconds=119), timedelta(minutes=2)]
WAITS += [timedelta(days=1), timedelta(days=7)]


class Replies(RuleBasedStateMachine):
    """The replies to one message, kept as the operations keep them."""

    drafts = Bundle("drafts")

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.rows: dict[int, Draft] = {}
        self.claims: dict[int, int] = {}
        self.results: dict[int, State] = {}
        self.ended: dict[int, State] = {}

    def keep(self, changed: Changed[Draft]) -> None:
        """Store a row, as Transaction.save does."""
        self.rows[changed.row.id] = changed.row

    def settle(self) -> None:
        """Write what is due, as each operation does first."""
        for row in list(self.rows.values()):
            due = write_due(row, self.now)
            if due is not None:
                self.keep(due)

    def apply(self, draft_id: int, command: Command) -> bool:
        """Decide about a draft; whether the command was accepted."""
        outcome = decide(self.rows[draft_id], command, self.now, via="cli")
        if isinstance(outcome, Changed):
            self.keep(outcome)
        return isinstance(outcome, Changed)

    @rule(wait=st.sampled_from(WAITS))
    def pass_time(self, wait: timedelta) -> None:
        """The clock goes on; no sweep comes by."""
        self.now += wait

    @rule(target=drafts)
    def file(self) -> object:
        """The chief writes a reply."""
        self.settle()
        if find_in_flight(self.rows.values(), self.now) is not None:
            return multiple()
        for row in list(self.rows.values()):
            if row.state is State.PENDING:
                assert self.apply(row.id, Replace())
        draft_id = len(self.rows) + 1
        self.rows[draft_id] = Draft(
            id=draft_id,
            owner_id=1,
            message_id=1,
            plugin_id=1,
            agent_id=1,
            body="x",
            body_sha256=digest("x"),
            state=State.PENDING,
            created_at=self.now,
            expires_at=self.now + LIFE,
            decided_at=None,
            decided_via=None,
            approved_at=None,
            claimed_at=None,
            lease_expires_at=None,
            reported_at=None,
            external_ref=None,
            detail=None,
            ended_at=None,
            superseded_by=None,
        )
        return draft_id

    @rule(draft_id=drafts, reject=st.booleans())
    def decide(self, draft_id: int, reject: bool) -> None:
        """The owner decides."""
        self.settle()
        others = [row for row in self.rows.values() if row.id != draft_id]
        if reject:
            self.apply(draft_id, Reject(draft_id=draft_id))
        elif find_in_flight(others, self.now) is None:
            self.apply(draft_id, Approve(draft_id=draft_id))

    @rule(draft_id=drafts)
    def claim(self, draft_id: int) -> None:
        """A plugin claims, without a look at the other replies and without a sweep."""
        if self.apply(draft_id, Claim()):
            self.claims[draft_id] = self.claims.get(draft_id, 0) + 1

    @rule(draft_id=drafts, ok=st.booleans())
    def report(self, draft_id: int, ok: bool) -> None:
        """A plugin reports, in time or late, once or twice, the same or the contrary."""
        self.settle()
        if self.apply(draft_id, Report(draft_id=draft_id, ok=ok)):
            assert draft_id not in self.results, "two results"
            self.results[draft_id] = self.rows[draft_id].state
            if ok:
                sent = self.rows[draft_id]
                for changed in overtaken(list(self.rows.values()), sent, self.now):
                    self.keep(changed)
                left = {standing(row, self.now) for row in self.rows.values()}
                assert not left & {Standing.PENDING, Standing.WAITING}

    @rule(draft_id=consumes(drafts))
    def forget(self, draft_id: int) -> None:
        """A sweep comes by; the draft is touched no more."""
        self.apply(draft_id, Lapse(draft_id=draft_id))
        self.apply(draft_id, Expire(draft_id=draft_id))
        assert write_due(self.rows[draft_id], self.now) is None

    @invariant()
    def at_most_once(self) -> None:
        """No draft is claimed twice; what has a result was claimed and keeps it."""
        assert set(self.claims.values()) <= {1}
        for draft_id, state in self.results.items():
            assert draft_id in self.claims
            assert self.rows[draft_id].state is state

    @invariant()
    def one_of_each(self) -> None:
        """At most one reply is pending and at most one is in flight."""
        now = [standing(row, self.now) for row in self.rows.values()]
        assert now.count(Standing.PENDING) <= 1
        assert now.count(Standing.WAITING) + now.count(Standing.HELD) <= 1
        assert len([row for row in self.rows.values() if row.state is State.APPROVED]) <= 1

    @invariant()
    def endings_are_final(self) -> None:
        """What ended stays; unconfirmed may still become its own result."""
        for row in self.rows.values():
            before = self.ended.get(row.id)
            if before is State.UNCONFIRMED:
                assert row.state in (State.UNCONFIRMED, State.SENT, State.FAILED)
            elif before is not None:
                assert row.state is before
            if row.state not in (State.PENDING, State.APPROVED):
                self.ended[row.id] = row.state
                assert row.ended_at is not None

    @invariant()
    def keeps_the_database_rules(self) -> None:
        """No row breaks what the schema's constraints say."""
        for row in self.rows.values():
            assert (row.claimed_at is None) == (row.lease_expires_at is None)
            assert row.claimed_at is None or row.approved_at is not None
            assert (row.reported_at is not None) == (row.state in (State.SENT, State.FAILED))
            if row.claimed_at is not None:
                assert row.state not in (State.REJECTED, State.SUPERSEDED, State.EXPIRED)


@pytest.mark.rule(84, 86, 87, 88, 91, 94, 95, 97)
def test_no_sequence_sends_twice() -> None:
    """However drafts are filed, decided, claimed and reported, none is handed over twice."""
    run_state_machine_as_test(Replies)
