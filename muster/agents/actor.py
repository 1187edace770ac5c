"""The actor of one connected agent; it lives in the task of the agent's socket.

started() takes the next epoch, so that of two connections of one agent the one attached later is
the current one, and an answer of the older changes nothing. The older is closed as superseded: on
this node by being replaced, on another by the hint that the new epoch sends there.
"""

import enum
from collections.abc import Awaitable, Callable

import attrs

from actors import Actor
from muster.agents import operations, rules
from muster.agents.gateway import Gateway, Gateways
from muster.errors import Unauthorized, Unavailable
from muster.pg.database import Database
from muster.principals import Muster

DOUBT_SECONDS = 1.0  # until a database that was away is asked again

Prove = Callable[[], Awaitable[object]]  # raises Unauthorized once the credential is no good


class Farewell(enum.Enum):
    """Why muster ends an agent's connection."""

    SHUTDOWN = "shutdown"
    SUPERSEDED = "superseded"
    UNAUTHORIZED = "unauthorized"


@attrs.frozen(kw_only=True)
class Doubt:
    """The agent, its credential or its account changed: prove again that the connection holds."""


class AgentActor(Actor):
    """Keeps `gateway` listed among the node's while its connection is the agent's current one."""

    def __init__(
        self,
        gateway: Gateway,
        *,
        db: Database,
        gateways: Gateways,
        node: str,
        prove: Prove,
    ) -> None:
        super().__init__()
        self.farewell = Farewell.SHUTDOWN
        self._gateway = gateway
        self._db = db
        self._gateways = gateways
        self._node = node
        self._prove = prove
        self._principal = Muster(owner_id=gateway.agent.owner_id)

    async def started(self) -> None:
        """Take the next epoch and be found by the chief's deliveries."""
        accept = rules.Accept(agent_id=self._gateway.agent.agent_id, node=self._node)
        self._gateway.epoch = await self._db.run(
            self._principal, operations.accept_gateway, accept
        )
        self._gateways.enter(self._gateway)

    async def handle(self, message: object) -> None:
        """End the connection once it no longer holds.

        A database that is away proves nothing, and is asked again: the turn in hand goes on.
        """
        assert isinstance(message, Doubt), message
        agent_id = self._gateway.agent.agent_id
        try:
            await self._prove()
            epoch = await self._db.run(self._principal, operations.find_epoch, agent_id)
        except Unauthorized:
            self._end(Farewell.UNAUTHORIZED)
            return
        except Unavailable as away:
            self.log.note(f"the connection is still in doubt: {away.sentence}")
            self.timers.after(DOUBT_SECONDS, message, key="doubt")
            return
        if epoch is None:
            self._end(Farewell.UNAUTHORIZED)
        elif epoch != self._gateway.epoch:
            self._end(Farewell.SUPERSEDED)

    async def stopping(self) -> None:
        """Take no turn any more; say so in the agent's row, unless a newer connection is there."""
        self._gateway.close()
        self._gateways.leave(self._gateway)
        if self._gateway.superseded:
            self.farewell = Farewell.SUPERSEDED
        release = rules.Release(
            agent_id=self._gateway.agent.agent_id, epoch=self._gateway.epoch
        )
        try:
            await self._db.run(self._principal, operations.release_gateway, release)
        except Unavailable:
            return  # The row goes on naming this connection until the next one is accepted.

    def _end(self, farewell: Farewell) -> None:
        self.farewell = farewell
        self._gateway.close()
        self.finish()
