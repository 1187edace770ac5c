"""Leases: the pure machine, and the scope under every cancel."""
# ruff: noqa: D102 (the methods of what is under test explain themselves)


from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import trio
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.leases import (
    Ending,
    Lease,
    LeaseFault,
    LeaseRefused,
    LeaseState,
    expire,
    grant,
    lease_scope,
    release,
    renew,
    settle,
)
from actors.testing import cancel_at_every_step

START = datetime(2026, 1, 1, tzinfo=UTC)
holders = st.sampled_from(["ann", "bob"])


class LeaseMachine(RuleBasedStateMachine):
    """Two holders take, renew, lose and settle one lease while time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.lease = Lease()
        self.granted: list[tuple[str, int]] = []
        self.settled: set[int] = set()

    @rule(seconds=st.integers(0, 200))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(holder=holders)
    def take(self, holder: str) -> None:
        was = self.lease
        outcome = grant(self.lease, holder, now=self.now, seconds=60)
        if was.state is LeaseState.FREE:
            assert isinstance(outcome, Lease)
            assert outcome.fence == was.fence + 1
            self.granted.append((holder, outcome.fence))
            self.lease = outcome
        else:
            assert outcome == LeaseRefused(LeaseFault.NOT_FREE)

    @precondition(lambda self: self.granted)
    @rule(data=st.data(), holder=holders)
    def keep(self, data: st.DataObject, holder: str) -> None:
        fence = data.draw(st.integers(0, len(self.granted)))
        outcome = renew(self.lease, holder, fence, now=self.now, seconds=60)
        current = self.granted[-1] == (holder, fence)
        held = expire(self.lease, now=self.now).state is LeaseState.HELD
        if isinstance(outcome, Lease):
            assert current
            assert held
            assert outcome.until is not None
            assert outcome.until >= self.now + timedelta(seconds=60)
            self.lease = outcome
        else:
            assert not (current and held)

    @precondition(lambda self: self.granted)
    @rule(data=st.data(), holder=holders)
    def end(self, data: st.DataObject, holder: str) -> None:
        fence = data.draw(st.integers(0, len(self.granted)))
        outcome = settle(self.lease, holder, fence)
        if isinstance(outcome, Lease):
            assert self.granted[-1] == (holder, fence)
            self.settled.add(fence)
            self.lease = outcome
        else:
            assert self.granted[-1] != (holder, fence) or self.lease.state is LeaseState.FREE

    @rule()
    def sweep(self) -> None:
        self.lease = expire(self.lease, now=self.now)

    @rule(fence=st.integers(0, 5))
    def somebody_looks(self, fence: int) -> None:
        lapsed = expire(self.lease, now=self.now).state is LeaseState.LAPSED
        outcome = release(self.lease, fence, now=self.now)
        if isinstance(outcome, Lease):
            assert lapsed
            assert fence == self.lease.fence
            self.lease = outcome
        else:
            assert not lapsed or fence != self.lease.fence

    @invariant()
    def fences_are_used_once(self) -> None:
        assert [fence for _, fence in self.granted] == list(range(1, len(self.granted) + 1))
        assert self.lease.fence == len(self.granted)

    @invariant()
    def what_is_settled_stays_settled(self) -> None:
        if self.lease.fence in self.settled:
            assert self.lease.state is LeaseState.SETTLED

    @invariant()
    def the_record_is_whole(self) -> None:
        held = self.lease.state in (LeaseState.HELD, LeaseState.LAPSED)
        assert (self.lease.until is not None) == held
        assert (self.lease.holder is None) == (self.lease.state is LeaseState.FREE)


LeaseMachineTest = LeaseMachine.TestCase


def test_a_lease_lapses_at_its_end_and_not_before() -> None:
    """A lease of 60 s is held until the 60th second, and lapsed from it on."""
    held = grant(Lease(), "ann", now=START, seconds=60)
    assert isinstance(held, Lease)
    early, due = START + timedelta(seconds=59.999), START + timedelta(seconds=60)
    assert expire(held, now=early).state is LeaseState.HELD
    assert expire(held, now=due).state is LeaseState.LAPSED
    assert renew(held, "ann", 1, now=due, seconds=60) == LeaseRefused(LeaseFault.NOT_HELD)
    late = settle(expire(held, now=due), "ann", 1)
    assert isinstance(late, Lease)
    assert late.state is LeaseState.SETTLED


class Ledger:
    """A place where grants are recorded in several steps, as a database does it."""

    def __init__(self) -> None:
        self.held: list[int] = []
        self.endings: list[tuple[int, Ending]] = []

    async def grant(self) -> int:
        await trio.lowlevel.checkpoint()
        self.held.append(1)
        await trio.lowlevel.checkpoint()
        return 1

    async def settle(self, lease: int, ending: Ending) -> None:
        await trio.lowlevel.checkpoint()
        self.held.remove(lease)
        self.endings.append((lease, ending))
        await trio.lowlevel.checkpoint()


async def test_a_lease_is_whole_or_absent_after_a_cancel_at_any_step() -> None:
    """Cancelled at each step in turn, the scope leaves no lease that is held but not settled."""
    ledger = Ledger()
    effects: list[int] = []
    seen: set[Ending | None] = set()

    async def operation() -> None:
        async with lease_scope(ledger.grant, ledger.settle) as lease:
            assert lease == 1
            await trio.lowlevel.checkpoint()
            effects.append(lease)
            await trio.lowlevel.checkpoint()

    async def check(completed: bool) -> None:
        assert ledger.held == []
        assert len(ledger.endings) <= 1
        ending = ledger.endings[0][1] if ledger.endings else None
        seen.add(ending)
        if completed:
            assert ending is Ending.DONE
        if effects:
            assert ending is not None
        ledger.endings.clear()
        effects.clear()

    assert await cancel_at_every_step(operation, check) >= 6
    assert seen == {None, Ending.CANCELLED, Ending.DONE}


async def test_a_failing_block_settles_as_failed() -> None:
    """An error in the block is told to `settle` and reaches the caller."""
    ledger = Ledger()
    with pytest.raises(ValueError, match="no"):
        async with lease_scope(ledger.grant, ledger.settle):
            raise ValueError("no")
    assert ledger.endings == [(1, Ending.FAILED)]


async def test_nothing_is_settled_when_nothing_was_granted() -> None:
    """A block whose grant gave None runs without a lease and settles nothing."""
    ledger = Ledger()

    async def nothing() -> None:
        await trio.lowlevel.checkpoint()

    async with lease_scope(nothing, ledger.settle) as lease:
        assert lease is None
    assert ledger.endings == []


async def test_a_settle_that_hangs_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    """A cancelled block whose settle hangs ends after settle_seconds with TooSlowError."""
    ledger = Ledger()

    async def hang(lease: int, ending: Ending) -> None:
        await trio.sleep_forever()

    began = trio.current_time()
    with pytest.raises(trio.TooSlowError):
        async with lease_scope(ledger.grant, hang, settle_seconds=3):
            pass
    assert trio.current_time() - began == pytest.approx(3)
