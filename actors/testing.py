"""Tools for those who test actors: crashes, cancels and waits at exact places.

They are plain functions and need no test framework. Nothing here sleeps to wait for something.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterator

import trio
from trio.lowlevel import Task

from actors.actor import Actor
from actors.log import Event, Log, Report, Subscription

STEPS_MAX = 2000
WAIT_SECONDS = 5.0


class PlannedCrash(Exception):
    """What `crash_at` raises."""


class CrashAt:
    """Crashes the actors that it wraps in the n-th step of their lives, counted together.

    `steps` are the steps begun so far: "started", "handle" or "stopping".
    """

    def __init__(self, n: int, *, after: bool) -> None:
        assert n >= 1
        self._n = n
        self._after = after
        self.steps: list[str] = []
        self.crashed_in: str | None = None

    def wrap(self, start: Callable[[], Actor]) -> Callable[[], Actor]:
        """A `start` for a ChildSpec whose actors crash at the planned step, once in all.

        `start` must make a new actor each time, as it must for a ChildSpec.
        """

        def start_wrapped() -> Actor:
            actor = start()
            for step in ("started", "handle", "stopping"):
                setattr(actor, step, self._wrapped(step, getattr(actor, step)))
            return actor

        return start_wrapped

    def _wrapped(
        self, step: str, method: Callable[..., Awaitable[object]]
    ) -> Callable[..., Awaitable[object]]:
        async def wrapped(*args: object) -> object:
            self.steps.append(step)
            is_it = len(self.steps) == self._n
            if is_it and not self._after:
                self._crash(step)
            value = await method(*args)
            if is_it:
                self._crash(step)
            return value

        return wrapped

    def _crash(self, step: str) -> None:
        self.crashed_in = step
        raise PlannedCrash(f"planned in step {self._n}, {step}")


def crash_at(n: int, *, after: bool = False) -> CrashAt:
    """Plan a crash in the n-th life step, before its own work, or `after` it.

    Use it in a loop over n that ends when `crashed_in` stays None.
    """
    return CrashAt(n, after=after)


async def crash_at_every_step(scenario: Callable[[CrashAt], Awaitable[None]]) -> list[str]:
    """Run `scenario` with a crash planned at step 1, 2, 3, ..., before and after its work.

    Ends with the first run that has no such step; returns the steps crashed in, in order.
    The scenario wraps its actors with `crash.wrap` and checks what must hold.
    """
    crashed: list[str] = []
    for after in (False, True):
        for n in itertools.count(1):
            assert n < STEPS_MAX, "the scenario never ran to its end"
            crash = crash_at(n, after=after)
            await scenario(crash)
            if crash.crashed_in is None:
                break
            crashed.append(crash.crashed_in)
    return crashed


class _CancelAtStep(trio.abc.Instrument):
    """Cancels `scope` just before the n-th step of one task."""

    def __init__(self, task: Task, scope: trio.CancelScope, n: int) -> None:
        self._task = task
        self._scope = scope
        self._left = n

    @property
    def fired(self) -> bool:
        return self._left <= 0

    def before_task_step(self, task: Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()


async def cancel_at_every_step(
    operation: Callable[[], Awaitable[object]],
    check: Callable[[bool], Awaitable[object]],
    *,
    steps_max: int = STEPS_MAX,
) -> int:
    """Run `operation` cancelled before it begins, then at each step that its task takes, then not.

    After each run `await check(completed)` judges what is left, where `completed` says that the
    operation ran to its end all the same. Returns the number of runs. Raises AssertionError when
    the operation takes `steps_max` steps or more.
    """
    for n in range(steps_max + 1):
        with trio.CancelScope() as scope:
            if n == 0:
                scope.cancel()
            instrument = _CancelAtStep(trio.lowlevel.current_task(), scope, n)
            trio.lowlevel.add_instrument(instrument)
            try:
                await operation()
            finally:
                trio.lowlevel.remove_instrument(instrument)
        await check(not scope.cancelled_caught)
        if n > 0 and not instrument.fired:
            return n + 1
    raise AssertionError(f"the operation did not end within {steps_max} steps")


class LogWatch:
    """Waits for reports, from the moment on at which the watch began."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self.seen: list[Report] = []

    async def next(
        self, event: Event, path: str | None = None, *, deadline_seconds: float = WAIT_SECONDS
    ) -> Report:
        """The next report of this event (and path) that no earlier call has returned or passed.

        Raises AssertionError after `deadline_seconds`.
        """
        with trio.move_on_after(deadline_seconds):
            while True:
                while not self.seen:
                    self.seen.extend(await self._subscription.drain())
                report = self.seen.pop(0)
                if report.event is event and path in (None, report.path):
                    return report
        raise AssertionError(f"no report {event.value} of {path} within {deadline_seconds} s")


@contextlib.contextmanager
def watching(log: Log) -> Iterator[LogWatch]:
    """Watch a log for the length of the block."""
    with log.subscribe(size=10_000) as subscription:
        yield LogWatch(subscription)


class Recorder(Actor):
    """An actor that keeps what it is sent; answers a question with the question."""

    def __init__(self) -> None:
        self.received: list[object] = []
        self._lot = trio.lowlevel.ParkingLot()

    async def handle(self, message: object) -> object:
        """Keep it."""
        self.received.append(message)
        self._lot.unpark_all()
        return message

    async def wait_received(
        self, count: int, *, deadline_seconds: float = WAIT_SECONDS
    ) -> list[object]:
        """Wait until `count` messages have come. Raises trio.TooSlowError."""
        with trio.fail_after(deadline_seconds):
            while len(self.received) < count:
                await self._lot.park()
        return list(self.received)


async def wait_until(
    condition: Callable[[], bool], *, deadline_seconds: float = WAIT_SECONDS
) -> None:
    """Give way to other tasks until `condition` holds. Raises trio.TooSlowError.

    For things that give no signal; it polls with short waits on Trio's clock.
    """
    with trio.fail_after(deadline_seconds):
        while not condition():  # noqa: ASYNC110 (there is no event to wait for)
            await trio.sleep(0.005)
