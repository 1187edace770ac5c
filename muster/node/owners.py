"""The part of the tree that belongs to owners: each one's chief deliveries and connected agents.

    owners (dynamic) ── owner:7 ─┬─ chief       turns of messages and words, one at a time an agent
                                 ├─ agent:31    one per connected agent, in its socket's task
                                 ├─ host:box    one per connected host, in its socket's task
                                 └─ session:9   one per mirrored session with a text that waits

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
from muster.agents.actor import AgentActor
from muster.agents.gateway import Gateway, Gateways
from muster.chief.actor import ChiefActor, Words
from muster.chief.deliveries import DeliverySettings
from muster.connections.actor import Doubt, Prove
from muster.mirror.actor import HostActor
from muster.mirror.gateway import Link, Links
from muster.mirror.session_actor import Look, SessionActor, SessionSettings
from muster.pg.database import Database
from muster.principals import Agent

OWNERS = SupervisorSpec(name="owners", isolate=True)


@attrs.frozen(kw_only=True)
class Owners:
    """Reaches, and starts where needed, the actors of owners."""

    tree: Tree
    db: Database
    gateways: Gateways
    links: Links
    node_id: str
    settings: DeliverySettings
    pasting: SessionSettings

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
    async def connected(self, gateway: Gateway, *, prove: Prove) -> AsyncIterator[AgentActor]:
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
            _tell(owner.address(_agent_name(agent_id)), Doubt())
            return
        for name in _children(owner):
            if name.startswith("agent:"):
                _tell(owner.address(name), Doubt())

    def doubt_all(self) -> None:
        """Let every connected agent and host prove itself again."""
        for name in _children(self._owners()):
            owner_id = int(name.removeprefix("owner:"))
            self.doubt(owner_id, None)
            self.doubt_hosts(owner_id, None)

    @asynccontextmanager
    async def hosting(self, link: Link, *, prove: Prove) -> AsyncIterator[HostActor]:
        """Hold the host's place for the block; an older connection of the host here is ended."""
        older = self.links.find(link.host.host_id)
        if older is not None:
            older.superseded = True
        actor = HostActor(
            link,
            db=self.db,
            links=self.links,
            node=self.node_id,
            prove=prove,
            look=self.look_at_session,
        )
        async with self._place(link.host.owner_id).attached(_host_name(link), actor, replace=True):
            yield actor

    def doubt_hosts(self, owner_id: int, host_id: int | None) -> None:
        """Let one host of the owner's, or all that are connected, prove itself again."""
        for link in self.links.of_owner(owner_id):
            if host_id is None or link.host.host_id == host_id:
                address = self._owner_handle(owner_id).address(_host_name(link))
                _tell(address, Doubt())

    def look_at_session(self, owner_id: int, mirrored_id: int, *, start: bool) -> None:
        """Let a session's actor look at its queue; one that is shown here gets one if `start`."""
        name = f"session:{mirrored_id}"
        if not start:
            _tell(self._owner_handle(owner_id).address(name), Look())
            return
        if self.links.find_session(owner_id, mirrored_id) is None:
            return
        spec = ChildSpec(
            name=name,
            start=lambda: SessionActor(
                owner_id,
                mirrored_id,
                db=self.db,
                find=lambda: self.links.find_session(owner_id, mirrored_id),
                settings=self.pasting,
            ),
        )
        try:
            self._place(owner_id).tell_or_start(spec, Look(), key="look")
        except Undelivered:
            return

    def look_at_all_sessions(self) -> None:
        """Hints may have been lost: texts may wait for any session that is shown here."""
        for link in self.links.all():
            for shown in link.sessions.values():
                if shown.mirrored_id is not None:
                    self.look_at_session(link.host.owner_id, shown.mirrored_id, start=True)

    async def dismiss_agents(self) -> None:
        """End every agent's and host's connection; a turn that is in hand becomes unproven."""
        async with trio.open_nursery() as nursery:
            for name in _children(self._owners()):
                owner = self.tree.supervisor(f"{self.tree.root}/owners/{name}")
                for child in _children(owner):
                    if child.startswith(("agent:", "host:")):
                        nursery.start_soon(owner.stop_child, child)

    def _owners(self) -> SupervisorHandle:
        return self.tree.supervisor(f"{self.tree.root}/owners")

    def _owner_handle(self, owner_id: int) -> SupervisorHandle:
        return self.tree.supervisor(f"{self.tree.root}/owners/owner:{owner_id}")

    def _place(self, owner_id: int) -> SupervisorHandle:
        spec = SupervisorSpec(name=f"owner:{owner_id}", isolate=True, policy=Policy.TEMPORARY)
        return self._owners().start_supervisor(spec)


def _tell(address: Address, message: object) -> None:
    try:
        address.tell(message, key="doubt" if not isinstance(message, Look) else "look")
    except Undelivered:
        return


def _host_name(link: Link) -> str:
    return f"host:{link.host.name}"


def _agent_name(agent_id: int) -> str:
    return f"agent:{agent_id}"


def _children(handle: SupervisorHandle) -> tuple[str, ...]:
    try:
        return handle.children()
    except Undelivered:
        return ()
