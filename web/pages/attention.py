"""`/attention`: asks, and the cards of reply drafts (plugins: "The card").

A form carries the draft's id and the digest of the text that was read. What is not so any more (the
draft was decided, superseded, collected; the text is another) is answered 409 with the fresh card.
So a second click, or a form that Back brought up again, changes nothing.
"""

from quart import Blueprint
from quart.typing import ResponseReturnValue

from muster.attention.operations import Dismiss, dismiss, get_ask
from muster.chief.operations.asks import AnswerAsk, answer_ask
from muster.chief.operations.attention import LookAtAttention, Tab, look_at_attention
from muster.drafts.operations import Approve, Reject
from muster.drafts.operations.cards import Decided, decide_card, find_card
from muster.errors import NotFound
from web.pages.reading import find_id, read_digest, read_id
from web.pages.visits import Visit, go_to, show, signed_in

ATTENTION = Blueprint("attention", __name__)
_TABS = {tab.value: tab for tab in Tab}


@signed_in(ATTENTION, "GET", "/attention")
async def attention(visit: Visit) -> ResponseReturnValue:
    """What asks for a decision, and under Archived what became of what was decided."""
    older = find_id(visit.args.get("before"))
    command = LookAtAttention(
        tab=_TABS.get(visit.args.get("tab", "")),
        before=older,
        decided=find_id(visit.args.get("decided")),
    )
    seen = await visit.node.db.run(visit.owner, look_at_attention, command)
    return await show("attention.html", seen=seen, older=older)


@signed_in(ATTENTION, "GET", "/drafts/<draft_id>")
async def draft(visit: Visit, draft_id: str) -> ResponseReturnValue:
    """One draft's card."""
    seen = await visit.node.db.run(visit.owner, find_card, read_id(draft_id))
    return await show("draft.html", seen=seen)


@signed_in(ATTENTION, "POST", "/drafts/<draft_id>/approve", page="/drafts/<draft_id>")
async def approve(visit: Visit, draft_id: str) -> ResponseReturnValue:
    """Approve and send, behind a fresh sign-in."""
    command = Approve(draft_id=_read_draft_id(visit, draft_id), sha256=read_digest(visit.form))
    # What is refused anyhow is told at once, with the fresh card.
    approving = visit.risky(decide_card, unless=lambda decided: decided.refusal is not None)
    decided = await visit.node.db.run(visit.owner, approving, command)
    return await _show_decided(decided)


@signed_in(ATTENTION, "POST", "/drafts/<draft_id>/reject", page="/drafts/<draft_id>")
async def reject(visit: Visit, draft_id: str) -> ResponseReturnValue:
    """Reject, or take back an approval that no plugin has collected; no fresh sign-in is needed."""
    command = Reject(draft_id=_read_draft_id(visit, draft_id), sha256=read_digest(visit.form))
    decided = await visit.node.db.run(visit.owner, decide_card, command)
    return await _show_decided(decided)


def _read_draft_id(visit: Visit, draft_id: str) -> int:
    """The draft that both the address and the form name."""
    if visit.form.get("draft_id") != draft_id:
        raise NotFound("The form is of another draft.")
    return read_id(draft_id)


async def _show_decided(decided: Decided) -> ResponseReturnValue:
    if decided.refusal is None:
        return go_to(f"/attention?tab=drafts&decided={decided.card.id}")
    return await show("draft.html", 409, seen=decided)


@signed_in(ATTENTION, "GET", "/asks/<ask_id>")
async def ask(visit: Visit, ask_id: str) -> ResponseReturnValue:
    """One ask, with what became of it."""
    found = await visit.node.db.run(visit.owner, get_ask, read_id(ask_id))
    return await show("ask.html", ask=found)


@signed_in(ATTENTION, "POST", "/asks/<ask_id>/answer", page="/asks/<ask_id>")
async def answer(visit: Visit, ask_id: str) -> ResponseReturnValue:
    """Answer by one of its buttons or in words of one's own."""
    text = visit.form.get("text", "").replace("\r\n", "\n").strip()
    command = AnswerAsk(ask_id=read_id(ask_id), text=text)
    await visit.node.db.run(visit.owner, answer_ask, command)
    return go_to("/attention?tab=asks")


@signed_in(ATTENTION, "POST", "/asks/<ask_id>/dismiss", page="/asks/<ask_id>")
async def dismiss_ask(visit: Visit, ask_id: str) -> ResponseReturnValue:
    """Take an ask away without an answer."""
    await visit.node.db.run(visit.owner, dismiss, Dismiss(ask_id=read_id(ask_id)))
    return go_to("/attention?tab=asks")
