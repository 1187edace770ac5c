"""`/chief`: the owner's chief, its conversations, and a box to write to it.

What was typed is never lost: a refusal shows it again, in a form that can be sent once more. A form
says when its page was made: sent twice, its words are said once.
"""

from datetime import UTC

from quart import Blueprint
from quart.typing import ResponseReturnValue

from muster.chief.operations.conversations import (
    LookAtConversation,
    WriteToChief,
    look_at_chief,
    look_at_conversation,
    write_to_chief,
)
from web.pages.reading import find_id, read_id, read_time
from web.pages.visits import Visit, go_to, show, signed_in

CHIEF = Blueprint("chief", __name__)


@signed_in(CHIEF, "GET", "/chief")
async def chief(visit: Visit) -> ResponseReturnValue:
    """Which agent it is, what it is at, and its conversations."""
    seen = await visit.node.db.run(visit.owner, look_at_chief, None)
    return await show("chief/chief.html", seen=seen, chief=seen.chief)


@signed_in(CHIEF, "POST", "/chief", refused="chief/not_sent.html")
async def write(visit: Visit) -> ResponseReturnValue:
    """Write to the chief, in its default conversation."""
    text = visit.form.get("text", "").replace("\r\n", "\n").strip()
    command = WriteToChief(text=text, made_at=read_time(visit.form, "made_at", UTC))
    written = await visit.node.db.run(visit.owner, write_to_chief, command)
    return go_to(f"/chief/{written.conversation_id}#newest")


@signed_in(CHIEF, "GET", "/chief/<conversation_id>")
async def conversation(visit: Visit, conversation_id: str) -> ResponseReturnValue:
    """One conversation: its turns in order, the newest last."""
    command = LookAtConversation(
        conversation_id=read_id(conversation_id), before=find_id(visit.args.get("before"))
    )
    seen = await visit.node.db.run(visit.owner, look_at_conversation, command)
    return await show("chief/conversation.html", seen=seen, earlier=command.before)
