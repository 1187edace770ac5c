"""Routes as their owner sees them: with the message, the session and the draft of each."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import attrs

from muster.errors import NotFound
from muster.ids import is_row_id
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.routes.rules import By, HandBack, State

PAGE_ROWS: Final = 20
OPEN_SHOWN_MAX: Final = 200
LISTED_MAX: Final = 1000
NO_ID_ABOVE: Final = 2**63 - 1


@attrs.frozen(kw_only=True)
class RouteView:
    """A route with what one needs to know of its ends."""

    id: int
    state: State = attrs.field(converter=State)
    routed_by: By = attrs.field(converter=By)
    routed_via: str | None
    created_at: datetime
    deadline_at: datetime
    answer: str | None
    answered_at: datetime | None
    answered_via: str | None
    relay_due_at: datetime | None
    owner_replied_at: datetime | None
    ended_at: datetime | None
    why: str | None
    handback: HandBack = attrs.field(converter=HandBack)
    handed_back_at: datetime | None
    message_id: int
    sender: str | None
    sender_verified: bool
    subject: str | None
    opening: str  # of the message's body
    plugin: str
    agent: str  # the chief that holds the message
    mirrored_id: int
    claude_session: str
    session: str  # its window's label or title, or what else names it
    host: str
    send_id: int | None
    send_state: str | None  # of the text that was queued for the session
    draft_id: int | None

    @property
    def is_open(self) -> bool:
        """Whether an answer is waited for, or waits to be relayed."""
        return self.state in (State.ROUTED, State.ANSWERED)


@attrs.frozen(kw_only=True)
class LookAtRoutes:
    """Which page of those that ended: of ids below `before`; without it the open ones too."""

    before: int | None = None


@attrs.frozen(kw_only=True)
class RoutePage:
    """The open routes, the nearest deadline first, and a page of ended ones, newest first."""

    open: list[RouteView]
    ended: list[RouteView]
    older_than: int | None
    now: datetime


_VIEWS: Final = """
    select r.id, r.state, r.routed_by, r.routed_via, r.created_at, r.deadline_at, r.answer,
           r.answered_at, r.answered_via, r.relay_due_at, r.owner_replied_at, r.ended_at, r.why,
           r.handback, r.handed_back_at, r.message_id, m.sender, m.sender_verified, m.subject,
           left(m.body, 120) as opening, p.name as plugin, a.name as agent, r.mirrored_id,
           s.claude_session, h.name as host, q.id as send_id, q.state as send_state,
           coalesce(shown.label, nullif(shown.title, ''), s.repo, s.cwd, s.claude_session)
               as session,
           (select d.id from drafts d where d.route_id = r.id and d.owner_id = r.owner_id)
               as draft_id
    from session_routes r
    join messages m on m.owner_id = r.owner_id and m.id = r.message_id
    join plugins p on p.owner_id = m.owner_id and p.id = m.plugin_id
    join agents a on a.owner_id = r.owner_id and a.id = r.agent_id
    join mirrored s on s.owner_id = r.owner_id and s.id = r.mirrored_id
    join hosts h on h.owner_id = s.owner_id and h.id = s.host_id
    left join sends q on q.owner_id = r.owner_id and q.route_id = r.id
    left join lateral (
        select w.label, w.title
        from panes e join windows w on w.owner_id = e.owner_id and w.id = e.window_id
        where e.owner_id = s.owner_id and e.mirrored_id = s.id
        order by e.active desc, e.id
        limit 1
    ) shown on true
    where r.owner_id = %(owner_id)s
"""
# By session_routes_owner_id_id_key; of those passed over there are as many as are open.
LIST_ENDED = Query(f"""
    {_VIEWS} and r.id < %(below)s and r.state not in ('routed', 'answered')
    order by r.id desc
    limit {PAGE_ROWS + 1}
""")
# A message has one open route at most; deadlines are 4 hours, so the open ones are few.
LIST_OPEN = Query(f"""
    {_VIEWS} and r.state in ('routed', 'answered')
    order by r.deadline_at, r.id
    limit {OPEN_SHOWN_MAX}
""")
# By session_routes_message_idx.
LIST_OF_MESSAGE = Query(f"""
    {_VIEWS} and r.message_id = %(message_id)s
    order by r.id
    limit {OPEN_SHOWN_MAX}
""")
LIST_OF_SESSION = Query(f"""
    {_VIEWS} and r.mirrored_id = %(mirrored_id)s
    order by r.id desc
    limit {PAGE_ROWS}
""")
FIND_ROUTE = Query(f"{_VIEWS} and r.id = %(route_id)s")


async def look_at_routes(tx: Transaction, command: LookAtRoutes) -> RoutePage:
    """The page of routes; what is open stands on the first one alone."""
    below = NO_ID_ABOVE if command.before is None else command.before
    found = await tx.all(LIST_ENDED, RouteView, below=below)
    ended = found[:PAGE_ROWS]
    return RoutePage(
        open=[] if command.before else await tx.all(LIST_OPEN, RouteView),
        ended=ended,
        older_than=ended[-1].id if len(found) > PAGE_ROWS else None,
        now=tx.now,
    )


async def list_routes_of_message(tx: Transaction, message_id: int) -> Sequence[RouteView]:
    """Every route of one of the owner's messages, oldest first."""
    return await tx.all(LIST_OF_MESSAGE, RouteView, message_id=message_id)


async def list_routes_of_session(tx: Transaction, mirrored_id: int) -> Sequence[RouteView]:
    """The newest routes to one of the owner's sessions, newest first."""
    return await tx.all(LIST_OF_SESSION, RouteView, mirrored_id=mirrored_id)


@attrs.frozen(kw_only=True)
class ListRoutes:
    """How many to list; at most LISTED_MAX."""

    limit: int = 50


@attrs.frozen(kw_only=True)
class Routes:
    """Routes, newest first, and the time of the look."""

    routes: Sequence[RouteView]
    now: datetime


LIST_NEWEST = Query(f"""
    {_VIEWS} order by r.id desc limit %(limit)s
""")


async def list_routes(tx: Transaction, command: ListRoutes) -> Routes:
    """The owner's routes, newest first."""
    limit = max(0, min(command.limit, LISTED_MAX))
    found = await tx.all(LIST_NEWEST, RouteView, limit=limit)
    return Routes(routes=found, now=tx.now)


async def look_at_route(tx: Transaction, route_id: int) -> RouteView:
    """One route; raises NotFound for none and for somebody else's."""
    found = None
    if is_row_id(route_id):
        found = await tx.find(FIND_ROUTE, RouteView, route_id=route_id)
    if found is None:
        raise NotFound(f"There is no route {route_id}.")
    return found
