"""What one agent has in hand: turns of messages and of words, one at a time.

The turn runs in the nursery of the actor that made this, so that stopping the actor cancels the
turn; it is then settled as unconfirmed under a short shield. What a killed process left in the
middle of a turn is settled when the next one is begun (operations.begin, words.begin_words).

Messages and words take turns: after each message the oldest of the words that wait. So a queue of
200 messages holds the owner's words up for one turn at most, and an owner who writes a lot holds
each message up for one turn. Rejected: by age across both (words would wait for everything that
came while the chief was away), and all words first (a message that comes during a turn waits for
the next claim as it is).

A message or a claim that comes while the database is looked into, or while the end of a turn is
written down, could fall between that and the end of the work; the first message is remembered and
offered next. One that comes during a turn meets a busy agent: it stays queued for the next claim's
retry, as there is no other. Words are remembered whenever they come; an agent that turns
them away as busy is offered them again after AGAIN_SECONDS.
"""

import secrets
from collections.abc import Awaitable, Callable
from typing import assert_never

import attrs
import trio

from muster.agents.gateway import Ended, Gateway, Turn, TurnEnd, unproven
from muster.chief import operations, words
from muster.chief.answers import LiveAnswer, Tell, tell_nobody
from muster.chief.fence import FencedMessage, RetryNote, render
from muster.chief.notes import with_notes
from muster.chief.self_routing.author_block import render_author
from muster.chief.sessions_block import render_sessions
from muster.chief.turns import Heard
from muster.errors import Unavailable
from muster.failure import Cause
from muster.messages import rules as message_rules
from muster.pg.database import Database
from muster.principals import Muster

AGAIN_SECONDS = 10.0
SETTLE_SECONDS = 5.0
SETTLE_PAUSE_SECONDS = 0.2


def ending(end: TurnEnd, epoch: int) -> operations.Ending:
    """What is written down for each way in which a turn ends, a message's or one of words."""
    match end.ended:
        case Ended.COMPLETED:
            return message_rules.Complete(epoch=epoch, usage=end.usage)
        case Ended.UNPROVEN:
            return message_rules.Fail(epoch=epoch, usage=end.usage, failure=end.failure)
        case Ended.NOT_HANDED_OVER:
            return message_rules.PutBack(epoch=epoch)
        case _:
            assert_never(end.ended)


@attrs.frozen(kw_only=True)
class DeliverySettings:
    """How long a turn may run, whether one may begin (not once the node drains), who is told."""

    turn_deadline_seconds: float
    may_begin: Callable[[], bool]
    tell: Tell = tell_nobody
    review_senders: frozenset[str] = frozenset()
    session_focus: bool = False


@attrs.frozen(kw_only=True)
class _Begun:
    """A turn that was begun: its row, its frame, and how its end is written down."""

    turn_id: int
    conversation_id: int
    turn: Turn
    settle: Callable[[TurnEnd, Heard], Awaitable[None]]  # repeated, it changes nothing


class Deliveries:
    """The turns of one agent. A replaced chief's last turn does not hold up its successor."""

    def __init__(
        self,
        agent_id: int,
        principal: Muster,
        db: Database,
        *,
        gateway: Callable[[int], Gateway | None],
        settings: DeliverySettings,
        nursery: trio.Nursery,
        again: Callable[[], None],
    ) -> None:
        self.working = False
        self._agent_id = agent_id
        self._principal = principal
        self._db = db
        self._gateway = gateway
        self._settings = settings
        self._nursery = nursery
        self._again = again
        self._looking = False
        self._missed: int | None = None
        self._retrying = False
        self._words = False

    def deliver(self, message_id: int) -> None:
        """Begin a message's turn, unless there is work."""
        if self._looking:
            self._missed = self._missed or message_id
        elif not self.working:
            self._start(message_id, retrying=False)

    def retry(self) -> None:
        """Begin with what is queued, unless there is work."""
        if self._looking:
            self._retrying = True
        elif not self.working:
            self._start(None, retrying=True)

    def say(self) -> None:
        """Begin with the words that wait, at the latest after the turn in hand."""
        self._words = True
        if not self.working:
            self._start(None, retrying=False)

    def _start(self, message_id: int | None, *, retrying: bool) -> None:
        self.working = self._looking = True
        self._missed, self._retrying = message_id, retrying
        self._nursery.start_soon(self._work)

    async def _work(self) -> None:
        try:
            while self._missed is not None or self._retrying or self._words:
                if self._retrying:
                    self._retrying = await self.hand_over(None)
                elif self._missed is not None:
                    message_id, self._missed = self._missed, None
                    await self.hand_over(message_id)
                if self._words:
                    self._words = False
                    await self.hand_words_over()
        except Unavailable:
            # What is queued stays queued; messages wait for the next claim's retry.
            self._again()
        finally:
            self.working = self._looking = self._retrying = self._words = False
            self._missed = None

    async def hand_over(self, message_id: int | None) -> bool:
        """Offer one message; false when there was none or the chief could not take it."""
        gateway = self._look()
        if gateway is None:
            return False
        command = operations.Begin(
            agent_id=self._agent_id,
            epoch=gateway.epoch,
            message_id=message_id,
            review_senders=self._settings.review_senders,
            session_focus=self._settings.session_focus,
        )
        handover = await self._db.run(self._principal, operations.begin, command)
        if handover is None:
            return False
        self._words = self._words or handover.words_wait
        end = await self._carry(gateway, self._begun(handover))
        return end.ended is not Ended.NOT_HANDED_OVER

    async def hand_words_over(self) -> None:
        """Offer the oldest words that wait, and remember to look for more once they are said."""
        gateway = self._look()
        if gateway is None:
            return
        command = words.BeginWords(agent_id=self._agent_id, epoch=gateway.epoch)
        spoken = await self._db.run(self._principal, words.begin_words, command)
        if spoken is None:
            return
        end = await self._carry(gateway, self._begun_words(spoken))
        if end.ended is Ended.NOT_HANDED_OVER:
            self._again()
        else:
            self._words = True

    def _look(self) -> Gateway | None:
        """The connection that can take a turn now; from here on nobody knows what will come."""
        self._looking = True
        gateway = self._gateway(self._agent_id)
        able = gateway is not None and gateway.can_take_turn and self._settings.may_begin()
        return gateway if able else None

    async def _carry(self, gateway: Gateway, begun: _Begun) -> TurnEnd:
        """Let the agent have its turn, and write down how it ended."""
        self._looking = False
        self._missed = None  # what arrived meanwhile meets a busy agent
        answer = LiveAnswer(
            owner_id=self._principal.owner_id,
            turn_id=begun.turn_id,
            conversation_id=begun.conversation_id,
            tell=self._settings.tell,
            nursery=self._nursery,
        )
        end = unproven(Cause.STOPPED)
        try:
            end = await gateway.run_turn(begun.turn, answer)
        finally:
            self._looking = True  # the agent is free again
            # Also when the actor is being stopped: the turn may have reached the agent.
            with trio.move_on_after(SETTLE_SECONDS, shield=True):
                await _persist(begun, end, answer.whole)
        return end

    def _begun(self, handover: operations.Handover) -> _Begun:
        message = handover.message

        async def settle(end: TurnEnd, heard: Heard) -> None:
            command = operations.Settle(
                message_id=message.id,
                attempt=message.attempts,
                turn_id=handover.turn_id,
                conversation_id=handover.conversation_id,
                ending=ending(end, handover.epoch),
                heard=heard,
            )
            await self._db.run(self._principal, operations.settle_turn, command)

        return _Begun(
            turn_id=handover.turn_id,
            conversation_id=handover.conversation_id,
            turn=Turn(
                turn_id=f"message:{message.id}:{message.attempts}",
                conversation=f"conversation:{handover.conversation_id}",
                title=handover.plugin_label,
                text=fenced(handover),
                deadline_seconds=self._settings.turn_deadline_seconds,
            ),
            settle=settle,
        )

    def _begun_words(self, spoken: words.Spoken) -> _Begun:
        turn = spoken.turn

        async def settle(end: TurnEnd, heard: Heard) -> None:
            command = words.SettleWords(
                turn_id=turn.id, ending=ending(end, spoken.epoch), heard=heard
            )
            await self._db.run(self._principal, words.settle_words, command)

        return _Begun(
            turn_id=turn.id,
            conversation_id=turn.conversation_id,
            turn=Turn(
                turn_id=f"words:{turn.id}:{turn.attempt}",
                conversation=f"conversation:{turn.conversation_id}",
                title=spoken.title,
                text=with_notes(words.render_words(spoken), spoken.notes),
                deadline_seconds=self._settings.turn_deadline_seconds,
            ),
            settle=settle,
        )


async def _persist(begun: _Begun, end: TurnEnd, heard: Heard) -> None:
    # A settle that is repeated changes nothing, so a database that restarts is waited for. Where it
    # stays away the turn stays `delivering`, and the next one settles it.
    while True:
        try:
            return await begun.settle(end, heard)
        except Unavailable:
            await trio.sleep(SETTLE_PAUSE_SECONDS)


def fenced(handover: operations.Handover) -> str:
    """The text of a message's turn: the message, and behind it what muster knows of it."""
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
            retry=_retry_note(message),
        ),
        nonce=secrets.token_hex(8),
    )
    if handover.sessions:
        block = render_sessions(handover.sessions, nonce=secrets.token_hex(8))
        text = f"{text}\n\n{block}"
    if handover.author is not None:
        block = render_author(handover.author, nonce=secrets.token_hex(8))
        text = f"{text}\n\n{block}"
    return with_notes(text, handover.notes)


def _retry_note(message: message_rules.Message) -> RetryNote | None:
    if not message.retries or message.delivering_at is None:
        return None
    age = message.delivering_at - message.created_at
    return RetryNote(retry=message.retries, attempt=message.attempts, age=age)
