"""`POST /plugin/v1/tasks`: a plugin's notice about a record of its upstream.

The reference is plugins: "one task per upstream record". Checks come in this order: plugins off,
credential, shape, whether namespaces are listed at all (503), whether the key's is one of them.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from muster.tasks.operations.notices import NewTask, PostNotice, post_notice
from web.about import About, Says, Taken
from web.answers import Answer, answer
from web.auth import prove_plugin
from web.bodies import decode, given
from web.routes import Asked, Route, Routes

PATH = "/plugin/v1/tasks"


class NewTaskBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The task to be filed; what is longer is cut between characters, and never refused."""

    title: Annotated[str, Meta(description="Not blank; cut at 512 characters.")]
    body: Annotated[str, Meta(description="Not blank; cut at 16 KiB of UTF-8.")]


class NoticeBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A notice: a new task, a comment that says something, or both."""

    key: Annotated[
        str,
        Meta(
            description="<namespace>:<id>, a tag in its one spelling, in a namespace that the"
            " server lists.",
            extra_json_schema={"minLength": 3, "maxLength": 64},
        ),
    ]
    create: (
        Annotated[
            NewTaskBody, Meta(description="What to file if no open task of yours carries key.")
        ]
        | UnsetType
    ) = UNSET
    comment: (
        Annotated[str, Meta(description="Recorded once; trimmed, and cut at 16 KiB.")] | UnsetType
    ) = UNSET
    route_to_chief: Annotated[
        bool, Meta(description="Hand the notice on; needs a comment and a notice.")
    ] = False
    notice: (
        Annotated[
            str,
            Meta(
                description="What the notice is; only with route_to_chief.",
                extra_json_schema={"enum": ["assigned", "mentioned", "update"]},
            ),
        ]
        | UnsetType
    ) = UNSET


class NoticedTask(msgspec.Struct, frozen=True):
    """The open task of the key, and what the notice added. `routed` stands with route_to_chief."""

    id: int | None
    created: bool
    commented: bool
    routed: Literal[False] | UnsetType = UNSET


async def post_task(asked: Asked) -> Answer:
    """Record a notice on the one open task of its key."""
    principal = await prove_plugin(asked.node, asked.headers)
    body = decode(asked.body, NoticeBody)
    create = given(body.create)
    notice = PostNotice(
        key=body.key,
        create=None if create is None else NewTask(title=create.title, body=create.body),
        comment=given(body.comment),
        route_to_chief=body.route_to_chief,
        notice=given(body.notice),
        namespaces=asked.node.config.task_namespaces,
    )
    noticed = await asked.node.db.run(principal, post_notice, notice)
    told = NoticedTask(
        id=noticed.task_id,
        created=noticed.created,
        commented=noticed.commented,
        routed=False if body.route_to_chief else UNSET,
    )
    return answer(201 if noticed.created else 200, told)


_POST_TASK = About(
    name="postTask",
    summary="File or comment on the task of an upstream's record",
    text="One open task a key. The same notice again finds the task and the comment and adds"
    " neither. A task that is complete, dismissed or merged away does not count.",
    takes=(Taken.PLUGIN,),
    body=NoticeBody,
    body_example=NoticeBody(
        key="tracker:4711",
        create=NewTaskBody(title="Rotate the build key", body="It is two years old."),
        comment="status: open to in progress (upstream message 41)",
    ),
    says=(
        Says(
            status=201,
            when="A task was filed, with the comment.",
            shape=NoticedTask,
            example=NoticedTask(id=7, created=True, commented=True),
        ),
        Says(
            status=200,
            when="An open task carries the key already; or none does and none was to be filed, and"
            " id is null.",
            shape=NoticedTask,
            example=NoticedTask(id=7, created=False, commented=True),
        ),
        Says(status=400, when="A field breaks a rule.", codes=("invalid",)),
        Says(
            status=503,
            when="This server lists no namespaces (MUSTER_PLUGIN_TASK_NAMESPACES); try later.",
            codes=("no_task_namespaces",),
            retry_after=True,
        ),
    ),
)

PLUGIN_TASKS: Routes = (Route("POST", PATH, post_task, about=_POST_TASK),)
