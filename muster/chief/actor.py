"""Step 2: the actor that hands messages to an owner's chief, one turn at a time for a chief.

Two things wake it, and nothing else does (plugins: "Collect an approved reply"):

- Deliver(id): message `id` was just stored. It is offered once; a chief that cannot take it now
  leaves it queued.
- Retry(): a claim began. The owner's queued messages are offered oldest first, until the queue is
  empty or the chief cannot take one.

The turn runs in the actor's nursery, so that the mailbox stays responsive and stopping the actor
cancels the turn; it is then settled as unconfirmed under a short shield. What a killed process left
`delivering` is settled when the next message is begun (operations.begin).

A Deliver that arrives while the actor looks into the database, or writes down how a turn ended,
could fall between that and the end of its work; the first such is remembered and offered next. One
that arrives during a turn meets a busy chief: its message stays queued for the next claim's retry.
"""

import secrets
from collections.abc import Callable
from typing import assert_never

import attrs
import trio

from actors import Actor
from muster.agents.gateway import UNPROVEN, Ended, Gateway, Turn, TurnEnd
from muster.agents.operations import find_chief_id
from muster.chief import operations
from muster.chief.fence import FencedMessage, render
from muster.chief.store import find_chief_in_demand
from muster.errors import Unavailable
from muster.messages import rules as message_rules
from muster.pg.database import Database
from muster.principals import Muster

SETTLE_SECONDS = 5.0
SETTLE_PAUSE_SECONDS = 0.2


def ending(end: TurnEnd, epoch: int) -> operations.Ending:
    """What is written down for each way in which a turn ends."""
    match end.ended:
        case Ended.COMPLETED:
            return message_rules.Complete(epoch=epoch, usage=end.usage)
        case Ended.UNPROVEN:
            return message_rules.Fail(epoch=epoch, usage=end.usage)
        case Ended.NOT_HANDED_OVER:
            return message_rules.PutBack(epoch=epoch)
        case _:
            assert_never(end.ended)


@attrs.frozen(kw_only=True)
class Deliver:
    """Offer message `message_id`, just stored, to the chief."""

    message_id: int


@attrs.frozen(kw_only=True)
class Retry:
    """Offer the queued messages, oldest first."""


@attrs.frozen(kw_only=True)
class DeliverySettings:
    """How long a turn may run, and whether one may begin: not once the node drains."""

    turn_deadline_seconds: float
    may_begin: Callable[[], bool]


class ChiefActor(Actor):
    """Delivery for one owner; `gateway` finds an agent's connection to this node, if it has one."""

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
        self._chiefs: dict[int, Deliveries] = {}

    async def handle(self, message: object) -> None:
        """Begin the work that `message` asks for, unless the chief of now is busy."""
        assert isinstance(message, Deliver | Retry), message
        try:
            async with self._db.transaction(self._principal, look=True) as tx:
                # Every claim asks for a retry, and nearly always there is nothing to retry.
                retrying = isinstance(message, Retry)
                agent_id = await (find_chief_in_demand(tx) if retrying else find_chief_id(tx))
        except Unavailable:
            return  # What is queued stays queued; the next claim's retry tries again.
        if agent_id is None:
            return
        if agent_id not in self._chiefs:
            self._chiefs = {known: chief for known, chief in self._chiefs.items() if chief.working}
            self._chiefs[agent_id] = Deliveries(
                agent_id,
                self._principal,
                self._db,
                gateway=self._gateway,
                settings=self._settings,
                nursery=self.nursery,
            )
        self._chiefs[agent_id].offer(message)


class Deliveries:
    """What one chief has in hand. A replaced one's last turn does not hold up its successor."""

    def __init__(
        self,
        agent_id: int,
        principal: Muster,
        db: Database,
        *,
        gateway: Callable[[int], Gateway | None],
        settings: DeliverySettings,
        nursery: trio.Nursery,
    ) -> None:
        self.working = False
        self._agent_id = agent_id
        self._principal = principal
        self._db = db
        self._gateway = gateway
        self._settings = settings
        self._nursery = nursery
        self._looking = False
        self._missed: int | None = None

    def offer(self, message: Deliver | Retry) -> None:
        """Begin the work that `message` asks for, unless there is work."""
        match message:
            case Deliver(message_id=message_id) if self._looking:
                self._missed = self._missed or message_id
            case Deliver(message_id=message_id) if not self.working:
                self._start(message_id)
            case Retry() if not self.working:
                self._start(None)
            case _:
                pass

    def _start(self, message_id: int | None) -> None:
        self.working = True
        self._nursery.start_soon(self._work, message_id)

    async def _work(self, message_id: int | None) -> None:
        try:
            retrying = message_id is None
            while await self.hand_over(message_id) and retrying:
                pass
            while (missed := self._missed) is not None:
                self._missed = None
                await self.hand_over(missed)
        except Unavailable:
            pass  # What is queued stays queued; the next claim's retry tries again.
        finally:
            self.working = self._looking = False
            self._missed = None

    async def hand_over(self, message_id: int | None) -> bool:
        """Offer one message; false when there was none or the chief could not take it."""
        self._looking = True
        handover, gateway = await self._begin(message_id)
        self._looking = False
        if handover is None or gateway is None:
            return False
        self._missed = None  # what arrived meanwhile meets a busy chief
        end = UNPROVEN
        try:
            end = await gateway.run_turn(self._turn(handover))
        finally:
            self._looking = True  # the chief is free again
            # Also when the actor is being stopped: the turn may have reached the chief.
            with trio.move_on_after(SETTLE_SECONDS, shield=True):
                await self._settle(handover, end)
        return end.ended is not Ended.NOT_HANDED_OVER

    async def _settle(self, handover: operations.Handover, end: TurnEnd) -> None:
        # A settle that is repeated changes nothing, so a database that restarts is waited for.
        # Where it stays away the message stays `delivering`, and the next delivery settles it.
        command = operations.Settle(
            message_id=handover.message.id, ending=ending(end, handover.epoch)
        )
        while True:
            try:
                return await self._db.run(self._principal, operations.settle, command)
            except Unavailable:
                await trio.sleep(SETTLE_PAUSE_SECONDS)

    async def _begin(
        self, message_id: int | None
    ) -> tuple[operations.Handover | None, Gateway | None]:
        gateway = self._gateway(self._agent_id)
        if gateway is None or not gateway.can_take_turn or not self._settings.may_begin():
            return None, None
        command = operations.Begin(
            agent_id=self._agent_id, epoch=gateway.epoch, message_id=message_id
        )
        return await self._db.run(self._principal, operations.begin, command), gateway

    def _turn(self, handover: operations.Handover) -> Turn:
        message = handover.message
        text = render(
            FencedMessage(
                message_id=message.id,
                plugin_label=handover.plugin_label,
                scope=handover.scope,
                sender=message.sender,
                sender_verified=message.sender_verified,
                subject=message.subject,
                received_at=message.received_at or message.created_at,
                no_reply=message.no_reply,
                body=message.body,
            ),
            nonce=secrets.token_hex(8),
        )
        return Turn(
            turn_id=f"message:{message.id}:{message.attempts}",
            conversation=f"conversation:{handover.conversation_id}",
            title=handover.plugin_label,
            text=text,
            deadline_seconds=self._settings.turn_deadline_seconds,
        )
