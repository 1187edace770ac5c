"""How a program on the other side of the wire is told to stop."""

import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

R = TypeVar("R")


async def until_stopped(work: Callable[[], Awaitable[R]]) -> R | None:
    """Do `work` to its end, or until SIGTERM, SIGINT or SIGHUP (None)."""
    result: R | None = None
    async with trio.open_nursery() as nursery:
        # Before the work, which may take its time to begin, would be ended by a signal's default.
        await nursery.start(_cancel_on_signal, nursery.cancel_scope)
        result = await work()
        nursery.cancel_scope.cancel()
    return result


async def _cancel_on_signal(
    scope: trio.CancelScope, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as stops:
        task_status.started()
        await anext(aiter(stops))
    scope.cancel()
