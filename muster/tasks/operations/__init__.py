"""The verbs of tasks (plugins: "one task per upstream record", "When a message asks for work").

Every verb that writes takes the owner's board before it looks, behind the rows of lower rooms that
it needs: so one transaction of an owner changes tasks at a time, and each decides about what is.
"""

import attrs

from muster.errors import Invalid, NotFound, Refused
from muster.ids import is_row_id
from muster.outcomes import Changed, Fact
from muster.pg.database import Transaction
from muster.tasks import store
from muster.tasks.rules import (
    Comment,
    CreateTask,
    Edit,
    ListTasks,
    Lose,
    Shelf,
    Status,
    TagCount,
    Task,
    Ungate,
    Win,
    check_comment,
    check_create,
    check_edit,
    created,
    decide,
    subject,
)
from muster.tasks.store import comments

__all__ = [
    "AddComment",
    "Comment",
    "CountTags",
    "CreateTask",
    "Edit",
    "EditTask",
    "ListComments",
    "ListTasks",
    "MergeTask",
    "RetractComment",
    "Shelf",
    "Status",
    "TagCount",
    "Task",
    "UngateTask",
    "add_comment",
    "count_tags",
    "create_task",
    "edit_task",
    "get_task",
    "list_comments",
    "list_tasks",
    "merge_task",
    "record_comment",
    "retract_comment",
    "ungate_task",
]

LISTED_MAX = 200
TAGS_COUNTED_MAX = 40


@attrs.frozen(kw_only=True)
class EditTask:
    """Change one task."""

    task_id: int
    edit: Edit


@attrs.frozen(kw_only=True)
class UngateTask:
    """Take every gate from one task."""

    task_id: int


@attrs.frozen(kw_only=True)
class MergeTask:
    """The task is the same as the task `into`, which lives on."""

    task_id: int
    into: int


@attrs.frozen(kw_only=True)
class AddComment:
    """Say something about a task. Leaves `task.commented`."""

    task_id: int
    body: str


@attrs.frozen(kw_only=True)
class RetractComment:
    """Show a comment no more. Leaves `task.comment_retracted`."""

    task_id: int
    comment_id: int


@attrs.frozen(kw_only=True)
class ListComments:
    """Which comments of a task to list, newest first: those below `before_id`, at most 200."""

    task_id: int
    before_id: int | None = None
    limit: int = 100


@attrs.frozen(kw_only=True)
class CountTags:
    """Which tags are in use on open tasks; `hidden` are namespaces to leave out."""

    hidden: frozenset[str] = frozenset()


async def create_task(tx: Transaction, command: CreateTask) -> Task:
    """File an open task, in the name of whoever acts. Raises Invalid for a field.

    A message that it cites must be the owner's; that is for the caller to see.
    """
    checked = check_create(command)
    await store.lock_board(tx)
    task = await store.insert(tx, checked)
    await tx.record(created(task))
    return task


async def edit_task(tx: Transaction, command: EditTask) -> Task:
    """Change what the command names. Raises Invalid, NotFound, and Refused for a merged task."""
    edit = check_edit(command.edit)
    await store.lock_board(tx)
    return await _apply(tx, await get_task(tx, command.task_id), edit)


async def ungate_task(tx: Transaction, command: UngateTask) -> Task:
    """Let work begin on a task: every `gate:` tag goes. Raises NotFound and Refused."""
    await store.lock_board(tx)
    return await _apply(tx, await get_task(tx, command.task_id), Ungate())


async def merge_task(tx: Transaction, command: MergeTask) -> Task:
    """Merge one task into another; answers the winner, which carries the tags of both.

    Raises NotFound for either, and Refused when one lost a merge before, when they are the same,
    and when the winner would have more than 20 tags: nothing is changed then.
    """
    await store.lock_board(tx)
    loser = await get_task(tx, command.task_id)
    winner = await get_task(tx, command.into)
    await _apply(tx, loser, Lose(winner=winner))
    return await _apply(tx, winner, Win(loser=loser))


async def add_comment(tx: Transaction, command: AddComment) -> Comment:
    """Say something about a task, in the name of whoever acts. Raises Invalid and NotFound."""
    check_comment(command.body)
    await store.lock_board(tx)
    task = await get_task(tx, command.task_id)
    return await record_comment(tx, task, command.body)


async def retract_comment(tx: Transaction, command: RetractComment) -> Comment:
    """Show a comment no more; its text is kept, so that a plugin does not bring it back.

    Raises NotFound. One that is retracted already stays as it is.
    """
    found = await comments.lock(tx, command.task_id, command.comment_id)
    if found is None:
        raise NotFound(f"Task {command.task_id} has no comment {command.comment_id}.")
    if found.retracted_at is not None:
        return found
    await comments.retract(tx, found.id)
    await tx.record(
        Fact(
            action="task.comment_retracted",
            subject=subject(found.task_id),
            data={"comment": found.id, "author": found.author},
        )
    )
    return attrs.evolve(found, retracted_at=tx.now)


async def record_comment(tx: Transaction, task: Task, body: str) -> Comment:
    """Write a checked comment on a task of a board that is locked."""
    comment = await comments.insert(tx, task.id, body)
    data = {"comment": comment.id}
    await tx.record(Fact(action="task.commented", subject=subject(task.id), data=data))
    return comment


async def get_task(tx: Transaction, task_id: int) -> Task:
    """The owner's task; raises NotFound for none and for somebody else's."""
    task = await store.find(tx, task_id) if is_row_id(task_id) else None
    if task is None:
        raise NotFound(f"There is no task {task_id}.")
    return task


async def list_tasks(tx: Transaction, command: ListTasks) -> list[Task]:
    """The owner's tasks, newest first. Raises Invalid for a text that nothing can hold."""
    if "\0" in command.text:
        raise Invalid("The text must not contain a NUL character.", field="text")
    limit = max(0, min(command.limit, LISTED_MAX))
    return await store.list_newest(tx, attrs.evolve(command, limit=limit))


async def list_comments(tx: Transaction, command: ListComments) -> list[Comment]:
    """A task's comments, newest first; raises NotFound for the task."""
    await get_task(tx, command.task_id)
    return await comments.list_newest(
        tx,
        command.task_id,
        before_id=store.ID_MAX if command.before_id is None else command.before_id,
        limit=max(0, min(command.limit, LISTED_MAX)),
    )


async def count_tags(tx: Transaction, command: CountTags) -> list[TagCount]:
    """The commonest 40 tags of the owner's open tasks."""
    return await store.count_tags(tx, command.hidden, TAGS_COUNTED_MAX)


async def _apply(tx: Transaction, task: Task, command: Edit | Ungate | Lose | Win) -> Task:
    outcome = decide(task, command, tx.now)
    if isinstance(outcome, Refused):
        raise outcome
    if isinstance(outcome, Changed):
        return await store.save(tx, task, outcome)
    return outcome.row
