"""The board and a task's page, each as one look."""

from datetime import datetime
from typing import Final

import attrs

from muster.pg.database import Transaction
from muster.tasks import store
from muster.tasks.operations import (
    CountTags,
    ListComments,
    ListTasks,
    count_tags,
    get_task,
    list_comments,
    list_tasks,
)
from muster.tasks.rules import Comment, TagCount, Task

BOARD_ROWS: Final = 50
THREAD_ROWS: Final = 100


@attrs.frozen(kw_only=True)
class LookAtBoard:
    """Which tasks, and which namespaces the row of tags leaves out: those of plugins' records."""

    wanted: ListTasks
    hidden: frozenset[str]


@attrs.frozen(kw_only=True)
class Board:
    """A page of tasks, newest first; `older_than` asks for the next one."""

    tasks: list[Task]
    tags: list[TagCount]
    older_than: int | None
    now: datetime


@attrs.frozen(kw_only=True)
class LookAtTask:
    """A task with its comments: the newest, or those below `before_id`."""

    task_id: int
    before_id: int | None = None


@attrs.frozen(kw_only=True)
class TaskPage:
    """A task, its thread (oldest first) and what was merged into it (at most 50)."""

    task: Task
    comments: list[Comment]
    older_than: int | None
    losers: list[int]


async def look_at_board(tx: Transaction, command: LookAtBoard) -> Board:
    """A page of the board."""
    found = await list_tasks(tx, attrs.evolve(command.wanted, limit=BOARD_ROWS + 1))
    return Board(
        tasks=found[:BOARD_ROWS],
        tags=await count_tags(tx, CountTags(hidden=command.hidden)),
        older_than=found[BOARD_ROWS - 1].id if len(found) > BOARD_ROWS else None,
        now=tx.now,
    )


async def look_at_task(tx: Transaction, command: LookAtTask) -> TaskPage:
    """A task's page; raises NotFound."""
    task = await get_task(tx, command.task_id)
    listing = ListComments(task_id=task.id, before_id=command.before_id, limit=THREAD_ROWS + 1)
    thread = await list_comments(tx, listing)
    return TaskPage(
        task=task,
        comments=list(reversed(thread[:THREAD_ROWS])),
        older_than=thread[THREAD_ROWS - 1].id if len(thread) > THREAD_ROWS else None,
        losers=await store.list_losers(tx, task.id, limit=BOARD_ROWS),
    )
