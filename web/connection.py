"""One client from its first byte to its last: which request is next, and when there is none.

    idle  --first bytes-->  head  --whole head-->  exchange, or a WebSocket  --kept-->  idle

The time of an idle client and the time for a head are deadlines of the read. There is none while a
handler is at work; a body's time is `web.body_reader`'s. Everything happens in one task: a parked
claim is this task, waiting in its handler.
"""

from contextlib import AbstractContextManager
from typing import Any

import attrs
import trio
from hypercorn.utils import parse_socket_addr

from actors import sole_error
from web.asgi import ASGIApp, PeerGone, ReportCrash, Scope
from web.departures import WHILE_THERE, Departures
from web.errors import send_error
from web.exchange import CLOSE, Exchange, refuse
from web.heads import Head, Refusal, take_head
from web.line import CHUNK_BYTES, Counts, Limits, Line
from web.upgraded import serve_socket


@attrs.define(kw_only=True)
class Service:
    """What all connections of a server have in common."""

    app: ASGIApp
    report: ReportCrash
    limits: Limits
    counts: Counts
    departures: Departures = attrs.field(factory=Departures)
    stopping: bool = False  # connections end after what they have in hand


class Connection:
    """One client from its first byte to its last."""

    def __init__(self, service: Service, line: Line) -> None:
        self._service = service
        self._line = line
        self._buffer = bytearray()

    async def run(self) -> None:
        """Serve until the client or the line ends; OSErrors of the socket end it quietly."""
        sock = self._line.socket
        client = parse_socket_addr(sock.family, sock.getpeername())
        server = parse_socket_addr(sock.family, sock.getsockname())
        try:
            while (head := await self._next_head()) is not None:
                self._line.idle = False
                if head.upgrades:
                    await self._serve_socket(head, client, server)
                    return
                if not await self._exchange(head, client, server):
                    return
                self._line.idle = True
        except Refusal as refusal:
            # To HEAD the body is only announced.
            without_body = self._buffer.startswith(b"HEAD ")
            await refuse(self._line, refusal.status, without_body=without_body)

    async def _next_head(self) -> Head | None:
        """Wait for the next head; None when there will be none."""
        limits = self._service.limits
        idle_until = trio.current_time() + limits.idle_seconds
        deadline = idle_until
        while True:
            head = take_head(self._buffer, limits.head_bytes_max)
            if head is not None:
                return head
            if not self._buffer:
                deadline = idle_until
            elif deadline == idle_until:
                deadline = min(trio.current_time() + limits.head_seconds, idle_until)
            try:
                data = await self._line.receive_some(CHUNK_BYTES, deadline=deadline)
            except (trio.ClosedResourceError, trio.BrokenResourceError):
                return None
            except trio.TooSlowError:
                if self._buffer:
                    raise Refusal(408) from None
                return None
            if not data:
                if self._buffer:
                    raise Refusal(400)
                return None
            self._buffer += data

    async def _exchange(self, head: Head, client: object, server: object) -> bool:
        """Serve one request; False if it was the last."""
        line = self._line
        exchange = Exchange(
            head, line, self._buffer, head_bytes_max=self._service.limits.head_bytes_max
        )
        if self._service.stopping:
            exchange.keeps = False
        scope = exchange.scope(client, server)
        scope["extensions"][WHILE_THERE] = self._while_there
        crashed = await self._contain(scope, exchange)
        if not exchange.done and not exchange.begun:
            await self._apologise(exchange)
        if (
            exchange.done
            and not crashed
            and exchange.keeps
            and exchange.body_is_over
            and not self._service.stopping
            and not line.closing
        ):
            if self._buffer:
                # The next one is here already: others have their turn before it.
                await trio.lowlevel.checkpoint()
            return True
        line.wants_linger = line.wants_linger or not exchange.body_is_over or bool(self._buffer)
        return False

    def _while_there(self) -> AbstractContextManager[None]:
        return self._service.departures.cancelling(self._line.socket.fileno())

    async def _contain(self, scope: Scope, exchange: Exchange) -> bool:
        """Run the handler; True if it crashed, which is one report."""
        crashed = False
        try:
            await self._service.app(scope, exchange.receive, exchange.send)
        except* PeerGone:
            # Who only ended its own side is told no lie of a crash, but that there is no answer.
            exchange.give_up()
        except* Exception as crash:  # noqa: BLE001 -- a handler is a supervised child
            crashed = True
            where = f"handler {scope['method']} {scope['path']}"
            self._service.report(sole_error(crash), where)
        return crashed

    async def _apologise(self, exchange: Exchange) -> None:
        exchange.forget_head()
        try:
            await send_error(
                exchange.send,
                500,
                "internal_error",
                "Something broke on our side; it was reported.",
                headers=[CLOSE],
            )
        except PeerGone:
            return

    async def _serve_socket(self, head: Head, client: Any, server: Any) -> None:
        first, self._buffer = bytes(self._buffer), bytearray()
        await serve_socket(
            self._service.app,
            head,
            self._line,
            first,
            client=client,
            server=server,
            message_bytes_max=self._service.limits.socket_message_bytes_max,
            report=self._service.report,
        )
