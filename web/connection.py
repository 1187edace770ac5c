"""One client from its first byte to its last: reading, writing, and the deadlines of both.

This stands in the place of Hypercorn's `TCPServer`, which starts a task for each idle time, shields
half of a send from cancellation and the other half not, and leaves the idle task running when the
client has left. Here the idle time and the time for a head are deadlines of the read.
"""

import math
from typing import Any, cast

import trio
from hypercorn.config import Config
from hypercorn.events import Closed, RawData, Updated
from hypercorn.events import Event as WireEvent
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState
from hypercorn.utils import parse_socket_addr

from web.asgi import ASGIApp
from web.handlers import Handlers, ReportCrash
from web.line import CHUNK_BYTES, Limits, Line
from web.wire import Http1


class Connection:
    """One client from its first byte to its last."""

    def __init__(
        self,
        app: ASGIApp,
        config: Config,
        context: WorkerContext,
        line: Line,
        *,
        limits: Limits,
        report: ReportCrash,
    ) -> None:
        self._app = app
        self._config = config
        self._context = context
        self._line = line
        self._sending = trio.Lock()
        self._protocol: Http1
        self._limits = limits
        self._report = report
        self._head_began = math.inf
        self._heads_seen = 0
        self._idle_since = trio.current_time()

    async def run(self) -> None:
        """Serve until the client or the line ends; OSErrors of the socket end it quietly."""
        sock = self._line.socket
        client = parse_socket_addr(sock.family, sock.getpeername())
        server = parse_socket_addr(sock.family, sock.getsockname())
        async with Handlers(self._line, self._report) as handlers:
            self._protocol = Http1(
                self._line,
                cast("AppWrapper", self._app),
                self._config,
                self._context,
                handlers,
                ConnectionState(cast("Any", {})),
                False,  # no TLS
                client,
                server,
                self._send,
            )
            await self._read_data()

    async def _send(self, event: WireEvent) -> None:
        """Write bytes, close, or note that the connection is idle or busy, in one piece.

        Shielded, because a handler is cancelled in here as a matter of course: Quart-Trio ends its
        own as soon as the request is over. Half of this would lose bytes that the parser counts as
        sent. Each wait has a bound (`Line`).
        """
        if isinstance(event, Updated):
            self._line.idle = event.idle
            self._idle_since = trio.current_time()
            self._line.expect_bytes_until(self._read_deadline())
        elif isinstance(event, Closed):
            if not self._line.closing:
                self._line.wants_linger = self._protocol.may_still_send
                self._line.hang_up()
            await self._protocol.handle(Closed())
        elif isinstance(event, RawData):
            try:
                with trio.CancelScope(shield=True):
                    async with self._sending:
                        await self._line.send_all(event.data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                await self._protocol.handle(Closed())

    async def _read_data(self) -> None:
        while True:
            self._line.expect_bytes_until(self._read_deadline())
            try:
                data = await self._line.receive_some(CHUNK_BYTES)
            except (trio.ClosedResourceError, trio.BrokenResourceError):
                break
            except trio.TooSlowError:
                if self._protocol.awaits_head:
                    await self._protocol.refuse(408)
                self._line.hang_up()
                break
            await self._protocol.handle(RawData(data))
            if not data:
                break
        await self._protocol.handle(Closed())

    def _read_deadline(self) -> float:
        """Return when the next bytes must be here: for a head that has begun, or an idle client.

        There is none while a handler is at work; a body's time is `web.body_reader`'s.
        """
        if not self._protocol.awaits_head:
            self._head_began = math.inf
        elif self._head_began is math.inf or self._heads_seen != self._protocol.keep_alive_requests:
            self._heads_seen = self._protocol.keep_alive_requests
            self._head_began = trio.current_time()
        idle_until = self._idle_since + self._limits.idle_seconds if self._line.idle else math.inf
        return min(self._head_began + self._limits.head_seconds, idle_until)
