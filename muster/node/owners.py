"""The part of the tree that belongs to owners: each one's chief deliveries and connected agents.

    owners (dynamic) ── owner:7 ─┬─ chief       turns of messages and words, one at a time an agent
                                 └─ agent:31    one per connected agent, in its socket's task

An owner's place is made by whoever first needs it, and stays until the server stops. One that
crashes too often is dropped without ending the others (`isolate`); the next need makes it anew.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from actors import (
    Address,
    ChildSpec,
    Policy,
    SupervisorHandle,
    SupervisorSpec,
    Tree,
    Undelivered,
)
from muster.agents.actor import AgentActor, Doubt, Prove
from muster.agents.gateway import Gateway, Gateways
from muster.chief.actor import ChiefActor, Words
from muster.chief.deliveries import DeliverySettings
from muster.pg.database import Database
from muster.principals import Agent

OWNERS = SupervisorSpec(name="owners", isolate=True)


@attrs.frozen(kw_only=True)
class Owners:
    """Reaches, and starts where needed, the actors of owners."""

    tree: Tree
    db: Database
    gateways: Gateways
    node_id: str
    settings: DeliverySettings

    def tell_chief(self, owner_id: int, message: object) -> None:
        """Leave `message` with the owner's deliveries; equal messages wait there once.

        Nothing is left, and nothing asked of the database, while no agent of the owner's is
        connected here. A full mailbox drops it too: the next claim's retry reads the queue.
        """
        if not self.gateways.serves(owner_id):
            return
        spec = ChildSpec(
            name="chief",
            start=lambda: ChiefActor(
                owner_id, self.db, gateway=self.gateways.find, settings=self.settings
            ),
        )
        try:
            self._place(owner_id).tell_or_start(spec, message, key=message)
        except Undelivered:
            return

    def wake(self, agent: Agent) -> None:
        """Let an agent that is connected here be told the words that wait for it."""
        self.tell_chief(agent.owner_id, Words(agent_id=agent.agent_id))

    def wake_all(self) -> None:
        """Hints may have been lost: words may wait for any agent that is connected here."""
        for agent in self.gateways.agents():
            self.wake(agent)

    @asynccontextmanager
    async def connected(
        self, gateway: Gateway, *, prove: Prove
    ) -> AsyncIterator[AgentActor]:
        """Hold the agent's place for the block; an older connection of the agent here is ended."""
        agent = gateway.agent
        older = self.gateways.find(agent.agent_id)
        if older is not None:
            older.superseded = True
        actor = AgentActor(
            gateway, db=self.db, gateways=self.gateways, node=self.node_id, prove=prove
        )
        async with self._place(agent.owner_id).attached(
            _agent_name(agent.agent_id), actor, replace=True
        ):
            yield actor

    def doubt(self, owner_id: int, agent_id: int | None) -> None:
        """Let one agent of the owner's, or all that are connected, prove itself again."""
        owner = self._owner_handle(owner_id)
        if agent_id is not None:
            self._tell(owner.address(_agent_name(agent_id)))
            return
        for name in _children(owner):
            if name.startswith("agent:"):
                self._tell(owner.address(name))

    def doubt_all(self) -> None:
        """Let every connected agent prove itself again."""
        for name in _children(self._owners()):
            self.doubt(int(name.removeprefix("owner:")), None)

    async def dismiss_agents(self) -> None:
        """End every agent's connection; a turn that is in hand becomes unproven."""
        async with trio.open_nursery() as nursery:
            for name in _children(self._owners()):
                owner = self.tree.supervisor(f"{self.tree.root}/owners/{name}")
                for child in _children(owner):
                    if child.startswith("agent:"):
                        nursery.start_soon(owner.stop_child, child)

    def _tell(self, address: Address) -> None:
        try:
            address.tell(Doubt(), key="doubt")
        except Undelivered:
            return

    def _owners(self) -> SupervisorHandle:
        return self.tree.supervisor(f"{self.tree.root}/owners")

    def _owner_handle(self, owner_id: int) -> SupervisorHandle:
        return self.tree.supervisor(f"{self.tree.root}/owners/owner:{owner_id}")

    def _place(self, owner_id: int) -> SupervisorHandle:
        spec = SupervisorSpec(
            name=f"owner:{owner_id}", isolate=True, policy=Policy.TEMPORARY
        )
        return self._owners().start_supervisor(spec)


def _agent_name(agent_id: int) -> str:
    return f"agent:{agent_id}"


def _children(handle: SupervisorHandle) -> tuple[str, ...]:
    try:
        return handle.children()
    except Undelivered:
        return ()
