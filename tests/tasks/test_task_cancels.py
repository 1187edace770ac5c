"""Each verb that writes a task, cancelled at every step: it is wholly there or wholly not."""

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio

from actors.testing import cancel_at_every_step
from muster.principals import Owner
from muster.tasks import operations as tasks
from muster.tasks.operations import Shelf, Status
from tests.support.cluster import SpiedDatabase
from tests.support.task_desk import TaskDesk, open_task_desk


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> TaskDesk:
    """A desk."""
    return await open_task_desk(db, owner)


@attrs.frozen(kw_only=True)
class Verb:
    """What is done to a task, the audit row that it leaves, and how one sees that it was done."""

    act: Callable[[TaskDesk, int], Awaitable[object]]
    action: str
    done: Callable[[TaskDesk, int], Awaitable[bool]]


async def _retract_newest(desk: TaskDesk, task_id: int) -> object:
    (comment,) = await desk.thread(task_id)
    return await desk.retract(comment)


async def _is_edited(desk: TaskDesk, task_id: int) -> bool:
    task = await desk.get(task_id)
    done = task.status is Status.COMPLETE
    assert done == ("new" in task.tags) == ("inbox" not in task.tags)
    return done


async def _is_ungated(desk: TaskDesk, task_id: int) -> bool:
    return not (await desk.get(task_id)).gates


async def _is_merged(desk: TaskDesk, task_id: int) -> bool:
    task = await desk.get(task_id)
    done = task.merged_into is not None
    assert done == any(tag.startswith("superseded-by:") for tag in task.tags)
    return done


async def _is_said(desk: TaskDesk, task_id: int) -> bool:
    return len(await desk.thread(task_id)) == 2


async def _is_retracted(desk: TaskDesk, task_id: int) -> bool:
    (comment,) = await desk.thread(task_id)
    return comment.retracted_at is not None


async def _merge(desk: TaskDesk, task_id: int) -> object:
    winner = await desk.task()
    return await desk.merge(task_id, into=winner.id)


VERBS = {
    "edit": Verb(
        act=lambda desk, task_id: desk.edit(
            task_id, status=Status.COMPLETE, add_tags=("new",), remove_tags=("inbox",)
        ),
        action="changed",
        done=_is_edited,
    ),
    "ungate": Verb(
        act=lambda desk, task_id: desk.db.run(
            desk.owner, tasks.ungate_task, tasks.UngateTask(task_id=task_id)
        ),
        action="ungated",
        done=_is_ungated,
    ),
    "merge": Verb(act=_merge, action="merged", done=_is_merged),
    "comment": Verb(
        act=lambda desk, task_id: desk.comment(task_id, "and so"),
        action="commented",
        done=_is_said,
    ),
    "retract": Verb(act=_retract_newest, action="comment_retracted", done=_is_retracted),
}


@pytest.mark.parametrize("name", list(VERBS))
async def test_whole_or_not_at_all(desk: TaskDesk, name: str) -> None:
    """A cancelled verb leaves the row, its tags, its audit row and its hint together or not."""
    verb = VERBS[name]
    task_id = 0

    async def prepare() -> None:
        nonlocal task_id
        task_id = (await desk.task("gate:x", "inbox")).id
        await desk.comment(task_id, "so")
        desk.db.touched.clear()

    async def check(completed: bool) -> None:
        with trio.CancelScope(shield=True):
            done = await verb.done(desk, task_id)
            new = (await desk.actions(task_id))[2:]
            assert new == ([verb.action] if done else [])
            assert done == (task_id in {hint.id for hint in desk.db.touched})
            assert done or not completed
            if done:
                await prepare()

    await prepare()
    assert await cancel_at_every_step(lambda: verb.act(desk, task_id), check) >= 4


async def test_filing_cancelled_anywhere(desk: TaskDesk) -> None:
    """A cancelled filing leaves a task with its tags and its audit row, or nothing."""
    filed = 0

    async def check(completed: bool) -> None:
        nonlocal filed
        with trio.CancelScope(shield=True):
            found = await desk.board(shelf=Shelf.ALL, limit=200)
            assert len(found) - filed in ((1,) if completed else (0, 1))
            for task in found[: len(found) - filed]:
                assert task.tags == ("a", "b")
                assert await desk.actions(task.id) == ["created"]
            filed = len(found)

    assert await cancel_at_every_step(lambda: desk.task("a", "b"), check) >= 4


@pytest.mark.rule(127)
async def test_a_notice_cancelled_anywhere(desk: TaskDesk) -> None:
    """A cancelled notice leaves its task with its comment, or neither, and a resend mends it."""
    number = 0

    async def check(completed: bool) -> None:
        nonlocal number
        with trio.CancelScope(shield=True):
            key = f"tracker:{number}"
            found = await desk.board(tag=key)
            assert len(found) == 1 or not completed
            for task in found:
                assert len(await desk.thread(task.id)) == 1
                assert await desk.actions(task.id) == ["created", "commented"]
            again = await desk.notice("said", key=key)
            assert again.created == (not found)
            assert again.commented == (not found)
            number += 1

    assert (
        await cancel_at_every_step(lambda: desk.notice("said", key=f"tracker:{number}"), check) >= 4
    )
