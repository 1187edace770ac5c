"""Verbs of tasks that truly collide: each has its transaction open before any begins."""

from collections.abc import Sequence
from functools import partial

import pytest

from muster.errors import MusterError, Refused
from muster.principals import Owner
from muster.tasks import operations as tasks
from muster.tasks.operations import Edit, Shelf, Status
from muster.tasks.operations.notices import Noticed, post_notice
from tests.support.barrier import collide
from tests.support.builders import make_plugin
from tests.support.cluster import SpiedDatabase
from tests.support.task_desk import KEY, TaskDesk, notice, open_task_desk

ROUNDS = 8


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> TaskDesk:
    """A desk."""
    return await open_task_desk(db, owner)


async def meet(desk: TaskDesk, *operations: tuple[object, object]) -> Sequence[object]:
    """Let them collide; no outcome may be anything but a result or a plain refusal."""
    outcomes = await collide(desk.db, *operations)  # type: ignore[arg-type]
    for outcome in outcomes:
        assert not isinstance(outcome, MusterError) or isinstance(outcome, Refused), outcome
    return outcomes


@pytest.mark.rule(126, 127)
async def test_ten_notices_for_one_key_file_one_task(desk: TaskDesk) -> None:
    """Two plugins race on one key: one task is filed, and each comment stands once."""
    other = await make_plugin(desk.db, desk.owner, "other")
    for number in range(ROUNDS):
        command = notice("said", key=f"tracker:{number}")
        calls = [
            (plugin, partial(post_notice, command=command)) for plugin in (desk.plugin, other) * 5
        ]
        outcomes = await meet(desk, *calls)
        noticed = [each for each in outcomes if isinstance(each, Noticed)]
        assert len(noticed) == 10
        assert sum(each.created for each in noticed) == 1
        assert sum(each.commented for each in noticed) == 2
        (task,) = await desk.board(tag=f"tracker:{number}", shelf=Shelf.ALL)
        assert {each.task_id for each in noticed} == {task.id}
        authors = sorted(each.author for each in await desk.thread(task.id))
        assert authors == ["plugin:other", "plugin:tracker"]


@pytest.mark.rule(126, 129)
async def test_a_notice_against_the_closing(desk: TaskDesk) -> None:
    """A notice that meets the closing of its task goes to it or to a new one, and is never lost."""
    for _ in range(ROUNDS):
        task_id = (await desk.notice()).task_id
        assert task_id is not None
        close = tasks.EditTask(task_id=task_id, edit=Edit(status=Status.COMPLETE))
        calls = [(desk.plugin, partial(post_notice, command=notice("said")))] * 4
        outcomes = await meet(
            desk, *calls, (desk.owner, partial(tasks.edit_task, command=close)), *calls
        )
        noticed = [each for each in outcomes if isinstance(each, Noticed)]
        assert sum(each.created for each in noticed) <= 1
        found = await desk.board(tag=KEY)
        assert len(found) == sum(each.created for each in noticed)
        for each in noticed:
            assert each.task_id == task_id or each.task_id == found[0].id
        for task in found:
            await desk.set_status(task.id, Status.DISMISSED)


@pytest.mark.rule(113, 114, 126)
async def test_a_notice_against_a_merge(desk: TaskDesk) -> None:
    """Notices that meet the merge of their task reach it or its winner; none files a second."""
    for number in range(ROUNDS):
        key = f"tracker:m{number}"
        loser = (await desk.notice(key=key)).task_id
        assert loser is not None
        winner = await desk.task()
        merge = tasks.MergeTask(task_id=loser, into=winner.id)
        command = partial(post_notice, command=notice("said", key=key))
        calls = [(desk.plugin, command)] * 4
        outcomes = await meet(
            desk, *calls, (desk.owner, partial(tasks.merge_task, command=merge)), *calls
        )
        noticed = [each for each in outcomes if isinstance(each, Noticed)]
        assert not any(each.created for each in noticed)
        assert sum(each.commented for each in noticed) == 1
        assert {each.task_id for each in noticed} <= {loser, winner.id}


async def test_merges_of_two_into_each_other(desk: TaskDesk) -> None:
    """Of two tasks that are merged into each other at once one lives on."""
    for _ in range(ROUNDS):
        one, two = await desk.task("a"), await desk.task("b")
        calls = [
            (
                desk.owner,
                partial(
                    tasks.merge_task, command=tasks.MergeTask(task_id=loser.id, into=winner.id)
                ),
            )
            for loser, winner in ((one, two), (two, one)) * 4
        ]
        outcomes = await meet(desk, *calls)
        assert sum(not isinstance(outcome, Refused) for outcome in outcomes) == 1
        rows = [await desk.get(one.id), await desk.get(two.id)]
        (winner,) = [row for row in rows if row.open]
        (loser,) = [row for row in rows if not row.open]
        assert loser.merged_into == winner.id
        assert winner.tags == ("a", "b")


async def test_edits_at_once_lose_no_tag(desk: TaskDesk) -> None:
    """Ten edits that each add a tag leave all ten on the task."""
    made = await desk.task()
    calls = [
        (
            desk.owner,
            partial(
                tasks.edit_task,
                command=tasks.EditTask(task_id=made.id, edit=Edit(add_tags=(f"t{number}",))),
            ),
        )
        for number in range(10)
    ]
    await meet(desk, *calls)
    assert len((await desk.get(made.id)).tags) == 10


async def test_a_comment_is_retracted_once(desk: TaskDesk) -> None:
    """Ten retractions at once leave one audit row."""
    made = await desk.task()
    comment = await desk.comment(made.id, "wrong")
    command = tasks.RetractComment(task_id=made.id, comment_id=comment.id)
    await meet(desk, *[(desk.owner, partial(tasks.retract_comment, command=command))] * 10)
    assert (await desk.actions(made.id)).count("comment_retracted") == 1
