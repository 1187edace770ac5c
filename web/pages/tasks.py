"""`/tasks`: the board, and each task with all that can be done to it."""

from quart import Blueprint
from quart.typing import ResponseReturnValue

from muster.errors import Invalid
from muster.names import normalise_tag
from muster.tasks import operations as tasks
from muster.tasks.operations import Edit, Shelf, Status
from muster.tasks.operations.board import LookAtBoard, LookAtTask, look_at_board, look_at_task
from web.pages.reading import find_id, read_id, read_word
from web.pages.visits import Visit, go_to, show, signed_in

TASKS = Blueprint("tasks", __name__)
_STANDINGS: dict[str, Shelf | Status] = {
    **{shelf.value: shelf for shelf in Shelf},
    **{status.value: status for status in Status},
}


@signed_in(TASKS, "GET", "/tasks")
async def board(visit: Visit) -> ResponseReturnValue:
    """The tasks, newest first; those that wait to be done, unless something else is chosen."""
    tag = read_word(visit.args, "tag")
    wanted = tasks.ListTasks(
        shelf=_STANDINGS.get(visit.args.get("status", ""), Shelf.OPEN),
        tag=None if tag is None else normalise_tag(tag, field="tag"),
        text=visit.args.get("text", "").strip(),
        before_id=find_id(visit.args.get("before")),
    )
    command = LookAtBoard(wanted=wanted, hidden=visit.node.config.task_namespaces)
    page = await visit.node.db.run(visit.owner, look_at_board, command)
    return await show("tasks/list.html", page=page, chosen=wanted, statuses=list(Status))


@signed_in(TASKS, "GET", "/tasks/new")
async def new(_visit: Visit) -> ResponseReturnValue:
    """The form for a task of one's own."""
    return await show("tasks/new.html")


@signed_in(TASKS, "POST", "/tasks", page="/tasks/new")
async def create(visit: Visit) -> ResponseReturnValue:
    """File a task."""
    command = tasks.CreateTask(
        title=visit.form.get("title", "").strip(),
        body=_read_text(visit, "body"),
        tags=_read_tags(visit, "tags"),
        repository=read_word(visit.form, "repository"),
    )
    task = await visit.node.db.run(visit.owner, tasks.create_task, command)
    return go_to(f"/tasks/{task.id}")


@signed_in(TASKS, "GET", "/tasks/<task_id>")
async def task(visit: Visit, task_id: str) -> ResponseReturnValue:
    """One task with its thread."""
    before = find_id(visit.args.get("before"))
    command = LookAtTask(task_id=read_id(task_id), before_id=before)
    page = await visit.node.db.run(visit.owner, look_at_task, command)
    return await show(
        "tasks/task.html", page=page, task=page.task, before=before, statuses=list(Status)
    )


@signed_in(TASKS, "POST", "/tasks/<task_id>/edit", page="/tasks/<task_id>")
async def edit(visit: Visit, task_id: str) -> ResponseReturnValue:
    """Write another title, text, repository or model."""
    changed = Edit(
        title=visit.form.get("title", "").strip(),
        body=_read_text(visit, "body"),
        repository=visit.form.get("repository", "").strip(),
        model=visit.form.get("model", "").strip(),
    )
    return await _edit(visit, task_id, changed)


@signed_in(TASKS, "POST", "/tasks/<task_id>/status", page="/tasks/<task_id>")
async def set_status(visit: Visit, task_id: str) -> ResponseReturnValue:
    """Say how far the work is."""
    status = _STANDINGS.get(visit.form.get("status", ""))
    if not isinstance(status, Status):
        raise Invalid("The form does not say which status.", field="status")
    return await _edit(visit, task_id, Edit(status=status))


@signed_in(TASKS, "POST", "/tasks/<task_id>/tags", page="/tasks/<task_id>")
async def set_tags(visit: Visit, task_id: str) -> ResponseReturnValue:
    """Add tags, or take some away."""
    changed = Edit(add_tags=_read_tags(visit, "add"), remove_tags=_read_tags(visit, "remove"))
    return await _edit(visit, task_id, changed)


@signed_in(TASKS, "POST", "/tasks/<task_id>/ungate", page="/tasks/<task_id>")
async def ungate(visit: Visit, task_id: str) -> ResponseReturnValue:
    """Take the gate away, so that work may begin."""
    command = tasks.UngateTask(task_id=read_id(task_id))
    await visit.node.db.run(visit.owner, tasks.ungate_task, command)
    return go_to(f"/tasks/{task_id}")


@signed_in(TASKS, "POST", "/tasks/<task_id>/merge", page="/tasks/<task_id>")
async def merge(visit: Visit, task_id: str) -> ResponseReturnValue:
    """Merge it into another task, and go there."""
    into = find_id(visit.form.get("into", "").strip().removeprefix("#"))
    if into is None:
        raise Invalid("Say the number of the task that lives on.", field="into")
    command = tasks.MergeTask(task_id=read_id(task_id), into=into)
    await visit.node.db.run(visit.owner, tasks.merge_task, command)
    return go_to(f"/tasks/{into}")


@signed_in(TASKS, "POST", "/tasks/<task_id>/comments", page="/tasks/<task_id>")
async def comment(visit: Visit, task_id: str) -> ResponseReturnValue:
    """Say something about it."""
    command = tasks.AddComment(task_id=read_id(task_id), body=_read_text(visit, "body").strip())
    said = await visit.node.db.run(visit.owner, tasks.add_comment, command)
    return go_to(f"/tasks/{task_id}#comment-{said.id}")


@signed_in(TASKS, "POST", "/tasks/<task_id>/comments/<comment_id>/retract", page="/tasks/<task_id>")
async def retract(visit: Visit, task_id: str, comment_id: str) -> ResponseReturnValue:
    """Show a comment no more."""
    command = tasks.RetractComment(task_id=read_id(task_id), comment_id=read_id(comment_id))
    await visit.node.db.run(visit.owner, tasks.retract_comment, command)
    return go_to(f"/tasks/{task_id}#comment-{comment_id}")


async def _edit(visit: Visit, task_id: str, changed: Edit) -> ResponseReturnValue:
    command = tasks.EditTask(task_id=read_id(task_id), edit=changed)
    await visit.node.db.run(visit.owner, tasks.edit_task, command)
    return go_to(f"/tasks/{task_id}")


def _read_text(visit: Visit, name: str) -> str:
    """A text of several lines; browsers send each line's end as two characters."""
    return visit.form.get(name, "").replace("\r\n", "\n")


def _read_tags(visit: Visit, name: str) -> tuple[str, ...]:
    return tuple(part for part in visit.form.get(name, "").split(",") if part.strip())
