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
from muster.errors import Unauthorized
from muster.ids import digest
from muster.outcomes import Fact, Hint, HintKind
from muster.pg.database import Transaction
from muster.pg.query import Query

LIFE: Final = timedelta(days=30)
SEEN_EVERY: Final = timedelta(minutes=1)
KEPT: Final = timedelta(days=30)  # after their end sessions are listed no more, and go
LISTED_MAX: Final = 200
USER_AGENT_CHARACTERS_MAX: Final = 300


@attrs.frozen(kw_only=True)
class OpenSession:
    """Sign somebody in by `method` (password, passkey, link). Leaves `user.signed_in`.

    The session that the browser had before, if it was the same person's, ends with it.
    """

    method: str
    user_agent: str
    address: str
    former_session_id: int | None = None


@attrs.frozen(kw_only=True)
class Opened:
    """A new session; `cookie` is told once and kept nowhere."""

    session_id: int
    cookie: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Ended:
    """A session that has just ended."""

    id: int


END_ONE = Query("""
    update browser_sessions set revoked_at = %(now)s
    where owner_id = %(owner_id)s and id = %(session_id)s and revoked_at is null returning id
""")
END_ALL = Query("""
    update browser_sessions set revoked_at = %(now)s
    where owner_id = %(owner_id)s and revoked_at is null returning id
""")
END_OTHERS = Query("""
    update browser_sessions set revoked_at = %(now)s
    where owner_id = %(owner_id)s and id <> %(session_id)s and revoked_at is null returning id
""")
DELETE_LONG_OVER = Query("""
    delete from browser_sessions
    where owner_id = %(owner_id)s and (expires_at < %(before)s or revoked_at < %(before)s)
""")


async def _end(tx: Transaction, ended: list[Ended]) -> int:
    """Leave the fact of each session's end, which ends its streams; how many there were."""
    await tx.record(*(Fact(action="user.signed_out", subject=f"session:{one.id}") for one in ended))
    return len(ended)


async def end_session(tx: Transaction, session_id: int) -> bool:
    """As the owner: end one session, here or elsewhere; whether it was still live."""
    return await _end(tx, await tx.all(END_ONE, Ended, session_id=session_id)) == 1


async def end_other_sessions(tx: Transaction, session_id: int) -> int:
    """As the owner: end every session but this one; how many there were."""
    await lock_account(tx)
    return await _end(tx, await tx.all(END_OTHERS, Ended, session_id=session_id))


SIGN_OUT_AT = Query("update users set signed_out_at = %(now)s where id = %(owner_id)s")


async def sign_out_everywhere(tx: Transaction, _command: None = None) -> int:
    """As the owner: end every session, and refuse whatever was queued under one of them.

    The account is locked, so a sign-in at the same moment comes before, and ends, or after.
    """
    await lock_account(tx)
    await tx.execute(SIGN_OUT_AT)
    count = await _end(tx, await tx.all(END_ALL, Ended))
    subject = f"user:{tx.owner_id}"
    await tx.record(
        Fact(action="user.signed_out_everywhere", subject=subject, data={"sessions": count})
    )
    tx.hint(Hint(kind=HintKind.USER_CHANGED, owner_id=tx.owner_id, id=tx.owner_id))
    return count


@attrs.frozen(kw_only=True)
class SessionView:
    """A live session, as its owner sees it."""

    id: int
    created_at: datetime
    signed_in_at: datetime
    last_seen_at: datetime
    method: str
    user_agent: str
    address: str


LIST_SESSIONS = Query("""
    select id, created_at, signed_in_at, last_seen_at, method, user_agent, address
    from browser_sessions
    where owner_id = %(owner_id)s and revoked_at is null and expires_at > %(now)s
    order by last_seen_at desc, id desc limit %(limit)s
""")


async def list_sessions(tx: Transaction, limit: int = LISTED_MAX) -> list[SessionView]:
    """As the owner: the live sessions, the one in use last first."""
    return await tx.all(LIST_SESSIONS, SessionView, limit=limit)


REFRESH = Query("""
    update browser_sessions set signed_in_at = %(now)s
    where owner_id = %(owner_id)s and id = %(session_id)s and revoked_at is null
      and expires_at > %(now)s
""")


async def refresh_session(tx: Transaction, session_id: int, *, method: str) -> None:
    """As the owner, once they have proved anew who they are: the session is a fresh one again.

    Raises Unauthorized when it has ended meanwhile.
    """
    if await tx.execute(REFRESH, session_id=session_id) != 1:
        raise Unauthorized("This session has ended; sign in again.")
    subject = f"session:{session_id}"
    await tx.record(Fact(action="user.stepped_up", subject=subject, data={"method": method}))


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
    if command.former_session_id is not None:
        await _end(tx, (await tx.all(END_ONE, Ended, session_id=command.former_session_id)))
    await tx.execute(DELETE_LONG_OVER, before=tx.now - KEPT)
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


# An ended session too, as long as its row is kept: it opens nothing, and tells who it was.
FIND_KNOWN = Query("""
    select s.id from browser_sessions s join users u on u.id = s.owner_id
    where s.sha256 = %(sha256)s and u.name = %(name)s
""")


async def find_known(tx: Transaction, *, cookie: str, name: str) -> int | None:
    """As System: the session, live or ended, by which this cookie's browser knew that account."""
    found = await tx.scalar(FIND_KNOWN, sha256=digest(cookie), name=name)
    assert found is None or isinstance(found, int)
    return found


FIND_KNOWN_BY_PASSKEY = Query("""
    select s.id from browser_sessions s join passkeys p on p.owner_id = s.owner_id
    where s.sha256 = %(sha256)s and p.credential_id = %(credential_id)s
""")


async def find_known_by_passkey(
    tx: Transaction, *, cookie: str, credential_id: bytes
) -> int | None:
    """As System: the same, for the account that a passkey is of."""
    found = await tx.scalar(
        FIND_KNOWN_BY_PASSKEY, sha256=digest(cookie), credential_id=credential_id
    )
    assert found is None or isinstance(found, int)
    return found


FIND_BROWSER = Query("select id from browser_sessions where sha256 = %(sha256)s")


async def find_browser(tx: Transaction, cookie: str) -> int | None:
    """As System: the session, live or ended, of this cookie's browser, whosever account it was."""
    found = await tx.scalar(FIND_BROWSER, sha256=digest(cookie))
    assert found is None or isinstance(found, int)
    return found


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
