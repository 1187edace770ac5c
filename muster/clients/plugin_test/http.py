"""HTTP/1.1 as the fake muster speaks it: one request, one answer, whatever goes wrong between."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial

import attrs
import h11
import trio

READ_BYTES = 64 * 1024
BODY_BYTES_MAX = 1024 * 1024
CONNECTIONS_MAX = 64


@attrs.frozen(kw_only=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@attrs.frozen(kw_only=True)
class Told:
    """An answer; `body` is JSON, or empty."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class NoAnswer(Exception):
    """The connection closes without a byte."""


Handle = Callable[[Asked], Awaitable[Told]]
After = Callable[[Asked, Told], None]


@contextlib.asynccontextmanager
async def open_http(handle: Handle, after: After) -> AsyncIterator[int]:
    """Serve on a free port of 127.0.0.1, which is yielded; `after` is called once it was sent."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        limit = trio.CapacityLimiter(CONNECTIONS_MAX)
        serve = partial(_serve, handle, after, limit)
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def _serve(
    handle: Handle, after: After, limit: trio.CapacityLimiter, stream: trio.SocketStream
) -> None:
    async with limit, stream:
        connection = h11.Connection(h11.SERVER)
        try:
            while (asked := await _read(stream, connection)) is not None:
                told = await _while_there(stream, connection, handle, asked)
                await stream.send_all(_encode(connection, told))
                after(asked, told)
                if connection.our_state is not h11.DONE:
                    return
                connection.start_next_cycle()
        except (NoAnswer, trio.BrokenResourceError, h11.ProtocolError):
            return


async def _while_there(
    stream: trio.SocketStream, connection: h11.Connection, handle: Handle, asked: Asked
) -> Told:
    """Handle a request, unless its client leaves before: a claim of the dead takes no reply."""
    told: Told | None = None

    async def watch(scope: trio.CancelScope) -> None:
        try:
            while data := await stream.receive_some(READ_BYTES):
                connection.receive_data(bytes(data))
        except trio.BrokenResourceError:
            pass  # a kill ends a connection so
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, nursery.cancel_scope)
        with contextlib.suppress(NoAnswer):
            told = await handle(asked)
        nursery.cancel_scope.cancel()
    if told is None:
        raise NoAnswer
    return told


async def _read(stream: trio.SocketStream, connection: h11.Connection) -> Asked | None:
    """Read one request; None when the client is gone or sends more than anybody may."""
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if connection.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                await stream.send_all(connection.send(go_on) or b"")
            connection.receive_data(bytes(await stream.receive_some(READ_BYTES)))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > BODY_BYTES_MAX:
                return None
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            return Asked(
                method=head.method.decode(),
                path=head.target.decode().partition("?")[0],
                headers={name.decode(): value.decode("latin-1") for name, value in head.headers},
                body=bytes(body),
            )
        else:
            return None


def _encode(connection: h11.Connection, told: Told) -> bytes:
    headers = [*told.headers, ("cache-control", "no-store")]
    if told.status != 204:
        headers += [("content-type", "application/json"), ("content-length", str(len(told.body)))]
    events = (
        h11.Response(status_code=told.status, headers=headers),
        h11.Data(data=told.body),
        h11.EndOfMessage(),
    )
    return b"".join(connection.send(event) or b"" for event in events)
