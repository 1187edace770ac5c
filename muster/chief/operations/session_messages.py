"""What one of the owner's sessions may route: their newest messages that the chief has."""

# ruff: noqa: S608 - what is put into the statements is a constant of this room

from datetime import datetime
from typing import Final

import attrs

from muster.pg.database import Transaction
from muster.pg.query import Query

LISTED_MAX: Final = 30
BODY_CHARACTERS_MAX: Final = 280


@attrs.frozen(kw_only=True)
class Routable:
    """A message, and what became of its newest route."""

    message_id: int
    plugin: str
    sender: str | None
    sender_verified: bool
    subject: str | None
    body: str  # its first BODY_CHARACTERS_MAX characters
    received_at: datetime
    route: str  # none, pending, relayed, owner_answered or handed_back
    route_id: int | None
    deadline_at: datetime | None  # of a pending one


@attrs.frozen(kw_only=True)
class RoutableList:
    """The newest LISTED_MAX; `truncated` says that there are older ones."""

    messages: list[Routable]
    truncated: bool


# By messages_listing_idx: of an owner's newest messages few are queued or take no reply.
LIST_ROUTABLE = Query(f"""
    select m.id as message_id, p.name as plugin, m.sender, m.sender_verified, m.subject,
           left(m.body, {BODY_CHARACTERS_MAX}) as body, m.created_at as received_at,
           case when r.state is null then 'none' when r.state = 'routed' then 'pending'
                when r.state in ('answered', 'relayed', 'fallback') then 'relayed'
                when r.state = 'owner_answered' then 'owner_answered' else 'handed_back'
           end as route,
           r.id as route_id, case when r.state = 'routed' then r.deadline_at end as deadline_at
    from messages m
    join plugins p on p.owner_id = m.owner_id and p.id = m.plugin_id
    join agents a on a.owner_id = m.owner_id and a.id = m.agent_id and a.chief
                 and a.retired_at is null
    left join lateral (
        select r.id, r.state, r.deadline_at from session_routes r
        where r.owner_id = m.owner_id and r.message_id = m.id
        order by r.id desc limit 1
    ) r on true
    where m.owner_id = %(owner_id)s and m.state in ('delivering', 'delivered') and not m.no_reply
    order by m.id desc limit {LISTED_MAX + 1}
""")


async def list_routable(tx: Transaction, _command: None = None) -> RoutableList:
    """The owner's newest messages that can be routed, whatever became of them already."""
    found = await tx.all(LIST_ROUTABLE, Routable)
    return RoutableList(messages=found[:LISTED_MAX], truncated=len(found) > LISTED_MAX)
