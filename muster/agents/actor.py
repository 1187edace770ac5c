"""The actor of one connected agent; it lives in the task of the agent's socket."""

from muster.agents import operations, rules
from muster.agents.gateway import Gateway, Gateways
from muster.connections.actor import ConnectionActor, Prove
from muster.pg.database import Database


class AgentActor(ConnectionActor):
    """Keeps `gateway` listed among the node's while its connection is the agent's current one.

    A turn in hand goes on while the connection is in doubt.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        db: Database,
        gateways: Gateways,
        node: str,
        prove: Prove,
    ) -> None:
        super().__init__(gateway, owner_id=gateway.agent.owner_id, db=db, prove=prove)
        self._gateway = gateway
        self._gateways = gateways
        self._node = node

    async def accept(self) -> int:
        """Take the next epoch."""
        accept = rules.Accept(agent_id=self._gateway.agent.agent_id, node=self._node)
        return await self.db.run(self.principal, operations.accept_gateway, accept)

    async def find_epoch(self) -> int | None:
        """The agent's newest epoch; None once there is no such agent."""
        agent_id = self._gateway.agent.agent_id
        return await self.db.run(self.principal, operations.find_epoch, agent_id)

    async def release(self) -> None:
        """Say in the agent's row that nobody is connected, unless a newer connection is."""
        release = rules.Release(agent_id=self._gateway.agent.agent_id, epoch=self._gateway.epoch)
        await self.db.run(self.principal, operations.release_gateway, release)

    def enter(self) -> None:
        """Be found by the chief's deliveries."""
        self._gateways.enter(self._gateway)

    def leave(self) -> None:
        """Take no turn any more."""
        self._gateways.leave(self._gateway)
