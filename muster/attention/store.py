"""The SQL of asks.

Lock order: the account's row (a new ask), the message that muster asks about, then asks by id. What
an agent asked comes before the agent's row: words to it answer what it has open.
"""

# ruff: noqa: S608 - what is put into the statements is a constant of this module

from datetime import datetime
from typing import Final

import attrs

from muster.attention.rules import LIFE, Ask, AskedBy, AskOwner, State
from muster.outcomes import Changed
from muster.pg.database import Transaction
from muster.pg.query import Query

COLUMNS: Final = """
    a.id, a.owner_id, a.asked_by, a.agent_id, a.question, a.answers, a.message_id, a.task_id,
    a.plugin_message_id, a.state, a.created_at, a.expires_at, a.answer, a.answered_via, a.ended_at
"""

COUNT_OPEN = Query("""
    select count(*) from asks
    where owner_id = %(owner_id)s and state = 'open' and expires_at > %(now)s
""")


async def count_open(tx: Transaction) -> int:
    """How many asks the owner has open; exact while the caller holds the account's row."""
    counted = await tx.scalar(COUNT_OPEN)
    assert isinstance(counted, int)
    return counted


# Two that ask about one message: the second waits for the first, and then inserts nothing.
INSERT = Query(f"""
    insert into asks as a
        (owner_id, asked_by, agent_id, question, answers, message_id, task_id, plugin_message_id,
         state, created_at, expires_at)
    values
        (%(owner_id)s, %(asked_by)s, %(agent_id)s, %(question)s, %(answers)s, %(message_id)s,
         %(task_id)s, %(plugin_message_id)s, 'open', %(now)s, %(expires_at)s)
    on conflict (plugin_message_id) do nothing
    returning {COLUMNS}
""")


async def insert(tx: Transaction, agent_id: int | None, command: AskOwner) -> Ask | None:
    """Store an ask; None when muster asked about that message before."""
    return await tx.find(
        INSERT,
        Ask,
        asked_by=command.asked_by,
        agent_id=agent_id,
        question=command.question,
        answers=list(command.answers),
        message_id=command.message_id,
        task_id=command.task_id,
        plugin_message_id=command.plugin_message_id,
        expires_at=tx.now + LIFE,
    )


LOCK = Query(f"""
    select {COLUMNS} from asks a
    where a.owner_id = %(owner_id)s and a.id = %(ask_id)s
    for no key update
""")


async def lock(tx: Transaction, ask_id: int) -> Ask | None:
    """The owner's ask of that id, its row locked."""
    return await tx.find(LOCK, Ask, ask_id=ask_id)


LOCK_OPEN_OF_AGENT = Query(f"""
    select {COLUMNS} from asks a
    where a.owner_id = %(owner_id)s and a.agent_id = %(agent_id)s and a.state = 'open'
    order by a.id
    for no key update
""")


async def lock_open_of_agent(tx: Transaction, agent_id: int) -> list[Ask]:
    """What this agent has open, locked; an overdue one may be among them."""
    return await tx.all(LOCK_OPEN_OF_AGENT, Ask, agent_id=agent_id)


SAVE = Query("""
    update asks
    set state = %(state)s, answer = %(answer)s, answered_via = %(answered_via)s,
        ended_at = %(ended_at)s
    where owner_id = %(owner_id)s and id = %(id)s
""")


async def save(tx: Transaction, changed: Changed[Ask]) -> Ask:
    """Write a decision about an ask whose row is locked."""
    return await tx.save(SAVE, changed)


@attrs.frozen(kw_only=True)
class AskView:
    """An ask as it stands now, with what one needs to know of who asked and about what.

    `state` and `ended_at` are those by the clock, whether or not a sweep wrote them yet.
    """

    id: int
    asked_by: AskedBy = attrs.field(converter=AskedBy)
    agent_id: int | None
    agent: str | None  # its name; None for muster's own
    question: str
    answers: tuple[str, ...] = attrs.field(converter=tuple)
    message_id: int | None
    task_id: int | None
    plugin_message_id: int | None
    state: State = attrs.field(converter=State)
    created_at: datetime
    expires_at: datetime
    answer: str | None
    answered_via: str | None
    ended_at: datetime | None


VIEWS: Final = """
    select a.id, a.asked_by, a.agent_id, g.name as agent, a.question, a.answers, a.message_id,
           a.task_id, a.plugin_message_id,
           case when late.overdue then 'expired' else a.state end as state,
           a.created_at, a.expires_at, a.answer, a.answered_via,
           case when late.overdue then a.expires_at else a.ended_at end as ended_at
    from asks a
    left join agents g on g.owner_id = a.owner_id and g.id = a.agent_id
    cross join lateral (
        select a.state = 'open' and a.expires_at <= %(now)s as overdue
    ) late
    where a.owner_id = %(owner_id)s
"""
LIST_OPEN = Query(f"""
    {VIEWS} and a.state = 'open' and a.expires_at > %(now)s
    order by a.id desc
    limit %(limit)s
""")
LIST_ENDED = Query(f"""
    {VIEWS} and (a.state <> 'open' or a.expires_at <= %(now)s)
    order by a.id desc
    limit %(limit)s
""")
FIND = Query(f"{VIEWS} and a.id = %(ask_id)s")


async def list_newest(tx: Transaction, *, ended: bool, limit: int) -> list[AskView]:
    """The owner's asks, newest first: those that are open, or those that have ended."""
    return await tx.all(LIST_ENDED if ended else LIST_OPEN, AskView, limit=limit)


async def find(tx: Transaction, ask_id: int) -> AskView | None:
    """The owner's ask of that id."""
    return await tx.find(FIND, AskView, ask_id=ask_id)
