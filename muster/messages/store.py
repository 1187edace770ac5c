"""The SQL of messages."""

# ruff: noqa: S608 - what is put into the statements is a constant of this module

from datetime import datetime
from typing import Final

import attrs

from muster.messages.rules import (
    HOUR,
    NEW_PER_HOUR_MAX,
    SETTLED_ACTION,
    UNDELIVERED_MAX,
    Message,
    Post,
    State,
    subject,
)
from muster.outcomes import Changed
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.token_use import TokenUse

COLUMNS: Final = """
    m.id, m.owner_id, m.plugin_id, m.external_id, m.sender, m.subject, m.body, m.received_at,
    m.no_reply, m.sender_verified, m.thread, m.human_conversation, m.created_at,
    m.state, m.agent_id, m.epoch, m.attempts, m.delivering_at, m.settled_at, m.retries,
    m.settle_reason, m.dispositioned_at, m.held_until
"""

FIND_BY_EXTERNAL_ID = Query(f"""
    select {COLUMNS} from messages m
    where m.owner_id = %(owner_id)s and m.plugin_id = %(plugin_id)s
      and m.external_id = %(external_id)s
""")


async def find_by_external_id(tx: Transaction, plugin_id: int, external_id: str) -> Message | None:
    """The message that the plugin posted under this id."""
    return await tx.find(FIND_BY_EXTERNAL_ID, Message, plugin_id=plugin_id, external_id=external_id)


@attrs.frozen(kw_only=True)
class Usage:
    """What a plugin has used of its allowance."""

    is_repeat: bool  # the id is stored
    undelivered: int  # those that wait for the chief, counted no further than the limit
    sixtieth_newest_at: datetime | None  # None while the last hour holds fewer


# The bound on created_at keeps this to the hour's rows whatever the planner knows of the table.
FIND_USAGE = Query("""
    select
        exists (
            select from messages
            where owner_id = %(owner_id)s and plugin_id = %(plugin_id)s
              and external_id = %(external_id)s
        ) as is_repeat,
        (
            select count(*) from (
                select from messages
                where plugin_id = %(plugin_id)s and state in ('queued', 'delivering')
                limit %(most)s
            ) waiting
        ) as undelivered,
        (
            select created_at from messages
            where plugin_id = %(plugin_id)s and created_at > %(since)s
            order by created_at desc
            limit 1 offset %(newer)s
        ) as sixtieth_newest_at
""")


async def find_usage(tx: Transaction, plugin_id: int, external_id: str) -> Usage:
    """How many of the plugin's messages wait, and when its 60th newest of an hour was stored.

    And whether it has one of this id: one look, for every new message takes it.
    """
    return await tx.one(
        FIND_USAGE,
        Usage,
        plugin_id=plugin_id,
        external_id=external_id,
        most=UNDELIVERED_MAX,
        since=tx.now - HOUR,
        newer=NEW_PER_HOUR_MAX - 1,
    )


INSERT = Query(f"""
    insert into messages as m
        (owner_id, plugin_id, external_id, sender, subject, body, received_at, no_reply,
         sender_verified, thread, human_conversation, created_at, state, attempts)
    values
        (%(owner_id)s, %(plugin_id)s, %(external_id)s, %(sender)s, %(subject)s, %(body)s,
         %(received_at)s, %(no_reply)s, %(sender_verified)s, %(thread)s, %(human_conversation)s,
         %(now)s, 'queued', 0)
    returning {COLUMNS}
""")


async def insert(tx: Transaction, plugin_id: int, post: Post) -> Message:
    """Store a posted message; the caller holds the plugin's row and saw that the id is new."""
    return await tx.one(
        INSERT,
        Message,
        plugin_id=plugin_id,
        external_id=post.external_id,
        sender=post.sender,
        subject=post.subject,
        body=post.body,
        received_at=post.received_at,
        no_reply=post.no_reply,
        sender_verified=post.sender_verified,
        thread=post.thread,
        human_conversation=post.human_conversation,
    )


# The action is spelled out, so that the partial index audit_settled_idx serves this. A message that
# was retried has a row for each of its turns.
FIND_TOKEN_USE = Query(f"""
    select data -> 'usage' from audit
    where owner_id = %(owner_id)s and action = '{SETTLED_ACTION}' and subject = %(subject)s
    order by id desc
    limit 1
""")


async def find_token_use(tx: Transaction, message_id: int) -> TokenUse | None:
    """What the message's last settled turn took, by its audit row; None when nobody counted."""
    usage = await tx.scalar(FIND_TOKEN_USE, subject=subject(message_id))
    return None if usage is None else TokenUse(**usage)


FIND = Query(f"""
    select {COLUMNS} from messages m where m.owner_id = %(owner_id)s and m.id = %(message_id)s
""")


async def find(tx: Transaction, message_id: int) -> Message | None:
    """The owner's message of that id."""
    return await tx.find(FIND, Message, message_id=message_id)


# With a state it goes by messages_state_idx, without one by messages_listing_idx.
LIST = Query(f"""
    select {COLUMNS} from messages m
    where m.owner_id = %(owner_id)s
      and (%(plugin)s::text is null or m.plugin_id in (
          select p.id from plugins p where p.owner_id = %(owner_id)s and p.name = %(plugin)s))
    order by m.id desc
    limit %(limit)s
""")
LIST_STATE = Query(f"""
    select {COLUMNS} from messages m
    where m.owner_id = %(owner_id)s and m.state = %(state)s
      and (%(plugin)s::text is null or m.plugin_id in (
          select p.id from plugins p where p.owner_id = %(owner_id)s and p.name = %(plugin)s))
    order by m.id desc
    limit %(limit)s
""")


async def list_newest(
    tx: Transaction, *, state: State | None, plugin: str | None, limit: int
) -> list[Message]:
    """The owner's messages, newest first."""
    if state is None:
        return await tx.all(LIST, Message, plugin=plugin, limit=limit)
    return await tx.all(LIST_STATE, Message, state=state, plugin=plugin, limit=limit)


# NO KEY: filing a draft inserts a row that refers to the message, and need not wait for a delivery.
LOCK = Query(f"""
    select {COLUMNS} from messages m
    where m.owner_id = %(owner_id)s and m.id = %(message_id)s
    for no key update
""")


async def lock(tx: Transaction, message_id: int) -> Message | None:
    """The owner's message of that id, its row locked."""
    return await tx.find(LOCK, Message, message_id=message_id)


# Races: two deliveries of one owner want the same row. The second waits for the first, and then
# PostgreSQL judges the row anew by this WHERE: it is `delivering`, so it is passed over, and stays
# locked. Whoever waits for the next one then would wait with a lock in hand, and that the second
# does not begin the next message beside the first is the callers' part: they hold the chief's row,
# so that none waits here. When the chief was replaced meanwhile they hold nothing, and lock nothing
# here. A revocation that commits between this look and the turn is caught by whoever begins it.
LOCK_NEXT_QUEUED = Query(f"""
    select {COLUMNS} from messages m
    where m.owner_id = %(owner_id)s and m.state = 'queued'
      and (m.held_until is null or m.held_until <= %(now)s)
      and exists (
          select from plugins p
          where p.owner_id = m.owner_id and p.id = m.plugin_id and p.revoked_at is null)
      and exists (
          select from agents a
          where a.owner_id = %(owner_id)s and a.id = %(agent_id)s and a.chief
            and a.retired_at is null)
    order by m.id
    limit 1
    for no key update of m
""")


async def lock_next_queued(tx: Transaction, agent_id: int) -> Message | None:
    """The owner's oldest queued message of a live plugin, its row locked, for this chief."""
    return await tx.find(LOCK_NEXT_QUEUED, Message, agent_id=agent_id)


HOLD = Query("""
    update messages set held_until = %(until)s
    where owner_id = %(owner_id)s and id = %(message_id)s and state = 'queued'
""")


async def hold(tx: Transaction, message_id: int, until: datetime | None) -> bool:
    """Let no delivery begin with a queued message before then; false when it is not queued."""
    return bool(await tx.execute(HOLD, message_id=message_id, until=until))


LOCK_DELIVERING = Query(f"""
    select {COLUMNS} from messages m
    where m.owner_id = %(owner_id)s and m.agent_id = %(agent_id)s and m.state = 'delivering'
    order by m.id
    for no key update
""")


async def lock_delivering(tx: Transaction, agent_id: int) -> list[Message]:
    """What is being delivered to this agent (one at most, by messages_one_turn_key), locked."""
    return await tx.all(LOCK_DELIVERING, Message, agent_id=agent_id)


SAVE = Query("""
    update messages
    set state = %(state)s, agent_id = %(agent_id)s, epoch = %(epoch)s, attempts = %(attempts)s,
        delivering_at = %(delivering_at)s, settled_at = %(settled_at)s, retries = %(retries)s,
        settle_reason = %(settle_reason)s, dispositioned_at = %(dispositioned_at)s
    where owner_id = %(owner_id)s and id = %(id)s
""")


async def save(tx: Transaction, changed: Changed[Message]) -> Message:
    """Write a decision about a message whose row is locked."""
    return await tx.save(SAVE, changed)
