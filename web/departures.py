"""Who hangs up while their handler waits for something else.

A parked claim is one task, and that task waits for a reply, not for its client. So one task of the
whole server listens for all of them, by an epoll of its own that asks for nothing but the end of
the client's side or of the connection. An end is heard also behind bytes that nobody has read.
Rejected: a second task for each waiting handler that reads (4 KiB and 50 µs each).
"""

import select
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import trio

# Where a handler finds `Departures.cancelling` of its own client, among the ASGI extensions.
WHILE_THERE = "muster.while_there"
WhileThere = Callable[[], AbstractContextManager[None]]


class Departures:
    """The clients whose leaving ends something."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._scopes: dict[int, trio.CancelScope] = {}

    async def run(self) -> None:
        """Listen until cancelled."""
        try:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                for descriptor, _ in self._epoll.poll(0):
                    self._scopes[descriptor].cancel()
        finally:
            self._epoll.close()

    @contextmanager
    def cancelling(self, descriptor: int) -> Iterator[None]:
        """Cancel the block once the peer of this open socket ends its side or is lost.

        One block at a time for a socket. You don't get Cancelled outside: the block just ends.
        """
        with trio.CancelScope() as scope:
            # Told once: the block may take its time to end, and would be told in vain meanwhile.
            self._epoll.register(descriptor, select.EPOLLRDHUP | select.EPOLLONESHOT)
            self._scopes[descriptor] = scope
            try:
                yield
            finally:
                del self._scopes[descriptor]
                if not self._epoll.closed:
                    self._epoll.unregister(descriptor)
