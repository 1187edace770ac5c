"""The runner as a process: it serves until it is told to stop."""

import signal

import trio

from muster.clients.agent.dial import Closed
from muster.clients.agent.gateway import Gateway


async def until_stopped(gateway: Gateway) -> Closed | None:
    """Run `gateway` until SIGTERM or SIGINT (None), or until it is turned away for good."""
    closed: Closed | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_on_signal, nursery.cancel_scope)
        closed = await gateway.run()
        nursery.cancel_scope.cancel()
    return closed


async def _stop_on_signal(whole: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as stops:
        await anext(aiter(stops))
    whole.cancel()
