r"""One request and its answer on the wire, as ASGI's `receive` and `send`.

Theory of operation. A connection has one task. It reads a head, calls the handler in place, and
reads on when the answer is out; the handler's own `receive` reads what it wants of the body, and
then waits for the client to leave. So nothing is queued between a reader and a handler, and a
client that sends ahead waits in the kernel's buffer. Rejected: a task for each request, fed by a
queue (Hypercorn's way), which costs more than the parsing.

    head   --body sent-->  begun  --last body sent-->  done
      \--a malformed body: 400, and the client is taken for gone

A head waits for its first bytes of body, as ASGI asks, so that most answers are one write. A
handler that breaks what it announced (a length, a header with a line break) has crashed: nothing
is sent of it if nothing was yet, else the connection ends in the middle, where a client sees it.
"""

import functools
from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

import trio

from web.asgi import Message, PeerGone, Scope
from web.errors import error_body, error_headers
from web.heads import Head, Header, Refusal, take_chunk_size, take_trailers
from web.line import CHUNK_BYTES, Line

REFUSALS = {
    400: ("malformed_request", "The request is not valid HTTP."),
    408: ("request_timeout", "The head of the request did not arrive in time."),
    431: ("head_too_large", "The head of the request is too large."),
    501: ("unknown_coding", "This server takes a body with a length or in chunks."),
    505: ("http_version", "This server speaks HTTP/1.1 only."),
}
CLOSE: Header = (b"connection", b"close")
_STATUS_LINES = {
    code.value: f"HTTP/1.1 {code.value} {code.phrase}\r\n".encode() for code in HTTPStatus
}
_BODILESS = {204, 304}
_ASGI = {"version": "3.0", "spec_version": "2.1"}


class Exchange:
    """One request and its answer."""

    def __init__(self, head: Head, line: Line, buffer: bytearray, *, head_bytes_max: int) -> None:
        self._head = head
        self._line = line
        self._buffer = buffer
        self._head_bytes_max = head_bytes_max
        self._expects = head.expects
        self._chunk_left = 0
        self._in_chunks = False  # whether a chunk was begun, and so ends with a line break
        self._body_left: int | None = head.length
        self._body_given = False
        self._gone = False
        self._held_head: bytes | None = None
        self._answer_left: int | None = None
        self._answer_chunked = False
        self._bodiless = head.method == b"HEAD"
        self.begun = False
        self.done = False
        self.keeps = head.keeps

    @property
    def body_is_over(self) -> bool:
        """Whether the whole body was read, so that the next bytes are the next request."""
        return self._body_left == 0

    async def receive(self) -> Message:
        """ASGI's receive: the body part by part, then the client's leaving, for ever."""
        if not self._gone and not self._body_given:
            try:
                return await self._receive_body()
            except Refusal as refusal:
                await self._refuse(refusal.status)
        while not self._gone:
            # A client that sends ahead is read only as far as one buffer goes.
            if len(self._buffer) >= CHUNK_BYTES:
                await trio.sleep_forever()
            await self._read()
        return {"type": "http.disconnect"}

    async def _receive_body(self) -> Message:
        if self._expects and self._body_left != 0:
            self._expects = False
            await self._ask_for_body()
        if self._body_left is None:
            if self._in_chunks:
                # A client that sends a byte a chunk must not keep everybody else waiting.
                await trio.lowlevel.checkpoint()
            part = await self._take_chunked()
        else:
            if self._body_left and not self._buffer:
                await self._read_on()
            part = self._take(self._body_left)
            self._body_left -= len(part)
        self._body_given = self._body_left == 0
        return {"type": "http.request", "body": part, "more_body": not self._body_given}

    async def _ask_for_body(self) -> None:
        try:
            await self._line.send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise Refusal(400) from None  # there will be no body

    async def _take_chunked(self) -> bytes:
        """Return some of a body in chunks; nothing only at its end."""
        while not self._chunk_left:
            if self._in_chunks:
                while len(self._buffer) < len(b"\r\n"):
                    await self._read_on()
                if self._take(2) != b"\r\n":
                    raise Refusal(400)
                self._in_chunks = False
            while (size := take_chunk_size(self._buffer)) is None:
                await self._read_on()
            if size == 0:
                while not take_trailers(self._buffer, self._head_bytes_max):
                    await self._read_on()
                self._body_left = 0
                return b""
            self._chunk_left, self._in_chunks = size, True
        if not self._buffer:
            await self._read_on()
        part = self._take(self._chunk_left)
        self._chunk_left -= len(part)
        return part

    def _take(self, bytes_max: int) -> bytes:
        part = bytes(self._buffer[:bytes_max])
        del self._buffer[:bytes_max]
        return part

    async def _read_on(self) -> None:
        """Read more of a body, which must not end here."""
        await self._read()
        if self._gone:
            raise Refusal(400)

    async def _read(self) -> None:
        try:
            data = await self._line.receive_some(CHUNK_BYTES)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            data = b""
        self._buffer += data
        self._gone = not data

    async def _refuse(self, status: int) -> None:
        """Answer a body that is none, unless an answer has begun; nothing follows it."""
        self._gone, self.keeps = True, False
        if not self.begun and not self._line.closing:
            self.begun = self.done = True
            await refuse(self._line, status, without_body=self._bodiless)

    async def send(self, message: Message) -> None:
        """ASGI's send; PeerGone once nobody is left to read it."""
        if self._line.closing or self.done:
            # A loop that sends to nobody would otherwise never reach a checkpoint.
            await trio.lowlevel.checkpoint()
            raise PeerGone
        if message["type"] == "http.response.start":
            assert self._held_head is None, "an answer has one head"
            assert not self.begun, "an answer has one head"
            self._held_head = self._make_head(message["status"], message.get("headers", ()))
            return
        more = message.get("more_body", False)
        data = self._frame(message.get("body", b""), more=more)
        if data:
            await self._write(data)
        if not more:
            self.done = True
        elif data:
            # A client that reads as fast as we write must not keep everybody else waiting.
            await trio.lowlevel.checkpoint()

    def give_up(self) -> None:
        """Answer nothing more: the handler has ended because its client left."""
        if not self.done:
            self.done, self.keeps = True, False

    def forget_head(self) -> None:
        """Drop a head that was not written yet, for another answer."""
        assert not self.begun
        self._held_head = None

    def _make_head(self, status: int, headers: Iterable[Header]) -> bytes:
        lines = []
        length: int | None = None
        for name, value in headers:
            match name.lower():
                case b"connection":
                    # What becomes of the connection is the wire's to say.
                    self.keeps = self.keeps and b"close" not in value.lower()
                    continue
                case b"content-length":
                    length = int(value)
            lines.append(b"%b: %b\r\n" % (name, value))
        self._bodiless = self._bodiless or status in _BODILESS
        self._answer_left = length
        if length is None and not self._bodiless:
            if self._head.version == b"1.1":
                self._answer_chunked = True
                lines.append(b"transfer-encoding: chunked\r\n")
            else:
                self.keeps = False
        if not self.keeps:
            lines.append(b"connection: close\r\n")
        return make_head(status, lines)

    def _frame(self, body: bytes, *, more: bool) -> bytes:
        """Return what is to be written for a part of the body, with the head before the first."""
        assert self._held_head is not None or self.begun, "the head comes first"
        if self._bodiless:
            framed = b""
        elif self._answer_chunked:
            framed = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            framed += b"" if more else b"0\r\n\r\n"
        else:
            framed = body
            if self._answer_left is not None:
                self._answer_left -= len(body)
                over = self._answer_left < 0 or (self._answer_left and not more)
                assert not over, "the body has another length than its head says"
        if self._held_head is None or not (framed or not more):
            return framed
        head, self._held_head = self._held_head, None
        return head + framed

    async def _write(self, data: bytes) -> None:
        self.begun = True
        try:
            await self._line.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise PeerGone from None

    def scope(self, client: object, server: object) -> Scope:
        """Return the ASGI scope of the request."""
        head = self._head
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": head.version.decode(),
            "method": head.method.decode(),
            "scheme": "http",
            "path": head.path,
            "raw_path": head.raw_path,
            "query_string": head.query,
            "root_path": "",
            "headers": head.headers,
            "client": client,
            "server": server,
            "state": {},
            "extensions": {},
        }


def make_head(status: int, lines: list[bytes]) -> bytes:
    """Join a head whose lines end in CR LF; ValueError for one that has a line break of its own."""
    head = b"".join([_STATUS_LINES[status], *lines, _date_line(int(trio.current_time())), b"\r\n"])
    if not head.count(b"\n") == head.count(b"\r") == len(lines) + 3:
        raise ValueError("a header of an answer has a line break in it")
    return head


@functools.lru_cache(maxsize=1)
def _date_line(_second: int) -> bytes:
    return f"date: {formatdate(usegmt=True)}\r\n".encode()


async def refuse(line: Line, status: int, *, without_body: bool) -> None:
    """Answer with an error of the wire's own and end our side."""
    code, sentence = REFUSALS.get(status, REFUSALS[400])
    body = error_body(code, sentence)
    headers: list[Any] = [*error_headers(body), CLOSE]
    head = make_head(status, [b"%b: %b\r\n" % header for header in headers])
    line.wants_linger = True
    try:
        # To HEAD the body is only announced.
        await line.send_all(head if without_body else head + body)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return
    line.hang_up()
