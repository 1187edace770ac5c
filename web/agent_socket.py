"""`/agent/v1/socket`: the WebSocket of the agent gateway; muster.agents.gateway tells its frames.

The handshake needs an agent token. Without one the socket is accepted and closed 4401, which tells
a runner not to try again, where a refused handshake would look like trouble on the way. The reader,
the heartbeat and the actor's place in the tree are this task's own; an error in any ends all three.
"""

import functools

import trio

from actors import ActorCrashed, ActorStopped, NameTaken
from muster.agents.actor import Farewell
from muster.agents.gateway import BadFrame, Gateway
from muster.agents.operations import is_provisioned_chief
from muster.chief.tools import STANDING_INSTRUCTIONS
from muster.errors import Unauthorized, Unavailable
from muster.node.node import Node
from muster.principals import Agent
from web.asgi import Receive, Scope, Send
from web.auth import prove_agent
from web.sockets import CloseCode, Socket, SocketClosed, keep_heartbeat

HEARTBEAT_SECONDS = 15.0
SILENCE_SECONDS = 45.0

_FAREWELLS = {
    Farewell.SHUTDOWN: (CloseCode.SHUTDOWN, "the server stops"),
    Farewell.SUPERSEDED: (CloseCode.SUPERSEDED, "a newer connection took over"),
    Farewell.UNAUTHORIZED: (CloseCode.BAD_TOKEN, "the token is no longer good"),
}


async def agent_socket(node: Node, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one agent's connection until either side ends it."""
    socket = Socket(receive, send)
    try:
        await socket.accept()
        code, reason = await _serve(node, socket, scope)
        await socket.close(code, reason)
    except SocketClosed:
        return


async def _serve(node: Node, socket: Socket, scope: Scope) -> tuple[int, str]:
    """Serve until the end, and say how to close."""
    prove = functools.partial(prove_agent, node, scope["headers"])
    if node.draining:
        return _FAREWELLS[Farewell.SHUTDOWN]
    try:
        agent = await prove()
        gateway = Gateway(agent=agent, peer=socket)
        bad: BadFrame | None = None
        async with node.owners.connected(gateway, prove=prove) as actor:
            bad = await _talk(node, socket, gateway)
    except Unauthorized:
        return _FAREWELLS[Farewell.UNAUTHORIZED]
    except (Unavailable, ActorCrashed, NameTaken):
        # Already reported where it happened; NameTaken is a third connection in the same moment.
        return CloseCode.CRASHED, "something broke or is away; come again"
    except ActorStopped:
        return _FAREWELLS[Farewell.SHUTDOWN]
    if bad is not None:
        return CloseCode.BAD_FRAME, str(bad)
    return _FAREWELLS[actor.farewell]


async def _talk(node: Node, socket: Socket, gateway: Gateway) -> BadFrame | None:
    """Talk until the peer is gone, or until it sends a bad frame, which is returned."""
    await socket.send_frame(await _welcome(node, gateway.agent))
    node.owners.wake(gateway.agent)
    bad = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            functools.partial(
                keep_heartbeat,
                socket,
                interval_seconds=HEARTBEAT_SECONDS,
                deadline_seconds=SILENCE_SECONDS,
            )
        )
        try:
            await gateway.read()
        except BadFrame as error:
            bad = error
        except SocketClosed:
            pass
        nursery.cancel_scope.cancel()
    return bad


async def _welcome(node: Node, agent: Agent) -> dict[str, object]:
    provisioned = await node.db.run(agent, is_provisioned_chief, agent.agent_id)
    return {
        "type": "welcome",
        "agent_id": agent.agent_id,
        "name": agent.name,
        "instructions": STANDING_INSTRUCTIONS if provisioned and node.config.plugins else "",
        "heartbeat_seconds": HEARTBEAT_SECONDS,
    }
