"""The tools for testers do what they say, and fail when they should."""

from __future__ import annotations

import pytest
import trio

from actors import ChildSpec, Event, Log, SupervisorSpec, open_tree
from actors.testing import (
    PlannedCrash,
    Recorder,
    cancel_at_every_step,
    crash_at,
    wait_until,
    watching,
)


async def test_cancel_at_every_step_finds_a_half_done_thing() -> None:
    """An operation that can be cancelled between its two halves is caught at it."""
    halves: list[int] = []

    async def operation() -> None:
        halves.append(1)
        await trio.lowlevel.checkpoint()
        halves.append(2)

    async def check(completed: bool) -> None:
        assert completed == (halves == [1, 2])
        found.append(len(halves))
        halves.clear()

    found: list[int] = []
    runs = await cancel_at_every_step(operation, check)
    assert runs == len(found)
    assert set(found) == {1, 2}


async def test_cancel_at_every_step_has_an_end() -> None:
    """An operation that never ends is an AssertionError."""

    async def operation() -> None:
        with trio.CancelScope(shield=True):
            for _ in range(100):
                await trio.lowlevel.checkpoint()

    async def check(completed: bool) -> None:
        assert completed

    with pytest.raises(AssertionError, match="within 20 steps"):
        await cancel_at_every_step(operation, check, steps_max=20)


@pytest.mark.parametrize("after", [False, True])
async def test_crash_at_crashes_once_in_the_planned_step(after: bool) -> None:
    """The second step crashes, before or after its work, and no later one."""
    crash = crash_at(2, after=after)
    received: list[object] = []

    class Sharing(Recorder):
        def __init__(self) -> None:
            super().__init__()
            self.received = received

    spec = ChildSpec(name="a", start=crash.wrap(Sharing))
    log = Log()
    async with open_tree(SupervisorSpec(name="root", children=[spec]), log) as tree:
        with watching(log) as watch:
            tree.address("root/a").tell(1)
            report = await watch.next(Event.CRASHED, "root/a")
            await watch.next(Event.RESTARTED)
        assert report.error == f"{PlannedCrash.__name__}: planned in step 2, handle"
        assert await tree.address("root/a").ask(2, deadline_seconds=5) == 2
    assert received == ([1, 2] if after else [2])
    assert crash.crashed_in == "handle"
    assert crash.steps == ["started", "handle", "started", "handle", "stopping"]


async def test_waits_have_an_end(autojump_clock: trio.testing.MockClock) -> None:
    """Waiting for what does not come fails with a reason."""
    with watching(Log()) as watch, pytest.raises(AssertionError, match="no report crashed of x"):
        await watch.next(Event.CRASHED, "x")
    with pytest.raises(trio.TooSlowError):
        await wait_until(lambda: False)
    with pytest.raises(trio.TooSlowError):
        await Recorder().wait_received(1)
