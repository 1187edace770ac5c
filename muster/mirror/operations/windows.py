"""What a host lists, written down: windows, panes and the sessions in them.

Only what differs is written, and nothing at all once a later socket of the host was accepted.
"""

# ruff: noqa: S608 - what is put into the statements is a constant of this room

import attrs

from muster.mirror.rules import StoreWindows
from muster.mirror.store import REMEMBERED
from muster.outcomes import Hint, HintKind
from muster.pg.database import Transaction
from muster.pg.query import Query

# Two hosts that show the same sessions would lock their rows in two orders, so an owner's lists are
# written down one after the other. Whoever holds this waits for no list.
LOCK_LISTS = Query("""
    select pg_advisory_xact_lock(hashtextextended('mirror.lists', %(owner_id)s))
""")

# Whoever lists for a host does so in turn, and only while its socket is the newest.
LOCK_EPOCH = Query("""
    select id from hosts
    where owner_id = %(owner_id)s and id = %(host_id)s and epoch = %(epoch)s and retired_at is null
    for no key update
""")

# A session is listed once here, whatever panes show it; last_seen_at is written once a minute.
UPSERT_MIRRORED = Query("""
    insert into mirrored as m (owner_id, claude_session, host_id, cwd, repo, first_seen_at,
                               last_seen_at)
    select %(owner_id)s, s.claude_session, %(host_id)s, s.cwd, s.repo, %(now)s, %(now)s
    from unnest(%(sessions)s::text[], %(cwds)s::text[], %(repos)s::text[])
        as s (claude_session, cwd, repo)
    order by s.claude_session
    on conflict (owner_id, claude_session) do update
        set host_id = excluded.host_id, cwd = coalesce(excluded.cwd, m.cwd),
            repo = coalesce(excluded.repo, m.repo),
            last_seen_at = greatest(m.last_seen_at, excluded.last_seen_at)
        where m.host_id <> excluded.host_id or excluded.cwd is distinct from m.cwd
           or excluded.repo is distinct from m.repo
           or m.last_seen_at < excluded.last_seen_at - interval '1 minute'
""")

FIND_MIRRORED_IDS = Query("""
    select id, claude_session from mirrored
    where owner_id = %(owner_id)s and claude_session = any(%(sessions)s)
""")

UPSERT_WINDOWS = Query("""
    insert into windows as w (owner_id, host_id, tmux_window, title, label, place, listed_at)
    select %(owner_id)s, %(host_id)s, l.tmux_window, l.title, l.label, l.place, %(now)s
    from unnest(%(windows)s::text[], %(titles)s::text[], %(labels)s::text[])
        with ordinality as l (tmux_window, title, label, place)
    on conflict (host_id, tmux_window) do update
        set title = excluded.title, label = excluded.label, place = excluded.place,
            listed_at = excluded.listed_at
        where (w.title, w.label, w.place) is distinct from
              (excluded.title, excluded.label, excluded.place)
""")

# A session whose pane goes was seen until now.
END_PANES = Query("""
    with gone as (
        delete from panes p using windows w
        where p.owner_id = %(owner_id)s and w.owner_id = p.owner_id and w.id = p.window_id
          and w.host_id = %(host_id)s
          and not exists (
              select from unnest(%(windows)s::text[], %(panes)s::text[])
                  as l (tmux_window, tmux_pane)
              where l.tmux_window = w.tmux_window and l.tmux_pane = p.tmux_pane)
        returning p.mirrored_id
    )
    update mirrored m set last_seen_at = greatest(m.last_seen_at, %(now)s)
    where m.owner_id = %(owner_id)s and m.id in (select mirrored_id from gone)
    returning m.id
""")

END_WINDOWS = Query("""
    delete from windows
    where owner_id = %(owner_id)s and host_id = %(host_id)s
      and not (tmux_window = any(%(windows)s::text[]))
""")

UPSERT_PANES = Query("""
    insert into panes as p (owner_id, window_id, tmux_pane, active, mirrored_id, state, state_since,
                            idle_since, cwd, repo)
    select %(owner_id)s, w.id, l.tmux_pane, l.active, m.id, l.state, %(now)s,
           %(now)s - make_interval(secs => l.idle_seconds), l.cwd, l.repo
    from unnest(%(windows)s::text[], %(panes)s::text[], %(actives)s::boolean[],
                %(sessions)s::text[], %(states)s::text[], %(idles)s::float8[],
                %(cwds)s::text[], %(repos)s::text[])
        as l (tmux_window, tmux_pane, active, claude_session, state, idle_seconds, cwd, repo)
    join windows w on w.owner_id = %(owner_id)s and w.host_id = %(host_id)s
                  and w.tmux_window = l.tmux_window
    left join mirrored m on m.owner_id = %(owner_id)s and m.claude_session = l.claude_session
    on conflict (window_id, tmux_pane) do update
        set active = excluded.active, mirrored_id = excluded.mirrored_id, state = excluded.state,
            state_since = case when p.state = excluded.state then p.state_since
                               else excluded.state_since end,
            idle_since = excluded.idle_since, cwd = excluded.cwd, repo = excluded.repo
        where (p.active, p.mirrored_id, p.state, p.cwd, p.repo) is distinct from
              (excluded.active, excluded.mirrored_id, excluded.state, excluded.cwd, excluded.repo)
           or abs(extract(epoch from p.idle_since - excluded.idle_since)) > 1
    returning mirrored_id
""")


@attrs.frozen(kw_only=True)
class _Known:
    id: int
    claude_session: str


@attrs.frozen(kw_only=True)
class _Touched:
    mirrored_id: int | None


@attrs.frozen(kw_only=True)
class _Ended:
    id: int


async def store_windows(tx: Transaction, command: StoreWindows) -> dict[str, int] | None:
    """Step 5: write the host's list; answers the ids of the sessions in it by their Claude ids.

    None when a later socket of the host was accepted, or it is retired: then nothing is written.
    """
    owned = {"host_id": command.host_id}
    await tx.later(LOCK_LISTS)
    if await tx.scalar(LOCK_EPOCH, **owned, epoch=command.epoch) is None:
        return None
    panes = [(window.tmux_window, pane) for window in command.windows for pane in window.panes]
    windows = [window.tmux_window for window in command.windows]
    sessions = {
        pane.claude_session: (pane.cwd, pane.repo)
        for _, pane in panes
        if pane.claude_session is not None
    }
    await tx.execute(
        UPSERT_MIRRORED,
        **owned,
        sessions=list(sessions),
        cwds=[cwd for cwd, _ in sessions.values()],
        repos=[repo for _, repo in sessions.values()],
    )
    ended = await tx.all(
        END_PANES,
        _Ended,
        **owned,
        windows=[window for window, _ in panes],
        panes=[pane.tmux_pane for _, pane in panes],
    )
    await tx.execute(END_WINDOWS, **owned, windows=windows)
    await tx.execute(
        UPSERT_WINDOWS,
        **owned,
        windows=windows,
        titles=[window.title for window in command.windows],
        labels=[window.label for window in command.windows],
    )
    touched = await tx.all(
        UPSERT_PANES,
        _Touched,
        **owned,
        windows=[window for window, _ in panes],
        panes=[pane.tmux_pane for _, pane in panes],
        actives=[pane.active for _, pane in panes],
        sessions=[pane.claude_session for _, pane in panes],
        states=[pane.state.value for _, pane in panes],
        idles=[pane.idle_seconds for _, pane in panes],
        cwds=[pane.cwd for _, pane in panes],
        repos=[pane.repo for _, pane in panes],
    )
    known = await tx.all(FIND_MIRRORED_IDS, _Known, sessions=list(sessions))
    changed = {one.mirrored_id for one in touched} | {one.id for one in ended}
    for mirrored_id in sorted(one for one in changed if one is not None):
        tx.hint(Hint(kind=HintKind.MIRRORED_CHANGED, owner_id=tx.owner_id, id=mirrored_id))
    tx.hint(Hint(kind=HintKind.HOST_CHANGED, owner_id=tx.owner_id, id=command.host_id))
    return {one.claude_session: one.id for one in known}


# Of hosts that are retired, or gone for longer than they are remembered.
FORGET_WINDOWS = Query(f"""
    delete from windows w using hosts h
    where w.owner_id = %(owner_id)s and h.owner_id = w.owner_id and h.id = w.host_id
      and not {REMEMBERED}
""")


async def forget_windows(tx: Transaction, _command: None = None) -> int:
    """As muster: delete the windows of hosts that are not remembered; how many there were."""
    return await tx.execute(FORGET_WINDOWS)
