"""`muster tasks`: the owner's tasks, and one whole."""

from typing import TYPE_CHECKING

import attrs
import click

from muster.commands.options import Id, json_option, limit_option, owner_option
from muster.commands.output import (
    age,
    local,
    print_heading,
    print_json,
    print_pairs,
    print_quoted,
    print_table,
    shown,
    utc,
)
from muster.commands.session import in_store
from muster.names import normalise_tag
from muster.tasks.rules import ListTasks, Shelf, Status

if TYPE_CHECKING:
    from datetime import datetime

    from muster.pg.database import Transaction
    from muster.tasks.operations import Comment, Task
    from muster.tasks.operations.board import TaskPage

_TASK_ID = Id("task")
_STANDINGS: dict[str, Shelf | Status] = {
    **{shelf.value: shelf for shelf in Shelf},
    **{status.value: status for status in Status},
}


@attrs.frozen(kw_only=True)
class Listing:
    """Tasks, and the time of the look."""

    tasks: "list[Task]"
    now: "datetime"


@click.group()
def tasks() -> None:
    """Look at what is to be done.

    A gated task waits for you: nothing starts work on it before you remove its gate.
    """


@tasks.command("list")
@owner_option
@click.option(
    "--status",
    type=click.Choice(list(_STANDINGS)),
    default=Shelf.OPEN.value,
    show_default=True,
    help="Only these.",
)
@click.option("--tag", metavar="TAG", help="Only those with this tag, in any spelling.")
@click.option("--text", metavar="WORDS", default="", help="Only those that say this.")
@limit_option
@json_option
def list_(
    owner: str | None, status: str, tag: str | None, text: str, limit: int, *, as_json: bool
) -> None:
    """List tasks, newest first; those that are not finished, unless --status says else.

    A narrow terminal has no room for Tags, then for Age; --json tells all.
    """
    command = ListTasks(
        shelf=_STANDINGS[status],
        tag=None if tag is None else normalise_tag(tag, field="tag"),
        text=text,
        limit=limit,
    )
    listing = in_store(lambda store: store.run_as(owner, _list, command))
    if as_json:
        print_json([_document(task) for task in listing.tasks])
        return
    print_table(
        ("ID", "Age", "Title", "Status", "Tags"),
        [
            (
                str(task.id),
                age(task.created_at, listing.now),
                shown(task.title),
                _standing(task),
                " ".join(task.tags),
            )
            for task in listing.tasks
        ],
        empty="There is no such task.",
        spare=("Tags", "Age"),
    )


@tasks.command()
@click.argument("task_id", metavar="ID", type=_TASK_ID)
@owner_option
@json_option
def show(task_id: int, owner: str | None, *, as_json: bool) -> None:
    """Show one task with its newest comments."""
    page = in_store(lambda store: store.run_as(owner, _get, task_id))
    task = page.task
    if as_json:
        comments = [_comment(comment) for comment in page.comments]
        print_json(_document(task) | {"body": task.body, "comments": comments})
        return
    print_heading(f"Task {task.id}: {shown(task.title)}")
    pairs = [("Status", _standing(task)), ("Tags", " ".join(task.tags) or "-")]
    if task.message_id is not None:
        pairs.append(("Cites", f"message {task.message_id}"))
    pairs += [("Repository", shown(task.repository)), ("Model", shown(task.model))]
    pairs.append(("Filed", f"{local(task.created_at)} by {shown(task.created_by)}"))
    print_pairs(pairs)
    print_quoted(task.body)
    if page.older_than is not None:
        click.echo("Older comments are left out.", err=True)
    for comment in page.comments:
        print_heading(f"{shown(comment.author)}, {local(comment.created_at)}")
        print_quoted("(retracted)" if comment.shown is None else comment.shown)


async def _list(tx: "Transaction", command: ListTasks) -> Listing:
    from muster.tasks.operations import list_tasks

    found = await list_tasks(tx, command)
    return Listing(tasks=found, now=tx.now)


async def _get(tx: "Transaction", task_id: int) -> "TaskPage":
    from muster.tasks.operations.board import LookAtTask, look_at_task

    return await look_at_task(tx, LookAtTask(task_id=task_id))


def _standing(task: "Task") -> str:
    if task.merged_into is not None:
        return f"merged into {task.merged_into}"
    return f"{task.status.value}, gated" if task.gates else task.status.value


def _document(task: "Task") -> dict[str, object]:
    """A task for programs, all but its body."""
    return {
        "task_id": task.id,
        "title": task.title,
        "status": task.status.value,
        "open": task.open,
        "gated": bool(task.gates),
        "tags": list(task.tags),
        "repository": task.repository,
        "model": task.model,
        "message_id": task.message_id,
        "merged_into": task.merged_into,
        "created_by": task.created_by,
        "created_at": utc(task.created_at),
        "updated_at": utc(task.updated_at),
        "closed_at": utc(task.closed_at),
    }


def _comment(comment: "Comment") -> dict[str, object]:
    return {
        "comment_id": comment.id,
        "author": comment.author,
        "body": comment.shown,
        "created_at": utc(comment.created_at),
        "retracted_at": utc(comment.retracted_at),
    }
