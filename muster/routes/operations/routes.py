"""The SQL of routes. Whoever changes one holds its message's row first, then the route's."""

# ruff: noqa: S608 - what is put into the statements is a constant of this module

from datetime import datetime
from typing import Final

import attrs

from muster.ids import is_row_id
from muster.outcomes import Changed
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.routes.rules import By, Route

COLUMNS: Final = """
    r.id, r.owner_id, r.message_id, r.agent_id, r.mirrored_id, m.claude_session, r.routed_by,
    r.routed_via, r.state, r.created_at, r.deadline_at, r.answer, r.answered_at, r.answered_via,
    r.relay_due_at, r.owner_replied_at, r.ended_at, r.why, r.handback, r.handed_back_at
"""
_FROM: Final = """
    from session_routes r join mirrored m on m.owner_id = r.owner_id and m.id = r.mirrored_id
    where r.owner_id = %(owner_id)s
"""

FIND = Query(f"select {COLUMNS} {_FROM} and r.id = %(route_id)s")
LOCK = Query(f"select {COLUMNS} {_FROM} and r.id = %(route_id)s for no key update of r")
LOCK_NEWEST = Query(f"""
    select {COLUMNS} {_FROM} and r.message_id = %(message_id)s
    order by r.id desc limit 1
    for no key update of r
""")
FIND_OPEN = Query("""
    select id from session_routes
    where owner_id = %(owner_id)s and message_id = %(message_id)s
      and state in ('routed', 'answered')
""")


async def find(tx: Transaction, route_id: int) -> Route | None:
    """The owner's route of that id."""
    return await tx.find(FIND, Route, route_id=route_id) if is_row_id(route_id) else None


async def lock(tx: Transaction, route_id: int) -> Route | None:
    """The same, its row locked; the lock of its message comes before."""
    return await tx.find(LOCK, Route, route_id=route_id)


async def lock_newest(tx: Transaction, message_id: int) -> Route | None:
    """The newest route of a locked message, locked."""
    return await tx.find(LOCK_NEWEST, Route, message_id=message_id)


async def find_open(tx: Transaction, message_id: int) -> int | None:
    """The open route of a locked message; its id."""
    found = await tx.scalar(FIND_OPEN, message_id=message_id)
    assert found is None or isinstance(found, int)
    return found


INSERT = Query(f"""
    with made as (
        insert into session_routes (owner_id, message_id, agent_id, mirrored_id, routed_by,
                                    routed_via, state, created_at, deadline_at)
        values (%(owner_id)s, %(message_id)s, %(agent_id)s, %(mirrored_id)s, %(routed_by)s,
                %(routed_via)s, 'routed', %(now)s, %(deadline_at)s)
        returning *
    )
    select {COLUMNS} from made r
    join mirrored m on m.owner_id = r.owner_id and m.id = r.mirrored_id
""")


@attrs.frozen(kw_only=True)
class NewRoute:
    """A route that begins."""

    message_id: int
    agent_id: int
    mirrored_id: int
    routed_by: By
    routed_via: str | None
    deadline_at: datetime


async def insert(tx: Transaction, route: NewRoute) -> Route:
    """Write a route of a message whose row is locked, and which has no open one."""
    return await tx.one(INSERT, Route, **attrs.asdict(route))


LIST_QUEUED_BEFORE = Query(f"""
    select {COLUMNS} {_FROM} and r.mirrored_id = %(mirrored_id)s and r.state = 'routed'
      and lower(r.routed_via) = lower(%(routed_via)s) and r.message_id < %(message_id)s
      and exists (
          select from sends s
          where s.owner_id = r.owner_id and s.route_id = r.id and s.state = 'queued')
    order by r.id
""")


async def list_queued_before(
    tx: Transaction, *, mirrored_id: int, routed_via: str, message_id: int
) -> list[Route]:
    """A session's routes of older messages, made for the same cause, whose text still waits."""
    return await tx.all(
        LIST_QUEUED_BEFORE,
        Route,
        mirrored_id=mirrored_id,
        routed_via=routed_via,
        message_id=message_id,
    )


IS_NEWER_ROUTED = Query("""
    select exists (
        select from session_routes r
        where r.owner_id = %(owner_id)s and r.mirrored_id = %(mirrored_id)s
          and lower(r.routed_via) = lower(%(routed_via)s) and r.message_id > %(message_id)s)
""")


async def is_newer_routed(
    tx: Transaction, *, mirrored_id: int, routed_via: str, message_id: int
) -> bool:
    """Whether a newer message was routed to a session for the same cause, whatever came of it."""
    return bool(
        await tx.scalar(
            IS_NEWER_ROUTED,
            mirrored_id=mirrored_id,
            routed_via=routed_via,
            message_id=message_id,
        )
    )


SAVE = Query("""
    update session_routes
    set state = %(state)s, answer = %(answer)s, answered_at = %(answered_at)s,
        answered_via = %(answered_via)s, relay_due_at = %(relay_due_at)s,
        owner_replied_at = %(owner_replied_at)s, ended_at = %(ended_at)s, why = %(why)s,
        handback = %(handback)s, handed_back_at = %(handed_back_at)s
    where owner_id = %(owner_id)s and id = %(id)s
""")


async def save(tx: Transaction, changed: Changed[Route]) -> Route:
    """Write a decision about a locked route, with its facts and hints."""
    return await tx.save(SAVE, changed)
