"""The runner as a process: it serves until it is told to stop."""

import trio

from muster.clients.agent.dial import Closed
from muster.clients.agent.gateway import Gateway
from muster.clients.stopping import cancel_on_signal


async def until_stopped(gateway: Gateway) -> Closed | None:
    """Run `gateway` until SIGTERM or SIGINT (None), or until it is turned away for good."""
    closed: Closed | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_on_signal, nursery.cancel_scope)
        closed = await gateway.run()
        nursery.cancel_scope.cancel()
    return closed
