"""Browser sessions: a row each, found by the sha256 of a random id that only the cookie holds.

A session is live until it ends, is revoked, or its owner signs out everywhere or is disabled.
`signed_in_at` is when the person last proved who they are in it: signing in and stepping up move
it, and what needs a fresh sign-in compares it with the step-up window (plugins: "The card").

A session ends LIFE after its last use, at the latest; last seen is written once a minute at most.
"""

import secrets
from datetime import datetime, timedelta
from typing import Final

import attrs

from muster.accounts.operations import lock_account
from muster.ids import digest
from muster.outcomes import Fact
from muster.pg.database import Transaction
from muster.pg.query import Query

LIFE: Final = timedelta(days=30)
SEEN_EVERY: Final = timedelta(minutes=1)
USER_AGENT_CHARACTERS_MAX: Final = 300


@attrs.frozen(kw_only=True)
class OpenSession:
    """Sign somebody in by `method` (password, passkey, link). Leaves `user.signed_in`."""

    method: str
    user_agent: str
    address: str


@attrs.frozen(kw_only=True)
class Opened:
    """A new session; `cookie` is told once and kept nowhere."""

    session_id: int
    cookie: str = attrs.field(repr=False)


INSERT_SESSION = Query("""
    insert into browser_sessions (owner_id, sha256, created_at, signed_in_at, expires_at,
                                  last_seen_at, method, user_agent, address)
    values (%(owner_id)s, %(sha256)s, %(now)s, %(now)s, %(expires_at)s, %(now)s, %(method)s,
            %(user_agent)s, %(address)s)
    returning id
""")


async def open_session(tx: Transaction, command: OpenSession) -> Opened:
    """As the owner, once they have proved who they are: open a browser session."""
    await lock_account(tx)
    cookie = secrets.token_urlsafe(32)
    session_id = await tx.scalar(
        INSERT_SESSION,
        sha256=digest(cookie),
        expires_at=tx.now + LIFE,
        method=command.method,
        user_agent=command.user_agent[:USER_AGENT_CHARACTERS_MAX],
        address=command.address[:64],
    )
    assert isinstance(session_id, int)
    await tx.record(
        Fact(
            action="user.signed_in",
            subject=f"session:{session_id}",
            data={"method": command.method},
        )
    )
    return Opened(session_id=session_id, cookie=cookie)


@attrs.frozen(kw_only=True)
class Visitor:
    """Somebody with a live session; the times are its own, but for `looked_at`: now."""

    session_id: int
    owner_id: int
    name: str
    time_zone: str
    signed_in_at: datetime
    last_seen_at: datetime
    looked_at: datetime


# One look through the unique index on sha256; the join is by primary key.
KNOCK_SESSION = Query("""
    select s.id as session_id, s.owner_id, u.name, u.time_zone, s.signed_in_at, s.last_seen_at,
           %(now)s::timestamptz as looked_at
    from browser_sessions s
    join users u on u.id = s.owner_id and u.disabled_at is null
    where s.sha256 = %(sha256)s and s.revoked_at is null and s.expires_at > %(now)s
      and (u.signed_out_at is null or s.signed_in_at > u.signed_out_at)
""")


async def knock_session(tx: Transaction, cookie: str) -> Visitor | None:
    """As System: who holds this cookie; None for one that ended in any way."""
    return await tx.find(KNOCK_SESSION, Visitor, sha256=digest(cookie))


def is_stale(visitor: Visitor) -> bool:
    """Whether it is time to write again that the session is in use."""
    return visitor.looked_at - visitor.last_seen_at >= SEEN_EVERY


# Two pages at once: the second finds nothing left to write.
NOTE_SEEN = Query("""
    update browser_sessions set last_seen_at = %(now)s, expires_at = %(now)s + %(life)s::interval
    where owner_id = %(owner_id)s and id = %(session_id)s and revoked_at is null
      and last_seen_at <= %(now)s - %(every)s::interval
""")


async def note_session_seen(tx: Transaction, session_id: int) -> bool:
    """Keep that a session is in use, which moves its end; says whether anything was written."""
    touched = await tx.execute(NOTE_SEEN, session_id=session_id, life=LIFE, every=SEEN_EVERY)
    return touched == 1
