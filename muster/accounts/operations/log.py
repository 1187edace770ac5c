"""An account's audit log, looked up by what one knows of a row.

An id grows in the order of insertion, and a time is that of the transaction's begin: so the times
of neighbours may be out of order, by as long as a transaction lasts (SLACK, at the very most).
"""

from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

from muster.pg.audit import LIMIT_MAX, AuditRow
from muster.pg.database import Transaction
from muster.pg.query import Query

__all__ = ["AuditRow", "LookUp", "Looked", "look_up"]

LOOKED_MAX: Final = 20_000
SLACK: Final = timedelta(minutes=10)
EVER: Final = (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC))
NO_ID_ABOVE: Final = 2**63 - 1


@attrs.frozen(kw_only=True)
class LookUp:
    """Which rows to look up, newest first: at most `limit`, those of ids below `before_id`.

    `action`, `actor` and a `subject` without a number (`draft`) are beginnings, one with a number
    (`draft:17`) is exact. `since` is the first time that counts, `until` the first that does not.
    """

    action: str = ""
    actor: str = ""
    subject: str = ""
    since: datetime | None = None
    until: datetime | None = None
    before_id: int | None = None
    limit: int = 100

    @property
    def names_one(self) -> bool:
        """Whether the rows of one subject are asked for."""
        return self.subject.partition(":")[2] != ""


@attrs.frozen(kw_only=True)
class Looked:
    """What was found; look on with `before_id` at `older_than`, though a page may be empty."""

    rows: list[AuditRow]
    older_than: int | None


@attrs.frozen(kw_only=True)
class _Bottom:
    id: int | None
    at: datetime | None
    looked: int


# Who looks for something rare walks LOOKED_MAX of the owner's rows and then asks anew, so that no
# look takes long however large the log is. The inner limit is that walk; by audit_listing_idx.
FIND_IN_ALL = Query(
    """
    select * from (
        select id, at, actor, via, action, subject, data from audit
        where owner_id = %(owner_id)s and id < %(below)s
        order by id desc limit %(walk)s
    ) walked
    where starts_with(action, %(action)s) and starts_with(actor, %(actor)s)
      and starts_with(subject, %(subject)s) and at >= %(since)s and at < %(until)s
    order by id desc limit %(limit)s
    """
)
# By audit_subject_idx: one thing has few rows.
FIND_OF_ONE = Query(
    """
    select id, at, actor, via, action, subject, data from audit
    where owner_id = %(owner_id)s and subject = %(subject)s and id < %(below)s
      and starts_with(action, %(action)s) and starts_with(actor, %(actor)s)
      and at >= %(since)s and at < %(until)s
    order by id desc limit %(limit)s
    """
)
FIND_BOTTOM = Query(
    """
    select min(id) as id, min(at) as at, count(*) as looked from (
        select id, at from audit
        where owner_id = %(owner_id)s and id < %(below)s
        order by id desc limit %(walk)s
    ) walked
    """
)
FIND_NEWEST_BELOW = Query(
    """
    select id, at, 1 as looked from audit
    where owner_id = %(owner_id)s and id < %(below)s
    order by id desc limit 1
    """
)


async def look_up(tx: Transaction, command: LookUp) -> Looked:
    """Look rows up; a look walks at most LOOKED_MAX of the owner's rows."""
    limit = max(1, min(command.limit, LIMIT_MAX))
    below = NO_ID_ABOVE if command.before_id is None else command.before_id
    if command.until is not None and not command.names_one:
        until = min(command.until, EVER[1] - SLACK)
        below = min(below, await _first_id_after(tx, until + SLACK))
    query = FIND_OF_ONE if command.names_one else FIND_IN_ALL
    found = await tx.all(
        query,
        AuditRow,
        action=command.action,
        actor=command.actor,
        subject=command.subject,
        since=command.since or EVER[0],
        until=command.until or EVER[1],
        below=below,
        limit=limit + 1,
        **({} if command.names_one else {"walk": LOOKED_MAX}),
    )
    rows = found[:limit]
    if len(found) > limit:
        return Looked(rows=rows, older_than=rows[-1].id)
    if command.names_one:
        return Looked(rows=rows, older_than=None)
    return Looked(rows=rows, older_than=await _bottom_of_walk(tx, below, command.since))


async def _bottom_of_walk(tx: Transaction, below: int, since: datetime | None) -> int | None:
    """Where a walk ended that may go on; None when it saw all, or all that is young enough."""
    bottom = await tx.one(FIND_BOTTOM, _Bottom, below=below, walk=LOOKED_MAX)
    if bottom.looked < LOOKED_MAX or bottom.at is None:
        return None
    return None if since is not None and bottom.at + SLACK < since else bottom.id


async def _first_id_after(tx: Transaction, at: datetime) -> int:
    """An id at and above which all rows are of `at` or later; found in some forty short looks."""
    newest = await tx.find(FIND_NEWEST_BELOW, _Bottom, below=NO_ID_ABOVE)
    if newest is None or newest.id is None:
        return NO_ID_ABOVE
    low, high = 0, newest.id + 1
    while low < high:
        middle = (low + high) // 2
        found = await tx.find(FIND_NEWEST_BELOW, _Bottom, below=middle + 1)
        if found is None or found.id is None or found.at is None:
            low = middle + 1
        elif found.at >= at:
            high = found.id
        else:
            low = middle + 1
    return high
