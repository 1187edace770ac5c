"""How far each folder of an IMAP account was brought to muster: tables in the SDK's journal file.

`imap_folders` holds one position a folder: every mail up to it is settled, but for those in
`imap_mails`. These are the mails that were *refused* by muster for good, with its reason, and
those set *aside* because the server did not hand them out; they are tried again.

Which mails are new is the server's word, since the two clocks may differ (`resume`):

- When a folder is first seen, the position is set just below UIDNEXT. Whatever arrives later has
  a higher UID (RFC 3501 section 2.3.1.1), so nothing can slip through and no clock is asked.
- UIDs mean nothing any more when UIDVALIDITY changes; then INTERNALDATE must tell old from new.
  The start that it is compared with is the newest date in the folder when it was first seen,
  which the server itself wrote, and never later than our own clock: a mail dated years ahead
  must not hide all others. A day is taken off, for servers whose hosts disagree. So after such a
  change a day of older mails may be posted, and no newer one is lost.
- The same date keeps out what is old and only moved into the folder later, an imported archive
  above all. How many mails that left out is told.

An account is a user at a host. Its port and how it is secured may change without a new start.
"""

import enum
import sqlite3
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import attrs

from muster.clients.mail.imap import OpenFolder
from muster.clients.mail.settings import EVERYTHING, Since
from muster.clients.plugin import Journal

START_MARGIN_SECONDS = 24 * 3600
ASIDE_COUNT_MAX = 1000
"""How many mails of a folder are set aside at most; with more, it is the folder that is broken."""

SCHEMA = """
create table if not exists imap_folders (
    account text not null,
    folder text not null,
    uid_validity integer not null,
    position integer not null,
    started_at integer not null,
    since_at integer not null,
    primary key (account, folder)
) strict
"""
SCHEMA_OF_MAILS = """
create table if not exists imap_mails (
    account text not null,
    folder text not null,
    uid_validity integer not null,
    uid integer not null,
    state text not null check (state in ('aside', 'refused')),
    external_id text not null default '',
    reason text not null default '',
    primary key (account, folder, uid_validity, uid)
) strict
"""
FIND = """
select uid_validity, position, started_at, since_at from imap_folders
where account = ? and folder = ?
"""
BEGIN = """
insert into imap_folders (account, folder, uid_validity, position, started_at, since_at)
values (?, ?, ?, ?, ?, ?)
on conflict (account, folder) do update set uid_validity = excluded.uid_validity,
    position = excluded.position, started_at = excluded.started_at, since_at = excluded.since_at
"""
# UIDs of another UIDVALIDITY name nothing any more, so none of them is worth a try.
DROP_OTHERS_ASIDE = """
delete from imap_mails
where account = ? and folder = ? and uid_validity <> ? and state = 'aside'
"""
MOVE = """
update imap_folders set position = max(position, ?)
where account = ? and folder = ? and uid_validity = ?
"""
KEEP_MAIL = """
insert into imap_mails (account, folder, uid_validity, uid, state, external_id, reason)
values (?, ?, ?, ?, ?, ?, ?)
on conflict (account, folder, uid_validity, uid) do update set state = excluded.state,
    external_id = excluded.external_id, reason = excluded.reason
"""
DROP_ASIDE = """
delete from imap_mails
where account = ? and folder = ? and uid_validity = ? and uid = ? and state = 'aside'
"""
ASIDE = """
select uid from imap_mails
where account = ? and folder = ? and uid_validity = ? and state = 'aside' order by uid limit ?
"""


class Kept(enum.Enum):
    """Why a mail is remembered by itself; the value is what is stored."""

    ASIDE = "aside"
    REFUSED = "refused"


@attrs.frozen(kw_only=True)
class Cursor:
    """How far a folder was read. Times are in whole seconds since 1970.

    `started_at` never changes once the folder was seen. `since_at` is the date that the position
    counts for: mails up to `position` that are older than it were never looked at.
    """

    uid_validity: int
    position: int
    started_at: int
    since_at: int


def resume(
    cursor: Cursor | None,
    found: OpenFolder,
    *,
    since: Since,
    newest: datetime | None,
    now: datetime,
) -> Cursor:
    """Where to go on in a folder that stands as `found`.

    `newest` is the newest INTERNALDATE in it, None when it is empty; it and `now` are looked at
    only when there is no cursor yet.
    """
    if cursor is None:
        latest = now if newest is None else min(newest, now)
        started_at = int(latest.timestamp()) - START_MARGIN_SECONDS
        # Asked for by date, the old ones are looked through too.
        position = found.uid_next - 1 if since is None else 0
        return Cursor(
            uid_validity=found.uid_validity,
            position=position,
            started_at=started_at,
            since_at=_since_at(since, started_at),
        )
    since_at = _since_at(since, cursor.started_at)
    read_anew = cursor.uid_validity != found.uid_validity or since_at < cursor.since_at
    return attrs.evolve(
        cursor,
        uid_validity=found.uid_validity,
        position=0 if read_anew else cursor.position,
        since_at=since_at,
    )


def is_wanted(internal_date: datetime | None, cursor: Cursor) -> bool:
    """Whether a mail above the position is one to bring; without a date it is."""
    return internal_date is None or internal_date.timestamp() >= cursor.since_at


def _since_at(since: Since, started_at: int) -> int:
    match since:
        case None:
            return started_at
        case date():
            # A day begins first at UTC+14, and no mail of that day may be missed anywhere.
            midnight = datetime(since.year, since.month, since.day, tzinfo=UTC)
            return int((midnight - timedelta(hours=14)).timestamp())
        case _:
            assert since == EVERYTHING, since
            return 0


class ImapState:
    """What is remembered of one account; each method is one durable transaction."""

    def __init__(self, journal: Journal, account: str) -> None:
        self._journal = journal
        self._account = account

    async def prepare(self) -> None:
        """Make the tables that are missing."""

        def work(db: sqlite3.Connection) -> None:
            db.execute(SCHEMA)
            db.execute(SCHEMA_OF_MAILS)

        await self._journal.run(work)

    async def find(self, folder: str) -> Cursor | None:
        """How far this folder was read, None when it was never seen."""
        values = (self._account, folder)
        row = await self._journal.run(lambda db: db.execute(FIND, values).fetchone())
        if row is None:
            return None
        uid_validity, position, started_at, since_at = row
        return Cursor(
            uid_validity=uid_validity, position=position, started_at=started_at, since_at=since_at
        )

    async def begin(self, folder: str, cursor: Cursor) -> None:
        """Remember where a folder is gone on with; what was aside under other UIDs is forgotten."""
        place = (self._account, folder)
        values = (cursor.uid_validity, cursor.position, cursor.started_at, cursor.since_at)

        def work(db: sqlite3.Connection) -> None:
            db.execute(BEGIN, (*place, *values))
            db.execute(DROP_OTHERS_ASIDE, (*place, cursor.uid_validity))

        await self._journal.run(work)

    async def settle(self, folder: str, uid_validity: int, uid: int) -> None:
        """A mail needs no more: move the position to it, unless it is past it."""
        place = (self._account, folder, uid_validity)

        def work(db: sqlite3.Connection) -> None:
            db.execute(MOVE, (uid, *place))
            db.execute(DROP_ASIDE, (*place, uid))

        await self._journal.run(work)

    async def keep(
        self, folder: str, uid_validity: int, uid: int, kept: Kept, *, external_id: str, reason: str
    ) -> None:
        """Remember a mail by itself, and move the position as `settle` does."""
        place = (self._account, folder, uid_validity)

        def work(db: sqlite3.Connection) -> None:
            db.execute(MOVE, (uid, *place))
            db.execute(KEEP_MAIL, (*place, uid, kept.value, external_id, reason))

        await self._journal.run(work)

    async def aside(self, folder: str, uid_validity: int) -> Sequence[int]:
        """The UIDs of the mails set aside, in order, at most 1,000."""
        values = (self._account, folder, uid_validity, ASIDE_COUNT_MAX)
        rows = await self._journal.run(lambda db: db.execute(ASIDE, values).fetchall())
        return [row[0] for row in rows]
