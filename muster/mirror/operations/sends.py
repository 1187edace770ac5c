"""What enters the send queue, whoever puts it there, and what leaves it with its route."""

# ruff: noqa: S608 - what is put into the statements is a constant of this room

import attrs

from muster.errors import Invalid, NotFound, Refused
from muster.mirror.send_rules import (
    PASTE_BYTES_MAX,
    QUEUED_MAX,
    CancelRouted,
    Enqueue,
    Send,
)
from muster.mirror.store import SEND
from muster.outcomes import Fact, Hint, HintKind
from muster.pg.database import Transaction
from muster.pg.query import Query

# The session's row makes those who queue for it take turns, so that QUEUED_MAX holds.
LOCK_MIRRORED = Query("""
    select id from mirrored where owner_id = %(owner_id)s and id = %(mirrored_id)s
    for no key update
""")


async def lock_session(tx: Transaction, mirrored_id: int) -> None:
    """Have those who queue for the session take turns; raises NotFound for none of the owner's."""
    if await tx.scalar(LOCK_MIRRORED, mirrored_id=mirrored_id) is None:
        raise NotFound("There is no such session.")


COUNT_QUEUED = Query("""
    select count(*) from sends
    where owner_id = %(owner_id)s and mirrored_id = %(mirrored_id)s and state = 'queued'
""")

INSERT_SEND = Query(f"""
    insert into sends as s (owner_id, mirrored_id, text, queued_by, queued_via, signed_in_at,
                            route_id, state, created_at)
    values (%(owner_id)s, %(mirrored_id)s, %(text)s, %(queued_by)s, %(queued_via)s,
            %(signed_in_at)s, %(route_id)s, 'queued', %(now)s)
    returning {SEND}
""")


async def enqueue(tx: Transaction, command: Enqueue) -> Send:
    """Queue a text for a session (the oldest is pasted first).

    Raises Invalid for a text of no or over PASTE_BYTES_MAX bytes, NotFound for a session that is
    none of the owner's, Refused (`queue_full`) at QUEUED_MAX.
    """
    if not 1 <= len(command.text.encode()) <= PASTE_BYTES_MAX:
        raise Invalid(f"The text must have 1 to {PASTE_BYTES_MAX} bytes.", field="text")
    await lock_session(tx, command.mirrored_id)
    queued = await tx.scalar(COUNT_QUEUED, mirrored_id=command.mirrored_id)
    assert isinstance(queued, int)
    if queued >= QUEUED_MAX:
        raise Refused(f"{QUEUED_MAX} texts wait for this session already.", code="queue_full")
    send = await tx.one(
        INSERT_SEND,
        Send,
        mirrored_id=command.mirrored_id,
        text=command.text,
        queued_by=tx.principal.actor,
        queued_via=tx.principal.via,
        signed_in_at=command.signed_in_at,
        route_id=command.route_id,
    )
    look_again(tx, send.mirrored_id)
    return send


CANCEL_ROUTED = Query("""
    update sends set state = 'cancelled', ended_at = %(now)s, why = %(why)s
    where owner_id = %(owner_id)s and route_id = %(route_id)s and state = 'queued'
    returning mirrored_id
""")


async def cancel_routed(tx: Transaction, command: CancelRouted) -> bool:
    """Take a route's text out of the queue; false when a host has it, or it ended."""
    mirrored_id = await tx.scalar(CANCEL_ROUTED, route_id=command.route_id, why=command.why)
    if mirrored_id is None:
        return False
    look_again(tx, mirrored_id)
    return True


FIND_WAITING = Query("""
    select distinct mirrored_id from sends
    where owner_id = %(owner_id)s and mirrored_id = any(%(mirrored_ids)s) and state = 'queued'
""")


@attrs.frozen(kw_only=True)
class _Waiting:
    mirrored_id: int


async def find_waiting(tx: Transaction, mirrored_ids: list[int]) -> list[int]:
    """Which of these sessions have a text in the queue."""
    found = await tx.all(FIND_WAITING, _Waiting, mirrored_ids=mirrored_ids)
    return [one.mirrored_id for one in found]


def send_fact(what: str, send: Send, **data: object) -> Fact:
    """What happened to a text, for the audit log: `send.<what>` about its session."""
    known: dict[str, object] = {"send": send.id}
    if send.route_id is not None:
        known["route"] = send.route_id
    return Fact(action=f"send.{what}", subject=f"mirrored:{send.mirrored_id}", data=known | data)


def look_again(tx: Transaction, mirrored_id: int) -> None:
    """The queue is not what it was: whoever works on it and whoever shows it looks again."""
    for kind in (HintKind.SEND_QUEUED, HintKind.MIRRORED_CHANGED):
        tx.hint(Hint(kind=kind, owner_id=tx.owner_id, id=mirrored_id))


def end_route(tx: Transaction, send: Send) -> None:
    """The text of a route ended unpasted: whoever keeps routes looks at once."""
    if send.route_id is not None:
        tx.hint(Hint(kind=HintKind.ROUTE_ENDED, owner_id=tx.owner_id, id=send.route_id))
