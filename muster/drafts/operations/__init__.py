"""The verbs of drafts (plugins: "Replying: drafts you approve", "At most once").

Every verb that writes, but `claim_next`, takes the message's row, then all of its drafts, and
writes first what is due among them: so each judges a conversation that is whole and up to date.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

import attrs

from muster.drafts import store
from muster.drafts.checks import check_body, check_report
from muster.drafts.due import (
    Claimable,
    Due,
    FindClaimable,
    due_expiries,
    due_lapses,
    find_claimable,
)
from muster.drafts.rules import (
    PENDING_PER_AGENT_MAX,
    Approve,
    Claim,
    Draft,
    Expire,
    File,
    Lapse,
    Reject,
    Replace,
    Report,
    State,
    decide,
    filed,
    find_in_flight,
    overtaken,
    refuse_second,
    write_due,
)
from muster.drafts.screen import fold, screen
from muster.drafts.store import DraftView
from muster.errors import Invalid, NotFound, Refused
from muster.ids import digest, is_row_id
from muster.messages import operations as messages
from muster.outcomes import Changed
from muster.pg.database import Transaction
from muster.principals import Agent, Plugin

__all__ = [
    "Approve",
    "ClaimNext",
    "Claimable",
    "Claimed",
    "Draft",
    "DraftView",
    "Due",
    "Expire",
    "File",
    "FileFor",
    "Filed",
    "FindClaimable",
    "Lapse",
    "ListDrafts",
    "Reject",
    "Report",
    "State",
    "approve",
    "check_reply",
    "claim_next",
    "due_expiries",
    "due_lapses",
    "expire",
    "file",
    "file_for",
    "find_claimable",
    "find_in_flight_to",
    "get_draft",
    "lapse",
    "list_drafts",
    "list_sent",
    "reject",
    "report",
]

LISTED_MAX = 1000


@attrs.frozen(kw_only=True)
class Filed:
    """A draft that was written, and how many it superseded."""

    draft: Draft
    superseded: int


@attrs.frozen(kw_only=True)
class FileFor:
    """As muster: write a reply in the name of the agent that was handed the message.

    Leaves `plugin.draft.filed`. One that is `decided` is approved next, in the same transaction, so
    it does not count toward the 20 that await the owner. One that is not `screened` was written by
    muster's own code, which leaves out what may not leave (muster.fleet).
    """

    reply: File
    agent_id: int
    route_id: int | None = None
    decided: bool = False
    screened: bool = True


@attrs.frozen(kw_only=True)
class ClaimNext:
    """Take the plugin's longest approved reply. Leaves `plugin.draft.claimed`."""


@attrs.frozen(kw_only=True)
class Claimed:
    """A reply that is the plugin's to send, for two minutes."""

    draft_id: int
    message_external_id: str
    body: str
    approved_at: datetime


@attrs.frozen(kw_only=True)
class ListDrafts:
    """Which drafts to list, by the state they have now. At most 1,000."""

    state: State | None = None
    limit: int = 50


async def file(tx: Transaction, command: File) -> Filed:
    """Write a reply to a message that was handed to this agent (plugins: "Replying").

    The text is folded to NFKC, and that is what is kept, hashed and sent; it may have 16 KiB before
    and after. A pending reply to the same message is superseded. Whether the agent is the owner's
    chief is for the caller to see. Raises Invalid for the text (with the `rule` and `offset` of the
    screen), NotFound for a message that this agent was not handed, Refused for one that nobody may
    answer, while another reply to it is in flight, or with 20 drafts pending.
    """
    agent = tx.principal
    assert isinstance(agent, Agent)
    return await file_for(tx, FileFor(reply=command, agent_id=agent.agent_id))


async def file_for(tx: Transaction, command: FileFor) -> Filed:
    """The same, for an agent that need not be the one who acts."""
    message_id = command.reply.message_id
    body = check_reply(command.reply) if command.screened else _check_size(command.reply.body)
    sentence = f"No message {message_id} was delivered to you."
    if not is_row_id(message_id):
        raise NotFound(sentence)
    locked, parties, replies, pending = await tx.together(
        messages.lock_message(tx, message_id),
        store.find_parties(tx, message_id),
        store.lock_replies(tx, message_id),
        store.count_other_pending(tx, command.agent_id, message_id),
    )
    message = messages.require_handed(locked, command.agent_id, sentence)
    if message.no_reply:
        raise Refused(f"Nobody may reply to message {message.id}.", code="no_reply")
    _require(parties)
    replies = await _with_dues_written(tx, replies)
    if (flying := find_in_flight(replies, tx.now)) is not None:
        raise refuse_second(flying)
    if pending >= PENDING_PER_AGENT_MAX and not command.decided:
        raise Refused(
            f"{pending} drafts of yours await the owner; that is all there may be.",
            code="too_many_pending",
        )
    older = [reply for reply in replies if reply.state is State.PENDING]
    for reply in older:
        await _apply(tx, reply, Replace())
    draft = await store.insert(
        tx,
        message_id=message.id,
        plugin_id=message.plugin_id,
        agent_id=command.agent_id,
        body=body,
        body_sha256=digest(body),
        route_id=command.route_id,
    )
    for reply in older:
        await store.note_replacement(tx, reply.id, draft.id)
    await tx.record(filed(draft, superseded=len(older)))
    return Filed(draft=draft, superseded=len(older))


def check_reply(command: File) -> str:
    """The text as it will be kept; raises Invalid for one that must not be."""
    body = _check_size(command.body)
    finding = screen(body, command.deny_words)
    if finding is not None:
        raise Invalid(
            finding.sentence,
            code="screened",
            field="body",
            facts={"rule": finding.rule, "offset": finding.offset},
        )
    return body


def _check_size(text: str) -> str:
    check_body(text)
    body = fold(text)
    check_body(body)
    return body


async def approve(tx: Transaction, command: Approve) -> Draft:
    """Step 3: let a pending draft go to its plugin (plugins: "What happens to a draft").

    Raises NotFound, and Refused when `sha256` quotes another text, when the draft is not pending,
    when another reply to its message is in flight, and when its plugin is revoked or the account
    disabled. Waiting claims are woken after the commit.
    """
    draft, replies = await _lock_draft(tx, command.draft_id)
    outcome = decide(draft, command, tx.now, via=tx.principal.via)
    if isinstance(outcome, Refused):
        raise outcome
    others = [reply for reply in replies if reply.id != draft.id]
    if (flying := find_in_flight(others, tx.now)) is not None:
        raise refuse_second(flying)
    _require(await store.find_parties(tx, draft.message_id))
    assert isinstance(outcome, Changed)
    return await store.save(tx, outcome)


async def reject(tx: Transaction, command: Reject) -> Draft:
    """Step 3: say no to a pending draft, or take back an approval that no plugin has collected.

    Raises NotFound, and Refused when `sha256` quotes another text or the draft is neither.
    """
    draft, _ = await _lock_draft(tx, command.draft_id)
    return await _apply(tx, draft, command)


async def claim_next(tx: Transaction, command: ClaimNext) -> Claimed | None:  # noqa: ARG001
    """Take the plugin's longest approved reply for two minutes (plugins: "At most once").

    None when there is none. Two claims never get the same one: each commits a row that no other
    claim can take again.
    """
    plugin = tx.principal
    assert isinstance(plugin, Plugin)
    waiting = await store.lock_claimable(tx, plugin.plugin_id)
    if waiting is None:
        return None
    draft = await _apply(tx, waiting, Claim())
    assert draft.approved_at is not None
    return Claimed(
        draft_id=draft.id,
        message_external_id=waiting.message_external_id,
        body=draft.body,
        approved_at=draft.approved_at,
    )


async def report(tx: Transaction, command: Report) -> Draft:
    """Record what the plugin says became of a reply that it claimed (plugins: "At most once").

    A late result counts. A true `ok` supersedes every other reply to the message that is pending or
    waits for a claim; a repeat of the same result changes nothing. Raises Invalid for a field,
    NotFound for what is not this plugin's, Refused with `draft_id` and `status` for the other
    result and for a reply that was never claimed.
    """
    plugin = tx.principal
    assert isinstance(plugin, Plugin)
    check_report(command)
    draft, replies = await _lock_draft(tx, command.draft_id, plugin_id=plugin.plugin_id)
    outcome = decide(draft, command, tx.now, via=plugin.via)
    if isinstance(outcome, Refused):
        raise outcome
    if isinstance(outcome, Changed):
        await store.save(tx, outcome)
        if outcome.row.state is State.SENT:
            for changed in overtaken(replies, outcome.row, tx.now):
                await store.save(tx, changed)
    return outcome.row


async def find_in_flight_to(tx: Transaction, message_id: int) -> Draft | None:
    """The reply to a message that is approved and on its way, if one is; the message is locked."""
    return find_in_flight(await store.lock_replies(tx, message_id), tx.now)


async def lapse(tx: Transaction, command: Lapse) -> Draft:
    """Write that a claim's two minutes are over; nothing when they are not. Raises NotFound."""
    draft, _ = await _lock_draft(tx, command.draft_id)
    return draft


async def expire(tx: Transaction, command: Expire) -> Draft:
    """Write that a draft's seven days are over; nothing when they are not. Raises NotFound."""
    draft, _ = await _lock_draft(tx, command.draft_id)
    return draft


async def list_drafts(tx: Transaction, command: ListDrafts) -> list[DraftView]:
    """The owner's drafts as they stand, newest first."""
    limit = max(0, min(command.limit, LISTED_MAX))
    return await store.list_newest(tx, state=command.state, limit=limit)


async def list_sent(tx: Transaction, views: Sequence[DraftView]) -> dict[int, list[int]]:
    """For each of these drafts the other replies to its message that were sent, oldest first."""
    sent: dict[int, list[int]] = defaultdict(list)
    for one in await store.find_sent(tx, sorted({view.message_id for view in views})):
        sent[one.message_id].append(one.id)
    return {view.id: [one for one in sent[view.message_id] if one != view.id] for view in views}


async def get_draft(tx: Transaction, draft_id: int) -> DraftView:
    """The owner's draft as it stands; raises NotFound for none and for somebody else's."""
    view = await store.find(tx, draft_id)
    if view is None:
        raise _no_draft(draft_id)
    return view


async def _lock_draft(
    tx: Transaction, draft_id: int, *, plugin_id: int | None = None
) -> tuple[Draft, list[Draft]]:
    """The draft and all replies to its message, locked, with what is due among them written."""
    message_id, replies = await tx.together(
        store.lock_message(tx, draft_id), store.lock_with_siblings(tx, draft_id)
    )
    if message_id is None:
        raise _no_draft(draft_id)
    replies = await _with_dues_written(tx, replies)
    draft = next(reply for reply in replies if reply.id == draft_id)
    if plugin_id is not None and draft.plugin_id != plugin_id:
        raise _no_draft(draft_id)
    return draft, replies


async def _with_dues_written(tx: Transaction, replies: Sequence[Draft]) -> list[Draft]:
    """Locked replies as they stand now."""
    written = []
    for reply in replies:
        due = write_due(reply, tx.now)
        written.append(reply if due is None else await store.save(tx, due))
    return written


async def _apply(tx: Transaction, draft: Draft, command: Reject | Claim | Replace) -> Draft:
    outcome = decide(draft, command, tx.now, via=tx.principal.via)
    if isinstance(outcome, Refused):
        raise outcome
    assert isinstance(outcome, Changed)
    return await store.save(tx, outcome)


def _require(parties: store.Parties) -> None:
    if not parties.plugin_lives:
        raise Refused("The plugin of this message is revoked.", code="plugin_revoked")
    if not parties.owner_enabled:
        raise Refused("The account is disabled.", code="account_disabled")


def _no_draft(draft_id: int) -> NotFound:
    return NotFound(f"There is no draft {draft_id}.")
