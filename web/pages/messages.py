"""`/messages`: what came in, and the way of each message."""

from quart import Blueprint
from quart.typing import ResponseReturnValue

from muster.chief.operations.history import LookAtMessages, look_at_message, look_at_messages
from muster.messages.operations import State
from web.pages.reading import find_id, read_id, read_word
from web.pages.visits import Visit, show, signed_in

MESSAGES = Blueprint("messages", __name__)
_STATES = {state.value: state for state in State}


@signed_in(MESSAGES, "GET", "/messages")
async def messages(visit: Visit) -> ResponseReturnValue:
    """The messages, newest first, of a state or a plugin if one is chosen."""
    command = LookAtMessages(
        state=_STATES.get(visit.args.get("state", "")),
        plugin=read_word(visit.args, "plugin"),
        before=find_id(visit.args.get("before")),
    )
    page = await visit.node.db.run(visit.owner, look_at_messages, command)
    return await show("messages.html", page=page, chosen=command, states=list(State))


@signed_in(MESSAGES, "GET", "/messages/<message_id>")
async def message(visit: Visit, message_id: str) -> ResponseReturnValue:
    """One message whole, and what happened to it."""
    story = await visit.node.db.run(visit.owner, look_at_message, read_id(message_id))
    return await show("message.html", story=story, message=story.message)
