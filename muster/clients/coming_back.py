"""Coming back to a socket for ever, after every loss that a wait can mend.

Three losses no wait mends: the token is bad, its holder may not, or another program took over (two
that fight for one place would supersede each other for ever).
"""

import random
from collections.abc import Awaitable, Callable, Mapping

import attrs
import trio

from muster.clients.dial import Close, Closed

STEADY_SECONDS = 30.0  # a connection that lived as long starts the backoff anew
SLOW_DOWN_SECONDS = 30.0
SLOW_DOWN_SECONDS_MAX = 600.0
FINAL = frozenset({Close.BAD_TOKEN, Close.NOT_ALLOWED, Close.SUPERSEDED})


@attrs.frozen(kw_only=True)
class Backoff:
    """How long to wait before connecting again, in seconds: exponential, with full jitter."""

    least_seconds: float = 1.0
    most_seconds: float = 30.0

    def wait_seconds(self, attempt: int, closed: Closed, chance: float) -> float:
        """The wait when `attempt` failures in a row came before, with `chance` in 0..1 as jitter.

        A slow-down is obeyed: at least what the server named, 30 s when it named nothing, and at
        most 10 minutes.
        """
        ceiling = min(self.most_seconds, self.least_seconds * 2.0 ** min(attempt + 1, 16))
        wait = self.least_seconds + (ceiling - self.least_seconds) * chance
        if closed.code != Close.SLOW_DOWN:
            return wait
        named = (
            SLOW_DOWN_SECONDS if closed.retry_after_seconds is None else closed.retry_after_seconds
        )
        return min(named, SLOW_DOWN_SECONDS_MAX) + wait - self.least_seconds


async def come_back(
    connect: Callable[[], Awaitable[Closed]],
    backoff: Backoff,
    report: Callable[[str, Mapping[str, object]], None],
) -> Closed:
    """Run `connect` again and again until it ends for a reason of FINAL, which is returned."""
    attempt = 0
    while True:
        connected_at = trio.current_time()
        closed = await connect()
        if closed.code in FINAL:
            return closed
        if trio.current_time() - connected_at >= STEADY_SECONDS:
            attempt = 0
        jitter = random.random()  # noqa: S311 - spreads load, hides nothing
        wait = backoff.wait_seconds(attempt, closed, jitter)
        attempt += 1
        report(
            "disconnected",
            {"code": closed.code, "reason": closed.reason, "retry_seconds": round(wait, 3)},
        )
        await trio.sleep(wait)
