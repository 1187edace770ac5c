"""Hypercorn's HTTP/1.1 and WebSocket code, with what a hostile or unlucky client can break mended.

Hypercorn 0.18 (tests/web pins each of these):

- lets an undecodable WebSocket header, a bad `HTTP2-Settings` or a frame in the handshake's
  segment escape as an exception, or forgets the connection. Here the first is 400, HTTP/2 is off
  (an `Upgrade: h2c` is ignored, which RFC 9110 allows; its preface is 505), and early frames wait
  for the handshake.
- blocks in handing "the client has left" to a handler whose queue is full, and then for ever
  (mended in `web.handlers`).
- keeps an idle connection's tasks for the whole keep-alive time after the client has left, and
  loses bytes, or the idle timer, when a handler is cancelled in its last send, and then goes silent
  on a kept connection (mended in `web.connection`).
- writes a head, a body and nothing in three writes. Here a head waits for its first bytes of body,
  as ASGI asks, so that most answers are one write.
- drops what a handler sends to a WebSocket that has ended, so a send loop never learns of it.
  Here it raises PeerGone.
- goes on collecting a message that was already too large, and inflates compressed ones without a
  limit. Here the first ends the connection and compression is not offered.
- answers a malformed head without a word. Here every refusal is JSON.
- takes a body's length from chunks when the head also gives one. A proxy in front may believe the
  other, and then the bytes between are a request of somebody else's; here that is 400.
- takes any Host, and Quart then breaks on one whose labels are no name. Here that is 400.
"""

import re
from typing import Any, cast
from urllib.parse import unquote_to_bytes, urlsplit

import h11
import trio
from hypercorn.events import Closed, RawData, Updated
from hypercorn.events import Event as WireEvent
from hypercorn.protocol.events import Body, Data, EndBody, Event, Request, StreamClosed
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol, H11WSConnection
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.protocol.ws_stream import ASGIWebsocketState, WSStream
from hypercorn.typing import H11SendableEvent
from wsproto.events import CloseConnection
from wsproto.events import Event as FrameEvent
from wsproto.frame_protocol import CloseReason

from web.asgi import PeerGone
from web.errors import error_body, error_headers
from web.line import Line

HOST_BYTES_MAX = 255 + len(":65535")
REFUSALS = {
    400: ("malformed_request", "The request is not valid HTTP."),
    408: ("request_timeout", "The head of the request did not arrive in time."),
    431: ("head_too_large", "The head of the request is too large."),
    505: ("http_version", "This server speaks HTTP/1.1 only."),
}


# RFC 3986, 3.2.2, and the lengths of RFC 1035; an empty one is allowed (RFC 9110, 7.2).
_LABEL = r"[A-Za-z0-9_~!$&'()*+,;=%-]{1,63}"
_HOST = re.compile(rf"(\[[0-9A-Fa-f:.]+\]|({_LABEL}(\.{_LABEL})*\.?)?)(:[0-9]{{0,5}})?".encode())


class Refusal(Exception):
    """The request is refused before any handler saw it."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _Parser(h11.Connection):
    """An HTTP/1.1 parser that passes over what a client sends after its last request.

    h11 calls it an error, and Hypercorn then answers 400 in place of the handler.
    """

    def receive_data(self, data: bytes) -> None:
        if data and self.their_state in {h11.MUST_CLOSE, h11.ERROR}:
            return
        super().receive_data(data)

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        if self.their_state is h11.MUST_CLOSE and self.trailing_data[0]:
            return h11.NEED_DATA
        return super().next_event()


class _Websocket(WSStream):
    """A WebSocket that takes early frames, ends with its peer and never inflates."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._settled = trio.Event()

    async def handle(self, event: Event) -> None:
        if isinstance(event, Request):
            if not _is_sound_handshake(event):
                raise Refusal(400)
            plain = [item for item in event.headers if item[0] != b"sec-websocket-extensions"]
            event = Request(
                stream_id=event.stream_id,
                headers=plain,
                http_version=event.http_version,
                method=event.method,
                raw_path=event.raw_path,
                state=event.state,
            )
        elif isinstance(event, Data):
            await self._settled.wait()
            if self.state is not ASGIWebsocketState.CONNECTED:
                return
        elif isinstance(event, StreamClosed):
            self._settled.set()
        await super().handle(event)

    async def app_send(self, message: Any) -> None:
        if self.closed and message is not None:
            await trio.lowlevel.checkpoint()
            raise PeerGone
        await super().app_send(message)
        if message is None or self.state is not ASGIWebsocketState.HANDSHAKE:
            self._settled.set()

    async def _send_wsproto_event(self, event: FrameEvent) -> None:
        await super()._send_wsproto_event(event)
        too_big = CloseReason.MESSAGE_TOO_BIG
        if isinstance(event, CloseConnection) and event.code == too_big:
            await self.send(StreamClosed(stream_id=self.stream_id))


class Http1(H11Protocol):
    """HTTP/1.1 as the only protocol, with refusals that say what was wrong."""

    def __init__(self, line: Line, *args: Any) -> None:
        super().__init__(*args)
        self.line = line
        self._held_head = b""
        self._asked_for_head = False
        self.connection = _Parser(
            h11.SERVER, max_incomplete_event_size=self.config.h11_max_incomplete_size
        )

    @property
    def awaits_head(self) -> bool:
        """Whether part of a request's head is here and the rest is not."""
        connection = self.connection
        return connection.their_state is h11.IDLE and bool(connection.trailing_data[0])

    @property
    def may_still_send(self) -> bool:
        """Whether the client is in the middle of something that it will go on sending."""
        if self.connection.their_state in {h11.IDLE, h11.DONE, h11.MUST_CLOSE, h11.CLOSED}:
            return bool(self.connection.trailing_data[0])
        return True

    async def handle(self, event: WireEvent) -> None:
        """Take bytes or the end of the line; what is refused here is answered here."""
        try:
            await super().handle(event)
        except Refusal as refusal:
            await self.refuse(refusal.status)

    async def refuse(self, status: int) -> None:
        """Answer with an error and end the connection."""
        await self._send_error_response(status)
        await self.send(Closed())

    async def _handle_events(self) -> None:
        """Hand on what was parsed, until more bytes are needed.

        Unlike Hypercorn's loop it leaves an answer that has begun alone when the rest of the
        request turns out to be nonsense: there is one voice, and the connection ends after it.
        """
        while True:
            if self.connection.they_are_waiting_for_100_continue:
                await self._send_h11_event(h11.InformationalResponse(status_code=100, headers=[]))
            try:
                event = self.connection.next_event()
            except h11.RemoteProtocolError as error:
                if self.connection.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
                    await self.refuse(error.error_status_hint)
                return
            if event is h11.PAUSED:
                await self.can_read.clear()
                await self.can_read.wait()
            elif isinstance(event, h11.Request):
                self._asked_for_head = event.method == b"HEAD"
                await self.send(Updated(idle=False))
                await self._check_protocol(event)
                await self._create_stream(event)
            elif self.stream is None or not await self._hand_on(self.stream, event):
                return

    async def _hand_on(self, stream: HTTPStream | WSStream, event: object) -> bool:
        """Give part of a body or of a socket's bytes to its stream; False if nothing is left."""
        match event:
            case h11.Data():
                await stream.handle(Body(stream_id=STREAM_ID, data=event.data))
            case h11.EndOfMessage():
                await stream.handle(EndBody(stream_id=STREAM_ID))
            case Data():
                await stream.handle(event)
            case _:
                return False
        return True

    async def _send_h11_event(self, event: H11SendableEvent) -> None:
        try:
            data = self.connection.send(event)
        except h11.LocalProtocolError:
            if self.connection.their_state is not h11.ERROR:
                raise
            return
        if isinstance(event, h11.Response):
            self._held_head = data
            return
        held, self._held_head = self._held_head, b""
        if held or data:
            await self.send(RawData(held + data))

    async def _check_protocol(self, event: h11.Request) -> None:
        if event.http_version not in {b"1.0", b"1.1"}:
            raise Refusal(505)
        if not _is_sound_head(event):
            raise Refusal(400)

    async def _create_stream(self, request: h11.Request) -> None:
        target = _origin_form(request.target)
        kind: type[HTTPStream | WSStream] = HTTPStream
        if _wants_websocket(request):
            kind = _Websocket
            self.connection = H11WSConnection(cast("h11.Connection", self.connection))
        self.stream = kind(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )
        await self.stream.handle(
            Request(
                stream_id=STREAM_ID,
                headers=list(request.headers),
                http_version=request.http_version.decode(),
                method=request.method.decode("ascii").upper(),
                raw_path=target,
                state=self.connection_state,
            )
        )
        self.keep_alive_requests += 1

    async def _send_error_response(self, status_code: int) -> None:
        code, sentence = REFUSALS.get(status_code, REFUSALS[400])
        body = error_body(code, sentence)
        headers = [*error_headers(body), (b"connection", b"close")]
        response = h11.Response(
            status_code=status_code,
            headers=headers + self.config.response_headers("h11"),
        )
        # In one piece and without a wait in between, so that no handler's answer can mix with it.
        self.line.refused = True
        # To HEAD the body is only announced; in no other state is a request still unanswered.
        if self._asked_for_head and self.connection.our_state is h11.SEND_RESPONSE:
            body = b""
        events = (response, h11.Data(data=body), h11.EndOfMessage())
        await self.send(RawData(b"".join(self.connection.send(event) for event in events)))


def _is_sound_head(request: h11.Request) -> bool:
    """Whether all readers of the head agree where its body ends, and its Host can be one."""
    headers = dict(request.headers)
    if b"transfer-encoding" in headers and (
        b"content-length" in headers or request.http_version == b"1.0"
    ):
        return False
    host = headers.get(b"host", b"")
    return len(host) <= HOST_BYTES_MAX and _HOST.fullmatch(host) is not None


def _wants_websocket(request: h11.Request) -> bool:
    headers = dict(request.headers)
    tokens = headers.get(b"connection", b"").lower().split(b",")
    return (
        request.method == b"GET"
        and headers.get(b"upgrade", b"").strip().lower() == b"websocket"
        and any(token.strip() == b"upgrade" for token in tokens)
    )


def _is_sound_handshake(request: Request) -> bool:
    headers = dict(request.headers)
    return (
        request.http_version == "1.1"
        and b"sec-websocket-key" in headers
        and headers.get(b"sec-websocket-version") == b"13"
        and all(
            value.isascii()
            for name, value in request.headers
            if name.startswith((b"sec-", b"conn"))
        )
    )


def _origin_form(target: bytes) -> bytes:
    """Return the path and query of a request target; refuse what no handler can name.

    A proxy's absolute form is cut to its path. NUL and broken UTF-8 behind percent signs are
    refused here, for every route at once (h11 refuses them when they stand there bare).
    """
    if target[:4].lower() == b"http":
        try:
            parts = urlsplit(target)
        except ValueError:
            raise Refusal(400) from None
        target = (parts.path or b"/") + (b"?" + parts.query if parts.query else b"")
    if not target.startswith(b"/"):
        raise Refusal(400)
    if b"%" in target:
        plain = unquote_to_bytes(target)
        try:
            plain.decode()
        except UnicodeDecodeError:
            raise Refusal(400) from None
        if b"\0" in plain:
            raise Refusal(400)
    return target
