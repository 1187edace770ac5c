"""Tasks and comments as programs send and get them."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from muster.tasks.operations import Comment, Edit, Shelf, Status, Task
from web.api.reading import ID_MAX
from web.bodies import given
from web.times import write_time

Id = Annotated[int, Meta(ge=1, le=ID_MAX)]
Standing = Literal[
    "unfinished", "all", "open", "in_progress", "ready_for_review", "complete", "dismissed"
]


class TaskQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which tasks to list."""

    status: Standing = "unfinished"
    tag: str | UnsetType = UNSET  # in a query, null would be a word
    text: str = ""
    before: Id | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class CommentQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which comments to list."""

    before: Id | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=200)] = 100


class TaskBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A task to be filed: 512 characters of title, 16 KiB of body, 20 tags."""

    title: str
    body: str = ""
    tags: tuple[str, ...] = ()
    repository: str | UnsetType = UNSET
    model: str | UnsetType = UNSET


class EditBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is to change; an empty repository or model takes it away."""

    title: str | UnsetType = UNSET
    body: str | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    repository: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()

    def edit(self) -> Edit:
        """The command."""
        return Edit(
            title=given(self.title),
            body=given(self.body),
            status=given(self.status),
            repository=given(self.repository),
            model=given(self.model),
            add_tags=self.add_tags,
            remove_tags=self.remove_tags,
        )


class CommentBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A comment: at most 16 KiB of UTF-8."""

    body: str


class RetractBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which comment of the task to show no more."""

    comment_id: Id


class MergeBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The task that lives on."""

    into: Id


class ShownTask(msgspec.Struct, frozen=True):
    """A task. `open` tells whether it waits to be done, `gated` whether anything may start it."""

    id: int
    title: str
    body: str
    status: Status
    open: bool
    gated: bool
    tags: tuple[str, ...]
    repository: str | None
    model: str | None
    message_id: int | None
    merged_into: int | None
    created_by: str
    created_at: str
    updated_at: str
    closed_at: str | None


class ShownTasks(msgspec.Struct, frozen=True):
    """Tasks, newest first; `next_before` is where the next page begins, if this one is full."""

    tasks: list[ShownTask]
    next_before: int | None


class ShownComment(msgspec.Struct, frozen=True):
    """A comment; the text of one that was retracted is null."""

    id: int
    task_id: int
    author: str
    body: str | None
    created_at: str
    retracted_at: str | None


class ShownComments(msgspec.Struct, frozen=True):
    """Comments, newest first; `next_before` is where the next page begins, if this one is full."""

    comments: list[ShownComment]
    next_before: int | None


def standing_of(name: Standing) -> Shelf | Status:
    """What a query names: a status, or a part of the board."""
    return Shelf(name) if name in ("unfinished", "all") else Status(name)


def shown_task(task: Task) -> ShownTask:
    """A task for the wire."""
    return ShownTask(
        id=task.id,
        title=task.title,
        body=task.body,
        status=task.status,
        open=task.open,
        gated=bool(task.gates),
        tags=task.tags,
        repository=task.repository,
        model=task.model,
        message_id=task.message_id,
        merged_into=task.merged_into,
        created_by=task.created_by,
        created_at=write_time(task.created_at),
        updated_at=write_time(task.updated_at),
        closed_at=None if task.closed_at is None else write_time(task.closed_at),
    )


def shown_tasks(tasks: list[Task], limit: int) -> ShownTasks:
    """A page of tasks for the wire."""
    return ShownTasks(
        tasks=[shown_task(task) for task in tasks],
        next_before=tasks[-1].id if len(tasks) == limit else None,
    )


def shown_comment(comment: Comment) -> ShownComment:
    """A comment for the wire."""
    retracted_at = comment.retracted_at
    return ShownComment(
        id=comment.id,
        task_id=comment.task_id,
        author=comment.author,
        body=comment.shown,
        created_at=write_time(comment.created_at),
        retracted_at=None if retracted_at is None else write_time(retracted_at),
    )


def shown_comments(comments: list[Comment], limit: int) -> ShownComments:
    """A page of comments for the wire."""
    return ShownComments(
        comments=[shown_comment(comment) for comment in comments],
        next_before=comments[-1].id if len(comments) == limit else None,
    )


EXAMPLE = ShownTask(
    id=7,
    title="Rotate the build key",
    body="It is two years old.",
    status=Status.OPEN,
    open=True,
    gated=True,
    tags=("gate:needs-owner-ok", "inbox"),
    repository="ada/garden",
    model=None,
    message_id=42,
    merged_into=None,
    created_by="agent:helper",
    created_at="2026-03-01T10:00:00Z",
    updated_at="2026-03-01T10:00:00Z",
    closed_at=None,
)
COMMENT_EXAMPLE = ShownComment(
    id=3,
    task_id=7,
    author="plugin:tracker",
    body="status: open to in progress (upstream message 41)",
    created_at="2026-03-01T10:05:00Z",
    retracted_at=None,
)
