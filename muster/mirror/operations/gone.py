"""Routed texts that wait for a session which no window shows any more."""

# ruff: noqa: S608 - what is put into the statements is a constant of this room

import attrs

from muster.mirror.send_rules import WINDOW_GONE
from muster.mirror.store import ONLINE
from muster.pg.database import Transaction
from muster.pg.query import Query


@attrs.frozen(kw_only=True)
class GoneRoute:
    """A route of whose session nothing is shown."""

    route_id: int


# Gone since its pane went, or its host did, or the server died that held its host. A session whose
# pane shows another one now is over: it was last seen when its host listed it before.
FIND_GONE = Query(f"""
    select r.id as route_id
    from session_routes r
    join sends s on s.owner_id = r.owner_id and s.route_id = r.id and s.state = 'queued'
    join mirrored m on m.owner_id = r.owner_id and m.id = r.mirrored_id
    join hosts last on last.owner_id = m.owner_id and last.id = m.host_id
    left join nodes held on held.id = last.node
    where r.owner_id = %(owner_id)s and r.state = 'routed'
      and not exists (
          select from panes p
          join windows w on w.owner_id = p.owner_id and w.id = p.window_id
          join hosts h on h.owner_id = w.owner_id and h.id = w.host_id
          where p.owner_id = r.owner_id and p.mirrored_id = r.mirrored_id and {ONLINE})
      and greatest(
              r.created_at, m.last_seen_at,
              case when held.seen_at > %(now)s - interval '20 seconds' then null
                   else coalesce(last.left_at, held.seen_at) end)
          <= %(now)s - %(gone)s::interval
    order by r.id limit %(limit)s
""")


async def find_gone(tx: Transaction, limit: int) -> list[GoneRoute]:
    """The owner's routes whose text waits for a session that no window has shown for WINDOW_GONE.

    Run as muster for one owner: what windows show is no affair of System's.
    """
    return await tx.all(FIND_GONE, GoneRoute, gone=WINDOW_GONE, limit=limit)
