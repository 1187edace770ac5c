"""The queue of a session, as its owner sees it and works on it."""

# ruff: noqa: S608 - what is put into the statements is a constant of this room

import attrs

from muster.errors import Invalid, NotFound, Refused
from muster.ids import is_row_id
from muster.mirror.operations.sends import (
    end_route,
    enqueue,
    lock_session,
    look_again,
    send_fact,
)
from muster.mirror.operations.unconfirmed import resolve_send
from muster.mirror.send_rules import (
    TEXT_BYTES_MAX,
    Against,
    CancelSend,
    Enqueue,
    ListQueue,
    QueuedSend,
    QueueText,
    ResolveSend,
    Send,
    SendState,
)
from muster.mirror.store import AGAINST, SEND
from muster.names import count_bytes
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.principals import Owner

__all__ = [
    "CancelSend",
    "ListQueue",
    "QueueText",
    "ResolveSend",
    "cancel_send",
    "list_queue",
    "queue_text",
    "resolve_send",
]

LISTED_MAX = 1000


FIND_REPEATED = Query(f"""
    select {SEND} from sends s
    where s.owner_id = %(owner_id)s and s.mirrored_id = %(mirrored_id)s
      and s.created_at >= %(made_at)s and s.queued_by = 'owner' and s.text = %(text)s
    order by s.id limit 1
""")


async def queue_text(tx: Transaction, command: QueueText) -> Send:
    """Queue a text of the owner's: 1 to TEXT_BYTES_MAX bytes that say something.

    Raises Invalid, NotFound for a session that is none of theirs, Refused (`queue_full`).
    """
    assert isinstance(tx.principal, Owner)
    size = count_bytes(command.text, field="text")
    if size > TEXT_BYTES_MAX or not command.text.strip():
        raise Invalid(f"The text must be 1 to {TEXT_BYTES_MAX} bytes.", field="text")
    if command.made_at is not None:
        # The second of two forms waits here for the first, and finds its text.
        await lock_session(tx, command.mirrored_id)
        repeated = await tx.find(
            FIND_REPEATED,
            Send,
            mirrored_id=command.mirrored_id,
            made_at=command.made_at,
            text=command.text,
        )
        if repeated is not None:
            return repeated
    send = await enqueue(
        tx,
        Enqueue(
            mirrored_id=command.mirrored_id,
            text=command.text,
            signed_in_at=command.signed_in_at,
        ),
    )
    await tx.record(send_fact("queued", send))
    return send


VIEWS = f"""
    select s.id, s.mirrored_id, s.text, s.queued_by, s.queued_via, s.route_id, w.message_id,
           s.created_at, case when a.against is null then s.state else 'refused' end as state,
           h.name as host, s.offers, s.offered_at, s.ended_at, coalesce(a.against, s.why) as why,
           s.ask_id
    from sends s
    join users u on u.id = s.owner_id
    left join hosts h on h.owner_id = s.owner_id and h.id = s.host_id
    left join session_routes w on w.owner_id = s.owner_id and w.id = s.route_id
    cross join lateral (select case when s.state = 'queued' then {AGAINST} end as against) a
    where s.owner_id = %(owner_id)s
"""
LIST_QUEUE = Query(f"""
    {VIEWS} and s.mirrored_id = %(mirrored_id)s and s.state in ('queued', 'offered', 'unconfirmed')
    order by s.id limit %(limit)s
""")
LIST_ENDED = Query(f"""
    {VIEWS} and s.mirrored_id = %(mirrored_id)s
      and s.state not in ('queued', 'offered', 'unconfirmed')
    order by s.id desc limit %(limit)s
""")


async def list_queue(tx: Transaction, command: ListQueue) -> list[QueuedSend]:
    """A session's texts as they stand: the queue in its order, or what ended, newest first.

    What would be refused at its paste (a sign-out everywhere, a disabled account, a sign-in that
    is too old, a route that is over) is shown as refused at once.
    """
    found = await tx.all(
        LIST_ENDED if command.ended else LIST_QUEUE,
        QueuedSend,
        mirrored_id=command.mirrored_id,
        stepup_window_seconds=command.stepup_window_seconds,
        limit=max(0, min(command.limit, LISTED_MAX)),
    )
    return [_worded(one) for one in found]


def _worded(view: QueuedSend) -> QueuedSend:
    """A row that stands as refused has the name of the reason in the place of its words."""
    if view.state is SendState.REFUSED and view.ended_at is None and view.why is not None:
        return attrs.evolve(view, why=Against(view.why).why)
    return view


LOCK_SEND = Query(f"""
    select {SEND} from sends s where s.owner_id = %(owner_id)s and s.id = %(send_id)s
    for no key update
""")
CANCEL_SEND = Query(f"""
    update sends s set state = 'cancelled', ended_at = %(now)s, why = %(why)s
    where s.owner_id = %(owner_id)s and s.id = %(send_id)s and s.state = 'queued'
    returning {SEND}
""")


async def cancel_send(tx: Transaction, command: CancelSend) -> Send:
    """Take a text out of the queue before a host has it; once more changes nothing.

    Raises NotFound, Refused (`send_state`) for one that is in hand or has ended otherwise. Of a
    routed one the route is to be ended by whoever keeps routes: in the caller's transaction, or
    after the hint that this sends (ROUTE_ENDED).
    """
    found = is_row_id(command.send_id)
    send = await tx.find(LOCK_SEND, Send, send_id=command.send_id) if found else None
    if send is None:
        raise NotFound("There is no such text in a queue.")
    if send.state is SendState.CANCELLED:
        return send
    if send.state is not SendState.QUEUED:
        raise Refused(
            f"The text is {send.state.value} already.",
            code="send_state",
            facts={"send_id": send.id, "state": send.state.value},
        )
    cancelled = await tx.one(CANCEL_SEND, Send, send_id=send.id, why=command.why)
    await tx.record(send_fact("cancelled", cancelled, why=command.why))
    look_again(tx, cancelled.mirrored_id)
    end_route(tx, cancelled)
    return cancelled
