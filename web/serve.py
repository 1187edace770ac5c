"""The accept loop: one child a connection, and no client can end or delay another.

Hypercorn's own `serve` ends with the first connection that raises, and waits for ever for a peer
that does not read; its protocol code spends more on a request than the rest of the server. So
HTTP/1.1 is ours (`web.line`, `web.heads`, `web.exchange`, `web.connection`), and only what a
WebSocket speaks is Hypercorn's, mended in `web.upgraded`.

    accepting  --shutdown-->  grace  --empty, or grace_seconds-->  aborted  -->  over

Accepting: each connection is a child task; what it raises is one report and one closed socket.
Grace: the port is closed, idle connections end, requests in hand may finish. Aborted: what is left
is shut down in both directions and cancelled. A cancel from outside goes straight to aborted.
"""

import errno

import trio

from actors import sole_error
from muster.errors import Conflict, Invalid
from web.asgi import ASGIApp, ReportCrash
from web.connection import Connection, Service
from web.line import Counts, Limits, Line

BACKLOG = 1024
PAUSE_SECONDS = 0.1
# The process or the machine is out of something: the connection stays in the backlog meanwhile.
CAPACITY_ERRNOS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


async def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    report: ReportCrash,
    shutdown: trio.Event,
    grace_seconds: float = 3.0,
    limits: Limits | None = None,
    counts: Counts | None = None,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `app` until `shutdown` is set; starts with the port that was bound.

    Port 0 takes a free one. Conflict when the port is taken, Invalid when the address can't be
    bound for another reason. After `shutdown` it is over within `grace_seconds`, plus what a
    handler shields (a commit: 5 s).
    `report(crash, where)` must not block; it is called once for each crashed handler or connection.
    """
    listeners = await _listen(host, port)
    service = Service(app=app, report=report, limits=limits or Limits(), counts=counts or Counts())
    door = _Door(service)
    try:
        async with trio.open_nursery() as connections:
            connections.start_soon(service.departures.run)
            try:
                async with trio.open_nursery() as accepting:
                    for listener in listeners:
                        accepting.start_soon(door.accept_all, listener, connections)
                    task_status.started(listeners[0].socket.getsockname()[1])
                    await shutdown.wait()
                    accepting.cancel_scope.cancel()
                for listener in listeners:
                    listener.socket.close()
                await door.empty(grace_seconds)
            finally:
                door.abort_all()
                connections.cancel_scope.cancel()
    finally:
        for listener in listeners:
            listener.socket.close()


async def _listen(host: str, port: int) -> list[trio.SocketListener]:
    try:
        listeners = await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
    except OSError as error:
        raise _unbound(host, port, error) from error
    if port == 0:
        # A name with two addresses would get two ports, and only one can be told.
        for spare in listeners[1:]:
            spare.socket.close()
        del listeners[1:]
    return listeners


def _unbound(host: str, port: int, error: OSError) -> Conflict | Invalid:
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return Conflict(
            f"The address {address} is in use: is another server running? MUSTER_BIND names the"
            " address to serve on.",
            code="address_in_use",
        )
    return Invalid(
        f"The address {address} of MUSTER_BIND can't be served on: {error.strerror}.",
        code="bad_configuration",
    )


class _Door:
    """Everybody who is connected, and how they come and go."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._report = service.report
        self._limits = service.limits
        self._counts = service.counts
        self._lines: set[Line] = set()
        self._left = trio.Event()
        self._full = False

    async def accept_all(self, listener: trio.SocketListener, connections: trio.Nursery) -> None:
        """Accept for ever; an exhausted process pauses it, a client that gave up is passed over."""
        pausing = False
        while True:
            try:
                stream = await listener.accept()
            except OSError as trouble:
                if trouble.errno not in CAPACITY_ERRNOS:
                    raise
                self._counts.accept_pauses += 1
                if not pausing:
                    self._report(trouble, "accept loop pauses")
                pausing = True
                await trio.sleep(PAUSE_SECONDS)
                continue
            pausing = False
            if self._has_room():
                line = Line(stream, self._limits, self._counts)
                self._lines.add(line)
                self._counts.open += 1
                self._counts.accepted += 1
                connections.start_soon(self._connection, line)
            else:
                stream.socket.close()

    def _has_room(self) -> bool:
        if len(self._lines) < self._limits.connections_max:
            self._full = False
            return True
        self._counts.refused_full += 1
        if not self._full:
            # One report each time it fills up: a flood of clients must not be a flood of reports.
            self._full = True
            full = ConnectionRefusedError(f"{len(self._lines)} connections are the limit")
            self._report(full, "accept loop is full")
        return False

    async def _connection(self, line: Line) -> None:
        try:
            await Connection(self._service, line).run()
            line.hang_up()
            await line.linger()
        except* OSError:
            pass  # the peer is gone, which is how connections end
        except* Exception as crash:  # noqa: BLE001 -- a connection is a supervised child
            self._counts.crashes += 1
            self._report(sole_error(crash), "connection")
        finally:
            line.close()
            self._lines.discard(line)
            self._counts.open -= 1
            if not self._lines:
                self._left.set()

    async def empty(self, grace_seconds: float) -> None:
        """Let idle connections end and requests in hand finish, for at most `grace_seconds`."""
        self._service.stopping = True
        for line in tuple(self._lines):
            if line.idle:
                line.hang_up()
        with trio.move_on_after(grace_seconds):
            while self._lines:
                self._left = trio.Event()
                await self._left.wait()

    def abort_all(self) -> None:
        """Shut down whoever is left, so that no shielded write can keep us."""
        for line in tuple(self._lines):
            line.abort()
