"""How a program on the other side of the wire is told to stop."""

import signal

import trio


async def cancel_on_signal(scope: trio.CancelScope) -> None:
    """Cancel `scope` on SIGTERM, SIGINT or SIGHUP; run it in a nursery within that scope."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as stops:
        await anext(aiter(stops))
    scope.cancel()
