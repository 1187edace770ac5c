"""One plain row in each table of what muster routes itself, written by SQL."""

import attrs

from muster.pg.database import Transaction
from muster.pg.query import Query

THREAD = Query(
    """
    insert into plugin_threads (owner_id, thread, mirrored_id, bound_at)
    values (%(owner_id)s, 't-1', %(mirrored)s, %(now)s)
    returning id
    """
)
AUTHOR = Query(
    """
    insert into session_prs (owner_id, repo, repo_key, kind, pr, claude_session, host_id,
                             first_seen_at, seen_at)
    values (%(owner_id)s, 'Example/Garden', 'example/garden', 'gh-pr-create', 12,
            'c0ffee00-0000-4000-8000-000000000001', %(host)s, %(now)s, %(now)s)
    returning id
    """
)
RESUME = Query(
    """
    insert into mail_resumes (owner_id, message_id, claude_session, cause, routed_via, state,
                              created_at)
    values (%(owner_id)s, %(message)s, 'c0ffee00-0000-4000-8000-000000000001', 'thread',
            'thread t-1 started by c0ffee00', 'wanted', %(now)s)
    returning id
    """
)


@attrs.frozen(kw_only=True)
class SelfRoutingRows:
    """The ids of what was written."""

    thread_id: int
    author_id: int
    resume_id: int


async def add_self_routing_rows(
    tx: Transaction, *, mirrored: int, host: int, message: int
) -> SelfRoutingRows:
    """Write one row of each kind for an owner who has none yet."""
    return SelfRoutingRows(
        thread_id=await tx.scalar(THREAD, mirrored=mirrored),
        author_id=await tx.scalar(AUTHOR, host=host),
        resume_id=await tx.scalar(RESUME, message=message),
    )
