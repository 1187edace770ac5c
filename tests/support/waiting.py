"""Waiting in tests: for something, under a deadline; never for a time that will surely be enough.

These are the only real sleeps in tests/. Where the thing that is waited for has an event, a
channel or a barrier, use that: it is faster and says what it waits for.
"""

import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

import trio

T = TypeVar("T")
_INTERVAL_SECONDS = 0.01
_DAWDLE_SECONDS_MAX = 2.0


@overload
async def until(predicate: Callable[[], Awaitable[T]], seconds: float = ...) -> T: ...
@overload
async def until(predicate: Callable[[], T], seconds: float = ...) -> T: ...
async def until(predicate: Callable[[], Any], seconds: float = 15.0) -> Any:
    """Ask `predicate` (plain or async) until it says something true, and return that.

    Raises AssertionError after `seconds`, with the last answer. What the predicate raises is
    raised here at once.
    """
    deadline = time.monotonic() + seconds
    while True:
        answer = predicate()
        value = await answer if inspect.isawaitable(answer) else answer
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(_late(predicate, seconds, value))
        await trio.sleep(_INTERVAL_SECONDS)


def until_blocking(predicate: Callable[[], T], seconds: float = 15.0) -> T:
    """Do as `until` does, in a test or thread without Trio."""
    deadline = time.monotonic() + seconds
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(_late(predicate, seconds, value))
        time.sleep(_INTERVAL_SECONDS)


async def dawdle(seconds: float, *, because: str) -> None:
    """Be a slow peer, or watch that nothing happens: the time itself is what is tested.

    At most 2 s. `because` says why no event can stand here.
    """
    assert because.strip(), "say why"
    assert seconds <= _DAWDLE_SECONDS_MAX, "too long for a test"
    await trio.sleep(seconds)


def _late(predicate: Callable[[], object], seconds: float, last: object) -> str:
    source = getattr(predicate, "__qualname__", repr(predicate))
    return f"{source} was not true within {seconds} s; the last answer was {last!r}"
