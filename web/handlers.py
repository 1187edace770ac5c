"""The handlers of one connection: what they receive, and what becomes of what they raise.

Hypercorn hands "the client has left" to a handler through its bounded queue, from the handler's own
send if need be, and so waits for ever for a handler that did not read its body. Here the end is the
queue's closing: it never blocks, and every later `receive` gives it again.
"""

from collections.abc import Callable
from typing import Any

import trio
from hypercorn.config import Config
from hypercorn.trio.task_group import TaskGroup

from actors import sole_error
from web.asgi import ASGIApp, Message, PeerGone, Scope, Send
from web.errors import send_error
from web.line import Line

ReportCrash = Callable[[BaseException, str], None]


class _Inbox:
    """What a handler receives: a bounded queue; its end is its closing, which never blocks."""

    def __init__(self, size: int) -> None:
        self._into, self._out = trio.open_memory_channel[Message](size)
        self._ending: Message = {"type": "http.disconnect"}

    async def put(self, message: Message) -> None:
        if message["type"].endswith(".disconnect"):
            self._ending = message
            self._into.close()
            return
        try:
            await self._into.send(message)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            return  # the client has left, or the handler is over: nobody wants it

    async def receive(self) -> Message:
        try:
            return await self._out.receive()
        except trio.EndOfChannel:
            return dict(self._ending)

    def close(self) -> None:
        self._out.close()


class Handlers(TaskGroup):
    """The tasks of one connection; what a handler raises is one report and one 500."""

    def __init__(self, line: Line, report: ReportCrash) -> None:
        super().__init__()
        self._line = line
        self._report = report

    async def spawn_app(self, app: Any, config: Config, scope: Any, send: Any) -> Any:
        """Start a handler; returns the call that hands it what its client sent."""
        inbox = _Inbox(config.max_app_queue_size)
        self._line.begin()
        assert self._nursery is not None
        self._nursery.start_soon(self._run, app, scope, inbox, send)
        return inbox.put

    async def _run(self, app: ASGIApp, scope: Scope, inbox: _Inbox, send: Any) -> None:
        answering = False

        async def guarded_send(message: Message) -> None:
            nonlocal answering
            if self._line.closing or self._line.refused:
                # A loop that sends to nobody would otherwise never reach a checkpoint.
                await trio.lowlevel.checkpoint()
                raise PeerGone
            answering = True
            await send(message)

        try:
            crashed = await self._contain(app, scope, inbox, guarded_send)
            if crashed and not answering and scope["type"] == "http":
                await self._apologise(guarded_send)
            await send(None)
        finally:
            self._line.end()

    async def _contain(self, app: ASGIApp, scope: Scope, inbox: _Inbox, send: Send) -> bool:
        """Run the handler; True if it crashed."""
        crashed = False
        try:
            await app(scope, inbox.receive, send)
        except* PeerGone:
            pass
        except* Exception as crash:  # noqa: BLE001 -- a handler is a supervised child
            crashed = True
            where = f"handler {scope.get('method', 'socket')} {scope['path']}"
            self._report(sole_error(crash), where)
        finally:
            inbox.close()
        return crashed

    async def _apologise(self, send: Send) -> None:
        try:
            await send_error(
                send,
                500,
                "internal_error",
                "Something broke on our side; it was reported.",
                headers=[(b"connection", b"close")],
            )
        except PeerGone:
            return
