"""Whether a child that ended is started again: pure arithmetic, no clock and no randomness.

| exit          | permanent | transient | temporary |
|---------------|-----------|-----------|-----------|
| crashed       | restart   | restart   | leave     |
| finished      | restart   | leave     | leave     |
| stopped, killed, left | leave     | leave     | leave     |

A restart is allowed while fewer than `restarts` of them lie in the last `window_seconds`; one more
is GiveUp. The n-th restart in the window waits `backoff_first_seconds` doubled n times, at most
`backoff_max_seconds`, so a dependency that is away for a moment isn't hammered. Jitter only
shortens the wait. Rejected: an unlimited count, because a child that never comes up would then
hide a fault that its parent might mend.
"""

from __future__ import annotations

import enum
import math
from typing import TypeAlias

import attrs

from actors.exits import Exit, ExitKind


class Policy(enum.Enum):
    """Which endings of a child call for a restart."""

    PERMANENT = "permanent"
    TRANSIENT = "transient"
    TEMPORARY = "temporary"


@attrs.frozen(kw_only=True)
class Intensity:
    """How often and how fast a supervisor restarts. All times are seconds.

    `jitter_ratio` (0 to 1) is the largest share of a wait that jitter takes away.
    """

    restarts: int = attrs.field(default=5, validator=attrs.validators.ge(0))
    window_seconds: float = attrs.field(default=30.0, validator=attrs.validators.gt(0))
    backoff_first_seconds: float = attrs.field(default=0.1, validator=attrs.validators.ge(0))
    backoff_max_seconds: float = attrs.field(default=10.0, validator=attrs.validators.ge(0))
    jitter_ratio: float = attrs.field(
        default=0.2,
        validator=[attrs.validators.ge(0), attrs.validators.le(1)],
    )


@attrs.frozen(kw_only=True)
class Restart:
    """Start the child again after `delay_seconds`; `history` is the one to keep."""

    delay_seconds: float
    history: tuple[float, ...]


@attrs.frozen(kw_only=True)
class GiveUp:
    """Too many restarts in the window: the supervisor ends and its parent decides."""

    restarts: int
    window_seconds: float


@attrs.frozen(kw_only=True)
class Leave:
    """The child stays ended, and that is no fault."""


Decision: TypeAlias = Restart | GiveUp | Leave


def decide_restart(
    history: tuple[float, ...],
    exit_: Exit,
    *,
    policy: Policy,
    intensity: Intensity,
    now: float,
    jitter: float,
) -> Decision:
    """Judge one ending at `now` (seconds on the clock that `history` was written with).

    `history` holds the times of earlier restarts, oldest first. `jitter` is 0 to 1.
    The returned history never holds more than `intensity.restarts` times.
    """
    assert 0 <= jitter <= 1
    if not calls_for_restart(exit_.kind, policy):
        return Leave()
    recent = tuple(at for at in history if at > now - intensity.window_seconds)
    if len(recent) >= intensity.restarts:
        return GiveUp(restarts=len(recent), window_seconds=intensity.window_seconds)
    delay = backoff_seconds(len(recent), intensity) * (1 - intensity.jitter_ratio * jitter)
    return Restart(delay_seconds=delay, history=(*recent, now))


def calls_for_restart(kind: ExitKind, policy: Policy) -> bool:
    """The table on top of this module."""
    if kind is ExitKind.CRASHED:
        return policy is not Policy.TEMPORARY
    return kind is ExitKind.FINISHED and policy is Policy.PERMANENT


def backoff_seconds(earlier: int, intensity: Intensity) -> float:
    """The wait before a restart that `earlier` others precede in the window, without jitter."""
    # 2**1024 overflows a float, and long before that the cap has been reached.
    doubled = math.ldexp(intensity.backoff_first_seconds, min(earlier, 64))
    return min(intensity.backoff_max_seconds, doubled)
