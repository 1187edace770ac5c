"""The outermost ASGI wrapper: a handler starts only once the whole body of its request is here.

A handler may answer without a look at the body, as every refusal does, and what it left would be
taken for the next request or end the connection. So the body is read first, within a cap for its
route and a time for the whole of it, and replayed. After it the handler's `receive` gives
`http.disconnect` once the client leaves, and keeps giving it.
"""

from collections.abc import Callable

import trio

from web.asgi import ASGIApp, Message, Receive, Scope, Send
from web.errors import send_error

CapFor = Callable[[str, str], int]
WaitsAt = Callable[[str], bool]

_CLOSE = [(b"connection", b"close")]


class _TooLarge(Exception):
    """The body is over the cap of its route."""


class _Left(Exception):
    """The client has left, or sent nonsense that the wire answered with a 400."""


def body_reader(
    app: ASGIApp, *, cap_for: CapFor, waits_at: WaitsAt, whole_body_seconds: float = 30.0
) -> ASGIApp:
    """Wrap `app`: 413 for a body over `cap_for(method, path)` bytes, 408 for one that is late.

    Both close the connection. WebSockets pass through, answers are not touched. A handler hears of
    a client that leaves only where it waits for something (`waits_at(path)`): elsewhere it answers
    at once, and a client that merely ended its own side gets that answer.
    """

    async def reading(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        heard = receive if waits_at(scope["path"]) else _without_leaving(receive)
        announced = _announced_bytes(scope)
        if announced == 0:
            await app(scope, heard, send)
            return
        cap = cap_for(scope["method"], scope["path"])
        body: bytes | None = None
        try:
            with trio.move_on_after(whole_body_seconds):
                body = await _read_whole(receive, cap, announced or 0)
        except _TooLarge:
            sentence = f"The body may have {cap} bytes here."
            await send_error(send, 413, "body_too_large", sentence, headers=_CLOSE)
        except _Left:
            return
        else:
            if body is None:
                sentence = f"The body did not arrive within {whole_body_seconds:g} seconds."
                await send_error(send, 408, "request_timeout", sentence, headers=_CLOSE)
            else:
                await app(scope, _replay(body, heard), send)

    return reading


def _announced_bytes(scope: Scope) -> int | None:
    """Return the length that the head gives; None if only the end of the body will tell.

    A head with neither a length nor chunks announces an empty body (RFC 9112, 6.3).
    """
    announced: int | None = 0
    for name, value in scope["headers"]:
        if name == b"transfer-encoding":
            return None
        if name == b"content-length":
            announced = int(value)
    return announced


async def _read_whole(receive: Receive, cap: int, announced: int) -> bytes:
    if announced > cap:
        raise _TooLarge
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Left
        part = message.get("body", b"")
        size += len(part)
        if size > cap:
            raise _TooLarge
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _without_leaving(receive: Receive) -> Receive:
    async def staying() -> Message:
        message = await receive()
        if message["type"] == "http.disconnect":
            await trio.sleep_forever()
        return message

    return staying


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
