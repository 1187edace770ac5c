"""Texts of which nobody knows whether they arrived: how they come about, and how they end.

Such a text holds its session's queue, and muster asks its owner about it, once. It ends by the
owner's word (at the ask, or on the session's page) or by a proof that comes late.

Lock order: the account's row, then the ask about a text, then the text's own row.
"""

# ruff: noqa: S608 - what is put into the statements is a constant of this room

import attrs

from muster.accounts.operations import lock_account
from muster.attention import operations as attention
from muster.errors import Invalid, NotFound, Refused
from muster.ids import is_row_id
from muster.mirror.operations.sends import end_route, look_again, send_fact
from muster.mirror.send_rules import (
    ARRIVED,
    NOT_ARRIVED,
    OFFERED_FOR,
    AskAbout,
    LapseOffer,
    Late,
    Recover,
    ResolveByAsk,
    ResolveSend,
    Send,
    SendState,
)
from muster.mirror.store import SEND
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.principals import Muster, Owner

EXCERPT_CHARACTERS_MAX = 600
OPENING = (
    "A text was pasted into a session, and nothing showed whether it arrived. Nothing more is"
    " pasted there until you say: look at the session, then answer."
)

RECOVER_SENDS = Query(f"""
    update sends s
    set state = 'unconfirmed', why = 'the host was cut off before it told the outcome'
    where s.owner_id = %(owner_id)s and s.host_id = %(host_id)s and s.epoch < %(epoch)s
      and s.state = 'offered'
    returning {SEND}
""")


async def recover(tx: Transaction, command: Recover) -> None:
    """What older sockets of a host had in hand is unconfirmed (audit `send.unconfirmed`)."""
    await lock_account(tx)
    for send in await tx.all(RECOVER_SENDS, Send, host_id=command.host_id, epoch=command.epoch):
        await note_unconfirmed(tx, send, recovered=True)


LAPSE_OFFER = Query(f"""
    update sends s set state = 'unconfirmed', why = 'the host never told the outcome'
    where s.owner_id = %(owner_id)s and s.id = %(send_id)s and s.state = 'offered'
      and s.offered_at <= %(now)s - %(offered_for)s::interval
    returning {SEND}
""")


async def lapse_offer(tx: Transaction, command: LapseOffer) -> None:
    """A text that was handed out OFFERED_FOR ago is unconfirmed: its server or host was killed."""
    await lock_account(tx)
    send = await tx.find(LAPSE_OFFER, Send, send_id=command.send_id, offered_for=OFFERED_FOR)
    if send is not None:
        await note_unconfirmed(tx, send, recovered=True)


async def note_unconfirmed(tx: Transaction, send: Send, *, recovered: bool = False) -> None:
    """A text became unconfirmed: say so, and ask its owner. The account's row is locked."""
    data: dict[str, object] = {"recovered": True} if recovered else {}
    if send.why is not None:
        data["why"] = send.why
    await tx.record(send_fact("unconfirmed", send, **data))
    look_again(tx, send.mirrored_id)
    await _ask(tx, send)


LOCK_UNASKED = Query(f"""
    select {SEND} from sends s
    where s.owner_id = %(owner_id)s and s.id = %(send_id)s and s.state = 'unconfirmed'
      and s.ask_id is null
    for no key update
""")


async def ask_about(tx: Transaction, command: AskAbout) -> bool:
    """Ask about an unconfirmed text that was not asked about; false while no ask more may be."""
    await lock_account(tx)
    send = await tx.find(LOCK_UNASKED, Send, send_id=command.send_id)
    return send is None or await _ask(tx, send)


FIND_PLACE = Query("""
    select coalesce(shown.label, nullif(shown.title, ''), m.repo, m.cwd, m.claude_session) as title,
           h.name as host, r.message_id
    from sends s
    join mirrored m on m.owner_id = s.owner_id and m.id = s.mirrored_id
    join hosts h on h.owner_id = s.owner_id and h.id = s.host_id
    left join session_routes r on r.owner_id = s.owner_id and r.id = s.route_id
    left join lateral (
        select w.label, w.title from panes p
        join windows w on w.owner_id = p.owner_id and w.id = p.window_id and w.host_id = h.id
        where p.owner_id = s.owner_id and p.mirrored_id = m.id
        order by p.active desc, p.id limit 1
    ) shown on true
    where s.owner_id = %(owner_id)s and s.id = %(send_id)s
""")
NOTE_ASK = Query("""
    update sends set ask_id = %(ask_id)s where owner_id = %(owner_id)s and id = %(send_id)s
""")


@attrs.frozen(kw_only=True)
class _Place:
    title: str
    host: str
    message_id: int | None


async def _ask(tx: Transaction, send: Send) -> bool:
    """Ask about it, as muster; false while the owner has as many asks as there may be."""
    assert isinstance(tx.principal, Muster)
    if await attention.count_places(tx) == 0:
        return False  # the sweep asks once there is room
    place = await tx.one(FIND_PLACE, _Place, send_id=send.id)
    asked = await attention.ask(
        tx,
        attention.AskOwner(
            asked_by=attention.AskedBy.MUSTER,
            question=_question(send, place),
            answers=(ARRIVED, NOT_ARRIVED),
            message_id=place.message_id,
        ),
    )
    assert asked is not None
    await tx.execute(NOTE_ASK, send_id=send.id, ask_id=asked.id)
    return True


def _question(send: Send, place: _Place) -> str:
    excerpt = send.text[:EXCERPT_CHARACTERS_MAX]
    cut = "…" if len(send.text) > len(excerpt) else ""
    return f"{OPENING}\nSession: {place.title} · {place.host}\n\n{excerpt}{cut}"


FIND_ASK = Query("select ask_id from sends where owner_id = %(owner_id)s and id = %(send_id)s")

PROVE_LATE = Query(f"""
    update sends s set state = 'pasted', ended_at = %(now)s, why = null
    where s.owner_id = %(owner_id)s and s.id = %(send_id)s and s.host_id = %(host_id)s
      and s.state = 'unconfirmed'
    returning {SEND}
""")


async def settle_late(tx: Transaction, command: Late) -> bool:
    """A proof that comes late still proves (audit `send.pasted`), and ends the ask about it.

    Nothing else changes anything. Says whether the text is pasted by this.
    """
    if not command.proven:
        return False
    await lock_account(tx)
    ask_id = await tx.scalar(FIND_ASK, send_id=command.send_id)
    asked = None if ask_id is None else await attention.lock_ask(tx, ask_id)
    send = await tx.find(PROVE_LATE, Send, send_id=command.send_id, host_id=command.host_id)
    if send is None:
        return False
    await tx.record(send_fact("pasted", send, late=True))
    look_again(tx, send.mirrored_id)
    if asked is not None and attention.standing(asked, tx.now) is attention.State.OPEN:
        await attention.cancel(tx, attention.Cancel(ask_id=asked.id))
    return True


LOCK_SEND = Query(f"""
    select {SEND} from sends s where s.owner_id = %(owner_id)s and s.id = %(send_id)s
    for no key update
""")
FIND_ASKED = Query("""
    select id from sends where owner_id = %(owner_id)s and ask_id = %(ask_id)s
""")
RESOLVE = Query(f"""
    update sends s set state = %(state)s, ended_at = %(now)s, why = %(why)s
    where s.owner_id = %(owner_id)s and s.id = %(send_id)s and s.state = 'unconfirmed'
    returning {SEND}
""")


async def resolve_send(tx: Transaction, command: ResolveSend) -> Send:
    """Write down the owner's word, and end the ask about it; the same word again changes nothing.

    Raises NotFound, Refused (`send_state`) for a text that is not unconfirmed.
    """
    assert isinstance(tx.principal, Owner)
    await lock_account(tx)
    ask_id = await tx.scalar(FIND_ASK, send_id=command.send_id)
    asked = None if ask_id is None else await attention.lock_ask(tx, ask_id)
    send = await _resolve(tx, command.send_id, arrived=command.arrived)
    if asked is not None and attention.standing(asked, tx.now) is attention.State.OPEN:
        word = ARRIVED if command.arrived else NOT_ARRIVED
        await attention.answer(tx, attention.Answer(ask_id=asked.id, text=word))
    return send


async def find_asked(tx: Transaction, ask_id: int) -> int | None:
    """The text that muster asks about by this ask, if it is about one."""
    found = await tx.scalar(FIND_ASKED, ask_id=ask_id)
    assert found is None or isinstance(found, int)
    return found


def check_word(answer: str) -> None:
    """Raise Invalid unless an answer says which of the two it is."""
    if answer not in (ARRIVED, NOT_ARRIVED):
        raise Invalid(f"Answer with “{ARRIVED}” or “{NOT_ARRIVED}”.", field="answer")


async def resolve_by_ask(tx: Transaction, command: ResolveByAsk) -> Send:
    """What the owner answered to muster's ask; the ask is locked, and answered by the caller."""
    check_word(command.answer)
    return await _resolve(tx, command.send_id, arrived=command.answer == ARRIVED)


async def _resolve(tx: Transaction, send_id: int, *, arrived: bool) -> Send:
    send = await tx.find(LOCK_SEND, Send, send_id=send_id) if is_row_id(send_id) else None
    if send is None:
        raise NotFound("There is no such text in a queue.")
    target = SendState.PASTED if arrived else SendState.LOST
    if send.state is target:
        return send
    if send.state is not SendState.UNCONFIRMED:
        raise Refused(
            f"The text is {send.state.value}: only an unconfirmed one is resolved.",
            code="send_state",
            facts={"send_id": send.id, "state": send.state.value},
        )
    why = "its owner says that it arrived" if arrived else "its owner says that it did not arrive"
    resolved = await tx.one(RESOLVE, Send, send_id=send.id, state=target, why=why)
    await tx.record(send_fact(target.value, resolved, by="owner"))
    look_again(tx, resolved.mirrored_id)
    if not arrived:
        end_route(tx, resolved)
    return resolved
