"""A session without a muster MCP server answers the message that was routed to it.

| route                      | does                          | the hook token too |
|----------------------------|-------------------------------|--------------------|
| POST /api/routes/ID/reply  | takes the answer, relays it   | yes                |

There is nothing here unless routing is on.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from muster.chief.operations.routing.answering import AnswerRoute, answer_and_relay
from muster.routes.rules import State
from web.about import About, Says, Taken
from web.answers import Answer, answer
from web.api.reading import read_id, read_json
from web.auth import prove_api
from web.routes import Asked, Route, Routes


class RouteReplyBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The answer, as its sender will read it."""

    body: Annotated[str, Meta(description="1 byte to 16 KiB of UTF-8; screened as any reply.")]


class AnsweredRoute(msgspec.Struct, frozen=True):
    """The route, and what became of its answer."""

    route_id: int
    message_id: int
    state: State


async def reply(asked: Asked) -> Answer:
    """Take a session's answer (plugins: "Routing a message to a session")."""
    owner = await prove_api(asked.node, asked.headers, hook=True, write=True)
    route_id = read_id(asked, "route")
    body = read_json(asked, RouteReplyBody)
    relays = asked.node.relays
    command = AnswerRoute(
        route_id=route_id, body=body.body, via=owner.via, deny_words=relays.deny_words
    )
    route = await answer_and_relay(asked.node.db, owner, command, relays.allow)
    told = AnsweredRoute(route_id=route.id, message_id=route.message_id, state=route.state)
    return answer(202 if route.state is State.ANSWERED else 200, told)


_REPLY = About(
    name="replyToRoute",
    summary="Answer the message of a route",
    text="What `muster route reply` calls. The answer becomes the reply to the message: it is sent"
    " at once for a verified sender on MUSTER_ROUTE_RELAY_ALLOW, and else waits for the owner. The"
    " same answer again changes nothing.",
    takes=(Taken.PERSONAL, Taken.HOOK),
    id_meaning="the id of a route",
    body=RouteReplyBody,
    body_example=RouteReplyBody(body="Noon works."),
    says=(
        Says(
            status=200,
            when="It was relayed, as a draft that waits (fallback) or that is approved (relayed);"
            " or it could not be sent, and the chief has the message back (failed).",
            shape=AnsweredRoute,
            example=AnsweredRoute(route_id=3, message_id=42, state=State.FALLBACK),
        ),
        Says(
            status=202,
            when="It is kept, and relayed within two minutes.",
            shape=AnsweredRoute,
            example=AnsweredRoute(route_id=3, message_id=42, state=State.ANSWERED),
        ),
        Says(status=400, when="The answer breaks a rule.", codes=("invalid", "screened")),
        Says(status=404, when="There is no such route of yours.", codes=("not_found",)),
        Says(
            status=409,
            when="The route does not wait, or has another answer. Nothing was changed.",
            codes=("route_state", "other_answer"),
        ),
    ),
)

SESSION_ROUTES_API: Routes = (Route("POST", "/api/routes/{id}/reply", reply, about=_REPLY),)
