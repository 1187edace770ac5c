"""The pull requests that sessions worked on, as their hosts' hooks reported it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import attrs

from muster.pg.database import Transaction
from muster.pg.query import Query


@attrs.frozen(kw_only=True)
class ListAuthored:
    """Of these sessions, what was reported within [since, until); at most `most` of each."""

    claude_sessions: Sequence[str]
    since: datetime
    until: datetime
    most: int


@attrs.frozen(kw_only=True)
class Authored:
    """A session's pull requests as `<owner>/<repository>#<number>`, and how many there are."""

    pull_requests: tuple[str, ...]
    in_all: int


@attrs.frozen(kw_only=True)
class _Row:
    claude_session: str
    repo: str
    pr: int
    in_all: int


# Those that a session created, and those to whose branch it pushed, where whoever created them told
# the branch. By session_prs_session_idx and session_prs_seen_idx.
LIST_AUTHORED = Query("""
    with reported as (
        select p.claude_session, p.repo_key, p.repo, p.kind, p.pr, p.head_ref, p.seen_at
        from session_prs p
        where p.owner_id = %(owner_id)s and p.claude_session = any(%(claude_sessions)s::text[])
          and p.seen_at >= %(since)s and p.first_seen_at < %(until)s
    ), authored as (
        select claude_session, repo_key, repo, pr, seen_at from reported
        where kind = 'gh-pr-create'
        union all
        select r.claude_session, r.repo_key, r.repo, c.pr, r.seen_at
        from reported r
        join session_prs c on c.owner_id = %(owner_id)s and c.repo_key = r.repo_key
            and c.kind = 'gh-pr-create' and c.head_ref = r.head_ref
        where r.kind = 'git-push'
    ), named as (
        select claude_session, repo_key, pr, max(repo) as repo, max(seen_at) as seen_at
        from authored group by claude_session, repo_key, pr
    ), placed as (
        select claude_session, repo, pr,
               count(*) over (partition by claude_session) as in_all,
               row_number() over (
                   partition by claude_session order by seen_at desc, repo_key, pr) as place
        from named
    )
    select claude_session, repo, pr, in_all from placed
    where place <= %(most)s order by claude_session, place
""")


async def pull_requests_of(tx: Transaction, command: ListAuthored) -> Mapping[str, Authored]:
    """The pull requests of each of these sessions that has any, the last reported one first."""
    if not command.claude_sessions:
        return {}
    rows = await tx.all(
        LIST_AUTHORED,
        _Row,
        claude_sessions=list(command.claude_sessions),
        since=command.since,
        until=command.until,
        most=command.most,
    )
    of: dict[str, list[_Row]] = defaultdict(list)
    for row in rows:
        of[row.claude_session].append(row)
    return {
        session: Authored(
            pull_requests=tuple(f"{row.repo}#{row.pr}" for row in found), in_all=found[0].in_all
        )
        for session, found in of.items()
    }
