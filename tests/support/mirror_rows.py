"""One plain row in each table of mirrored sessions, written by SQL."""

import attrs

from muster.pg.database import Transaction
from muster.pg.query import Query

HOST = Query(
    """
    insert into hosts (owner_id, name, created_at) values (%(owner_id)s, 'box', %(now)s)
    returning id
    """
)
MIRRORED = Query(
    """
    insert into mirrored (owner_id, claude_session, host_id, first_seen_at, last_seen_at)
    values (%(owner_id)s, 'c0ffee00-0000-4000-8000-000000000001', %(host)s, %(now)s, %(now)s)
    returning id
    """
)
WINDOW = Query(
    """
    insert into windows (owner_id, host_id, tmux_window, title, place, listed_at)
    values (%(owner_id)s, %(host)s, '@1', 'main', 1, %(now)s)
    returning id
    """
)
PANE = Query(
    """
    insert into panes (owner_id, window_id, tmux_pane, active, mirrored_id, state, state_since)
    values (%(owner_id)s, %(window)s, '%%1', true, %(mirrored)s, 'working', %(now)s)
    returning id
    """
)
FOCUS = Query(
    """
    insert into focus_titles (owner_id, mirrored_id, title, source, at, noted_at)
    values (%(owner_id)s, %(mirrored)s, 'the garden', 'prompt', %(now)s, %(now)s)
    returning id
    """
)
SEND = Query(
    """
    insert into sends (owner_id, mirrored_id, text, queued_by, queued_via, state, created_at)
    values (%(owner_id)s, %(mirrored)s, 'go on', 'owner', 'browser', 'queued', %(now)s)
    returning id
    """
)


@attrs.frozen(kw_only=True)
class MirrorRows:
    """The ids of what was written."""

    host_id: int
    mirrored_id: int
    window_id: int
    pane_id: int
    focus_id: int
    send_id: int


async def add_mirror_rows(tx: Transaction) -> MirrorRows:
    """Write one row of each kind for an owner who has none yet."""
    host = await tx.scalar(HOST)
    mirrored = await tx.scalar(MIRRORED, host=host)
    window = await tx.scalar(WINDOW, host=host)
    return MirrorRows(
        host_id=host,
        mirrored_id=mirrored,
        window_id=window,
        pane_id=await tx.scalar(PANE, window=window, mirrored=mirrored),
        focus_id=await tx.scalar(FOCUS, mirrored=mirrored),
        send_id=await tx.scalar(SEND, mirrored=mirrored),
    )
