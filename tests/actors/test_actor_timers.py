"""Messages to oneself, later."""
# ruff: noqa: D102 (the methods of what is under test explain themselves)


from __future__ import annotations

import pytest
import trio

from actors import Actor, ActorCrashed, TooManyTimers
from actors.timers import TIMERS_MAX
from tests.actors.guests import one


class Ticking(Actor):
    """Arms timers by message."""

    def __init__(self, got: list[tuple[float, object]]) -> None:
        self.got = got

    async def started(self) -> None:
        self.timers.after(1000, "started")

    async def handle(self, message: object) -> None:
        match message:
            case ("after", float() | int() as seconds, key):
                self.timers.after(seconds, (seconds, key), key)
            case ("cancel", key):
                self.timers.cancel(key)
            case ("block", float() | int() as seconds):
                await trio.sleep(seconds)
            case "crash":
                raise ValueError("on request")
            case "flood":
                for number in range(TIMERS_MAX):
                    self.timers.after(1, number)
            case _:
                self.got.append((trio.current_time(), message))


async def test_timers_fire_in_order_and_a_key_names_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Timers come at their times; arming a key again replaces the earlier one."""
    got: list[tuple[float, object]] = []
    async with one(lambda: Ticking(got)) as address:
        start = trio.current_time()
        for seconds, key in ((5, None), (2, None), (1, "k"), (3, "k")):
            address.tell(("after", seconds, key))
        await trio.sleep(10)
    assert [(at - start, message) for at, message in got] == [
        (2, (2, None)),
        (3, (3, "k")),
        (5, (5, None)),
    ]


async def test_a_cancelled_timer_is_not_handled_even_when_it_waits_already(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """cancel() takes back a message that fired while the actor was busy."""
    got: list[tuple[float, object]] = []
    async with one(lambda: Ticking(got)) as address:
        for message in (("after", 1, "k"), ("block", 5), ("cancel", "k")):
            address.tell(message)
        await trio.sleep(0.5)
        address.tell("hint", key="k")
        await trio.sleep(20)
    assert [message for _, message in got] == ["hint"]


async def test_timers_end_with_their_incarnation(autojump_clock: trio.testing.MockClock) -> None:
    """After a crash neither armed timers nor their waiting messages reach the next one."""
    got: list[tuple[float, object]] = []
    async with one(lambda: Ticking(got)) as address:
        for message in (("after", 1, None), ("after", 9, None), ("block", 5), "crash", "kept"):
            address.tell(message)
        await trio.sleep(900)
    assert [message for _, message in got] == ["kept"]


async def test_a_timer_against_a_full_mailbox_comes_later(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A timer that finds the mailbox full tries again and is not lost."""
    got: list[tuple[float, object]] = []
    async with one(lambda: Ticking(got), mailbox_size=2) as address:
        address.tell(("after", 1, "k"))
        address.tell(("block", 5))
        await trio.testing.wait_all_tasks_blocked()
        address.tell("a")
        address.tell("b")
        await trio.sleep(20)
    assert [message for _, message in got] == ["a", "b", (1, "k")]


async def test_timers_are_bounded(autojump_clock: trio.testing.MockClock) -> None:
    """One timer more than the bound crashes the actor with TooManyTimers."""
    async with one(lambda: Ticking([])) as address:
        with pytest.raises(ActorCrashed) as caught:
            await address.ask("flood", deadline_seconds=1)
    assert isinstance(caught.value.__cause__, TooManyTimers)
