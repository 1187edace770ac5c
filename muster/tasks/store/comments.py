"""The SQL of comments."""

# ruff: noqa: S608 - what is put into the statements is a constant of this module

from typing import Final

from muster.ids import digest
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.tasks.rules import Comment

COLUMNS: Final = "c.id, c.task_id, c.author, c.body, c.created_at, c.retracted_at"

INSERT_COMMENT = Query(f"""
    insert into task_comments as c (owner_id, task_id, author, body, body_sha256, created_at)
    values (%(owner_id)s, %(task_id)s, %(author)s, %(body)s, %(sha256)s, %(now)s)
    returning {COLUMNS}
""")


async def insert(tx: Transaction, task_id: int, body: str) -> Comment:
    """Store a comment in the name of whoever acts."""
    return await tx.one(
        INSERT_COMMENT,
        Comment,
        task_id=task_id,
        author=tx.principal.actor,
        body=body,
        sha256=digest(body),
    )


# The thread of a task is also that of the tasks that were merged into it: what was said there is
# not said again. `union` and not `union all`, though no circle can be made.
HAS_SAID = Query("""
    with recursive family (id) as (
        select %(task_id)s::bigint
        union
        select t.id from tasks t join family f on t.merged_into = f.id
        where t.owner_id = %(owner_id)s
    )
    select exists (
        select from task_comments c join family f on c.task_id = f.id
        where c.author = %(author)s and c.body_sha256 = %(sha256)s
    )
""")


async def has_said(tx: Transaction, task_id: int, body: str) -> bool:
    """Whether whoever acts has said so before, retracted or not; the caller holds the board."""
    said = await tx.scalar(
        HAS_SAID, task_id=task_id, author=tx.principal.actor, sha256=digest(body)
    )
    return said is True


LIST_COMMENTS = Query(f"""
    select {COLUMNS} from task_comments c
    where c.owner_id = %(owner_id)s and c.task_id = %(task_id)s and c.id < %(before_id)s
    order by c.id desc
    limit %(limit)s
""")


async def list_newest(
    tx: Transaction, task_id: int, *, before_id: int, limit: int
) -> list[Comment]:
    """A task's comments, newest first."""
    return await tx.all(LIST_COMMENTS, Comment, task_id=task_id, before_id=before_id, limit=limit)


LOCK_COMMENT = Query(f"""
    select {COLUMNS} from task_comments c
    where c.owner_id = %(owner_id)s and c.task_id = %(task_id)s and c.id = %(comment_id)s
    for no key update
""")


async def lock(tx: Transaction, task_id: int, comment_id: int) -> Comment | None:
    """A task's comment of that id, its row locked."""
    return await tx.find(LOCK_COMMENT, Comment, task_id=task_id, comment_id=comment_id)


RETRACT = Query("""
    update task_comments set retracted_at = %(now)s
    where owner_id = %(owner_id)s and id = %(comment_id)s and retracted_at is null
""")


async def retract(tx: Transaction, comment_id: int) -> None:
    """Hide a comment whose row is locked."""
    await tx.execute(RETRACT, comment_id=comment_id)
