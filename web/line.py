"""One client's TCP stream, with a bound on every wait for that client.

- Every write has a deadline. Writes are shielded from cancellation, so that none is half done; the
  deadline is a scope inside that shield, and drops a client that never reads.
- A close is first only the end of our side. Closing a socket in whose buffer bytes of the client
  wait makes the kernel send a reset, which can destroy the answer on its way (a 413 before the
  whole body was sent is the usual case). So `linger` reads on for a short, bounded while.
- `abort` shuts down both directions: a plain close under a shielded write left the loop waiting
  for ever, SHUT_RDWR wakes it.
"""

import math
import os
import socket as stdlib_socket
from contextlib import suppress

import attrs
import trio

CHUNK_BYTES = 64 * 1024


@attrs.frozen(kw_only=True)
class Limits:
    """What one client may take of us; seconds and bytes as named."""

    connections_max: int = 10_000
    write_seconds: float = 30.0
    head_seconds: float = 30.0
    head_bytes_max: int = 16 * 1024
    idle_seconds: float = 75.0
    linger_seconds: float = 2.0
    linger_bytes_max: int = 8 * 1024 * 1024
    socket_message_bytes_max: int = 256 * 1024


@attrs.define(kw_only=True)
class Counts:
    """What the accept loop has seen since it started."""

    open: int = 0
    accepted: int = 0
    refused_full: int = 0
    slow_readers: int = 0
    accept_pauses: int = 0
    crashes: int = 0


class Line:
    """A stream whose writes have a deadline and whose end never hangs."""

    def __init__(self, stream: trio.SocketStream, limits: Limits, counts: Counts) -> None:
        self.socket = stream.socket
        self.closing = False
        self.idle = True
        self.wants_linger = False
        self._stream = stream
        self._limits = limits
        self._counts = counts
        self._sending = trio.Lock()
        self._read_scope: trio.CancelScope | None = None
        self._write_scope: trio.CancelScope | None = None
        self._saw_end = False

    async def send_all(self, data: bytes) -> None:
        """Write all of `data`, or abort the line and raise BrokenResourceError.

        It is a checkpoint only if the client's buffer is full or another write is in progress.
        Shielded, because a handler may be cancelled in here: half of an answer would be read as
        a whole one.
        """
        if self.closing:
            raise trio.ClosedResourceError
        written = 0 if self._sending.locked() else self._write_at_once(data)
        if written < len(data):
            with trio.CancelScope(shield=True):
                async with self._sending:
                    await self._write_on(data[written:] if written else data)

    def _write_at_once(self, data: bytes) -> int:
        try:
            return os.write(self.socket.fileno(), data)
        except BlockingIOError:
            return 0
        except OSError as error:
            self.abort()
            raise trio.BrokenResourceError from error

    async def _write_on(self, data: bytes) -> None:
        """Write what did not go at once, by the deadline."""
        if self.closing:
            raise trio.ClosedResourceError
        written = False
        try:
            with trio.move_on_after(self._limits.write_seconds) as self._write_scope:
                await self._stream.send_all(data)
                written = True
        finally:
            self._write_scope = None
            if not written:
                # Half an answer may be out, whatever ended the write: the line is of no use now.
                was_closing = self.closing
                self.abort()
        self._end_if_closing()
        if not written:
            self._counts.slow_readers += not was_closing
            raise trio.BrokenResourceError("the client does not read")

    async def receive_some(self, max_bytes: int, *, deadline: float = math.inf) -> bytes:
        """Read what is there, waiting until `deadline` on Trio's clock for the first of it.

        Raises ClosedResourceError once we closed the line, TooSlowError at the deadline.
        """
        if self.closing:
            raise trio.ClosedResourceError
        data = None
        try:
            with trio.CancelScope(deadline=deadline) as self._read_scope:
                data = await self._read(max_bytes)
        finally:
            self._read_scope = None
        if data is None:
            raise self._why_unread()
        self._saw_end = not data
        return data

    async def _read(self, max_bytes: int) -> bytes:
        # Trio's own read tries first and waits then; there is nearly never anything to read yet.
        while True:
            await trio.lowlevel.wait_readable(self.socket)
            try:
                return os.read(self.socket.fileno(), max_bytes)
            except BlockingIOError:
                continue
            except OSError as error:
                raise trio.BrokenResourceError from error

    def _why_unread(self) -> Exception:
        return trio.ClosedResourceError() if self.closing else trio.TooSlowError()

    def hang_up(self) -> None:
        """End our side, after the write in progress; no further one begins.

        The socket itself is closed by `close`, once what the client still sends was read.
        """
        if not self.closing:
            self.closing = True
            if self._write_scope is None:
                self._end_if_closing()
        if self._read_scope is not None:
            self._read_scope.cancel()

    def _end_if_closing(self) -> None:
        if self.closing:
            with suppress(OSError):
                self.socket.shutdown(stdlib_socket.SHUT_WR)

    def abort(self) -> None:
        """Shut both directions down and wake whoever waits for this client."""
        self.closing = True
        self._saw_end = True
        with suppress(OSError):
            self.socket.shutdown(stdlib_socket.SHUT_RDWR)
        for scope in (self._write_scope, self._read_scope):
            if scope is not None:
                scope.cancel()

    async def linger(self) -> None:
        """Read and drop what the client still sends, until it ends or has used up its welcome."""
        if self._saw_end or not self.wants_linger:
            return
        left = self._limits.linger_bytes_max
        with trio.move_on_after(self._limits.linger_seconds), suppress(trio.BrokenResourceError):
            while left > 0:
                data = await self._stream.receive_some(CHUNK_BYTES)
                if not data:
                    return
                left -= len(data)

    def close(self) -> None:
        """Close the socket; a waiter inside it gets ClosedResourceError."""
        self.socket.close()
