"""Step 2: the actor that hands messages and words to an owner's agents, as turns.

Two things wake messages, and nothing else does (plugins: "Collect an approved reply"):

- Deliver(id): message `id` was just stored. It is offered once; a chief that cannot take it now
  leaves it queued.
- Retry(): a claim began. The owner's queued messages are offered oldest first, until the queue is
  empty or the chief cannot take one.

Words are woken by Words(agent_id): they were just stored, or that agent just connected. Those that
wait when a turn ends are next (muster/chief/deliveries.py).
"""

from collections.abc import Callable

import attrs

from actors import Actor
from muster.agents.gateway import Gateway
from muster.agents.operations import find_chief_id
from muster.chief.deliveries import AGAIN_SECONDS, Deliveries, DeliverySettings
from muster.chief.store import find_chief_in_demand
from muster.errors import Unavailable
from muster.pg.database import Database
from muster.principals import Muster


@attrs.frozen(kw_only=True)
class Deliver:
    """Offer message `message_id`, just stored, to the chief."""

    message_id: int


@attrs.frozen(kw_only=True)
class Retry:
    """Offer the queued messages, oldest first."""


@attrs.frozen(kw_only=True)
class Words:
    """Offer the words that wait for this agent, oldest first."""

    agent_id: int


class ChiefActor(Actor):
    """Turns for one owner; `gateway` finds an agent's connection to this node, if it has one."""

    def __init__(
        self,
        owner_id: int,
        db: Database,
        *,
        gateway: Callable[[int], Gateway | None],
        settings: DeliverySettings,
    ) -> None:
        super().__init__()
        self._principal = Muster(owner_id=owner_id)
        self._db = db
        self._gateway = gateway
        self._settings = settings
        self._agents: dict[int, Deliveries] = {}

    async def handle(self, message: object) -> None:
        """Begin the work that `message` asks for, unless the agent is busy."""
        assert isinstance(message, Deliver | Retry | Words), message
        if isinstance(message, Words):
            self._deliveries(message.agent_id).say()
            return
        try:
            async with self._db.transaction(self._principal, look=True) as tx:
                # Every claim asks for a retry, and nearly always there is nothing to retry.
                retrying = isinstance(message, Retry)
                agent_id = await (find_chief_in_demand(tx) if retrying else find_chief_id(tx))
        except Unavailable:
            return  # What is queued stays queued; the next claim's retry tries again.
        if agent_id is None:
            return
        match message:
            case Deliver(message_id=message_id):
                self._deliveries(agent_id).deliver(message_id)
            case Retry():
                self._deliveries(agent_id).retry()

    def _deliveries(self, agent_id: int) -> Deliveries:
        if agent_id not in self._agents:
            self._agents = {known: agent for known, agent in self._agents.items() if agent.working}
            words = Words(agent_id=agent_id)
            self._agents[agent_id] = Deliveries(
                agent_id,
                self._principal,
                self._db,
                gateway=self._gateway,
                settings=self._settings,
                nursery=self.nursery,
                again=lambda: self.timers.after(AGAIN_SECONDS, words, key=words),
            )
        return self._agents[agent_id]
