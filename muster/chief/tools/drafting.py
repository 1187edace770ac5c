"""`reply_draft`: the chief's way to answer a message (plugins: "Replying: drafts you approve")."""

from collections.abc import Mapping

import msgspec

from muster.chief import operations
from muster.chief.tools.tool import Call, Tool
from muster.drafts import operations as drafts
from muster.drafts.rules import File
from muster.pg.database import Transaction
from muster.principals import Agent


class ReplyDraft(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The arguments of `reply_draft`."""

    message_id: int
    body: str


async def reply_draft(tx: Transaction, call: Call) -> Mapping[str, object]:
    """File a draft of a reply for the owner to decide on; nothing is sent."""
    assert isinstance(call.arguments, ReplyDraft)
    assert isinstance(tx.principal, Agent)
    await operations.require_chief(tx, tx.principal)
    filed = await drafts.file(
        tx,
        File(
            message_id=call.arguments.message_id,
            body=call.arguments.body,
            deny_words=call.deny_words,
        ),
    )
    return {
        "draft_id": filed.draft.id,
        "status": filed.draft.state.value,
        "superseded": filed.superseded,
    }


REPLY_DRAFT = Tool(
    name="reply_draft",
    description=(
        "Draft a reply to a plugin message that was delivered, or is being delivered, to you. "
        "Nothing is sent: your owner reads the draft and approves or rejects it. A new draft "
        "takes the place of the one still pending for the same message. Plain text of at most "
        "16 KiB, without host names, addresses, links, credentials or invisible characters; a "
        "refusal says what to change. Messages marked as no-reply take no draft."
    ),
    arguments=ReplyDraft,
    run=reply_draft,
)
