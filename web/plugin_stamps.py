"""`POST /plugin/v1/messages/{id}/owner-answered`: the sender of a routed message has their answer.

The reference is plugins: "When the owner answers it directly". Checks come in this order: plugins
or routing off (404), credential, whose message it is (404), shape (400), the thread and the route
(409). A 409 is final: nothing changes, and the same stamp again is answered the same.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from muster.chief.operations.routing.ending import (
    OwnerAnswered,
    find_stamped,
    owner_answered,
)
from web.about import About, Says, Taken
from web.answers import Answer, answer
from web.api.reading import read_id
from web.auth import prove_plugin
from web.bodies import decode
from web.routes import Asked, Route, Routes


class StampBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where the reply was sent to."""

    thread: Annotated[
        str, Meta(min_length=1, max_length=200, description="The message's thread, exactly.")
    ]


class StampedMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the stamp settled; `state` is the newest route's, or none."""

    message_id: int
    route_id: int | None
    state: str
    settled: bool
    error: str | UnsetType = UNSET
    code: str | UnsetType = UNSET


async def stamp(asked: Asked) -> Answer:
    """Take a plugin's word that it sent the owner's reply."""
    principal = await prove_plugin(asked.node, asked.headers)
    message_id = read_id(asked, "message of this plugin")
    await asked.node.db.run(principal, find_stamped, message_id)
    body = decode(asked.body, StampBody)
    command = OwnerAnswered(message_id=message_id, thread=body.thread)
    stamped = await asked.node.db.run(principal, owner_answered, command)
    told = StampedMessage(
        message_id=stamped.message_id,
        route_id=stamped.route_id,
        state=stamped.state,
        settled=stamped.settled,
        error=UNSET if stamped.error is None else stamped.error,
        code=UNSET if stamped.error is None else "not_waiting",
    )
    return answer(200 if stamped.error is None else 409, told)


_STAMP = About(
    name="reportOwnerAnswered",
    summary="Say that the owner answered a message directly",
    text="For a sending tool that knows which message it answers, after a send that it has"
    " verified. A route that waits ends, and a session's late answer is refused.",
    takes=(Taken.PLUGIN,),
    id_meaning="the id that muster gave the message",
    body=StampBody,
    body_example=StampBody(thread="dm-123"),
    says=(
        Says(
            status=200,
            when="The waiting route is settled, or was by an earlier stamp (settled is false).",
            shape=StampedMessage,
            example=StampedMessage(message_id=42, route_id=3, state="owner_answered", settled=True),
        ),
        Says(status=400, when="The body is no thread.", codes=("invalid",)),
        Says(status=404, when="This plugin brought no such message.", codes=("not_found",)),
        Says(
            status=409,
            when="The thread is another one or none, or no route waits. Final: do not retry.",
            shape=StampedMessage,
            codes=("not_waiting",),
        ),
    ),
)

PLUGIN_STAMPS: Routes = (
    Route("POST", "/plugin/v1/messages/{id}/owner-answered", stamp, about=_STAMP),
)
