"""The verbs of asks.

An answer may have to do more than be written down (settle the message that muster asked about, be
told to the agent): that is done higher up, in the chief's room, which calls `answer` here.
"""

import attrs

from muster.accounts.operations import lock_account
from muster.attention import store
from muster.attention.due import DueAsk, due_expiries
from muster.attention.rules import (
    CHAT,
    OPEN_PER_OWNER_MAX,
    Answer,
    Ask,
    AskedBy,
    AskOwner,
    Cancel,
    Command,
    Dismiss,
    Expire,
    State,
    check_answer,
    check_ask,
    check_places,
    decide,
    standing,
    subject,
)
from muster.attention.store import AskView
from muster.errors import NotFound, Refused
from muster.ids import is_row_id
from muster.outcomes import Changed, Fact, Unchanged
from muster.pg.database import Transaction
from muster.principals import Agent, Muster, Owner

__all__ = [
    "Answer",
    "Ask",
    "AskOwner",
    "AskView",
    "AskedBy",
    "Cancel",
    "Dismiss",
    "DueAsk",
    "Expire",
    "ListAsks",
    "State",
    "answer",
    "ask",
    "cancel",
    "count_places",
    "dismiss",
    "due_expiries",
    "expire",
    "get_ask",
    "list_asks",
    "lock_ask",
    "settle_by_chat",
    "standing",
]

LISTED_MAX = 1000


@attrs.frozen(kw_only=True)
class ListAsks:
    """Which asks to list, newest first: those that are open, or those that have `ended`.

    At most 1,000.
    """

    ended: bool = False
    limit: int = 100


async def ask(tx: Transaction, command: AskOwner) -> Ask | None:
    """Put a question before the owner, for a day.

    None when muster asked about that message before, whatever became of it. Raises Invalid for a
    question or a button, Refused (`too_many_asks`) while 50 are open. Whether an agent may speak of
    the message or the task is for the caller to see.
    """
    principal = tx.principal
    assert isinstance(principal, Agent | Muster)
    assert isinstance(principal, Muster) == (command.asked_by is AskedBy.MUSTER)
    check_ask(command)
    check_places(await _count_open(tx))
    agent_id = principal.agent_id if isinstance(principal, Agent) else None
    asked = await store.insert(tx, agent_id, command)
    if asked is not None:
        data: dict[str, object] = {"asked_by": asked.asked_by.value}
        links = {"message_id": asked.message_id, "task_id": asked.task_id}
        data |= {name: number for name, number in links.items() if number is not None}
        await tx.record(Fact(action="ask.asked", subject=subject(asked.id), data=data))
    return asked


async def count_places(tx: Transaction) -> int:
    """How many more asks the owner may have open now; holds the account's row from here on."""
    return max(0, OPEN_PER_OWNER_MAX - await _count_open(tx))


async def answer(tx: Transaction, command: Answer) -> Changed[Ask] | Unchanged[Ask]:
    """Write down what the owner says; Unchanged for the same words once more.

    Raises NotFound, Invalid for the text, Refused (`ask_state`) for one that has ended.
    """
    assert isinstance(tx.principal, Owner)
    check_answer(command.text)
    return await _apply(tx, await _lock(tx, command.ask_id), command)


async def dismiss(tx: Transaction, command: Dismiss) -> Ask:
    """Take it away without an answer: nothing else comes of it.

    Raises NotFound, Refused (`ask_state`) for one that has ended otherwise.
    """
    assert isinstance(tx.principal, Owner)
    return (await _apply(tx, await _lock(tx, command.ask_id), command)).row


async def cancel(tx: Transaction, command: Cancel) -> Ask:
    """Withdraw an ask, as its asker: an agent its own, muster its own.

    Raises NotFound for what somebody else asked, Refused for muster's own asks (`muster_asked`) and
    for one that has ended otherwise (`ask_state`).
    """
    principal = tx.principal
    assert isinstance(principal, Agent | Muster)
    asked = await _lock(tx, command.ask_id)
    agent_id = principal.agent_id if isinstance(principal, Agent) else None
    if asked.agent_id != agent_id:
        if asked.asked_by is AskedBy.MUSTER:
            raise Refused(
                f"muster asked {asked.id}: only what becomes of its message closes it.",
                code="muster_asked",
            )
        raise NotFound(f"You asked nothing under {command.ask_id}.")
    return (await _apply(tx, asked, command)).row


async def expire(tx: Transaction, command: Expire) -> Ask:
    """Write that an ask's day is over; nothing when it is not. Raises NotFound."""
    return (await _apply(tx, await _lock(tx, command.ask_id), command)).row


async def lock_ask(tx: Transaction, ask_id: int) -> Ask:
    """The ask, its row locked, for whoever ends what it is about; raises NotFound."""
    return await _lock(tx, ask_id)


async def settle_by_chat(tx: Transaction, agent_id: int, text: str) -> list[int]:
    """The owner wrote `text` in this agent's chat: that answers what it has open; the asks' ids.

    Words over 4,096 bytes stand in the conversation alone.
    """
    settled = []
    for asked in await store.lock_open_of_agent(tx, agent_id):
        outcome = decide(asked, Answer(ask_id=asked.id, text=text), tx.now, via=CHAT)
        if isinstance(outcome, Changed):
            await store.save(tx, outcome)
            settled.append(asked.id)
    return settled


async def list_asks(tx: Transaction, command: ListAsks) -> list[AskView]:
    """The owner's asks as they stand, newest first."""
    limit = max(0, min(command.limit, LISTED_MAX))
    return await store.list_newest(tx, ended=command.ended, limit=limit)


async def get_ask(tx: Transaction, ask_id: int) -> AskView:
    """The owner's ask as it stands; raises NotFound for none and for somebody else's."""
    view = await store.find(tx, ask_id) if is_row_id(ask_id) else None
    if view is None:
        raise _no_ask(ask_id)
    return view


async def _count_open(tx: Transaction) -> int:
    await lock_account(tx)
    return await store.count_open(tx)


async def _lock(tx: Transaction, ask_id: int) -> Ask:
    asked = await store.lock(tx, ask_id) if is_row_id(ask_id) else None
    if asked is None:
        raise _no_ask(ask_id)
    return asked


async def _apply(tx: Transaction, asked: Ask, command: Command) -> Changed[Ask] | Unchanged[Ask]:
    outcome = decide(asked, command, tx.now, via=tx.principal.via)
    if isinstance(outcome, Refused):
        raise outcome
    if isinstance(outcome, Changed):
        await store.save(tx, outcome)
    return outcome


def _no_ask(ask_id: int) -> NotFound:
    return NotFound(f"There is no ask {ask_id}.")
