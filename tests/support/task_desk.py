"""A desk with an owner, a plugin and a chief, and the verbs of tasks in short."""

from typing import Any

import attrs

from muster.pg.audit import AuditRow
from muster.principals import Acting, Agent, Owner, Plugin
from muster.tasks import operations as tasks
from muster.tasks.operations import Comment, Edit, Status, Task
from muster.tasks.operations.notices import NewTask, Noticed, PostNotice, post_notice
from tests.support.builders import make_chief, make_plugin, read_audit
from tests.support.cluster import SpiedDatabase

KEY = "tracker:4711"
NAMESPACES = frozenset({"tracker"})
NEW = NewTask(title="Rotate the build key", body="It is old.")


@attrs.frozen(kw_only=True)
class TaskDesk:
    """What most tests of tasks begin with."""

    db: SpiedDatabase
    owner: Owner
    plugin: Plugin
    chief: Agent

    async def task(self, *tags: str, title: str = "Water the garden", **fields: Any) -> Task:
        """A new task of the owner's."""
        command = tasks.CreateTask(title=title, tags=tags, **fields)
        return await self.db.run(self.owner, tasks.create_task, command)

    async def edit(self, task_id: int, **edit: Any) -> Task:
        """The owner changes a task."""
        command = tasks.EditTask(task_id=task_id, edit=Edit(**edit))
        return await self.db.run(self.owner, tasks.edit_task, command)

    async def set_status(self, task_id: int, status: Status) -> Task:
        """The owner moves a task."""
        return await self.edit(task_id, status=status)

    async def merge(self, task_id: int, into: int) -> Task:
        """The owner merges a task into another."""
        command = tasks.MergeTask(task_id=task_id, into=into)
        return await self.db.run(self.owner, tasks.merge_task, command)

    async def comment(self, task_id: int, body: str, by: Acting | None = None) -> Comment:
        """The owner, or another, comments on a task."""
        command = tasks.AddComment(task_id=task_id, body=body)
        return await self.db.run(by or self.owner, tasks.add_comment, command)

    async def retract(self, comment: Comment) -> Comment:
        """The owner retracts a comment."""
        command = tasks.RetractComment(task_id=comment.task_id, comment_id=comment.id)
        return await self.db.run(self.owner, tasks.retract_comment, command)

    async def notice(
        self,
        comment: str | None = None,
        *,
        create: NewTask | None = NEW,
        key: str = KEY,
        plugin: Plugin | None = None,
    ) -> Noticed:
        """The plugin, or another, posts a notice."""
        command = notice(comment, create=create, key=key)
        return await self.db.run(plugin or self.plugin, post_notice, command)

    async def get(self, task_id: int) -> Task:
        """The task as it is stored."""
        return await self.db.run(self.owner, tasks.get_task, task_id)

    async def thread(self, task_id: int) -> list[Comment]:
        """The task's comments, oldest first."""
        command = tasks.ListComments(task_id=task_id)
        return list(reversed(await self.db.run(self.owner, tasks.list_comments, command)))

    async def board(self, **wanted: Any) -> list[Task]:
        """The owner's tasks, newest first."""
        return await self.db.run(self.owner, tasks.list_tasks, tasks.ListTasks(**wanted))

    async def audit(self, task_id: int) -> list[AuditRow]:
        """What was recorded of the task, oldest first."""
        rows = await read_audit(self.db, self.owner, "task.")
        return [row for row in rows if row.subject == f"task:{task_id}"]

    async def actions(self, task_id: int) -> list[str]:
        """What was done to the task, oldest first."""
        return [row.action.removeprefix("task.") for row in await self.audit(task_id)]


def notice(
    comment: str | None = None, *, create: NewTask | None = NEW, key: str = KEY
) -> PostNotice:
    """A notice of the tracker's."""
    return PostNotice(key=key, create=create, comment=comment, namespaces=NAMESPACES)


async def open_task_desk(db: SpiedDatabase, owner: Owner) -> TaskDesk:
    """A desk of this owner's."""
    plugin = await make_plugin(db, owner, "tracker")
    return TaskDesk(db=db, owner=owner, plugin=plugin, chief=await make_chief(db, owner))
