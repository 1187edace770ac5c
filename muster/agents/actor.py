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
from muster.errors import Unauthorized
from muster.pg.database import Database
from muster.principals import Muster

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
        """End the connection once it no longer holds."""
        assert isinstance(message, Doubt), message
        try:
            await self._prove()
        except Unauthorized:
            self._end(Farewell.UNAUTHORIZED)
            return
        agent_id = self._gateway.agent.agent_id
        epoch = await self._db.run(self._principal, operations.find_epoch, agent_id)
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
        await self._db.run(self._principal, operations.release_gateway, release)

    def _end(self, farewell: Farewell) -> None:
        self.farewell = farewell
        self._gateway.close()
        self.finish()
