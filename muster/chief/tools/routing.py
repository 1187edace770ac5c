"""`route_to_session`: the chief hands a message to the session best placed to answer it."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType

from muster.chief import operations
from muster.chief.operations.routing.making import RouteMessage, route_message
from muster.chief.tools.tool import Call, Tool
from muster.errors import Refused
from muster.pg.database import Transaction
from muster.principals import Agent
from muster.routes.rules import By


class RouteToSession(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The arguments of `route_to_session`."""

    subject: str
    message_id: int | UnsetType = UNSET
    task_id: int | UnsetType = UNSET


async def route_to_session(tx: Transaction, call: Call) -> Mapping[str, object]:
    """Route a message that was delivered to the chief; answers with the route."""
    assert isinstance(call.arguments, RouteToSession)
    assert isinstance(tx.principal, Agent)
    await operations.require_chief(tx, tx.principal)
    message_id = call.arguments.message_id
    if message_id is UNSET or call.arguments.task_id is not UNSET:
        raise Refused(
            "Give message_id, and no task_id: a task cannot be routed to a session yet.",
            code="bad_arguments",
        )
    command = RouteMessage(message_id=message_id, subject=call.arguments.subject, by=By.CHIEF)
    route = await route_message(tx, command)
    return {
        "route_id": route.id,
        "message_id": route.message_id,
        "subject": call.arguments.subject,
        "state": route.state.value,
        "deadline_at": route.deadline_at.isoformat(),
    }


ROUTE_TO_SESSION = Tool(
    name="route_to_session",
    description=(
        "Hand a plugin message that was delivered to you to the terminal session that is best "
        "placed to answer it, instead of drafting the reply yourself. subject is "
        "mirror:<claude session id>, as focus_search and fleet_list tell it. The stored message is "
        "pasted there once the session is idle; its answer becomes the reply. You hear of it in "
        "the message's conversation. Without an answer within 30 minutes (4 hours in a person's "
        "conversation) the message comes back to you."
    ),
    arguments=RouteToSession,
    run=route_to_session,
)
