"""A session's hook tells that its send started a thread of agent mail.

| route                    | does                                         | the hook token too |
|--------------------------|----------------------------------------------|--------------------|
| POST /api/plugin-threads | binds the thread to the session, once        | yes                |

There is nothing here while routing is off.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from muster.routes.operations.threads import BindThread, bind_thread
from web.about import About, Says, Taken
from web.answers import Answer, answer_bare
from web.api.reading import read_json
from web.auth import prove_api
from web.routes import Asked, Route, Routes


class ThreadBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which session started which thread."""

    thread: Annotated[
        str,
        Meta(
            description="The thread as the plugin will post it: 1 to 200 bytes, no spaces.",
            extra_json_schema={"minLength": 1, "maxLength": 200},
        ),
    ]
    claude_session: Annotated[str, Meta(description="The id of the Claude Code session.")]


async def bind(asked: Asked) -> Answer:
    """Bind a thread (plugins: "A reply on a thread a session started")."""
    owner = await prove_api(asked.node, asked.headers, hook=True, write=True)
    body = read_json(asked, ThreadBody)
    command = BindThread(thread=body.thread, claude_session=body.claude_session)
    is_new = await asked.node.db.run(owner, bind_thread, command)
    return answer_bare(201 if is_new else 200)


_BIND = About(
    name="bindThread",
    summary="Bind a thread of agent mail to the session that started it",
    text="A reply on the thread then goes to that session. The first report of a thread stays.",
    takes=(Taken.PERSONAL, Taken.HOOK),
    body=ThreadBody,
    body_example=ThreadBody(thread="t-0001", claude_session="c0ffee00-0000-4000-8000-000000000001"),
    says=(
        Says(status=201, when="Bound.", bodiless=True),
        Says(status=200, when="It was bound before, and nothing changed.", bodiless=True),
        Says(status=400, when="A field breaks a rule.", codes=("invalid",)),
        Says(
            status=409,
            when="No online window shows the session: nothing is bound.",
            codes=("session_offline",),
        ),
    ),
)

PLUGIN_THREADS_API: Routes = (Route("POST", "/api/plugin-threads", bind, about=_BIND),)
