"""`/agent/v1/socket`: the WebSocket of the agent gateway; muster.agents.gateway tells its frames.

The handshake needs an agent token. Without one the socket is accepted and closed 4401, which tells
a runner not to try again, where a refused handshake would look like trouble on the way. The reader,
the heartbeat and the actor's place in the tree are this task's own; an error in any ends all three.
"""

import functools

import trio

from muster.agents.gateway import Gateway
from muster.agents.operations import is_provisioned_chief
from muster.chief.tools import STANDING_INSTRUCTIONS
from muster.connections.rules import BadFrame
from muster.node.node import Node
from muster.principals import Agent
from web.asgi import Receive, Scope, Send
from web.auth import prove_agent
from web.holding import FAREWELLS, Closing, hold
from web.sockets import CloseCode, Socket, SocketClosed, keep_heartbeat

HEARTBEAT_SECONDS = 15.0
SILENCE_SECONDS = 45.0


async def agent_socket(node: Node, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one agent's connection until either side ends it."""
    prove = functools.partial(prove_agent, node, scope["headers"])

    async def serve(socket: Socket) -> Closing:
        gateway = Gateway(agent=await prove(), peer=socket)
        ended: Closing | None = None
        async with node.owners.connected(gateway, prove=prove) as actor:
            ended = await _talk(node, socket, gateway)
        return ended or FAREWELLS[actor.farewell]

    await hold(node, Socket(receive, send), serve)


async def _talk(node: Node, socket: Socket, gateway: Gateway) -> Closing | None:
    """Talk until the peer is gone; how to close, where the actor does not say it."""
    await socket.send_frame(await _welcome(node, gateway.agent))
    node.owners.wake(gateway.agent)
    ended = None
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
        except BadFrame as bad:
            ended = CloseCode.BAD_FRAME, str(bad)
        except SocketClosed:
            pass
        nursery.cancel_scope.cancel()
    return ended


async def _welcome(node: Node, agent: Agent) -> dict[str, object]:
    provisioned = await node.db.run(agent, is_provisioned_chief, agent.agent_id)
    return {
        "type": "welcome",
        "agent_id": agent.agent_id,
        "name": agent.name,
        "instructions": STANDING_INSTRUCTIONS if provisioned and node.config.plugins else "",
        "heartbeat_seconds": HEARTBEAT_SECONDS,
    }
