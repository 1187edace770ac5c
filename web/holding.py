"""How a connection of ours is held in the task of its socket, and how it is closed for what end."""

from collections.abc import Awaitable, Callable

from actors import ActorCrashed, ActorStopped, NameTaken
from muster.connections.rules import BadFrame, Farewell
from muster.errors import Unauthorized, Unavailable
from muster.node.node import Node
from web.sockets import CloseCode, Socket, SocketClosed

Closing = tuple[int, str]  # a close code and a reason
Serve = Callable[[Socket], Awaitable[Closing]]

FAREWELLS = {
    Farewell.SHUTDOWN: (CloseCode.SHUTDOWN, "the server stops"),
    Farewell.SUPERSEDED: (CloseCode.SUPERSEDED, "a newer connection took over"),
    Farewell.UNAUTHORIZED: (CloseCode.BAD_TOKEN, "the token is no longer good"),
}
COME_AGAIN = (CloseCode.CRASHED, "something broke or is away; come again")


async def hold(node: Node, socket: Socket, serve: Serve) -> None:
    """Serve a connection until either side ends it, and close it as `serve` or its error says."""
    try:
        await socket.accept()
        code, reason = await _end(node, socket, serve)
        await socket.close(code, reason)
    except SocketClosed:
        return


async def _end(node: Node, socket: Socket, serve: Serve) -> Closing:
    if node.draining:
        return FAREWELLS[Farewell.SHUTDOWN]
    try:
        return await serve(socket)
    except BadFrame as bad:
        return CloseCode.BAD_FRAME, str(bad)
    except Unauthorized:
        return FAREWELLS[Farewell.UNAUTHORIZED]
    except (Unavailable, ActorCrashed, NameTaken):
        # Already reported where it happened; NameTaken is a third connection in the same moment.
        return COME_AGAIN
    except ActorStopped:
        return FAREWELLS[Farewell.SHUTDOWN]
