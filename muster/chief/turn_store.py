"""The SQL of turns and of the conversations they stand in."""

# ruff: noqa: S608 - what is put into the statements is a constant of this module

from datetime import datetime
from typing import Final

import attrs

from muster.chief.turns import By, Heard, Turn
from muster.failure import Failure
from muster.outcomes import Changed
from muster.pg.database import Transaction
from muster.pg.driver import json
from muster.pg.query import Query
from muster.token_use import TokenUse

NOTHING: Final = Heard()

COLUMNS: Final = """
    t.id, t.owner_id, t.conversation_id, t.agent_id, t.message_id, t.words, t.said_by, t.ask_id,
    t.state, t.attempt, t.epoch, t.created_at, t.begun_at, t.ended_at
"""

BEGIN_OF_MESSAGE = Query("""
    insert into turns (id, owner_id, conversation_id, agent_id, message_id, state, attempt, epoch,
                       created_at, begun_at)
    values (%(id)s, %(owner_id)s, %(conversation_id)s, %(agent_id)s, %(message_id)s, 'delivering',
            %(attempt)s, %(epoch)s, %(now)s, %(now)s)
""")


@attrs.frozen(kw_only=True)
class BegunTurn:
    """A message's turn that begins; `id` was taken from the sequence of turns."""

    id: int
    conversation_id: int
    agent_id: int
    message_id: int
    attempt: int
    epoch: int


async def begin_of_message(tx: Transaction, turn: BegunTurn) -> None:
    """Write the turn of a message, with whatever is sent next; the caller holds the agent's row."""
    await tx.later(BEGIN_OF_MESSAGE, **attrs.asdict(turn))


END_OF_MESSAGE = Query("""
    update turns
    set state = %(state)s, ended_at = %(ended_at)s, answer = %(answer)s, left_out = %(left_out)s,
        usage = %(usage)s, failure = %(failure)s, error = %(error)s
    where owner_id = %(owner_id)s and id = %(id)s and state = 'delivering'
""")


@attrs.frozen(kw_only=True)
class EndedTurn:
    """A turn that is over, as its message says, with what the agent said and took."""

    id: int
    state: str
    ended_at: datetime | None
    heard: Heard
    usage: TokenUse | None
    failure: Failure | None = None


async def end_of_message(tx: Transaction, turn: EndedTurn) -> None:
    """Write how a message's turn ended, with whatever is sent next; the message is locked."""
    await tx.later(
        END_OF_MESSAGE,
        id=turn.id,
        state=turn.state,
        ended_at=turn.ended_at,
        answer=turn.heard.text,
        left_out=turn.heard.left_out,
        usage=_json(turn.usage),
        **_why(turn.failure),
    )


# What a message's turn was is told by the message, whose row the caller holds.
TAKE_BACK = Query("""
    delete from turns where owner_id = %(owner_id)s and id = %(id)s and state = 'delivering'
""")


async def take_back(tx: Transaction, turn_id: int) -> None:
    """Take away a message's turn of which nothing was sent, with whatever is sent next."""
    await tx.later(TAKE_BACK, id=turn_id)


OPEN_DEFAULT = Query("""
    insert into conversations (owner_id, agent_id, kind, title, created_at)
    select a.owner_id, a.id, 'default', %(title)s, %(now)s from agents a
    where a.owner_id = %(owner_id)s and a.id = %(agent_id)s and a.retired_at is null
    on conflict do nothing
""")
FIND_DEFAULT = Query("""
    select c.id,
           (select count(*) from (
                select from turns t
                where t.owner_id = c.owner_id and t.agent_id = c.agent_id and t.state = 'queued'
                limit %(most)s
           ) waiting) as waiting
    from conversations c join agents a on a.owner_id = c.owner_id and a.id = c.agent_id
    where c.owner_id = %(owner_id)s and c.agent_id = %(agent_id)s and c.kind = 'default'
      and a.retired_at is null
""")


@attrs.frozen(kw_only=True)
class DefaultConversation:
    """A live agent's conversation with its owner; `waiting` words, counted up to a limit."""

    id: int
    waiting: int


async def open_default(
    tx: Transaction, agent_id: int, *, title: str, most: int
) -> DefaultConversation | None:
    """The agent's default conversation, made if it is not there; None without such a live agent.

    Of two that open it at once the second waits for the first, and finds what it made.
    """
    await tx.later(OPEN_DEFAULT, agent_id=agent_id, title=title)
    return await tx.find(FIND_DEFAULT, DefaultConversation, agent_id=agent_id, most=most)


ADD_WORDS = Query("""
    insert into turns (owner_id, conversation_id, agent_id, words, said_by, ask_id, state, attempt,
                       created_at)
    values (%(owner_id)s, %(conversation_id)s, %(agent_id)s, %(words)s, %(said_by)s, %(ask_id)s,
            'queued', 0, %(now)s)
    returning id
""")


async def add_words(
    tx: Transaction, conversation_id: int, *, agent_id: int, words: str, by: By, ask_id: int | None
) -> int:
    """Store words that wait for their turn; its id."""
    made = await tx.scalar(
        ADD_WORDS,
        conversation_id=conversation_id,
        agent_id=agent_id,
        words=words,
        said_by=by,
        ask_id=ask_id,
    )
    assert isinstance(made, int)
    return made


# Whoever begins a turn holds the agent's row, so that two of them do not meet here.
LOCK_NEXT_WORDS = Query(f"""
    select {COLUMNS} from turns t
    where t.owner_id = %(owner_id)s and t.agent_id = %(agent_id)s and t.state = 'queued'
      and exists (select from users u where u.id = t.owner_id and u.disabled_at is null)
    order by t.id
    limit 1
    for no key update of t
""")


async def lock_next_words(tx: Transaction, agent_id: int) -> Turn | None:
    """The oldest words that wait for the agent, locked; none while the account is disabled."""
    return await tx.find(LOCK_NEXT_WORDS, Turn, agent_id=agent_id)


FIND_TITLE = Query("""
    select title from conversations where owner_id = %(owner_id)s and id = %(conversation_id)s
""")


async def find_title(tx: Transaction, conversation_id: int) -> str:
    """What the conversation is called."""
    found = await tx.scalar(FIND_TITLE, conversation_id=conversation_id)
    assert isinstance(found, str)
    return found


LOCK = Query(f"""
    select {COLUMNS} from turns t where t.owner_id = %(owner_id)s and t.id = %(id)s
    for no key update
""")


async def lock(tx: Transaction, turn_id: int) -> Turn | None:
    """The owner's turn of that id, locked."""
    return await tx.find(LOCK, Turn, id=turn_id)


LOCK_LEFT = Query(f"""
    select {COLUMNS} from turns t
    where t.owner_id = %(owner_id)s and t.agent_id = %(agent_id)s and t.state = 'delivering'
    for no key update
""")
LOCK_LEFT_WORDS = Query(f"""
    select {COLUMNS} from turns t
    where t.owner_id = %(owner_id)s and t.agent_id = %(agent_id)s and t.state = 'delivering'
      and t.message_id is null
    for no key update
""")


async def lock_left(tx: Transaction, agent_id: int) -> Turn | None:
    """The agent's turn that is `delivering`, locked; the lock of its message comes before."""
    return await tx.find(LOCK_LEFT, Turn, agent_id=agent_id)


async def lock_left_words(tx: Transaction, agent_id: int) -> Turn | None:
    """The agent's words that are `delivering`, locked."""
    return await tx.find(LOCK_LEFT_WORDS, Turn, agent_id=agent_id)


SAVE = Query("""
    update turns
    set state = %(state)s, attempt = %(attempt)s, epoch = %(epoch)s, begun_at = %(begun_at)s,
        ended_at = %(ended_at)s, answer = %(answer)s, left_out = %(left_out)s, usage = %(usage)s,
        failure = %(failure)s, error = %(error)s
    where owner_id = %(owner_id)s and id = %(id)s
""")


async def save(
    tx: Transaction,
    changed: Changed[Turn],
    heard: Heard | None = None,
    *,
    usage: TokenUse | None = None,
    failure: Failure | None = None,
) -> Turn:
    """Write a decision about a turn whose row is locked, with its facts and hints."""
    row = changed.row
    touched = await tx.execute(
        SAVE,
        id=row.id,
        state=row.state,
        attempt=row.attempt,
        epoch=row.epoch,
        begun_at=row.begun_at,
        ended_at=row.ended_at,
        answer=None if heard is None else heard.text,
        left_out=0 if heard is None else heard.left_out,
        usage=_json(usage),
        **_why(failure),
    )
    assert touched == 1, f"turn {row.id} is not the locked one"
    await tx.record(*changed.facts)
    tx.hint(*changed.hints)
    return row


def _why(failure: Failure | None) -> dict[str, object]:
    if failure is None:
        return {"failure": None, "error": None}
    return {"failure": failure.cause, "error": failure.error}


def _json(usage: TokenUse | None) -> object:
    return None if usage is None else json(attrs.asdict(usage))
