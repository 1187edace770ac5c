"""What sessions were about, read back: the history of one, and the newest title of many."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import attrs

from muster.pg.database import Transaction
from muster.pg.query import Query

LISTED_MAX = 100


@attrs.frozen(kw_only=True)
class FocusTitle:
    """A title: `summary` is the transcript's own, `prompt` the first line of what was typed.

    `at` is when the session was about it, by muster's clock.
    """

    title: str
    source: str
    cwd: str | None
    at: datetime


# By focus_session_idx.
LIST_FOCUS = Query("""
    select title, source, cwd, at from focus_titles
    where owner_id = %(owner_id)s and mirrored_id = %(mirrored_id)s
    order by at desc, id desc
    limit %(limit)s
""")


async def list_focus(
    tx: Transaction, mirrored_id: int, limit: int = LISTED_MAX
) -> list[FocusTitle]:
    """What one of the owner's sessions was about, newest first; nothing for somebody else's."""
    wanted = max(0, min(limit, LISTED_MAX))
    return await tx.all(LIST_FOCUS, FocusTitle, mirrored_id=mirrored_id, limit=wanted)


# One look into focus_session_idx for each session.
LIST_NEWEST = Query("""
    select s.mirrored_id, f.title
    from unnest(%(mirrored_ids)s::bigint[]) as s (mirrored_id)
    cross join lateral (
        select title from focus_titles
        where owner_id = %(owner_id)s and mirrored_id = s.mirrored_id
        order by at desc, id desc
        limit 1
    ) f
""")


@attrs.frozen(kw_only=True)
class _Newest:
    mirrored_id: int
    title: str


async def newest_focus(tx: Transaction, mirrored_ids: Sequence[int]) -> Mapping[int, str]:
    """The newest title of each of these sessions of the owner's that has one."""
    found = await tx.all(LIST_NEWEST, _Newest, mirrored_ids=list(mirrored_ids))
    return {one.mirrored_id: one.title for one in found}
