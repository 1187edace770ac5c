"""The SQL of tasks."""

# ruff: noqa: S608 - what is put into the statements is a constant of this module

import re
from collections.abc import Iterable
from typing import Final, assert_never

import attrs

from muster.outcomes import Changed
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.tasks.rules import CreateTask, ListTasks, Shelf, Status, TagCount, Task

ID_MAX: Final = 2**63 - 1

# As the partial index tasks_open_idx has it.
OPEN: Final = """
    t.status in ('open', 'in_progress', 'ready_for_review') and t.merged_into is null
"""
# Everything but the tags, which are rows of their own; the outer select of a listing adds them.
PLAIN: Final = """
    t.id, t.owner_id, t.title, t.body, t.status, t.repository, t.model, t.message_id, t.created_by,
    t.created_at, t.updated_at, t.closed_at, t.merged_into
"""
TAGS: Final = """
    array(select g.tag from task_tags g where g.owner_id = t.owner_id and g.task_id = t.id
          order by g.tag collate "C") as tags
"""
COLUMNS: Final = f"{PLAIN}, {TAGS}"

# An advisory lock, for there is no row that all these writers touch: it is free for one transaction
# of the owner's at a time. Two owners whose hashes are one only wait for each other.
LOCK_BOARD = Query("""
    select pg_advisory_xact_lock(hashtextextended('tasks', %(owner_id)s)) is null
""")


async def lock_board(tx: Transaction) -> None:
    """Wait until nobody else changes the owner's tasks, and keep it so until the commit.

    It comes behind every row lock of the lower rooms, and before those of tasks.
    """
    await tx.scalar(LOCK_BOARD)


INSERT = Query(f"""
    insert into tasks as t
        (owner_id, title, body, status, repository, model, message_id, created_by, created_at,
         updated_at)
    values
        (%(owner_id)s, %(title)s, %(body)s, 'open', %(repository)s, %(model)s, %(message_id)s,
         %(created_by)s, %(now)s, %(now)s)
    returning {PLAIN}, array[]::text[] as tags
""")
ADD_TAGS = Query("""
    insert into task_tags (owner_id, task_id, tag)
    select %(owner_id)s, %(task_id)s, tag from unnest(%(tags)s::text[]) as given (tag)
""")
REMOVE_TAGS = Query("""
    delete from task_tags
    where owner_id = %(owner_id)s and task_id = %(task_id)s and tag = any(%(tags)s::text[])
""")


async def insert(tx: Transaction, command: CreateTask) -> Task:
    """Store a new open task with its tags."""
    task = await tx.one(
        INSERT,
        Task,
        title=command.title,
        body=command.body,
        repository=command.repository,
        model=command.model,
        message_id=command.message_id,
        created_by=tx.principal.actor,
    )
    if command.tags:
        await tx.later(ADD_TAGS, task_id=task.id, tags=list(command.tags))
    return attrs.evolve(task, tags=command.tags)


FIND = Query(
    f"select {COLUMNS} from tasks t where t.owner_id = %(owner_id)s and t.id = %(task_id)s"
)


async def find(tx: Transaction, task_id: int) -> Task | None:
    """The owner's task of that id."""
    return await tx.find(FIND, Task, task_id=task_id)


SAVE = Query("""
    update tasks
    set title = %(title)s, body = %(body)s, status = %(status)s, repository = %(repository)s,
        model = %(model)s, updated_at = %(updated_at)s, closed_at = %(closed_at)s,
        merged_into = %(merged_into)s
    where owner_id = %(owner_id)s and id = %(id)s
""")


async def save(tx: Transaction, before: Task, changed: Changed[Task]) -> Task:
    """Write a decision about a task, whose owner's board is locked, with its tags."""
    row = changed.row
    gone, new = set(before.tags) - set(row.tags), set(row.tags) - set(before.tags)
    if gone:
        await tx.later(REMOVE_TAGS, task_id=row.id, tags=sorted(gone))
    if new:
        await tx.later(ADD_TAGS, task_id=row.id, tags=sorted(new))
    return await tx.save(SAVE, changed)


# By task_tags_tag_idx; what carries the key and is closed is passed by, and that is seldom much.
FIND_BY_KEY = Query(f"""
    select {COLUMNS} from task_tags k
    join tasks t on t.owner_id = k.owner_id and t.id = k.task_id
    where k.owner_id = %(owner_id)s and k.tag = %(key)s and {OPEN}
    order by k.task_id
    limit 1
""")


async def find_open_by_key(tx: Transaction, key: str) -> Task | None:
    """The owner's oldest open task with this tag; the caller holds the board."""
    return await tx.find(FIND_BY_KEY, Task, key=key)


LIST_LOSERS = Query("""
    select t.id from tasks t
    where t.owner_id = %(owner_id)s and t.merged_into = %(task_id)s
    order by t.id
    limit %(limit)s
""")


@attrs.frozen(kw_only=True)
class TaskId:
    """A task by its id alone."""

    id: int


async def list_losers(tx: Transaction, task_id: int, *, limit: int) -> list[int]:
    """The tasks that were merged straight into this one, oldest first."""
    found = await tx.all(LIST_LOSERS, TaskId, task_id=task_id, limit=limit)
    return [row.id for row in found]


# A listing walks an index newest first, and looks for words in SEARCHED_MAX tasks at most: no index
# serves a text that may stand anywhere.
SEARCHED_MAX: Final = 5000
_LISTED: Final = f"""
    select {COLUMNS} from (
        {{chosen}}
        order by t.id desc
        limit %(searched)s
    ) t
    where t.title ilike %(pattern)s or t.body ilike %(pattern)s
    order by t.id desc
    limit %(limit)s
"""
_ALL: Final = "select t.* from tasks t where t.owner_id = %(owner_id)s and t.id < %(before_id)s"
_TAGGED: Final = """select t.* from task_tags k
        join tasks t on t.owner_id = k.owner_id and t.id = k.task_id
        where k.owner_id = %(owner_id)s and k.tag = %(tag)s and k.task_id < %(before_id)s"""
_AND_OPEN: Final = f" and {OPEN}"
_AND_STATUS: Final = " and t.status = %(status)s and t.merged_into is null"

LIST_ALL = Query(_LISTED.format(chosen=_ALL))
LIST_OPEN = Query(_LISTED.format(chosen=_ALL + _AND_OPEN))
LIST_STATUS = Query(_LISTED.format(chosen=_ALL + _AND_STATUS))
LIST_TAGGED = Query(_LISTED.format(chosen=_TAGGED))
LIST_TAGGED_OPEN = Query(_LISTED.format(chosen=_TAGGED + _AND_OPEN))
LIST_TAGGED_STATUS = Query(_LISTED.format(chosen=_TAGGED + _AND_STATUS))


async def list_newest(tx: Transaction, command: ListTasks) -> list[Task]:
    """The owner's tasks, newest first."""
    params: dict[str, object] = {
        "before_id": ID_MAX if command.before_id is None else command.before_id,
        "pattern": f"%{_escape(command.text)}%",
        "searched": SEARCHED_MAX if command.text else command.limit,
        "limit": command.limit,
    }
    if command.tag is not None:
        params["tag"] = command.tag
    match command.shelf:
        case Shelf.ALL:
            query = LIST_ALL if command.tag is None else LIST_TAGGED
        case Shelf.OPEN:
            query = LIST_OPEN if command.tag is None else LIST_TAGGED_OPEN
        case Status():
            query = LIST_STATUS if command.tag is None else LIST_TAGGED_STATUS
            params["status"] = command.shelf
        case _:
            assert_never(command.shelf)
    return await tx.all(query, Task, **params)


def _escape(text: str) -> str:
    """A text as a pattern that stands for itself."""
    return re.sub(r"([\\%_])", r"\\\1", text)


# Of the newest open tasks, so that a board of any size is looked over at once.
COUNTED_MAX: Final = 500
COUNT_TAGS = Query(f"""
    select g.tag, count(*) as tasks from (
        select t.owner_id, t.id from tasks t
        where t.owner_id = %(owner_id)s and {OPEN}
        order by t.id desc
        limit %(counted)s
    ) newest
    join task_tags g on g.owner_id = newest.owner_id and g.task_id = newest.id
    where not (strpos(g.tag, ':') > 0 and split_part(g.tag, ':', 1) = any(%(hidden)s::text[]))
    group by g.tag
    order by count(*) desc, g.tag collate "C"
    limit %(limit)s
""")


async def count_tags(tx: Transaction, hidden: Iterable[str], limit: int) -> list[TagCount]:
    """The tags of the owner's open tasks, the commonest first, without some namespaces."""
    return await tx.all(
        COUNT_TAGS, TagCount, hidden=sorted(hidden), counted=COUNTED_MAX, limit=limit
    )
