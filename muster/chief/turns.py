"""Turns: what was said to an agent once, and what it answered (plugins: "Delivery to your chief").

A turn is a message's, one for each time that the message was handed over, or it has words: the
owner's own, an answer to an ask of the agent's, or muster's. Words are stored first and wait for
the agent to be free; a message waits as a message, so its turn begins `delivering`.

    state        Begin       Complete    Fail         PutBack  Recover
    queued       delivering  -           -            -        -
    delivering   -           delivered   unconfirmed  queued   unconfirmed
    delivered    -           unchanged   -            -        -
    unconfirmed  -           -           unchanged    -        -
    noted        -           -           -            -        -

A note of muster's stands in a conversation and is no turn (muster/chief/notes.py).

`-` is Refused. Complete, Fail and PutBack count only with the epoch that Begin wrote. It is the
machine of messages, with the same reasons (muster/messages/rules.py): at most once, so words whose
turn was cut off are `unconfirmed` and never said again by themselves. Only words are put back; the
row of a message's turn of which nothing was sent goes, since there was no turn.

What the database keeps whatever code runs: an agent has one turn at a time, be it a message's or
words (turns_one_turn_key). So the rows of both begin under the lock of the agent's row, and what an
earlier process left is settled before the next begins.

The facts of a message's turn are the message's (`plugin.delivered`); words leave their own,
`conversation.said` and `conversation.delivered`, which name the turn and never quote its words. Why
a turn failed stands in its row, and in the row of the audit log that tells its end.

Rejected: words as messages of a plugin of muster's own (they would be fenced, allowances would
count them, and a claim would be needed to try again); a second table for words (the rule of one
turn at a time could then not be one index).
"""

import enum
from collections.abc import Mapping
from datetime import datetime
from typing import Final, assert_never

import attrs

from muster.errors import Invalid, Refused
from muster.messages.rules import Complete, Fail, PutBack, Recover, ending_data
from muster.names import count_bytes
from muster.outcomes import Changed, Fact, Hint, HintKind, Unchanged

WORDS_BYTES_MAX: Final = 16 * 1024
WAITING_MAX: Final = 50


class State(enum.Enum):
    """Where a turn is."""

    QUEUED = "queued"
    DELIVERING = "delivering"
    DELIVERED = "delivered"
    UNCONFIRMED = "unconfirmed"
    NOTED = "noted"


class By(enum.Enum):
    """Whose words these are."""

    OWNER = "owner"
    ASK = "ask"
    MUSTER = "muster"


@attrs.frozen(kw_only=True)
class Heard:
    """What the agent said in a turn: at most 64 KiB, and how many bytes of it were left out."""

    text: str = ""
    left_out: int = 0


@attrs.frozen(kw_only=True)
class Turn:
    """A turn as it is stored. Either `message_id` is there, or `words` and `said_by`."""

    id: int
    owner_id: int
    conversation_id: int
    agent_id: int
    message_id: int | None
    words: str | None
    said_by: By | None = attrs.field(converter=attrs.converters.optional(By))
    ask_id: int | None
    state: State = attrs.field(converter=State)
    attempt: int  # turns begun: of the message so far, or of these words
    epoch: int | None
    created_at: datetime
    begun_at: datetime | None
    ended_at: datetime | None


@attrs.frozen(kw_only=True)
class Begin:
    """Say the words on this connection. Leaves no audit row."""

    epoch: int


# How a turn ends is the same whatever was said in it; words leave `conversation.delivered`.
Command = Begin | Complete | Fail | PutBack | Recover
Outcome = Changed[Turn] | Unchanged[Turn] | Refused

MOVES: Final[Mapping[tuple[State, type[Command]], State]] = {
    (State.QUEUED, Begin): State.DELIVERING,
    (State.DELIVERING, Complete): State.DELIVERED,
    (State.DELIVERING, Fail): State.UNCONFIRMED,
    (State.DELIVERING, PutBack): State.QUEUED,
    (State.DELIVERING, Recover): State.UNCONFIRMED,
}
# The same answer of the same connection once more: the row already says so.
REPEATS: Final = frozenset({(State.DELIVERED, Complete), (State.UNCONFIRMED, Fail)})


def decide(turn: Turn, command: Command, now: datetime) -> Outcome:
    """Apply `command` to `turn` as of `now`.

    Refused, not raised, when the turn's state or its epoch forbids it, and for a PutBack of a
    message's turn. You don't get Refused for the repeat of the answer that settled it.
    """
    now = max(now, turn.created_at, turn.begun_at or now)
    move = (turn.state, type(command))
    target = MOVES.get(move)
    is_of_message = turn.message_id is not None and isinstance(command, PutBack)
    if (target is None and move not in REPEATS) or is_of_message:
        return Refused(
            f"Turn {turn.id} is {turn.state.value}.",
            code="turn_state",
            facts={"turn_id": turn.id, "state": turn.state.value},
        )
    if isinstance(command, Complete | Fail | PutBack) and command.epoch != turn.epoch:
        return Refused(
            f"Turn {turn.id} was not begun on connection {command.epoch}.",
            code="stale_epoch",
            facts={"turn_id": turn.id, "epoch": turn.epoch},
        )
    if target is None:
        return Unchanged(row=turn)
    match command:
        case Begin():
            row = attrs.evolve(
                turn, state=target, epoch=command.epoch, attempt=turn.attempt + 1, begun_at=now
            )
            return Changed(row=row, hints=(changed_hint(turn),))
        case PutBack():
            row = attrs.evolve(turn, state=target, epoch=None, begun_at=None)
            return Changed(row=row, hints=(changed_hint(turn),))
        case Complete() | Fail() | Recover():
            return _settle(turn, target, now, command)
        case _:
            assert_never(command)


def _settle(
    turn: Turn, target: State, now: datetime, command: Complete | Fail | Recover
) -> Changed[Turn]:
    row = attrs.evolve(turn, state=target, ended_at=now)
    if turn.message_id is not None:
        return Changed(row=row, hints=(changed_hint(turn),))
    data: dict[str, object] = {
        "turn_id": turn.id,
        "state": target.value,
        "attempts": turn.attempt,
        "agent_id": turn.agent_id,
    }
    data |= ending_data(command)
    return Changed(row=row, facts=(_fact("conversation.delivered", turn.conversation_id, data),))


def said(turn_id: int, conversation_id: int, by: By, words: str) -> Fact:
    """The fact that words wait for an agent."""
    data = {"turn_id": turn_id, "by": by.value, "bytes": len(words.encode())}
    return _fact("conversation.said", conversation_id, data)


def _fact(action: str, conversation_id: int, data: Mapping[str, object]) -> Fact:
    return Fact(action=action, subject=f"conversation:{conversation_id}", data=data)


def changed_hint(turn: Turn) -> Hint:
    """Whoever shows the conversation looks again."""
    return conversation_hint(turn.owner_id, turn.conversation_id)


def conversation_hint(owner_id: int, conversation_id: int) -> Hint:
    """Whoever shows the conversation looks again."""
    return Hint(kind=HintKind.CONVERSATION_CHANGED, owner_id=owner_id, id=conversation_id)


def check(words: str) -> None:
    """Raise Invalid unless `words` are 1 byte to 16 KiB that can be stored, and not all blank."""
    count = count_bytes(words, field="text")
    if not words.strip():
        raise Invalid("There are no words in this.", field="text")
    if count > WORDS_BYTES_MAX:
        raise Invalid(
            f"This is too long: {count:,} bytes, and at most {WORDS_BYTES_MAX:,} can be said in"
            " one turn. Nothing was sent.",
            field="text",
            code="words_too_long",
        )
