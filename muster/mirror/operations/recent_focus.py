"""What live sessions and agents were about lately: what a message is matched with."""

# ruff: noqa: S608 - what is put into the statements is a constant of this room

from datetime import datetime, timedelta
from typing import Final

import attrs

from muster.agents.rules import NODE_ALIVE_SECONDS
from muster.mirror.matching import Title
from muster.mirror.store import ONLINE
from muster.pg.database import Transaction
from muster.pg.query import Query

RECENT: Final = timedelta(hours=6)
TITLES_MAX: Final = 2000
SESSION: Final = "session"
AGENT: Final = "agent"


@attrs.frozen(kw_only=True)
class ListRecent:
    """Titles since `since`, or of the last RECENT; the newest TITLES_MAX."""

    since: datetime | None = None


@attrs.frozen(kw_only=True)
class _Row:
    mirrored_id: int | None
    agent_id: int | None
    title: str
    at: datetime


# By focus_window_idx. Live: in an online window, or an agent that is connected and not the chief.
LIST_RECENT = Query(f"""
    select f.mirrored_id, f.agent_id, f.title, f.at from focus_titles f
    where f.owner_id = %(owner_id)s and f.at > %(since)s and (
        exists (
            select from panes p
            join windows w on w.owner_id = p.owner_id and w.id = p.window_id
            join hosts h on h.owner_id = w.owner_id and h.id = w.host_id
            where p.owner_id = f.owner_id and p.mirrored_id = f.mirrored_id and {ONLINE})
        or exists (
            select from agents a join nodes n on n.id = a.node
            where a.owner_id = f.owner_id and a.id = f.agent_id and not a.chief
              and a.retired_at is null
              and n.seen_at > %(now)s - make_interval(secs => %(alive_seconds)s)))
    order by f.at desc, f.id desc
    limit {TITLES_MAX}
""")


async def list_recent(tx: Transaction, command: ListRecent) -> list[Title]:
    """The owner's recent titles, newest first; `whose` is a session's or an agent's id."""
    since = command.since or tx.now - RECENT
    rows = await tx.all(LIST_RECENT, _Row, since=since, alive_seconds=NODE_ALIVE_SECONDS)
    return [Title(whose=_whose(row), title=row.title, at=row.at) for row in rows]


def _whose(row: _Row) -> tuple[str, int]:
    if row.mirrored_id is not None:
        return SESSION, row.mirrored_id
    assert row.agent_id is not None, "a title is a session's or an agent's"
    return AGENT, row.agent_id
