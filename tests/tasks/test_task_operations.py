"""The verbs of tasks on real rows: filing, changing, merging, commenting, listing."""

import attrs
import pytest

from muster.errors import Invalid, NotFound, Refused
from muster.outcomes import HintKind
from muster.principals import Owner
from muster.tasks import operations as tasks
from muster.tasks.operations import Shelf, Status
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.task_desk import TaskDesk, open_task_desk


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> TaskDesk:
    """A desk."""
    return await open_task_desk(db, owner)


async def test_a_task_is_filed_open_and_as_it_was_given(desk: TaskDesk) -> None:
    """Each field reaches the row, the tags in their one spelling, and the filing is told."""
    desk.db.touched.clear()
    made = await desk.task(
        "In Box", "gate:x", title="Dig", body="Deep.", repository="ada/garden", model="large"
    )
    stored = await desk.get(made.id)
    assert stored == made
    assert (stored.title, stored.body, stored.status) == ("Dig", "Deep.", Status.OPEN)
    assert (stored.repository, stored.model) == ("ada/garden", "large")
    assert stored.tags == ("gate:x", "in-box")
    assert stored.created_by == "owner"
    assert stored.created_at == stored.updated_at
    (row,) = await desk.audit(made.id)
    assert (row.action, row.data) == (
        "task.created",
        {"tags": ["gate:x", "in-box"], "gated": True},
    )
    assert {(hint.kind, hint.id) for hint in desk.db.touched} == {(HintKind.TASK_CHANGED, made.id)}


async def test_an_edit_is_stored_and_told_once(desk: TaskDesk) -> None:
    """A change reaches the row and its tags; what is so already leaves no audit row."""
    made = await desk.task("a", "b")
    edited = await desk.edit(
        made.id, title="New", status=Status.IN_PROGRESS, add_tags=("c", "A"), remove_tags=("b",)
    )
    assert edited == await desk.get(made.id)
    assert (edited.tags, edited.status, edited.title) == (("a", "c"), Status.IN_PROGRESS, "New")
    assert await desk.edit(made.id, title="New", add_tags=("a",)) == edited
    assert await desk.actions(made.id) == ["created", "changed"]


@pytest.mark.rule(243)
async def test_a_gate_is_there_until_it_is_taken(desk: TaskDesk) -> None:
    """Ungating removes the gate's tags from the row, and the audit log names it."""
    made = await desk.task("gate:x", "inbox")
    ungated = await desk.db.run(desk.owner, tasks.ungate_task, tasks.UngateTask(task_id=made.id))
    assert (ungated.tags, ungated.gates) == (("inbox",), ())
    assert await desk.get(made.id) == ungated
    assert await desk.actions(made.id) == ["created", "ungated"]


@pytest.mark.rule(114)
async def test_a_merge_writes_both_tasks(desk: TaskDesk) -> None:
    """The loser is superseded by the winner, which carries the tags of both; both are told."""
    loser, winner = await desk.task("tracker:1", "x"), await desk.task("tracker:2", "x")
    merged = await desk.merge(loser.id, into=winner.id)
    assert merged == await desk.get(winner.id)
    assert merged.tags == ("tracker:1", "tracker:2", "x")
    lost = await desk.get(loser.id)
    assert lost.merged_into == winner.id
    assert lost.tags == (f"superseded-by:{winner.id}", "tracker:1", "x")
    for task_id in (loser.id, winner.id):
        assert await desk.actions(task_id) == ["created", "merged"]


async def test_a_merge_that_is_refused_changes_neither(desk: TaskDesk) -> None:
    """Circles, a merge with itself, with a stranger's or with too many tags leave both as is."""
    one, two = await desk.task("a"), await desk.task(*(f"t{n}" for n in range(20)))
    for loser, winner, code in (
        (one.id, one.id, "merge_self"),
        (one.id, two.id, "too_many_tags"),
    ):
        with pytest.raises(Refused) as caught:
            await desk.merge(loser, into=winner)
        assert caught.value.code == code
    stranger = await open_task_desk(desk.db, await add_owner(desk.db))
    theirs = await stranger.task()
    for loser, winner in ((one.id, theirs.id), (theirs.id, one.id)):
        with pytest.raises(NotFound):
            await desk.merge(loser, into=winner)
    third = await desk.task("b")
    await desk.merge(one.id, into=third.id)
    with pytest.raises(Refused) as caught:
        await desk.merge(third.id, into=one.id)
    assert caught.value.code == "task_merged"
    assert await desk.get(two.id) == two
    assert (await desk.get(third.id)).merged_into is None


async def test_comments_have_an_author_and_can_be_retracted(desk: TaskDesk) -> None:
    """A thread shows who said what; a retracted text is shown no more and kept."""
    made = await desk.task()
    first = await desk.comment(made.id, "Which garden?")
    second = await desk.comment(made.id, "The one behind.", by=desk.chief)
    retracted = await desk.retract(first)
    assert await desk.retract(first) == retracted
    thread = await desk.thread(made.id)
    assert [each.author for each in thread] == ["owner", f"agent:{desk.chief.name}"]
    assert [each.shown for each in thread] == [None, "The one behind."]
    assert thread == [retracted, second]
    assert thread[0].body == "Which garden?"
    assert await desk.actions(made.id) == [
        "created",
        "commented",
        "commented",
        "comment_retracted",
    ]
    other = await desk.task()
    with pytest.raises(NotFound):
        await desk.retract(attrs.evolve(second, task_id=other.id))
    with pytest.raises(Invalid):
        await desk.comment(made.id, " ")


async def test_another_owner_finds_nothing(desk: TaskDesk) -> None:
    """Every verb finds no task of somebody else's, and an id out of range is none."""
    made = await desk.task("mine")
    stranger = await open_task_desk(desk.db, await add_owner(desk.db))
    assert await stranger.board(shelf=Shelf.ALL) == []
    assert await stranger.board(tag="mine") == []
    for task_id in (made.id, 0, -1, 2**63, 2**100):
        with pytest.raises(NotFound):
            await stranger.get(task_id)
        with pytest.raises(NotFound):
            await stranger.edit(task_id, title="x")
        with pytest.raises(NotFound):
            await stranger.comment(task_id, "x")
        with pytest.raises(NotFound):
            await stranger.thread(task_id)


async def test_the_board_is_listed_by_shelf_tag_and_text(desk: TaskDesk) -> None:
    """Each filter, and each two of them, list what fits, newest first."""
    wet = await desk.task("garden", title="Water 100% of it")
    dry = await desk.task("garden", title="Mulch", body="against WATER loss")
    shed = await desk.task("shed", title="Paint")
    lost = await desk.task("shed", title="Paint again")
    await desk.set_status(dry.id, Status.COMPLETE)
    await desk.merge(lost.id, into=shed.id)

    async def ids(**wanted: object) -> list[int]:
        return [task.id for task in await desk.board(**wanted)]

    assert await ids() == [shed.id, wet.id]
    assert await ids(shelf=Shelf.ALL) == [lost.id, shed.id, dry.id, wet.id]
    assert await ids(shelf=Status.OPEN) == [shed.id, wet.id]
    assert await ids(shelf=Status.COMPLETE) == [dry.id]
    assert await ids(tag="garden") == [wet.id]
    assert await ids(tag="garden", shelf=Shelf.ALL) == [dry.id, wet.id]
    assert await ids(tag="garden", shelf=Status.COMPLETE) == [dry.id]
    assert await ids(tag=f"superseded-by:{shed.id}", shelf=Shelf.ALL) == [lost.id]
    assert await ids(text="water", shelf=Shelf.ALL) == [dry.id, wet.id]
    assert await ids(text="100%") == [wet.id]
    assert await ids(text="100_") == []
    assert await ids(text="water", tag="garden", shelf=Status.COMPLETE) == [dry.id]
    assert await ids(shelf=Shelf.ALL, limit=1) == [lost.id]
    assert await ids(shelf=Shelf.ALL, before_id=shed.id, limit=1) == [dry.id]
    assert await ids(shelf=Shelf.ALL, limit=0) == []
    with pytest.raises(Invalid):
        await ids(text="nul\0")


@pytest.mark.rule(124)
async def test_the_tags_in_use_leave_out_the_plugins_own(desk: TaskDesk) -> None:
    """The row of filters counts tags of open tasks, without the namespaces that plugins have."""
    await desk.task("garden", "tracker:1", "tracker")
    await desk.task("garden", "gate:x")
    done = await desk.task("garden", "done")
    await desk.set_status(done.id, Status.COMPLETE)
    command = tasks.CountTags(hidden=frozenset({"tracker"}))
    found = await desk.db.run(desk.owner, tasks.count_tags, command)
    assert [(each.tag, each.tasks) for each in found] == [
        ("garden", 2),
        ("gate:x", 1),
        ("tracker", 1),
    ]
