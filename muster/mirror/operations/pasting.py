"""A text leaves the queue for a host, and what became of it.

What stands in for a person at the moment of the paste is looked at here, in the transaction that
offers the text: the account lives and did not sign out everywhere since the text was queued, the
sign-in that queued it is fresh (a routed text has none, and needs none), its route still waits. A
text that does not hold is refused, and the next one is looked at (plugins: "What stands in for the
step-up").
"""

# ruff: noqa: S608 - what is put into the statements is a constant of this room

from typing import Literal

import attrs

from muster.accounts.operations import lock_account
from muster.mirror.operations.sends import end_route, send_fact
from muster.mirror.operations.unconfirmed import note_unconfirmed, settle_late
from muster.mirror.send_rules import (
    WHY_CHARACTERS_MAX,
    Against,
    Late,
    RefuseStanding,
    Send,
)
from muster.mirror.store import AGAINST, SEND
from muster.outcomes import Hint, HintKind
from muster.pg.database import Transaction
from muster.pg.query import Query

Outcome = Literal["pasted", "unconfirmed", "not_begun"]


@attrs.frozen(kw_only=True)
class Offer:
    """Hand the oldest text of a session to its host's socket of this epoch."""

    mirrored_id: int
    host_id: int
    epoch: int
    stepup_window_seconds: int


@attrs.frozen(kw_only=True)
class Settle:
    """What the host said of an offered text; `unconfirmed` when nothing."""

    send_id: int
    host_id: int
    epoch: int
    outcome: Outcome
    detail: str


# The session's row makes a cancel and an offer take turns; the index behind it allows one in hand.
NEXT_SEND = Query(f"""
    select s.id, {AGAINST} as against
    from sends s join users u on u.id = s.owner_id
    where s.owner_id = %(owner_id)s and s.mirrored_id = %(mirrored_id)s and s.state = 'queued'
      and not exists (
          select from sends b
          where b.owner_id = s.owner_id and b.mirrored_id = s.mirrored_id
            and b.state in ('offered', 'unconfirmed'))
      and exists (
          select from hosts h
          where h.owner_id = s.owner_id and h.id = %(host_id)s and h.epoch = %(epoch)s
            and h.retired_at is null)
    order by s.id limit 1
    for no key update of s
""")

LOCK_REFUSED = Query(f"""
    select s.id, {AGAINST} as against
    from sends s join users u on u.id = s.owner_id
    where s.owner_id = %(owner_id)s and s.state = 'queued' and {AGAINST} is not null
    order by s.id
    for no key update of s
""")

OFFER_SEND = Query(f"""
    update sends s set state = 'offered', host_id = %(host_id)s, epoch = %(epoch)s,
                       offers = offers + 1, offered_at = %(now)s
    where s.owner_id = %(owner_id)s and s.id = %(send_id)s and s.state = 'queued'
    returning {SEND}
""")

REFUSE_SEND = Query(f"""
    update sends s set state = 'refused', ended_at = %(now)s, why = %(why)s
    where s.owner_id = %(owner_id)s and s.id = %(send_id)s and s.state = 'queued'
    returning {SEND}
""")


@attrs.frozen(kw_only=True)
class _Standing:
    id: int
    against: str | None


async def offer(tx: Transaction, command: Offer) -> Send | None:
    """Step 6: hand out the oldest text that may still be pasted; None when there is none now.

    Audit `send.refused` for each that may not; an offer leaves no row, its end does.
    """
    await lock_account(tx)
    while True:
        standing = await tx.find(
            NEXT_SEND,
            _Standing,
            mirrored_id=command.mirrored_id,
            host_id=command.host_id,
            epoch=command.epoch,
            stepup_window_seconds=command.stepup_window_seconds,
        )
        if standing is None:
            return None
        if standing.against is None:
            owned = {"host_id": command.host_id, "epoch": command.epoch}
            send = await tx.one(OFFER_SEND, Send, send_id=standing.id, **owned)
            _shown(tx, send)
            return send
        await _refuse(tx, standing)


async def refuse_standing(tx: Transaction, command: RefuseStanding) -> int:
    """Refuse at once whatever waits and would be refused at its paste; how many there were."""
    await lock_account(tx)
    found = await tx.all(
        LOCK_REFUSED, _Standing, stepup_window_seconds=command.stepup_window_seconds
    )
    for standing in found:
        await _refuse(tx, standing)
    return len(found)


async def _refuse(tx: Transaction, standing: "_Standing") -> None:
    assert standing.against is not None
    why = Against(standing.against).why
    send = await tx.one(REFUSE_SEND, Send, send_id=standing.id, why=why)
    await tx.record(send_fact("refused", send, why=why))
    end_route(tx, send)


SETTLE_SEND = Query(f"""
    update sends s
    set state = %(state)s, why = nullif(%(why)s::text, ''),
        ended_at = case when %(state)s = 'pasted' then %(now)s end,
        host_id = case when %(state)s = 'queued' then null else s.host_id end,
        epoch = case when %(state)s = 'queued' then null else s.epoch end,
        offered_at = case when %(state)s = 'queued' then null else s.offered_at end
    where s.owner_id = %(owner_id)s and s.id = %(send_id)s and s.host_id = %(host_id)s
      and s.epoch = %(epoch)s and s.state = 'offered'
    returning {SEND}
""")
_STATES = {"pasted": "pasted", "unconfirmed": "unconfirmed", "not_begun": "queued"}


async def settle(tx: Transaction, command: Settle) -> None:
    """Write down what became of an offered text (audit `send.pasted`, `send.unconfirmed`).

    One that never began is queued again. A late word changes nothing, but that it may still prove.
    """
    await lock_account(tx)
    send = await tx.find(
        SETTLE_SEND,
        Send,
        send_id=command.send_id,
        host_id=command.host_id,
        epoch=command.epoch,
        state=_STATES[command.outcome],
        why="" if command.outcome == "pasted" else command.detail[:WHY_CHARACTERS_MAX],
    )
    if send is None:
        proven = command.outcome == "pasted"
        late = Late(host_id=command.host_id, send_id=command.send_id, proven=proven)
        await settle_late(tx, late)
    elif command.outcome == "unconfirmed":
        await note_unconfirmed(tx, send)
    else:
        if command.outcome == "pasted":
            await tx.record(send_fact("pasted", send))
        _shown(tx, send)


def _shown(tx: Transaction, send: Send) -> None:
    tx.hint(Hint(kind=HintKind.MIRRORED_CHANGED, owner_id=tx.owner_id, id=send.mirrored_id))
