"""The bones of the tests' own servers: a real socket of this machine, and HTTP/1.1 on it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from socket import SO_LINGER, SOL_SOCKET
from struct import pack

import h11
import trio

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


@asynccontextmanager
async def serving(
    handle: Callable[[trio.SocketStream], Awaitable[None]], *, host: str = "127.0.0.1"
) -> AsyncIterator[int]:
    """Give each connection to `handle` until the block ends; yields the port, which was free."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host=host)
        nursery.start_soon(partial(trio.serve_listeners, handle, listeners))
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def reset_when_closed(socket: trio.socket.SocketType) -> None:
    """Let the connection end without a goodbye."""
    socket.setsockopt(SOL_SOCKET, SO_LINGER, pack("ii", 1, 0))


async def read_request(
    stream: Stream, connection: h11.Connection
) -> tuple[h11.Request, bytes] | None:
    """Read one request with its body; None when the connection is over."""
    head: h11.Request | None = None
    body = b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(bytes(await stream.receive_some(65536)))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            return head, body
        else:
            return None


def encode_answer(
    connection: h11.Connection, status: int, headers: Iterable[tuple[str, str]], body: bytes
) -> bytes:
    """A whole answer; one of 204 has no length."""
    length = [] if status == 204 else [("content-length", str(len(body)))]
    events = (
        h11.Response(status_code=status, headers=[*headers, *length]),
        h11.Data(data=body),
        h11.EndOfMessage(),
    )
    return b"".join(connection.send(event) or b"" for event in events)
