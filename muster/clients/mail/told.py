"""Work that is told of a cancellation instead of being cut off by it.

A sending that is cut off anywhere can't say how far it came. So it runs under a shield, and a
cancellation from outside only calls a function, which ends the work as early as is right. The
caller gets what the work returned or raised, and ends at its own next wait.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

T = TypeVar("T")


async def run_told(work: Callable[[], Awaitable[T]], *, on_cancel: Callable[[], None]) -> T:
    """Run `work` to its own end; a cancellation calls `on_cancel`, once, and goes no further.

    Returns or raises what `work` does. `on_cancel` must see to it that `work` ends soon.
    """
    is_over = False
    results: list[T] = []
    failed: BaseException | None = None

    async def tell() -> None:
        await _until_cancelled()
        if not is_over:
            on_cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tell)
        try:
            with trio.CancelScope(shield=True):
                results.append(await work())
        except BaseException as error:  # noqa: BLE001 - raised below, out of the nursery's group
            failed = error
        is_over = True
        nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed
    return results[0]


async def _until_cancelled() -> None:
    """Return, and not raise, once this task is cancelled."""
    task = trio.lowlevel.current_task()

    def awake(_raise_cancel: Callable[[], object]) -> trio.lowlevel.Abort:
        trio.lowlevel.reschedule(task)
        return trio.lowlevel.Abort.FAILED

    await trio.lowlevel.wait_task_rescheduled(awake)
