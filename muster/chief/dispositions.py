"""Has the chief acted on a message? One predicate, for a retry and for the sweep of the unrouted.

The chief acted on a message while a draft of a reply to it lives (pending, approved, sent or
unconfirmed, by the clock), while a route to a session does (routed, answered or relayed) or once a
gated task cites it (plugins: "A message the chief does not act on"). A draft that was rejected,
superseded, expired or that failed, and a route that timed out or failed, ended without an answer,
so the message is back where it was.

A message awaits a disposition while it is delivered, can be replied to, was not settled and the
chief did not act on it. Migration 0005 settled by this predicate what awaited one before.

Which task cites a message is read from the task itself, that `task_create_gated` alone files so;
its audit row is written before the create, and one that failed left no task to do. A task that
speaks of a message without citing it is not seen.
"""

# ruff: noqa: S608 - what is put into the statements is a constant of this module

from typing import Final

import attrs

from muster.pg.database import Transaction
from muster.pg.query import Query

LIVE_DRAFT: Final = """
    exists (
        select from drafts d
        where d.owner_id = m.owner_id and d.message_id = m.id
          and d.state in ('pending', 'approved', 'sent', 'unconfirmed')
          and not (d.state in ('pending', 'approved') and d.claimed_at is null
                   and d.expires_at <= %(now)s)
    )
"""
CITING_TASK: Final = """
    exists (
        select from tasks t where t.owner_id = m.owner_id and t.message_id = m.id
    )
"""
LIVE_ROUTE: Final = """
    exists (
        select from session_routes r
        where r.owner_id = m.owner_id and r.message_id = m.id
          and r.state in ('routed', 'answered', 'relayed')
    )
"""
CHIEF_ACTED: Final = f"({LIVE_DRAFT} or {CITING_TASK} or {LIVE_ROUTE})"
DISPOSED: Final = f"(m.dispositioned_at is not null or {CHIEF_ACTED})"
AWAITS: Final = f"(m.state = 'delivered' and not m.no_reply and not {DISPOSED})"


@attrs.frozen(kw_only=True)
class Acted:
    """What the chief did about a message, and whether the message's plugin lives."""

    drafted: bool
    gated: bool
    routed: bool
    plugin_lives: bool


FIND_ACTED = Query(f"""
    select {LIVE_DRAFT} as drafted, {CITING_TASK} as gated, {LIVE_ROUTE} as routed,
           p.revoked_at is null as plugin_lives
    from messages m
    join plugins p on p.owner_id = m.owner_id and p.id = m.plugin_id
    where m.owner_id = %(owner_id)s and m.id = %(message_id)s
""")


async def find_acted(tx: Transaction, message_id: int) -> Acted | None:
    """What the chief did about the owner's message; None when there is none of that id."""
    return await tx.find(FIND_ACTED, Acted, message_id=message_id)


FIND_AWAITS = Query(f"""
    select {AWAITS} from messages m
    where m.owner_id = %(owner_id)s and m.id = %(message_id)s
""")


async def awaits_disposition(tx: Transaction, message_id: int) -> bool:
    """Whether the owner's message awaits a disposition now."""
    return bool(await tx.scalar(FIND_AWAITS, message_id=message_id))
