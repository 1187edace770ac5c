"""Inbound messages and the machine of their delivery (plugins: "Delivery to your chief").

States: a message is `queued` until a chief is handed it, `delivering` while that chief's turn runs,
then `delivered` (the turn completed) or `unconfirmed` (the text may have reached the chief, and
nobody knows what came of it). `delivered` is final; an unconfirmed message is never handed over
again on its own, but its owner may retry it: then it waits in the queue like any other, and counts
its retries and its attempts on.

    state        Begin       Complete   Fail         PutBack  Recover      Retry   Settle  HandOver
    queued       delivering  -          -            -        -            -       -       delivered
    delivering   -           delivered  unconfirmed  queued   unconfirmed  -       (kept)  -
    delivered    -           unchanged  -            -        -            -       (kept)  -
    unconfirmed  -           -          unchanged    -        -            queued  -       -

`-` is Refused. Complete, Fail and PutBack count only with the epoch that Begin wrote: the answer of
an older connection is refused in every state. Settle moves nothing: it notes why a message that was
handed over needs nothing more, and a second one keeps the first's reason. HandOver is a delivery
without a turn: the message goes to a session, or is answered in code. Whether a retry is wise
(nobody acted on the message, its plugin lives) is judged higher up, in the chief's room.

What can race: two claims that both want to hand over the oldest message (the row lock and Begin's
state decide), a turn's end against the recovery by the next connection (the epoch decides), a
revoked plugin (its queued messages are not looked up any more). The caller holds the message's row
lock from reading it to saving it.

A queued message may be held until some time: a session is being resumed for it (muster.mirror), and
no Begin takes it before. It is no state, for a hold ends by itself.

Rejected: a state for "could not be handed over" (nothing was sent, so it is simply queued again and
names no chief); telling a settled message's late answer apart by time (clocks are not identities,
epochs are); attempts that go back down on PutBack (the count says how often a turn was begun).
"""

import enum
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, assert_never

import attrs

from muster.errors import Invalid, Refused
from muster.failure import Failure
from muster.names import count_bytes
from muster.outcomes import Changed, Fact, Hint, HintKind, Unchanged
from muster.token_use import TokenUse

NEW_PER_HOUR_MAX: Final = 60
UNDELIVERED_MAX: Final = 200
HOUR: Final = timedelta(hours=1)
SETTLED_ACTION: Final = "plugin.delivered"  # also in the index audit_settled_idx
REASON_CHARACTERS_MAX: Final = 2000


class State(enum.Enum):
    """Where a message is on its way to the chief."""

    QUEUED = "queued"
    DELIVERING = "delivering"
    DELIVERED = "delivered"
    UNCONFIRMED = "unconfirmed"


HANDED: Final = frozenset({State.DELIVERING, State.DELIVERED})


@attrs.frozen(kw_only=True)
class Message:
    """A stored message. What its sender and its plugin wrote never changes."""

    id: int
    owner_id: int
    plugin_id: int
    external_id: str
    sender: str | None
    subject: str | None
    body: str
    received_at: datetime | None  # what the plugin said
    no_reply: bool
    sender_verified: bool
    thread: str | None
    human_conversation: bool
    created_at: datetime  # when muster stored it
    state: State = attrs.field(converter=State)
    agent_id: int | None  # the chief it is or was handed to; None while queued
    epoch: int | None  # which of that chief's connections
    attempts: int  # turns begun
    delivering_at: datetime | None
    settled_at: datetime | None  # when its delivery ended
    retries: int = 0  # how often its owner had it handed over again
    settle_reason: str | None = None  # why it needs nothing more
    dispositioned_at: datetime | None = None  # when that was said
    held_until: datetime | None = None  # no delivery begins before: its session is being resumed

    @property
    def status(self) -> str:
        """What a plugin is told of it: a repeat while the turn runs is still queued."""
        return "queued" if self.state is State.DELIVERING else str(self.state.value)

    def is_held(self, now: datetime) -> bool:
        """Whether it waits for a session that is being resumed, so that no delivery takes it."""
        return self.held_until is not None and now < self.held_until

    def is_handed_to(self, agent_id: int) -> bool:
        """Whether it is being delivered, or was delivered, to this agent.

        An agent acts on such a message alone (plugins: "Delivery to your chief"): not on one that
        waits in the queue, and not on an unconfirmed one, whose turn nobody answers for.
        """
        return self.agent_id == agent_id and self.state in HANDED


@attrs.frozen(kw_only=True)
class Post:
    """An inbound message as a plugin posts it. Leaves `plugin.message.received`."""

    external_id: str
    body: str
    sender: str | None = None
    subject: str | None = None
    received_at: datetime | None = None
    no_reply: bool = False
    sender_verified: bool = False
    thread: str | None = None
    human_conversation: bool = False


@attrs.frozen(kw_only=True)
class Begin:
    """Hand it to this chief on this connection. Leaves no audit row."""

    agent_id: int
    epoch: int


@attrs.frozen(kw_only=True)
class Complete:
    """The turn completed. Leaves `plugin.delivered`, with the tokens that the agent counted."""

    epoch: int
    usage: TokenUse | None = None


@attrs.frozen(kw_only=True)
class Fail:
    """The turn failed after the text may have reached the chief. Leaves `plugin.delivered`.

    A turn that failed took tokens as well. Why it failed is told, and changes nothing.
    """

    epoch: int
    usage: TokenUse | None = None
    failure: Failure | None = None


@attrs.frozen(kw_only=True)
class PutBack:
    """Nothing was sent: the chief was gone or busy. Leaves no audit row."""

    epoch: int


@attrs.frozen(kw_only=True)
class Recover:
    """The turn was cut off by a stop and nobody answers for it. Leaves `plugin.delivered`."""


@attrs.frozen(kw_only=True)
class Retry:
    """The owner has an unconfirmed one handed over again. Leaves `plugin.retried`."""


@attrs.frozen(kw_only=True)
class Settle:
    """It needs nothing more, for this reason. Leaves `plugin.message.settled`.

    `ask_id` names the ask that the owner answered with the reason.
    """

    reason: str
    ask_id: int | None = None


@attrs.frozen(kw_only=True)
class HandOver:
    """Give it to the chief without a turn. Leaves `plugin.delivered` with `how` set to true."""

    agent_id: int
    epoch: int
    how: str = "routed"


Command = Begin | Complete | Fail | PutBack | Recover | Retry | Settle | HandOver
Outcome = Changed[Message] | Unchanged[Message] | Refused

MOVES: Final[Mapping[tuple[State, type[Command]], State]] = {
    (State.QUEUED, Begin): State.DELIVERING,
    (State.QUEUED, HandOver): State.DELIVERED,
    (State.DELIVERING, Complete): State.DELIVERED,
    (State.DELIVERING, Fail): State.UNCONFIRMED,
    (State.DELIVERING, PutBack): State.QUEUED,
    (State.DELIVERING, Recover): State.UNCONFIRMED,
    (State.UNCONFIRMED, Retry): State.QUEUED,
    (State.DELIVERING, Settle): State.DELIVERING,
    (State.DELIVERED, Settle): State.DELIVERED,
}
# The same answer of the same connection once more: the row already says so.
REPEATS: Final = frozenset({(State.DELIVERED, Complete), (State.UNCONFIRMED, Fail)})


def _refusal(message: Message, command: Command) -> str:
    said = f"Message {message.id} is {message.state.value}"
    if isinstance(command, Retry):
        return f"{said}; only an unconfirmed one is handed over again."
    return f"{said}."


def decide(message: Message, command: Command, now: datetime) -> Outcome:
    """Apply `command` to `message` as of `now` (plugins: "Delivery to your chief").

    Refused, not raised, when the message's state or its epoch forbids it. You don't get Refused for
    the repeat of the answer that settled it: that is Unchanged.
    """
    now = max(now, message.created_at, message.delivering_at or now)
    move = (message.state, type(command))
    target = MOVES.get(move)
    if target is None and move not in REPEATS:
        return Refused(
            _refusal(message, command),
            code="message_state",
            facts={"message_id": message.id, "state": message.state.value},
        )
    if isinstance(command, Complete | Fail | PutBack) and command.epoch != message.epoch:
        return Refused(
            f"Message {message.id} was not handed over on connection {command.epoch}.",
            code="stale_epoch",
            facts={"message_id": message.id, "epoch": message.epoch},
        )
    if isinstance(command, Begin) and message.is_held(now):
        return Refused(
            f"Message {message.id} waits for a session that is being resumed.",
            code="message_held",
            facts={"message_id": message.id},
        )
    if target is None or (isinstance(command, Settle) and message.settle_reason is not None):
        return Unchanged(row=message)
    return _move(message, target, now, command)


def _move(message: Message, target: State, now: datetime, command: Command) -> Changed[Message]:
    match command:
        case Begin():
            return Changed(
                row=attrs.evolve(
                    message,
                    state=target,
                    agent_id=command.agent_id,
                    epoch=command.epoch,
                    attempts=message.attempts + 1,
                    delivering_at=now,
                )
            )
        case PutBack():
            return Changed(
                row=attrs.evolve(
                    message, state=target, agent_id=None, epoch=None, delivering_at=None
                )
            )
        case Complete() | Fail() | Recover():
            return _settle(message, target, now, command)
        case Retry():
            return _queue_again(message)
        case Settle():
            return _dispose(message, now, command)
        case HandOver():
            return _hand_over(message, now, command)
        case _:
            assert_never(command)


def _hand_over(message: Message, now: datetime, command: HandOver) -> Changed[Message]:
    row = attrs.evolve(
        message,
        state=State.DELIVERED,
        agent_id=command.agent_id,
        epoch=command.epoch,
        delivering_at=now,
        settled_at=now,
    )
    data = {"state": row.state.value, "agent_id": command.agent_id, command.how: True}
    fact = Fact(action=SETTLED_ACTION, subject=subject(message.id), data=data)
    return Changed(row=row, facts=(fact,))


def _settle(
    message: Message, target: State, now: datetime, command: Complete | Fail | Recover
) -> Changed[Message]:
    data: dict[str, object] = {
        "state": target.value,
        "attempts": message.attempts,
        "agent_id": message.agent_id,
    }
    data |= ending_data(command)
    fact = Fact(action=SETTLED_ACTION, subject=subject(message.id), data=data)
    return Changed(row=attrs.evolve(message, state=target, settled_at=now), facts=(fact,))


def failure_of(ending: Complete | Fail | PutBack) -> Failure | None:
    """Why a turn failed, if it did and that is known."""
    return ending.failure if isinstance(ending, Fail) else None


def ending_data(command: Complete | Fail | Recover) -> dict[str, object]:
    """What an audit row tells of the end of a turn beside its state, a message's or one of words.

    A failure's `error` is the agent's word.
    """
    if isinstance(command, Recover):
        return {"recovered": True}
    data: dict[str, object] = {}
    if command.usage is not None:
        data["usage"] = attrs.asdict(command.usage)
    if isinstance(command, Fail) and command.failure is not None:
        data["failure"] = command.failure.document
    return data


def _queue_again(message: Message) -> Changed[Message]:
    row = attrs.evolve(
        message,
        state=State.QUEUED,
        agent_id=None,
        epoch=None,
        delivering_at=None,
        settled_at=None,
        retries=message.retries + 1,
    )
    data = {"retry": row.retries, "attempts": row.attempts, "agent_id": message.agent_id}
    return Changed(
        row=row,
        facts=(Fact(action="plugin.retried", subject=subject(message.id), data=data),),
        hints=(Hint(kind=HintKind.MESSAGE_QUEUED, owner_id=message.owner_id, id=message.id),),
    )


def _dispose(message: Message, now: datetime, command: Settle) -> Changed[Message]:
    data: dict[str, object] = {"reason": command.reason}
    if command.ask_id is not None:
        data["ask_id"] = command.ask_id
    fact = Fact(action="plugin.message.settled", subject=subject(message.id), data=data)
    row = attrs.evolve(message, settle_reason=command.reason, dispositioned_at=now)
    return Changed(row=row, facts=(fact,))


def check_reason(reason: str) -> None:
    """Raise Invalid unless `reason` is 1 to 2,000 characters that say something."""
    count_bytes(reason, field="reason")
    if not reason.strip() or len(reason) > REASON_CHARACTERS_MAX:
        raise Invalid(
            f"The reason must be 1 to {REASON_CHARACTERS_MAX} characters.", field="reason"
        )


def subject(message_id: int) -> str:
    """What a message is called in the audit log."""
    return f"message:{message_id}"
