"""What a fleet report reads: sessions that were there in a window of time, and what they did."""

# ruff: noqa: S608 - what is put into the statements is a constant of muster's

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import attrs

from muster.agents.rules import NODE_ALIVE_SECONDS
from muster.fleet.rules import SUMMARY, TITLES_MAX, Kind, Session, Title
from muster.mirror.store import ONLINE
from muster.pg.database import Transaction
from muster.pg.query import Query

# The pane that counts, as for the sessions that pages show (muster/mirror/operations/sessions.py).
# A session that an online window shows is seen now, though its row is written once a minute. The
# directory is the one that its transcript named last, by focus_session_idx.
LIST_SESSIONS = Query(f"""
    with there as (
        select m.id, m.claude_session, m.repo, m.cwd, m.first_seen_at, m.host_id,
               case when p.id is null then m.last_seen_at
                    else greatest(m.last_seen_at, %(now)s) end as last_seen_at,
               p.id as pane_id, p.state as pane_state, p.repo as pane_repo, p.cwd as pane_cwd,
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
    select t.id, 'mirror' as kind, 'mirror:' || t.claude_session as subject, t.name,
           h.name as host, coalesce(t.pane_repo, t.repo) as repo,
           case when t.pane_repo is null then t.cwd else t.pane_cwd end as repo_directory,
           case when t.pane_id is null then 'ended' when t.pane_state = 'working' then 'active'
                else 'waiting' end as state,
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
LIST_AGENTS = Query("""
    select a.id, 'agent' as kind, 'agent:' || a.name as subject, a.name, '' as host,
           null::text as repo, null::text as repo_directory,
           case when exists (
                    select from turns t
                    where t.owner_id = a.owner_id and t.agent_id = a.id and t.state = 'delivering')
                then 'active'
                when a.retired_at is null
                     and n.seen_at > %(now)s - make_interval(secs => %(alive_seconds)s)
                then 'waiting' else 'ended' end as state,
           min(f.at) as first_seen_at, max(f.at) as last_seen_at, null::text as directory,
           max(f.at) as titled_at
    from focus_titles f
    join agents a on a.owner_id = f.owner_id and a.id = f.agent_id
    left join nodes n on n.id = a.node
    where f.owner_id = %(owner_id)s and f.at >= %(since)s and f.at < %(until)s and not a.chief
    group by a.id, n.seen_at
    order by a.id
""")


async def list_there(tx: Transaction, since: datetime, until: datetime) -> list[Session]:
    """The owner's sessions and agents, but the chief, that were there within [since, until)."""
    sessions = await tx.all(LIST_SESSIONS, Session, since=since, until=until)
    agents = await tx.all(
        LIST_AGENTS, Session, since=since, until=until, alive_seconds=NODE_ALIVE_SECONDS
    )
    return [*sessions, *agents]


@attrs.frozen(kw_only=True)
class Window:
    """Titles of these, written within [since, until); with `summaries`, only what is one."""

    sessions: Sequence[Session]
    since: datetime
    until: datetime
    summaries: bool


@attrs.frozen(kw_only=True)
class Told:
    """The newest TITLES_MAX titles of one, how many there are, and how many may not be told."""

    titles: tuple[Title, ...] = ()
    in_all: int = 0
    prompts: int = 0


@attrs.frozen(kw_only=True)
class _Row:
    kind: Kind = attrs.field(converter=Kind)
    of: int
    title: str
    at: datetime
    is_told: bool
    in_all: int
    place: int


LIST_TITLES = Query(f"""
    with found as (
        select case when f.agent_id is null then 'mirror' else 'agent' end as kind,
               coalesce(f.mirrored_id, f.agent_id) as of, f.title, f.at, f.id,
               (f.source = '{SUMMARY}' or not %(summaries)s) as is_told
        from focus_titles f
        where f.owner_id = %(owner_id)s and f.at >= %(since)s and f.at < %(until)s
          and (f.mirrored_id = any(%(mirrored_ids)s::bigint[])
               or f.agent_id = any(%(agent_ids)s::bigint[]))
    ), placed as (
        select kind, of, title, at, is_told,
               count(*) over (partition by kind, of, is_told) as in_all,
               row_number() over (partition by kind, of, is_told order by at desc, id desc)
                   as place
        from found
    )
    select kind, of, title, at, is_told, in_all, place from placed
    where place <= case when is_told then {TITLES_MAX} else 1 end
    order by kind, of, place
""")


async def list_titles(tx: Transaction, command: Window) -> Mapping[tuple[Kind, int], Told]:
    """What each of these was about, the newest first; nothing for one that was about nothing."""
    if not command.sessions:
        return {}
    rows = await tx.all(
        LIST_TITLES,
        _Row,
        since=command.since,
        until=command.until,
        summaries=command.summaries,
        mirrored_ids=[one.id for one in command.sessions if one.kind is Kind.MIRROR],
        agent_ids=[one.id for one in command.sessions if one.kind is Kind.AGENT],
    )
    by: dict[tuple[Kind, int], list[_Row]] = defaultdict(list)
    for row in rows:
        by[row.kind, row.of].append(row)
    return {key: _told(found) for key, found in by.items()}


def _told(rows: Sequence[_Row]) -> Told:
    told = [row for row in rows if row.is_told]
    kept_back = [row for row in rows if not row.is_told]
    return Told(
        titles=tuple(Title(title=row.title, at=row.at) for row in told),
        in_all=told[0].in_all if told else 0,
        prompts=kept_back[0].in_all if kept_back else 0,
    )


@attrs.frozen(kw_only=True)
class HostSeen:
    """A host that connected once, and whether it is there now."""

    name: str
    online: bool


LIST_HOSTS = Query(f"""
    select h.name, {ONLINE} as online from hosts h
    where h.owner_id = %(owner_id)s and h.retired_at is null and h.epoch > 0
    order by h.name
""")


async def list_hosts(tx: Transaction) -> list[HostSeen]:
    """The owner's live hosts that ever connected."""
    return await tx.all(LIST_HOSTS, HostSeen)
