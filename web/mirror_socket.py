"""`/mirror/v1/socket`: the WebSocket of a mirror host; muster.mirror.frames tells its frames.

The handshake needs a host's token. Without one the socket is accepted and closed 4401, which tells
the host not to try again. The first frame is `hello`, within HELLO_SECONDS. The reader, which keeps
the heartbeat too, and the actor's place in the tree are this task's own; an error in either ends
both. There are thousands of hosts that are still, so a connection is one task and no more.
"""

import functools

import trio

from muster.connections.rules import BadFrame
from muster.errors import Unavailable
from muster.mirror.actor import HostActor
from muster.mirror.gateway import Link, read_hello
from muster.node.node import Node
from muster.principals import MirrorHost
from web.asgi import Receive, Scope, Send
from web.auth import prove_host
from web.holding import COME_AGAIN, FAREWELLS, Closing, hold
from web.sockets import Beating, CloseCode, Socket

HELLO_SECONDS = 10.0
# Half as often as an agent's: 2,000 hosts that are still would take 7% of a core. A host that is
# silently lost is noticed as soon, SILENCE_SECONDS after it was last heard.
HEARTBEAT_SECONDS = 30.0
SILENCE_SECONDS = 45.0


async def mirror_socket(node: Node, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one host's connection until either side ends it."""
    prove = functools.partial(prove_host, node, scope["headers"])

    async def serve(socket: Socket) -> Closing:
        link = await _greeted(socket, await prove())
        ended: Closing | None = None
        async with node.owners.hosting(link, prove=prove) as actor:
            ended = await _talk(node, link, actor)
        return ended or FAREWELLS[actor.farewell]

    await hold(node, Socket(receive, send), serve)


async def _greeted(socket: Socket, host: MirrorHost) -> Link:
    """A link, once the host said hello. Raises BadFrame when it says something else, or nothing."""
    with trio.move_on_after(HELLO_SECONDS):
        hello = read_hello(await socket.receive_frame())
        beating = Beating(
            socket, interval_seconds=HEARTBEAT_SECONDS, deadline_seconds=SILENCE_SECONDS
        )
        return Link(host=host, hello=hello, peer=beating)
    raise BadFrame("the first frame is hello, and comes at once")


async def _talk(node: Node, link: Link, actor: HostActor) -> Closing | None:
    """Talk until the peer is gone; how to close, where the actor does not say it."""
    await link.send(
        {
            "type": "welcome",
            "host_id": link.host.host_id,
            "name": link.host.name,
            "heartbeat_seconds": HEARTBEAT_SECONDS,
            "send_queue_idle_seconds": node.config.send_queue_idle_seconds,
        }
    )
    await link.acknowledge(link.hello.seq)
    try:
        await actor.read()
    except BadFrame as bad:
        return CloseCode.BAD_FRAME, str(bad)
    except Unavailable:
        return COME_AGAIN
    except OSError:
        pass  # the peer is gone, or the actor ended the connection
    return None
