"""Opens the WebSocket and closes it whole, and reads every ending as one `Closed`.

trio-websocket's `open_websocket_url` was rejected: in 0.12.2 it leaves the TCP stream open when the
server closes or refuses (seen), so the stream is opened, owned and closed here.
"""

import enum
import re
import ssl
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import attrs
import trio
import trio_websocket

from muster.clients.reasons import why_unconnected
from muster.clients.urls import read_http_url

CONNECT_SECONDS = 10.0
GOODBYE_SECONDS = 2.0  # for the closing handshake
FRAME_BYTES_MAX = 1 << 20  # of one frame from the server; the longest has about 600 KiB

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]
Serve = Callable[[trio_websocket.WebSocketConnection], Awaitable["Closed"]]


class Close(enum.IntEnum):
    """Why a socket ended, where a client acts on it; others are merely a lost connection."""

    LOST = 1006  # no close frame came
    SHUTDOWN = 1001
    BAD_FRAME = 4400
    BAD_TOKEN = 4401
    NOT_ALLOWED = 4403
    HEARTBEAT_MISSED = 4408
    SUPERSEDED = 4409
    SLOW_DOWN = 4429


@attrs.frozen(kw_only=True)
class Closed:
    """How a connection ended: a WebSocket close code (HTTP refusals mapped to ours) and why."""

    code: int
    reason: str
    retry_after_seconds: float | None = None


def socket_url(url: str, path: str) -> str:
    """The address of the socket at `path` under muster's `url`.

    ValueError when that is no http address.
    """
    parts = read_http_url(url)
    if parts is None:
        raise ValueError("the URL of muster is not an address like http://localhost:8420")
    scheme = "wss" if parts.scheme == "https" else "ws"
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}{path}"


def closed_by(code: int, reason: str | None) -> Closed:
    """Read a close frame; a slow-down may name its seconds in the reason."""
    named = re.search(r"\d+", reason or "") if code == Close.SLOW_DOWN else None
    seconds = float(named.group()[:6]) if named else None
    return Closed(code=code, reason=reason or "", retry_after_seconds=seconds)


def closed_by_http(rejected: trio_websocket.ConnectionRejected) -> Closed:
    """Read an HTTP refusal of the handshake as the close code that means the same."""
    status = rejected.status_code
    headers = {name.lower(): value for name, value in rejected.headers}
    after = headers.get(b"retry-after", b"").decode("latin-1")
    codes = {401: Close.BAD_TOKEN, 403: Close.NOT_ALLOWED, 429: Close.SLOW_DOWN}
    return Closed(
        code=codes.get(status, Close.LOST),
        reason=f"the server answered HTTP {status}",
        retry_after_seconds=float(after[:6]) if after.isascii() and after.isdigit() else None,
    )


async def converse(url: str, token: str, tls: ssl.SSLContext | None, serve: Serve) -> Closed:
    """Connect to the WebSocket at `url`, run `serve` on it, and say how it ended."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if tls else 80)
    stream: Stream
    try:
        with trio.fail_after(CONNECT_SECONDS):
            if tls is None:
                stream = await trio.open_tcp_stream(host, port)
            else:
                stream = await trio.open_ssl_over_tcp_stream(
                    host, port, ssl_context=tls, https_compatible=True
                )
    except (OSError, trio.TooSlowError) as error:
        told = why_unconnected(error) or str(error) or f"no answer within {CONNECT_SECONDS:g} s"
        return Closed(code=Close.LOST, reason=f"the server cannot be reached: {told}")
    try:
        return await _over(stream, host=parts.netloc, path=parts.path, token=token, serve=serve)
    finally:
        await trio.aclose_forcefully(stream)


async def _over(stream: Stream, *, host: str, path: str, token: str, serve: Serve) -> Closed:
    closed = Closed(code=Close.LOST, reason="the server did not answer the handshake")
    socket: trio_websocket.WebSocketConnection | None = None
    try:
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(CONNECT_SECONDS):
                socket = await trio_websocket.wrap_client_stream(
                    nursery,
                    stream,
                    host,
                    path,
                    extra_headers=[(b"authorization", f"Bearer {token}".encode())],
                    max_message_size=FRAME_BYTES_MAX,
                )
            if socket is not None:
                closed = await serve(socket)
                with trio.move_on_after(GOODBYE_SECONDS):
                    await socket.aclose()
            nursery.cancel_scope.cancel()
    except* trio_websocket.ConnectionRejected as refusals:
        refusal = refusals.exceptions[0]
        assert isinstance(refusal, trio_websocket.ConnectionRejected)
        closed = closed_by_http(refusal)
    return closed
