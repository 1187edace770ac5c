"""Sessions as their owner and the chief see them: where each is shown, and what it does.

What is answered is what the host listed last, by the rows; a paste looks at the host's link.
"""

# ruff: noqa: S608 - what is put into the statements is a constant of this room

from datetime import datetime
from typing import Final

import attrs

from muster.errors import NotFound
from muster.ids import is_row_id
from muster.mirror.rules import PaneState
from muster.mirror.store import ONLINE, REMEMBERED
from muster.pg.database import Transaction
from muster.pg.query import Query

LISTED_MAX = 1000


@attrs.frozen(kw_only=True)
class ListSessions:
    """Sessions in windows that are online or remembered, or those that no window shows any more.

    The first by their names, the second the one seen last first.
    """

    ended: bool = False
    limit: int = LISTED_MAX


@attrs.frozen(kw_only=True)
class SessionView:
    """A mirrored session; `host` is the one that shows it, or showed it last.

    `name` is the window's label or title, with ` · host` where windows of two hosts have the same.
    The times are by muster's clock.
    """

    id: int
    claude_session: str
    name: str
    host_id: int
    host: str
    online: bool
    shown: bool  # in a window that is online or remembered
    window: str | None
    pane: str | None
    active: bool
    state: PaneState = attrs.field(converter=PaneState)
    idle_since: datetime | None
    interactive: bool
    cwd: str | None
    repo: str | None
    first_seen_at: datetime
    last_seen_at: datetime
    queued: int  # texts that wait, are in hand or unconfirmed
    held: bool  # by an unconfirmed text

    @property
    def why_not(self) -> str | None:
        """Why nothing can be pasted into it now, or later while it is as it is; None if it can."""
        if not self.online:
            return "no window shows it" if not self.shown else f"{self.host} is offline"
        if not self.interactive:
            return f"{self.host} does not run with --interactive"
        if not self.active:
            return "another pane of its window is the active one"
        if self.state is PaneState.UNKNOWN:
            return "its Claude Code does not tell whether it is idle: install the hooks"
        return None

    @property
    def can_take(self) -> bool:
        """Whether a text that is queued now is pasted as soon as the session is idle."""
        return self.why_not is None


# The pane that counts, where several show one session: online before remembered, then the one that
# suits a paste best, as for Links.find_session.
VIEWS: Final = f"""
    select m.id, m.claude_session, h.id as host_id, h.name as host,
           coalesce(p.online, false) as online, p.id is not null as shown,
           p.tmux_window as window, p.tmux_pane as pane, coalesce(p.active, false) as active,
           case when p.online then p.state else 'unknown' end as state,
           case when p.online then p.idle_since end as idle_since,
           h.interactive, coalesce(p.cwd, m.cwd) as cwd, coalesce(p.repo, m.repo) as repo,
           m.first_seen_at, m.last_seen_at,
           coalesce(p.label, nullif(p.title, ''), m.repo, m.cwd, m.claude_session) as name,
           (select count(*) from sends s
            where s.owner_id = m.owner_id and s.mirrored_id = m.id
              and s.state in ('queued', 'offered', 'unconfirmed')) as queued,
           exists (
               select from sends s
               where s.owner_id = m.owner_id and s.mirrored_id = m.id and s.state = 'unconfirmed')
               as held
    from mirrored m
    left join lateral (
        select p.id, p.tmux_pane, p.active, p.state, p.idle_since, p.cwd, p.repo, w.tmux_window,
               w.title, w.label, w.host_id, {ONLINE} as online
        from panes p
        join windows w on w.owner_id = p.owner_id and w.id = p.window_id
        join hosts h on h.owner_id = w.owner_id and h.id = w.host_id
        where p.owner_id = m.owner_id and p.mirrored_id = m.id and {REMEMBERED}
        order by {ONLINE} desc, p.active desc, h.interactive desc, (p.state = 'idle') desc, p.id
        limit 1
    ) p on true
    join hosts h on h.owner_id = m.owner_id and h.id = coalesce(p.host_id, m.host_id)
    where m.owner_id = %(owner_id)s
"""
# Two hosts' windows of one name are told apart by their hosts.
NAMED: Final = """
    select v.id, v.claude_session, v.host_id, v.host, v.online, v.shown, v.window, v.pane, v.active,
           v.state, v.idle_since, v.interactive, v.cwd, v.repo, v.first_seen_at, v.last_seen_at,
           v.queued, v.held,
           case when min(v.host_id) over same <> max(v.host_id) over same
                then v.name || ' · ' || v.host else v.name end as name
    from views v
    window same as (partition by v.name)
"""
LIST_SHOWN = Query(f"""
    with views as (
        {VIEWS} and m.id in (
            select p.mirrored_id from hosts h
            join windows w on w.owner_id = h.owner_id and w.host_id = h.id
            join panes p on p.owner_id = w.owner_id and p.window_id = w.id
            where h.owner_id = %(owner_id)s and h.retired_at is null)
          and p.id is not null
    ), named as ({NAMED})
    select * from named order by name, id limit %(limit)s
""")
LIST_ENDED = Query(f"""
    {VIEWS} and p.id is null
    order by m.last_seen_at desc, m.id desc limit %(limit)s
""")
FIND_SESSION = Query("""
    select id from mirrored
    where owner_id = %(owner_id)s and claude_session = %(claude_session)s
""")
GET_SESSION = Query(f"{VIEWS} and m.id = %(mirrored_id)s")


FIND_AT_PANE = Query(f"""
    select m.id, m.claude_session from panes p
    join windows w on w.owner_id = p.owner_id and w.id = p.window_id
    join hosts h on h.owner_id = w.owner_id and h.id = w.host_id
    join mirrored m on m.owner_id = p.owner_id and m.id = p.mirrored_id
    where p.owner_id = %(owner_id)s and w.host_id = %(host_id)s and p.tmux_pane = %(pane)s
      and {ONLINE}
    order by p.id desc limit 1
""")


@attrs.frozen(kw_only=True)
class AtPane:
    """Which pane of which host."""

    host_id: int
    pane: str


@attrs.frozen(kw_only=True)
class SessionAtPane:
    """The session that a pane shows."""

    id: int
    claude_session: str


async def find_at_pane(tx: Transaction, command: AtPane) -> SessionAtPane | None:
    """The session that this pane shows, by what its host listed last; None while it is offline."""
    return await tx.find(FIND_AT_PANE, SessionAtPane, host_id=command.host_id, pane=command.pane)


async def list_sessions(tx: Transaction, command: ListSessions | None = None) -> list[SessionView]:
    """The owner's sessions: those that windows show, or those that ended."""
    command = command or ListSessions()
    limit = max(0, min(command.limit, LISTED_MAX))
    return await tx.all(LIST_ENDED if command.ended else LIST_SHOWN, SessionView, limit=limit)


async def online_sessions(tx: Transaction) -> list[SessionView]:
    """The sessions that online windows show, by their names."""
    return [one for one in await list_sessions(tx) if one.online]


async def online_targets(tx: Transaction) -> list[SessionView]:
    """The sessions into which a text can be pasted: online, interactive, with a known state."""
    return [one for one in await list_sessions(tx) if one.can_take]


async def get_session(tx: Transaction, mirrored_id: int) -> SessionView:
    """One session; raises NotFound for none and for somebody else's."""
    if is_row_id(mirrored_id):
        shown = [one for one in await list_sessions(tx) if one.id == mirrored_id]
        found = (
            shown[0] if shown else await tx.find(GET_SESSION, SessionView, mirrored_id=mirrored_id)
        )
        if found is not None:
            return found
    raise NotFound("There is no such session.")


async def find_session(tx: Transaction, claude_session: str) -> SessionView | None:
    """The session of that Claude Code id, in whatever state it is; None if no host showed it."""
    if "\0" in claude_session:
        return None
    mirrored_id = await tx.scalar(FIND_SESSION, claude_session=claude_session)
    return None if mirrored_id is None else await get_session(tx, mirrored_id)
