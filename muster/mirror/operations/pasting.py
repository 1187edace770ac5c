"""A text leaves the queue for a host, and what became of it.

What stands in for a person at the moment of the paste is looked at here, in the transaction that
offers the text: the account lives and did not sign out everywhere since the text was queued, the
sign-in that queued it is fresh (a routed text has none, and needs none), its route still waits. A
text that does not hold is refused, and the next one is looked at (plugins: "What stands in for the
step-up").
"""

from typing import Literal

import attrs

from muster.accounts.operations import lock_account
from muster.mirror.send_rules import Send
from muster.outcomes import Fact, Hint, HintKind
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
NEXT_SEND = Query("""
    select s.id, s.owner_id, s.mirrored_id, s.text, s.queued_by, s.queued_via, s.signed_in_at,
           s.route_id, s.state, s.created_at, s.host_id, s.epoch, s.offers, s.offered_at,
           s.ended_at, s.why, s.ask_id
    from sends s
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

# Whether the one who queued it may still have it pasted; a route waits for its answer.
FIND_STANDING = Query("""
    select u.disabled_at is not null as disabled,
           coalesce(u.signed_out_at >= coalesce(%(signed_in_at)s::timestamptz,
                                                %(created_at)s::timestamptz), false) as signed_out,
           coalesce(%(signed_in_at)s::timestamptz < %(now)s - make_interval(secs => %(window)s),
                    false) as stale,
           %(route_id)s::bigint is not null and not exists (
               select from session_routes r
               where r.owner_id = %(owner_id)s and r.id = %(route_id)s and r.state = 'routed')
               as route_over
    from users u where u.id = %(owner_id)s
""")


@attrs.frozen(kw_only=True)
class _Standing:
    disabled: bool
    signed_out: bool
    stale: bool
    route_over: bool

    @property
    def why(self) -> str | None:
        """Why the text may not be pasted; None when it may."""
        if self.disabled:
            return "the account is disabled"
        if self.signed_out:
            return "its owner signed out everywhere after it was queued"
        if self.route_over:
            return "its route does not wait for an answer any more"
        if self.stale:
            return "the sign-in that queued it is too old: confirm it is you, and queue it again"
        return None


OFFER_SEND = Query("""
    update sends set state = 'offered', host_id = %(host_id)s, epoch = %(epoch)s,
                     offers = offers + 1, offered_at = %(now)s
    where owner_id = %(owner_id)s and id = %(send_id)s and state = 'queued'
""")

REFUSE_SEND = Query("""
    update sends set state = 'refused', ended_at = %(now)s, why = %(why)s
    where owner_id = %(owner_id)s and id = %(send_id)s and state = 'queued'
""")


async def offer(tx: Transaction, command: Offer) -> Send | None:
    """Hand out the oldest text that may still be pasted; None when there is none now.

    Audit `send.refused` for each that may not; an offer leaves no row, its end does.
    """
    await lock_account(tx)
    while True:
        send = await tx.find(
            NEXT_SEND,
            Send,
            mirrored_id=command.mirrored_id,
            host_id=command.host_id,
            epoch=command.epoch,
        )
        if send is None:
            return None
        standing = await tx.one(
            FIND_STANDING,
            _Standing,
            signed_in_at=send.signed_in_at,
            created_at=send.created_at,
            route_id=send.route_id,
            window=command.stepup_window_seconds,
        )
        if (why := standing.why) is None:
            await tx.execute(
                OFFER_SEND, send_id=send.id, host_id=command.host_id, epoch=command.epoch
            )
            _shown(tx, send.mirrored_id)
            return send
        await tx.execute(REFUSE_SEND, send_id=send.id, why=why)
        await tx.record(_fact("refused", send.mirrored_id, send.id, why))


SETTLE_SEND = Query("""
    update sends
    set state = %(state)s, why = nullif(%(why)s::text, ''),
        ended_at = case when %(state)s = 'pasted' then %(now)s end,
        host_id = case when %(state)s = 'queued' then null else host_id end,
        epoch = case when %(state)s = 'queued' then null else epoch end,
        offered_at = case when %(state)s = 'queued' then null else offered_at end
    where owner_id = %(owner_id)s and id = %(send_id)s and host_id = %(host_id)s
      and epoch = %(epoch)s and state = 'offered'
    returning mirrored_id
""")
_STATES = {"pasted": "pasted", "unconfirmed": "unconfirmed", "not_begun": "queued"}


async def settle(tx: Transaction, command: Settle) -> None:
    """Write down what became of an offered text (audit `send.pasted`, `send.unconfirmed`).

    One that never began is queued again. A late word of an older socket changes nothing.
    """
    mirrored_id = await tx.scalar(
        SETTLE_SEND,
        send_id=command.send_id,
        host_id=command.host_id,
        epoch=command.epoch,
        state=_STATES[command.outcome],
        why="" if command.outcome == "pasted" else command.detail[:500],
    )
    if mirrored_id is None:
        return
    if command.outcome == "not_begun":
        _shown(tx, mirrored_id)
        return
    await tx.record(_fact(command.outcome, mirrored_id, command.send_id, command.detail))


def _fact(outcome: str, mirrored_id: int, send_id: int, detail: str) -> Fact:
    data: dict[str, object] = {"send": send_id}
    if detail:
        data["why"] = detail[:500]
    return Fact(action=f"send.{outcome}", subject=f"mirrored:{mirrored_id}", data=data)


def _shown(tx: Transaction, mirrored_id: int) -> None:
    tx.hint(Hint(kind=HintKind.MIRRORED_CHANGED, owner_id=tx.owner_id, id=mirrored_id))
