"""Who may do a thing, for how long, when doing it twice must not happen.

| state   | grant   | renew          | settle          | expire (when due)           |
|---------|---------|----------------|-----------------|-----------------------------|
| free    | held    | refused        | refused         | unchanged                   |
| held    | refused | held           | settled         | lapsed                      |
| lapsed  | refused | refused        | settled, late   | unchanged                   |
| settled | refused | refused        | unchanged       | unchanged                   |

The fence grows by one with each grant and is written beside the effect, so that a holder of old
is recognised. Renew and settle name holder and fence; others are refused. A lapsed lease is never
granted again by itself: whether its holder did the thing is unknown, and only `release`, called
by somebody who looked, frees it. Every reader sees a lease that is due as lapsed, whether or not
anybody has written so yet: a function to which that matters takes `now` and applies `expire`
first.
Rejected: a lease that frees itself when it lapses. That is at least once, not at most once.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar

import attrs
import trio

L = TypeVar("L")


class LeaseState(enum.Enum):
    """See the table on top."""

    FREE = "free"
    HELD = "held"
    LAPSED = "lapsed"
    SETTLED = "settled"


@attrs.frozen(kw_only=True)
class Lease:
    """One lease as it is recorded. `fence` is the number of grants so far."""

    state: LeaseState = LeaseState.FREE
    fence: int = 0
    holder: str | None = None
    until: datetime | None = None


class LeaseFault(enum.Enum):
    """Why the answer is no."""

    NOT_FREE = "not_free"
    NOT_HELD = "not_held"
    OTHER_HOLDER = "other_holder"


@attrs.frozen
class LeaseRefused:
    """No; nothing changes."""

    fault: LeaseFault


LeaseOutcome: TypeAlias = Lease | LeaseRefused


def grant(lease: Lease, holder: str, *, now: datetime, seconds: float) -> LeaseOutcome:
    """Give a free lease to `holder` for `seconds`, with the next fence."""
    assert seconds > 0
    if lease.state is not LeaseState.FREE:
        return LeaseRefused(LeaseFault.NOT_FREE)
    return Lease(
        state=LeaseState.HELD,
        fence=lease.fence + 1,
        holder=holder,
        until=now + timedelta(seconds=seconds),
    )


def renew(
    lease: Lease, holder: str, fence: int, *, now: datetime, seconds: float
) -> LeaseOutcome:
    """Let a lease that is still held last `seconds` from now; never shortens it."""
    assert seconds > 0
    lease = expire(lease, now=now)
    if not _is_holder(lease, holder, fence):
        return LeaseRefused(LeaseFault.OTHER_HOLDER)
    if lease.state is not LeaseState.HELD:
        return LeaseRefused(LeaseFault.NOT_HELD)
    assert lease.until is not None
    return attrs.evolve(lease, until=max(lease.until, now + timedelta(seconds=seconds)))


def settle(lease: Lease, holder: str, fence: int) -> LeaseOutcome:
    """End the lease by its holder's word, in time or late; a repeat changes nothing."""
    if lease.state is LeaseState.FREE:
        return LeaseRefused(LeaseFault.NOT_HELD)
    if not _is_holder(lease, holder, fence):
        return LeaseRefused(LeaseFault.OTHER_HOLDER)
    return attrs.evolve(lease, state=LeaseState.SETTLED, until=None)


def expire(lease: Lease, *, now: datetime) -> Lease:
    """The lease as of `now`: one that is held past its end has lapsed."""
    if lease.state is LeaseState.HELD and lease.until is not None and lease.until <= now:
        return attrs.evolve(lease, state=LeaseState.LAPSED)
    return lease


def release(lease: Lease, fence: int, *, now: datetime) -> LeaseOutcome:
    """Free a lapsed lease, by decision of somebody who knows that nothing was done.

    `fence` is the one that was looked at; a lease that moved on meanwhile is refused.
    """
    lease = expire(lease, now=now)
    if lease.state is not LeaseState.LAPSED or lease.fence != fence:
        return LeaseRefused(LeaseFault.NOT_HELD)
    return Lease(fence=lease.fence)


def _is_holder(lease: Lease, holder: str, fence: int) -> bool:
    return lease.holder == holder and lease.fence == fence


class Ending(enum.Enum):
    """How the block under a lease ended."""

    DONE = "done"
    FAILED = "failed"  # it raised
    CANCELLED = "cancelled"  # whether its effect happened is unknown


@contextlib.asynccontextmanager
async def lease_scope(
    grant: Callable[[], Awaitable[L | None]],
    settle: Callable[[L, Ending], Awaitable[object]],
    *,
    grant_seconds: float = 5.0,
    settle_seconds: float = 5.0,
) -> AsyncIterator[L | None]:
    """Take a lease, run the block under it, and settle it however the block ended.

    Safe to cancel at any checkpoint: either `grant` was never called, or what it recorded is
    received here and `settle` is called for it, exactly once. Both run shielded, each within its
    own seconds, so `grant` must be the effect alone (one transaction) and never a wait for
    something to do. The block gets None, and nothing is settled, when `grant` gave None.
    Raises trio.TooSlowError when `grant` or `settle` took too long: then the record decides, and an
    unsettled lease lapses.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    with trio.fail_after(grant_seconds) as scope:
        scope.shield = True
        lease = await grant()
    if lease is None:
        yield None
        return
    ending = Ending.FAILED
    try:
        yield lease
        ending = Ending.DONE
    except BaseException as error:
        if not isinstance(error, Exception):
            ending = Ending.CANCELLED
        raise
    finally:
        with trio.fail_after(settle_seconds) as scope:
            scope.shield = True
            await settle(lease, ending)
