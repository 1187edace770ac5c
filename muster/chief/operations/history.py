"""What came in, for the pages: a list of messages, and all that happened to one of them.

A message's steps are told by the rows that hold them: the message, its turns, its drafts, the tasks
that cite it, muster's ask about it; the audit log alone tells when it was retried. States are those
by the clock.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from muster.chief.operations.routing.listing import RouteView, list_routes_of_message
from muster.chief.operations.steps import AskedStep, FiledStep, RetriedStep, Step, Turn, steps_of
from muster.drafts.operations import DraftView
from muster.drafts.operations.cards import list_replies
from muster.failure import Failure, read_failure
from muster.messages.operations import Message, State, get_message
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.plugins.operations import list_plugins
from muster.plugins.rules import ListPlugins
from muster.token_use import TokenUse

PAGE_ROWS: Final = 50
NO_ID_ABOVE: Final = 2**63 - 1


@attrs.frozen(kw_only=True)
class LookAtMessages:
    """Which page of messages: those of ids below `before`, of a state, of a plugin's name."""

    state: State | None = None
    plugin: str | None = None
    before: int | None = None


@attrs.frozen(kw_only=True)
class MessageLine:
    """A message as it is listed."""

    id: int
    plugin: str  # its name
    sender: str | None
    sender_verified: bool
    subject: str | None
    opening: str  # of its body
    no_reply: bool
    state: State = attrs.field(converter=State)
    created_at: datetime
    delivering_at: datetime | None
    settle_reason: str | None


@attrs.frozen(kw_only=True)
class MessagePage:
    """A page of messages, newest first; `older_than` asks for the next one."""

    lines: list[MessageLine]
    replies: Mapping[int, DraftView]  # by message, the newest
    plugins: list[str]  # the names that there are and were
    older_than: int | None
    now: datetime


_LINES: Final = """
    select m.id, p.name as plugin, m.sender, m.sender_verified, m.subject,
           left(m.body, 120) as opening, m.no_reply, m.state, m.created_at, m.delivering_at,
           m.settle_reason
    from messages m
    join plugins p on p.owner_id = m.owner_id and p.id = m.plugin_id
    where m.owner_id = %(owner_id)s and m.id < %(below)s and m.plugin_id = any(%(plugin_ids)s)
"""
_NEWEST: Final = f"order by m.id desc limit {PAGE_ROWS + 1}"
# By messages_listing_idx, and by messages_state_idx. State and limit are spelled out: of a
# parameter the planner knows neither how rare it is nor how small, and walks the whole listing.
LINES = Query(f"{_LINES} {_NEWEST}")
QUEUED_LINES = Query(f"{_LINES} and m.state = 'queued' {_NEWEST}")
DELIVERING_LINES = Query(f"{_LINES} and m.state = 'delivering' {_NEWEST}")
DELIVERED_LINES = Query(f"{_LINES} and m.state = 'delivered' {_NEWEST}")
UNCONFIRMED_LINES = Query(f"{_LINES} and m.state = 'unconfirmed' {_NEWEST}")
LINES_OF: Final[Mapping[State | None, Query]] = {
    None: LINES,
    State.QUEUED: QUEUED_LINES,
    State.DELIVERING: DELIVERING_LINES,
    State.DELIVERED: DELIVERED_LINES,
    State.UNCONFIRMED: UNCONFIRMED_LINES,
}


async def look_at_messages(tx: Transaction, command: LookAtMessages) -> MessagePage:
    """Look at a page of messages; a plugin that never was has none."""
    plugins = await list_plugins(tx, ListPlugins(revoked_too=True))
    chosen = [one.id for one in plugins if command.plugin in (None, one.name)]
    below = NO_ID_ABOVE if command.before is None else command.before
    query = LINES_OF[command.state]
    found = await tx.all(query, MessageLine, below=below, plugin_ids=chosen)
    lines = found[:PAGE_ROWS]
    replies = await list_replies(tx, [line.id for line in lines])
    return MessagePage(
        lines=lines,
        replies={reply.message_id: reply for reply in replies},
        plugins=sorted({one.name for one in plugins}),
        older_than=lines[-1].id if len(found) > PAGE_ROWS else None,
        now=tx.now,
    )


@attrs.frozen(kw_only=True)
class MessageStory:
    """A message and its steps, oldest first; `last_turn` is the newest one that it had.

    `route` is its newest route to a session.
    """

    message: Message
    plugin: str
    plugin_label: str
    steps: list[Step]
    last_turn: Turn | None
    route: RouteView | None
    now: datetime


FIND_PLUGIN_OF = Query("""
    select p.name, p.label from plugins p
    where p.owner_id = %(owner_id)s and p.id = %(plugin_id)s
""")


@attrs.frozen(kw_only=True)
class _Named:
    name: str
    label: str


# By turns_attempt_key.
LIST_TURNS = Query("""
    select t.id, t.attempt, t.state, t.begun_at, t.ended_at, t.conversation_id, a.name as agent,
           t.usage, case when t.failure is not null
               then jsonb_build_object('cause', t.failure, 'error', t.error) end as failure
    from turns t
    join agents a on a.owner_id = t.owner_id and a.id = t.agent_id
    where t.owner_id = %(owner_id)s and t.message_id = %(message_id)s
    order by t.attempt
    limit 100
""")
# By audit_subject_idx.
LIST_RETRIES = Query("""
    select at, via from audit
    where owner_id = %(owner_id)s and subject = %(subject)s and action = 'plugin.retried'
    order by id desc
    limit 100
""")
# By tasks_message_idx.
LIST_CITING = Query("""
    select id, title, status, created_at, created_by from tasks
    where owner_id = %(owner_id)s and message_id = %(message_id)s
    order by id
    limit 100
""")
# By asks_plugin_message_key: muster asks once.
LIST_ASKED = Query("""
    select id, created_at, answer, answered_via,
           case when state = 'open' and expires_at <= %(now)s then 'expired' else state
           end as state,
           case when state = 'open' and expires_at <= %(now)s then expires_at else ended_at
           end as ended_at
    from asks
    where owner_id = %(owner_id)s and plugin_message_id = %(message_id)s
""")


def _read_usage(stored: Mapping[str, Any] | None) -> TokenUse | None:
    return None if stored is None else TokenUse(**stored)


@attrs.frozen(kw_only=True)
class _TurnRow(Turn):
    usage: TokenUse | None = attrs.field(converter=_read_usage)
    failure: Failure | None = attrs.field(converter=read_failure)


# By turns_attempt_key.
FIND_LAST_FAILURE = Query("""
    select case when t.failure is not null
               then jsonb_build_object('cause', t.failure, 'error', t.error) end
    from turns t
    where t.owner_id = %(owner_id)s and t.message_id = %(message_id)s
    order by t.attempt desc
    limit 1
""")


async def find_last_failure(tx: Transaction, message_id: int) -> Failure | None:
    """Why the message's newest turn failed; None if it did not, or nobody knows why."""
    return read_failure(await tx.scalar(FIND_LAST_FAILURE, message_id=message_id))


async def look_at_message(tx: Transaction, message_id: int) -> MessageStory:
    """Look at one message whole; raises NotFound for none and for somebody else's."""
    message = await get_message(tx, message_id)
    plugin = await tx.one(FIND_PLUGIN_OF, _Named, plugin_id=message.plugin_id)
    turns, retries, filed, asked = await tx.together(
        tx.all(LIST_TURNS, _TurnRow, message_id=message_id),
        tx.all(LIST_RETRIES, RetriedStep, subject=f"message:{message_id}"),
        tx.all(LIST_CITING, FiledStep, message_id=message_id),
        tx.all(LIST_ASKED, AskedStep, message_id=message_id),
    )
    replies, routes = await tx.together(
        list_replies(tx, [message_id]), list_routes_of_message(tx, message_id)
    )
    return MessageStory(
        message=message,
        plugin=plugin.name,
        plugin_label=plugin.label,
        steps=steps_of(
            message,
            turns=turns,
            retries=retries,
            filed=filed,
            asked=asked,
            replies=replies,
            routes=routes,
        ),
        last_turn=turns[-1] if turns else None,
        route=routes[-1] if routes else None,
        now=tx.now,
    )
