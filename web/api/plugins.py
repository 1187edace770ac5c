"""What the owner's own programs may do about messages of plugins.

| route                               | does                               | the hook token too |
|-------------------------------------|------------------------------------|--------------------|
| POST /api/plugins/messages/ID/retry | has an unconfirmed one handed over | yes                |

There is nothing here while plugins are off.
"""

from typing import Literal

import msgspec

from muster.chief.operations.retry import RetryMessage, retry_message
from web.about import About, Says, Taken
from web.answers import Answer, answer
from web.api.reading import read_id
from web.auth import prove_api
from web.routes import Asked, Route, Routes


class RetriedMessage(msgspec.Struct, frozen=True):
    """A message that waits for the chief again, and how often it was sent back to the queue.

    Named as the reference names what an owner's own program is told of a message
    (plugins: "When the owner answers it directly"), and as `muster messages` does.
    """

    message_id: int
    state: Literal["queued"]
    retries: int


async def retry(asked: Asked) -> Answer:
    """Hand an unconfirmed message to the chief again (plugins: "Retrying an unconfirmed …")."""
    owner = await prove_api(asked.node, asked.headers, hook=True, write=True)
    command = RetryMessage(message_id=read_id(asked, "message"))
    message = await asked.node.db.run(owner, retry_message, command)
    retried = RetriedMessage(message_id=message.id, state="queued", retries=message.retries)
    return answer(200, retried)


_RETRY = About(
    name="retryMessage",
    summary="Have an unconfirmed message handed to the chief again",
    text="The chief's turn says that an earlier one was cut off and may have acted already. A"
    " repeat of this call is refused: the message is queued then.",
    takes=(Taken.PERSONAL, Taken.HOOK),
    id_meaning="the id of a message",
    says=(
        Says(
            status=200,
            when="It waits in the queue.",
            shape=RetriedMessage,
            example=RetriedMessage(message_id=42, state="queued", retries=1),
        ),
        Says(status=404, when="There is no such message of yours.", codes=("not_found",)),
        Says(
            status=409,
            when="It is not unconfirmed, the chief acted on it already, its plugin is revoked, or"
            " there is no chief. Nothing was changed.",
            codes=(
                "message_state",
                "reply_exists",
                "task_exists",
                "route_exists",
                "plugin_revoked",
                "no_chief",
            ),
        ),
    ),
)

PLUGINS_API: Routes = (Route("POST", "/api/plugins/messages/{id}/retry", retry, about=_RETRY),)
