"""The SQL of drafts.

Lock order: the message's row first (`lock_message`), then its drafts by id. So filing, deciding,
reporting, lapsing and expiring meet at the message and see each other's rows whole. A claim alone
goes past that: it takes its one draft, skips what is locked and waits for nobody, so that it can be
part of no deadlock.
"""

# ruff: noqa: S608 - what is put into the statements is a constant of this module

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import attrs

from muster.drafts.rules import LIFE, Draft, State
from muster.outcomes import Changed
from muster.pg.database import Transaction
from muster.pg.query import Query

COLUMNS: Final = """
    d.id, d.owner_id, d.message_id, d.plugin_id, d.agent_id, d.body, d.body_sha256, d.state,
    d.created_at, d.expires_at, d.decided_at, d.decided_via, d.approved_at, d.claimed_at,
    d.lease_expires_at, d.reported_at, d.external_ref, d.detail, d.ended_at, d.superseded_by,
    d.route_id
"""

# The lock of `messages.lock_message`, on the message that a draft answers: which one that is never
# changes, so it may be read before the lock is got.
LOCK_MESSAGE = Query("""
    select m.id from messages m
    where m.owner_id = %(owner_id)s and m.id = (
        select d.message_id from drafts d
        where d.owner_id = %(owner_id)s and d.id = %(draft_id)s
    )
    for no key update of m
""")


async def lock_message(tx: Transaction, draft_id: int) -> int | None:
    """Lock the message that the owner's draft answers, before any draft; its id, or None."""
    message_id = await tx.scalar(LOCK_MESSAGE, draft_id=draft_id)
    assert message_id is None or isinstance(message_id, int)
    return message_id


# NO KEY: a newer draft's row may refer to these. A claim's FOR UPDATE conflicts with it all the
# same, so a claim skips these rows while they are held, and this waits while a claim holds one.
LOCK_REPLIES = Query(f"""
    select {COLUMNS} from drafts d
    where d.owner_id = %(owner_id)s and d.message_id = %(message_id)s
    order by d.id
    for no key update
""")


async def lock_replies(tx: Transaction, message_id: int) -> list[Draft]:
    """Every draft to a message, oldest first, locked; the caller holds the message's row."""
    return await tx.all(LOCK_REPLIES, Draft, message_id=message_id)


LOCK_WITH_SIBLINGS = Query(f"""
    select {COLUMNS} from drafts d
    where d.owner_id = %(owner_id)s and d.message_id = (
        select own.message_id from drafts own
        where own.owner_id = %(owner_id)s and own.id = %(draft_id)s
    )
    order by d.id
    for no key update of d
""")


async def lock_with_siblings(tx: Transaction, draft_id: int) -> list[Draft]:
    """A draft and every other one to its message, as `lock_replies` does; none when it is none."""
    return await tx.all(LOCK_WITH_SIBLINGS, Draft, draft_id=draft_id)


# Races: two filings of one agent for two messages would each count 19. The lock is the agent's own
# and ends with the transaction; whoever holds it waits for no message, so it closes no circle. What
# leaves `pending` meanwhile can only make the count too high, never too low.
LOCK_PENDING_COUNT = Query("""
    select pg_advisory_xact_lock(hashtextextended('drafts.pending', %(agent_id)s))
""")
COUNT_PENDING = Query("""
    select count(*) from drafts
    where agent_id = %(agent_id)s and state = 'pending' and expires_at > %(now)s
      and message_id <> %(message_id)s
""")


async def count_other_pending(tx: Transaction, agent_id: int, message_id: int) -> int:
    """How many drafts of the agent await their owner, those to this message aside; exact.

    No other filing of this agent counts until this transaction ends.
    """
    await tx.later(LOCK_PENDING_COUNT, agent_id=agent_id)
    count = await tx.scalar(COUNT_PENDING, agent_id=agent_id, message_id=message_id)
    assert isinstance(count, int)
    return count


INSERT = Query(f"""
    insert into drafts as d
        (owner_id, message_id, plugin_id, agent_id, body, body_sha256, state,
         created_at, expires_at, route_id)
    values
        (%(owner_id)s, %(message_id)s, %(plugin_id)s, %(agent_id)s, %(body)s, %(body_sha256)s,
         'pending', %(now)s, %(expires_at)s, %(route_id)s)
    returning {COLUMNS}
""")


async def insert(
    tx: Transaction,
    *,
    message_id: int,
    plugin_id: int,
    agent_id: int,
    body: str,
    body_sha256: bytes,
    route_id: int | None = None,
) -> Draft:
    """Store a pending draft, which expires seven days after this."""
    return await tx.one(
        INSERT,
        Draft,
        message_id=message_id,
        plugin_id=plugin_id,
        agent_id=agent_id,
        body=body,
        body_sha256=body_sha256,
        route_id=route_id,
        expires_at=tx.now + LIFE,
    )


NOTE_REPLACEMENT = Query("""
    update drafts set superseded_by = %(newer_id)s
    where owner_id = %(owner_id)s and id = %(draft_id)s and state = 'superseded'
""")


async def note_replacement(tx: Transaction, draft_id: int, newer_id: int) -> None:
    """Name the newer draft on the one that made place for it: it had no id before."""
    await tx.later(NOTE_REPLACEMENT, draft_id=draft_id, newer_id=newer_id)


# Races: another claim, a withdrawal, a sent sibling's superseding, an expiry: each holds the row's
# lock, and this skips a locked row rather than wait for it. A row that changed before the lock was
# got is judged anew by this whole WHERE, so what was claimed, withdrawn or superseded meanwhile is
# passed over. So may be a row that another transaction only looked at; a later look finds it.
LOCK_CLAIMABLE = Query(f"""
    select {COLUMNS},
           (select m.external_id from messages m
            where m.owner_id = d.owner_id and m.id = d.message_id) as message_external_id
    from drafts d
    where d.owner_id = %(owner_id)s and d.plugin_id = %(plugin_id)s
      and d.state = 'approved' and d.claimed_at is null and d.expires_at > %(now)s
      and exists (select from plugins p where p.id = d.plugin_id and p.revoked_at is null)
      and exists (select from users u where u.id = d.owner_id and u.disabled_at is null)
    order by d.approved_at, d.id
    limit 1
    for update of d skip locked
""")


@attrs.frozen(kw_only=True)
class ClaimableDraft(Draft):
    """A draft with what its plugin calls the message that it answers."""

    message_external_id: str


async def lock_claimable(tx: Transaction, plugin_id: int) -> ClaimableDraft | None:
    """The plugin's longest approved reply that no claim took, locked; none while it is revoked."""
    return await tx.find(LOCK_CLAIMABLE, ClaimableDraft, plugin_id=plugin_id)


SAVE = Query("""
    update drafts
    set state = %(state)s, decided_at = %(decided_at)s, decided_via = %(decided_via)s,
        approved_at = %(approved_at)s, claimed_at = %(claimed_at)s,
        lease_expires_at = %(lease_expires_at)s, reported_at = %(reported_at)s,
        external_ref = %(external_ref)s, detail = %(detail)s, ended_at = %(ended_at)s,
        superseded_by = %(superseded_by)s
    where owner_id = %(owner_id)s and id = %(id)s
""")


async def save(tx: Transaction, changed: Changed[Draft]) -> Draft:
    """Write a decision about a draft whose row is locked."""
    return await tx.save(SAVE, changed)


@attrs.frozen(kw_only=True)
class Parties:
    """Whether those whom a reply needs are there."""

    plugin_lives: bool
    owner_enabled: bool


FIND_PARTIES = Query("""
    select
        exists (
            select from messages m
            join plugins p on p.owner_id = m.owner_id and p.id = m.plugin_id
            where m.owner_id = %(owner_id)s and m.id = %(message_id)s and p.revoked_at is null
        ) as plugin_lives,
        exists (
            select from users u where u.id = %(owner_id)s and u.disabled_at is null
        ) as owner_enabled
""")


async def find_parties(tx: Transaction, message_id: int) -> Parties:
    """Whether the message's plugin lives and the account is enabled, now; a claim asks again."""
    return await tx.one(FIND_PARTIES, Parties, message_id=message_id)


@attrs.frozen(kw_only=True)
class DraftView:
    """A draft as it stands now, with what one needs to know of the message it answers.

    `state` and `ended_at` are those by the clock, whether or not a sweep wrote them yet.
    """

    id: int
    message_id: int
    message_external_id: str
    sender: str | None
    sender_verified: bool
    subject: str | None
    plugin_id: int
    plugin: str  # its name
    agent_id: int
    body: str
    body_sha256: str  # hex
    state: State = attrs.field(converter=State)
    created_at: datetime
    expires_at: datetime
    decided_at: datetime | None
    decided_via: str | None
    approved_at: datetime | None
    claimed_at: datetime | None
    lease_expires_at: datetime | None
    reported_at: datetime | None
    external_ref: str | None
    detail: str | None
    ended_at: datetime | None
    superseded_by: int | None
    route_id: int | None


# The standing of rules.py once more, in SQL: a listing by state must see what is due.
VIEW_COLUMNS: Final = """
    d.id, d.message_id, m.external_id as message_external_id, m.sender, m.sender_verified,
    m.subject, d.plugin_id, p.name as plugin, d.agent_id, d.body,
    encode(d.body_sha256, 'hex') as body_sha256, due.state, d.created_at, d.expires_at,
    d.decided_at, d.decided_via, d.approved_at, d.claimed_at, d.lease_expires_at,
    d.reported_at, d.external_ref, d.detail, due.ended_at, d.superseded_by, d.route_id
"""
VIEW_SOURCE: Final = """
    from drafts d
    join messages m on m.owner_id = d.owner_id and m.id = d.message_id
    join plugins p on p.owner_id = d.owner_id and p.id = d.plugin_id
    cross join lateral (
        select d.state = 'approved' and d.lease_expires_at <= %(now)s is true as lapsed,
               d.state in ('pending', 'approved') and d.claimed_at is null
               and d.expires_at <= %(now)s as overdue
    ) late
    cross join lateral (
        select case when late.lapsed then 'unconfirmed' when late.overdue then 'expired'
                    else d.state end as state,
               case when late.lapsed then d.lease_expires_at when late.overdue then d.expires_at
                    else d.ended_at end as ended_at
    ) due
    where d.owner_id = %(owner_id)s
"""
VIEWS: Final = f"select {VIEW_COLUMNS} {VIEW_SOURCE}"
LIST = Query(f"""
    {VIEWS} and (%(state)s::text is null or due.state = %(state)s)
    order by d.id desc
    limit %(limit)s
""")
FIND = Query(f"""
    {VIEWS} and d.id = %(draft_id)s
""")


async def list_newest(tx: Transaction, *, state: State | None, limit: int) -> list[DraftView]:
    """The owner's drafts, newest first."""
    return await tx.all(LIST, DraftView, state=state, limit=limit)


async def find(tx: Transaction, draft_id: int) -> DraftView | None:
    """The owner's draft of that id."""
    return await tx.find(FIND, DraftView, draft_id=draft_id)


@attrs.frozen(kw_only=True)
class Answered:
    """A reply that was sent, and the message that it answers."""

    id: int
    message_id: int


FIND_SENT = Query("""
    select id, message_id from drafts
    where owner_id = %(owner_id)s and message_id = any(%(message_ids)s) and state = 'sent'
    order by id
""")


async def find_sent(tx: Transaction, message_ids: Sequence[int]) -> list[Answered]:
    """Which replies to these messages were sent, oldest first."""
    return await tx.all(FIND_SENT, Answered, message_ids=list(message_ids))
