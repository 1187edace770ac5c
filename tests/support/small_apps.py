"""The same few routes as raw ASGI and as Quart-Trio: what a hostile client is let loose on."""

from collections.abc import AsyncIterator, Callable
from typing import cast

import trio
from quart import Response, request, websocket
from quart_trio import QuartTrio

from web.asgi import ASGIApp, Receive, Scope, Send
from web.body_reader import body_reader
from web.errors import send_error

CAP_BYTES = 64 * 1024
MEGABYTE = b"x" * (1024 * 1024)


def capped(app: ASGIApp) -> ASGIApp:
    """Put the body reader in front, with one cap for all routes."""
    return body_reader(
        app,
        cap_for=lambda _method, _path: CAP_BYTES,
        waits_at=lambda _path: True,
        whole_body_seconds=0.5,
    )


async def answer(send: Send, body: bytes, status: int = 200) -> None:
    """Answer in one piece."""
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def raw_app(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the routes as plain ASGI."""
    if scope["type"] == "websocket":
        await _echo_socket(receive, send)
        return
    match scope["path"]:
        case "/healthz":
            await answer(send, b"ok")
        case "/echo":
            await answer(send, (await receive())["body"])
        case "/refuse":
            await send_error(send, 401, "unauthorized", "No.")
        case "/endless":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                await send({"type": "http.response.body", "body": MEGABYTE, "more_body": True})
        case "/park":
            while (await receive())["type"] != "http.disconnect":
                pass
        case "/crash":
            raise LookupError("this handler is broken")
        case _:
            await send_error(send, 404, "not_found", "There is nothing here.")


async def _echo_socket(receive: Receive, send: Send) -> None:
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"] or ""})


def quart_app(parked_ended: Callable[[], None] = lambda: None) -> ASGIApp:
    """Serve the routes with Quart-Trio; `parked_ended` is called when /park is over."""
    app = QuartTrio("small")

    @app.get("/healthz")
    async def healthz() -> str:
        return "ok"

    @app.post("/echo")
    async def echo() -> bytes:
        return cast("bytes", await request.get_data())

    @app.post("/refuse")
    async def refuse() -> Response:
        return Response('{"error": "No.", "code": "unauthorized"}', status=401)

    @app.get("/endless")
    async def endless() -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            while True:
                yield MEGABYTE

        return Response(pieces())

    @app.get("/park")
    async def park() -> str:
        try:
            await trio.sleep_forever()
        finally:
            parked_ended()

    @app.get("/crash")
    async def crash() -> str:
        raise LookupError("this handler is broken")

    @app.websocket("/socket")
    async def socket() -> None:
        while True:
            await websocket.send(await websocket.receive())

    return cast("ASGIApp", app)
