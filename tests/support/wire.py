"""A real server on a free port of 127.0.0.1, and clients that speak raw bytes to it."""

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from socket import SO_LINGER, SOL_SOCKET

import attrs
import h11
import trio

from web.asgi import ASGIApp
from web.line import Counts, Limits
from web.serve import serve

HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n"


@attrs.define(kw_only=True)
class Floor:
    """A served app: where it listens, what it reported, and the switch that ends it."""

    port: int
    counts: Counts
    shutdown: trio.Event
    reports: list[tuple[BaseException, str]] = attrs.field(factory=list)
    clients: "list[RawClient]" = attrs.field(factory=list)

    async def open(self) -> "RawClient":
        """Connect a new client; it stays until it leaves or the server is over."""
        client = RawClient(await trio.open_tcp_stream("127.0.0.1", self.port))
        self.clients.append(client)
        return client


@attrs.frozen(kw_only=True)
class Answer:
    """One HTTP answer."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes


class RawClient:
    """A TCP connection of the test's own."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._http = h11.Connection(h11.CLIENT)

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        await self.stream.send_all(data)

    async def half_close(self) -> None:
        """End our side and go on reading."""
        await self.stream.send_eof()

    async def read_to_end(self) -> bytes:
        """Read until the server ends its side; a reset counts as an end."""
        whole = b""
        with trio.fail_after(5):
            try:
                async for part in self.stream:
                    whole += part
            except trio.BrokenResourceError:
                whole += b"<reset>"
        return whole

    async def answer(self, method: bytes = b"GET") -> Answer:
        """Read one answer to a request that was sent as raw bytes."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        if self._http.our_state is h11.IDLE:
            # Tell the parser what was asked; the bytes it would send are not those of the test.
            self._http.send(h11.Request(method=method, target="/", headers=[("host", "test")]))
            self._http.send(h11.EndOfMessage())
        head: h11.Response | None = None
        body = b""
        with trio.fail_after(5):
            while True:
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    self._http.receive_data(bytes(await self.stream.receive_some(65_536)))
                elif isinstance(event, h11.Response):
                    head = event
                elif isinstance(event, h11.Data):
                    body += bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    break
        assert head is not None
        return Answer(status=head.status_code, headers=dict(head.headers), body=body)

    async def healthy(self) -> bool:
        """Ask for /healthz on this connection."""
        await self.send(HEALTHZ)
        return (await self.answer()).status == 200

    def reset(self) -> None:
        """Leave with a reset instead of a goodbye."""
        self.stream.socket.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        self.stream.socket.close()

    def leave(self) -> None:
        """Close the connection."""
        self.stream.socket.close()


@asynccontextmanager
async def served(
    app: ASGIApp, *, limits: Limits | None = None, grace_seconds: float = 0.3
) -> AsyncIterator[Floor]:
    """Serve `app` while the block runs, then see that shutdown ends within its time."""
    floor = Floor(port=0, counts=Counts(), shutdown=trio.Event())
    async with trio.open_nursery() as nursery:
        floor.port = await nursery.start(
            partial(
                serve,
                app,
                host="127.0.0.1",
                port=0,
                report=lambda crash, where: floor.reports.append((crash, where)),
                shutdown=floor.shutdown,
                grace_seconds=grace_seconds,
                limits=limits,
                counts=floor.counts,
            )
        )
        try:
            yield floor
        except BaseException:
            nursery.cancel_scope.cancel()
            for client in floor.clients:
                client.leave()
            raise
        floor.shutdown.set()
        nursery.cancel_scope.deadline = trio.current_time() + grace_seconds + 1.5
    for client in floor.clients:
        client.leave()
    assert not nursery.cancel_scope.cancelled_caught, "shutdown took longer than its time"
    assert floor.counts.open == 0
