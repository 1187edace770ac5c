"""An HTTP/1.1 client that costs little, so that the figures are the server's.

It knows what our server answers (a body of known length, chunks, or none), keeps one connection
alive, and is no client for anything else.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import attrs
import trio

ANSWER_SECONDS_MAX = 40.0
_CHUNK_BYTES = 64 * 1024


@attrs.frozen(kw_only=True)
class Answer:
    """A status and the body's bytes."""

    status: int
    body: bytes


@attrs.define
class Incoming:
    """The bytes that come, taken up to a mark or by number; ConnectionError at their end."""

    stream: trio.SocketStream
    _rest: bytes = b""

    async def until(self, mark: bytes) -> bytes:
        """What comes before the mark, which is taken too."""
        while mark not in self._rest:
            await self._read_more()
        taken, _, self._rest = self._rest.partition(mark)
        return taken

    async def take(self, length: int) -> bytes:
        """So many bytes."""
        while len(self._rest) < length:
            await self._read_more()
        taken, self._rest = self._rest[:length], self._rest[length:]
        return taken

    async def _read_more(self) -> None:
        more = await self.stream.receive_some(_CHUNK_BYTES)
        if not more:
            raise ConnectionError("the server closed the connection")
        self._rest += more


@attrs.frozen
class Connection:
    """One kept-alive connection; one request at a time."""

    stream: trio.SocketStream
    incoming: Incoming

    @classmethod
    @asynccontextmanager
    async def open(cls, port: int) -> "AsyncIterator[Connection]":
        """Connect to the loopback."""
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            yield cls(stream, Incoming(stream))

    async def ask(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request and read its answer; raises trio.TooSlowError after 40 s."""
        content = b"" if body is None else json.dumps(body).encode()
        head = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(content)}"]
        head += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if token:
            head.append(f"Authorization: Bearer {token}")
        with trio.fail_after(ANSWER_SECONDS_MAX):
            await self.stream.send_all("\r\n".join([*head, "", ""]).encode() + content)
            return await self._read_answer()

    async def _read_answer(self) -> Answer:
        head = await self.incoming.until(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        if headers.get("transfer-encoding") == "chunked":
            body = await self._read_chunks()
        else:
            body = await self.incoming.take(int(headers.get("content-length", "0")))
        return Answer(status=int(first.split()[1]), body=body)

    async def _read_chunks(self) -> bytes:
        body = b""
        while True:
            size = int(await self.incoming.until(b"\r\n"), 16)
            body += await self.incoming.take(size)
            await self.incoming.take(2)
            if size == 0:
                return body
