"""Sessions and agents that were there in a window of time, and what they were about."""

# ruff: noqa: S608 - what is put into the statements is a constant of muster's

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs

from muster.agents.rules import NODE_ALIVE_SECONDS
from muster.mirror.rules import PaneState
from muster.mirror.store import ONLINE
from muster.pg.database import Transaction
from muster.pg.query import Query

SUMMARY: Final = "summary"


@attrs.frozen(kw_only=True)
class During:
    """A window of time: [since, until)."""

    since: datetime
    until: datetime


@attrs.frozen(kw_only=True)
class Seen:
    """A session, by `claude_session`, or an agent, by its name in `agent`, that was there.

    `state` is None for a session that no online window shows, and for an agent that is not
    connected. `name` is the window's label or title, empty without an online window. `directory` is
    what the transcript named last, `repo_directory` where `repo` was seen. `titled_at`: when the
    newest title of the window of time was written.
    """

    id: int
    claude_session: str | None
    agent: str | None
    name: str
    host: str
    repo: str | None
    repo_directory: str | None
    state: PaneState | None = attrs.field(converter=attrs.converters.optional(PaneState))
    first_seen_at: datetime
    last_seen_at: datetime
    directory: str | None
    titled_at: datetime | None

    @property
    def whose(self) -> tuple[bool, int]:
        """What tells it from all others: whether it is an agent, and its id."""
        return self.agent is not None, self.id


# The pane that counts, as for the sessions that pages show (muster/mirror/operations/sessions.py).
# A session that an online window shows is seen now, though its row is written once a minute. The
# directory is the one that its transcript named last, by focus_session_idx.
LIST_SEEN_SESSIONS = Query(f"""
    with there as (
        select m.id, m.claude_session, m.repo, m.cwd, m.first_seen_at, m.host_id,
               case when p.id is null then m.last_seen_at
                    else greatest(m.last_seen_at, %(now)s) end as last_seen_at,
               p.state as pane_state, p.repo as pane_repo, p.cwd as pane_cwd,
               coalesce(p.label, p.title, '') as name
        from mirrored m
        left join lateral (
            select p.id, p.state, p.cwd, p.repo, w.label, w.title
            from panes p
            join windows w on w.owner_id = p.owner_id and w.id = p.window_id
            join hosts h on h.owner_id = w.owner_id and h.id = w.host_id
            where p.owner_id = m.owner_id and p.mirrored_id = m.id and {ONLINE}
            order by p.active desc, h.interactive desc, (p.state = 'idle') desc, p.id
            limit 1
        ) p on true
        where m.owner_id = %(owner_id)s and m.first_seen_at < %(until)s
    )
    select t.id, t.claude_session, null::text as agent, t.name,
           h.name as host, coalesce(t.pane_repo, t.repo) as repo,
           case when t.pane_repo is null then t.cwd else t.pane_cwd end as repo_directory,
           t.pane_state as state,
           t.first_seen_at, t.last_seen_at,
           (select f.cwd from focus_titles f
            where f.owner_id = %(owner_id)s and f.mirrored_id = t.id and f.cwd is not null
            order by f.at desc, f.id desc limit 1) as directory,
           (select max(f.at) from focus_titles f
            where f.owner_id = %(owner_id)s and f.mirrored_id = t.id
              and f.at >= %(since)s and f.at < %(until)s) as titled_at
    from there t
    join hosts h on h.owner_id = %(owner_id)s and h.id = t.host_id
    where t.last_seen_at >= %(since)s
    order by t.id
""")
# An agent was there when it was about something; the chief is none of those that are told of.
LIST_SEEN_AGENTS = Query("""
    select a.id, null::text as claude_session, a.name as agent, a.name, '' as host,
           null::text as repo, null::text as repo_directory,
           case when exists (
                    select from turns t
                    where t.owner_id = a.owner_id and t.agent_id = a.id and t.state = 'delivering')
                then 'working'
                when a.retired_at is null
                     and n.seen_at > %(now)s - make_interval(secs => %(alive_seconds)s)
                then 'idle' end as state,
           min(f.at) as first_seen_at, max(f.at) as last_seen_at, null::text as directory,
           max(f.at) as titled_at
    from focus_titles f
    join agents a on a.owner_id = f.owner_id and a.id = f.agent_id
    left join nodes n on n.id = a.node
    where f.owner_id = %(owner_id)s and f.at >= %(since)s and f.at < %(until)s and not a.chief
    group by a.id, n.seen_at
    order by a.id
""")


async def list_seen(tx: Transaction, command: During) -> list[Seen]:
    """The owner's sessions, and agents but the chief, that were there then."""
    window = {"since": command.since, "until": command.until}
    sessions = await tx.all(LIST_SEEN_SESSIONS, Seen, **window)
    agents = await tx.all(LIST_SEEN_AGENTS, Seen, **window, alive_seconds=NODE_ALIVE_SECONDS)
    return [*sessions, *agents]


@attrs.frozen(kw_only=True)
class TitlesOf:
    """The newest `most` titles of each of these, written then; with `summaries`, of those alone."""

    seen: Sequence[Seen]
    during: During
    most: int
    summaries: bool = False


@attrs.frozen(kw_only=True)
class Titles:
    """Titles with their times, the newest first; how many there are, and how many are of prompts.

    `others` counts what is no summary, where only summaries were asked for.
    """

    newest: tuple[tuple[str, datetime], ...] = ()
    in_all: int = 0
    others: int = 0


@attrs.frozen(kw_only=True)
class _Row:
    is_agent: bool
    of: int
    title: str
    at: datetime
    is_wanted: bool
    in_all: int


LIST_TITLES = Query(f"""
    with found as (
        select f.agent_id is not null as is_agent, coalesce(f.mirrored_id, f.agent_id) as of,
               f.title, f.at, f.id, (f.source = '{SUMMARY}' or not %(summaries)s) as is_wanted
        from focus_titles f
        where f.owner_id = %(owner_id)s and f.at >= %(since)s and f.at < %(until)s
          and (f.mirrored_id = any(%(mirrored_ids)s::bigint[])
               or f.agent_id = any(%(agent_ids)s::bigint[]))
    ), placed as (
        select is_agent, of, title, at, is_wanted,
               count(*) over (partition by is_agent, of, is_wanted) as in_all,
               row_number() over (partition by is_agent, of, is_wanted order by at desc, id desc)
                   as place
        from found
    )
    select is_agent, of, title, at, is_wanted, in_all from placed
    where place <= case when is_wanted then %(most)s else 1 end
    order by is_agent, of, place
""")


async def titles_of(tx: Transaction, command: TitlesOf) -> Mapping[tuple[bool, int], Titles]:
    """What each of these was about, by its `whose`; nothing for one that was about nothing."""
    if not command.seen:
        return {}
    rows = await tx.all(
        LIST_TITLES,
        _Row,
        since=command.during.since,
        until=command.during.until,
        summaries=command.summaries,
        most=command.most,
        mirrored_ids=[one.id for one in command.seen if one.agent is None],
        agent_ids=[one.id for one in command.seen if one.agent is not None],
    )
    by: dict[tuple[bool, int], list[_Row]] = defaultdict(list)
    for row in rows:
        by[row.is_agent, row.of].append(row)
    return {whose: _titles(found) for whose, found in by.items()}


def _titles(rows: Sequence[_Row]) -> Titles:
    wanted = [row for row in rows if row.is_wanted]
    others = [row for row in rows if not row.is_wanted]
    return Titles(
        newest=tuple((row.title, row.at) for row in wanted),
        in_all=wanted[0].in_all if wanted else 0,
        others=others[0].in_all if others else 0,
    )


@attrs.frozen(kw_only=True)
class HostSeen:
    """A host that connected once, and whether it is online."""

    name: str
    online: bool


LIST_HOSTS_SEEN = Query(f"""
    select h.name, {ONLINE} as online from hosts h
    where h.owner_id = %(owner_id)s and h.retired_at is null and h.epoch > 0
    order by h.name
""")


async def hosts_seen(tx: Transaction) -> list[HostSeen]:
    """The owner's live hosts that ever connected, by name."""
    return await tx.all(LIST_HOSTS_SEEN, HostSeen)
