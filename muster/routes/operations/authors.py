"""Noting which session authored a pull request, and finding it."""

import attrs

from muster.mirror.operations.sessions import find_session
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.routes.authors import KEPT, Author, Did, ReportAuthor, check_report
from muster.routes.reviews import Review

__all__ = ["Author", "Did", "ReportAuthor", "find_author", "report_author"]


@attrs.frozen(kw_only=True)
class _Noted:
    is_new: bool


FORGET = Query("""
    delete from session_prs where owner_id = %(owner_id)s and seen_at < %(now)s - %(kept)s::interval
""")

# A row that was inserted has no xmax. Of two equal reports the second waits, and updates.
NOTE_CREATED = Query("""
    insert into session_prs as p (owner_id, repo, repo_key, kind, pr, head_ref, claude_session,
                                  host_id, first_seen_at, seen_at)
    values (%(owner_id)s, %(repo)s, %(repo_key)s, 'gh-pr-create', %(pr)s, %(head_ref)s,
            %(claude_session)s, %(host_id)s, %(now)s, %(now)s)
    on conflict (owner_id, repo_key, pr, claude_session) where kind = 'gh-pr-create' do update
        set repo = excluded.repo, head_ref = coalesce(excluded.head_ref, p.head_ref),
            host_id = coalesce(excluded.host_id, p.host_id),
            seen_at = greatest(p.seen_at, excluded.seen_at)
    returning xmax = 0 as is_new
""")
NOTE_PUSHED = Query("""
    insert into session_prs as p (owner_id, repo, repo_key, kind, head_ref, claude_session,
                                  host_id, first_seen_at, seen_at)
    values (%(owner_id)s, %(repo)s, %(repo_key)s, 'git-push', %(head_ref)s, %(claude_session)s,
            %(host_id)s, %(now)s, %(now)s)
    on conflict (owner_id, repo_key, head_ref, claude_session) where kind = 'git-push' do update
        set repo = excluded.repo, host_id = coalesce(excluded.host_id, p.host_id),
            seen_at = greatest(p.seen_at, excluded.seen_at)
    returning xmax = 0 as is_new
""")


async def report_author(tx: Transaction, command: ReportAuthor) -> bool:
    """As the owner: note an authorship, as the most recent one; whether it is new.

    Noted whether or not a window shows the session: the row also names the author to the chief
    when its window is gone. What was not told for 30 days is deleted. Raises Invalid for a field.
    """
    check_report(command)
    await tx.execute(FORGET, kept=KEPT)
    session = await find_session(tx, command.claude_session)
    host_id = session.host_id if session is not None and session.online else None
    known = {
        "repo": command.repo,
        "repo_key": command.repo_key,
        "head_ref": command.head_ref,
        "claude_session": command.claude_session,
        "host_id": host_id,
    }
    if command.kind is Did.CREATED:
        noted = await tx.one(NOTE_CREATED, _Noted, **known, pr=command.pr)
    else:
        noted = await tx.one(NOTE_PUSHED, _Noted, **known)
    return noted.is_new


FIND_AUTHOR = Query("""
    select p.claude_session, m.id as mirrored_id, p.host_id, h.name as host, p.kind, p.repo, p.pr,
           p.head_ref, p.seen_at,
           (select f.title from focus_titles f
            where f.owner_id = p.owner_id and f.mirrored_id = m.id
            order by f.at desc, f.id desc limit 1) as title
    from session_prs p
    left join hosts h on h.owner_id = p.owner_id and h.id = p.host_id
    left join mirrored m on m.owner_id = p.owner_id and m.claude_session = p.claude_session
    where p.owner_id = %(owner_id)s and p.repo_key = %(repo_key)s
      and (p.kind = 'gh-pr-create' and p.pr = %(pr)s
           or p.kind = 'git-push' and p.head_ref = %(head_ref)s)
    order by p.seen_at desc, p.id desc
    limit 1
""")


async def find_author(tx: Transaction, review: Review) -> Author | None:
    """The owner's session that last created the pull request or pushed its head branch, if any."""
    return await tx.find(
        FIND_AUTHOR, Author, repo_key=review.repo_key, pr=review.pr, head_ref=review.head_ref
    )
