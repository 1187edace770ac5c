"""Properties of the restart arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.exits import Exit, ExitKind
from actors.restart import (
    Decision,
    GiveUp,
    Intensity,
    Leave,
    Policy,
    Restart,
    backoff_seconds,
    decide_restart,
)

CRASH = Exit.crash(ValueError("no"))
seconds = st.floats(min_value=0, max_value=1000, allow_nan=False)
intensities = st.builds(
    Intensity,
    restarts=st.integers(0, 20),
    window_seconds=st.floats(min_value=0.1, max_value=1000),
    backoff_first_seconds=st.floats(min_value=0, max_value=10),
    backoff_max_seconds=st.floats(min_value=0, max_value=100),
    jitter_ratio=st.floats(min_value=0, max_value=1),
)


@pytest.mark.parametrize(
    ("kind", "policy", "restarts"),
    [
        (ExitKind.CRASHED, Policy.PERMANENT, True),
        (ExitKind.CRASHED, Policy.TRANSIENT, True),
        (ExitKind.CRASHED, Policy.TEMPORARY, False),
        (ExitKind.FINISHED, Policy.PERMANENT, True),
        (ExitKind.FINISHED, Policy.TRANSIENT, False),
        (ExitKind.FINISHED, Policy.TEMPORARY, False),
        *[
            (kind, policy, False)
            for kind in (ExitKind.STOPPED, ExitKind.KILLED, ExitKind.LEFT)
            for policy in Policy
        ],
    ],
)
def test_which_endings_call_for_a_restart(kind: ExitKind, policy: Policy, restarts: bool) -> None:
    """A crash restarts all but temporary children, finishing only permanent ones, else nothing."""
    decision = decide_restart(
        (), Exit(kind=kind), policy=policy, intensity=Intensity(), now=0.0, jitter=0.0
    )
    assert isinstance(decision, Restart if restarts else Leave)


def judge(history: tuple[float, ...], intensity: Intensity, now: float, jitter: float) -> Decision:
    """What becomes of a permanent child that crashed."""
    return decide_restart(
        history, CRASH, policy=Policy.PERMANENT, intensity=intensity, now=now, jitter=jitter
    )


@given(
    gaps=st.lists(seconds, max_size=60),
    intensity=intensities,
    jitter=st.floats(min_value=0, max_value=1),
)
def test_never_more_restarts_than_allowed_in_any_window(
    gaps: list[float], intensity: Intensity, jitter: float
) -> None:
    """Over any sequence of crashes no window holds more than `restarts` restarts, and no fewer."""
    now = 0.0
    history: tuple[float, ...] = ()
    allowed: list[float] = []
    for gap in gaps:
        now += gap
        recent = [at for at in allowed if at > now - intensity.window_seconds]
        match judge(history, intensity, now, jitter):
            case Restart(delay_seconds=delay, history=kept):
                history = kept
                allowed.append(now)
                assert len(recent) < intensity.restarts
                assert 0 <= delay <= intensity.backoff_max_seconds
                assert len(history) <= intensity.restarts
            case GiveUp(restarts=count):
                assert count == len(recent) == intensity.restarts
            case Leave():
                raise AssertionError("a crash of a permanent child never leaves it ended")


@given(intensity=intensities, earlier=st.integers(0, 10_000))
def test_backoff_grows_to_its_cap(intensity: Intensity, earlier: int) -> None:
    """Each further restart waits at least as long as the one before, at most the cap."""
    wait = backoff_seconds(earlier, intensity)
    assert wait <= backoff_seconds(earlier + 1, intensity) <= intensity.backoff_max_seconds


@given(intensity=intensities, one=st.floats(0, 1), other=st.floats(0, 1))
def test_jitter_only_shortens(intensity: Intensity, one: float, other: float) -> None:
    """More jitter never waits longer, and takes away at most its ratio."""
    low, high = sorted((one, other))
    long, short = judge((), intensity, 5.0, low), judge((), intensity, 5.0, high)
    if isinstance(long, Restart) and isinstance(short, Restart):
        base = backoff_seconds(0, intensity)
        assert base * (1 - intensity.jitter_ratio) <= short.delay_seconds + 1e-9
        assert short.delay_seconds <= long.delay_seconds <= base


def test_an_old_restart_is_forgotten() -> None:
    """A restart counts while it is younger than the window, and not at the window's end."""
    intensity = Intensity(restarts=1, window_seconds=10)
    assert isinstance(judge((0.0,), intensity, 9.9, 0.0), GiveUp)
    assert isinstance(judge((0.0,), intensity, 10.0, 0.0), Restart)
