"""A plugin's notices on real rows: one open task a key, and nothing twice."""

import pytest

from muster.errors import Invalid, NotSetUp, Unauthorized
from muster.outcomes import HintKind
from muster.principals import Owner
from muster.tasks.operations import Status
from muster.tasks.operations.notices import Noticed, PostNotice, post_notice
from tests.support.builders import make_plugin, read_audit, revoke
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.task_desk import KEY, NEW, TaskDesk, open_task_desk


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> TaskDesk:
    """A desk."""
    return await open_task_desk(db, owner)


@pytest.mark.rule(103, 115, 130, 131, 132)
async def test_the_first_notice_files_a_task(desk: TaskDesk) -> None:
    """It has the key as its only tag, the comment is the plugin's, and the filing is told."""
    desk.db.touched.clear()
    noticed = await desk.notice("assigned to you (message 1)")
    assert (noticed.created, noticed.commented) == (True, True)
    assert noticed.task_id is not None
    task = await desk.get(noticed.task_id)
    assert (task.title, task.body, task.status) == (NEW.title, NEW.body, Status.OPEN)
    assert (task.tags, task.gates, task.created_by) == ((KEY,), (), "plugin:tracker")
    (comment,) = await desk.thread(task.id)
    assert (comment.author, comment.body) == ("plugin:tracker", "assigned to you (message 1)")
    assert await desk.actions(task.id) == ["created", "commented"]
    assert (await desk.audit(task.id))[0].actor == "plugin:tracker"
    assert {hint.kind for hint in desk.db.touched} == {HintKind.TASK_CHANGED}


@pytest.mark.rule(116, 123, 127)
async def test_the_same_notice_again_adds_nothing(desk: TaskDesk) -> None:
    """A resend finds the task and its comment, and leaves no row at all."""
    first = await desk.notice("one")
    before = await read_audit(desk.db, desk.owner)
    again = await desk.notice("one")
    assert again == Noticed(task_id=first.task_id, created=False, commented=False)
    assert await read_audit(desk.db, desk.owner) == before
    other = await desk.notice(" two \n", create=None)
    assert other == Noticed(task_id=first.task_id, created=False, commented=True)
    assert first.task_id is not None
    assert [each.body for each in await desk.thread(first.task_id)] == ["one", "two"]


@pytest.mark.rule(117)
async def test_a_comment_alone_without_a_task_writes_nothing(desk: TaskDesk) -> None:
    """No open task carries the key and none is to be filed: nothing is written."""
    before = await read_audit(desk.db, desk.owner)
    assert await desk.notice("one", create=None) == Noticed(
        task_id=None, created=False, commented=False
    )
    assert await read_audit(desk.db, desk.owner) == before


@pytest.mark.rule(128)
async def test_a_retracted_comment_does_not_come_back(desk: TaskDesk) -> None:
    """The owner retracts a plugin's comment, and a resend does not add it again."""
    first = await desk.notice("one")
    assert first.task_id is not None
    (comment,) = await desk.thread(first.task_id)
    await desk.retract(comment)
    assert not (await desk.notice("one")).commented
    (kept,) = await desk.thread(first.task_id)
    assert kept.shown is None


@pytest.mark.rule(128)
async def test_the_same_words_of_another_are_another_comment(desk: TaskDesk) -> None:
    """Only the plugin's own words count: the owner and a second plugin may say the same."""
    first = await desk.notice("one")
    assert first.task_id is not None
    await desk.comment(first.task_id, "two")
    await desk.comment(first.task_id, "two")
    second = await make_plugin(desk.db, desk.owner, "other")
    assert (await desk.notice("one", create=None, plugin=second)).commented
    assert (await desk.notice("two", create=None)).commented
    authors = [each.author for each in await desk.thread(first.task_id)]
    assert authors == ["plugin:tracker", "owner", "owner", "plugin:other", "plugin:tracker"]


@pytest.mark.rule(128)
async def test_a_new_token_of_the_plugin_is_the_same_plugin(desk: TaskDesk) -> None:
    """A plugin that was revoked and made anew under its name repeats no comment of before."""
    first = await desk.notice("one")
    await revoke(desk.db, desk.owner, desk.plugin)
    again = await make_plugin(desk.db, desk.owner, "tracker")
    noticed = await desk.notice("one", plugin=again)
    assert noticed == Noticed(task_id=first.task_id, created=False, commented=False)


@pytest.mark.rule(113, 129)
@pytest.mark.parametrize("status", [Status.COMPLETE, Status.DISMISSED])
async def test_a_closed_task_does_not_count(desk: TaskDesk, status: Status) -> None:
    """After it is closed a comment alone writes nothing, and the next create files anew."""
    first = await desk.notice("one")
    assert first.task_id is not None
    await desk.set_status(first.task_id, status)
    assert (await desk.notice("two", create=None)).task_id is None
    anew = await desk.notice("one")
    assert (anew.created, anew.commented) == (True, True)
    assert anew.task_id != first.task_id


@pytest.mark.rule(113)
@pytest.mark.parametrize("status", [Status.IN_PROGRESS, Status.READY_FOR_REVIEW])
async def test_a_task_that_is_worked_on_is_open(desk: TaskDesk, status: Status) -> None:
    """Work in progress and work to be reviewed carry the key on."""
    first = await desk.notice()
    assert first.task_id is not None
    await desk.set_status(first.task_id, status)
    assert (await desk.notice()).task_id == first.task_id


@pytest.mark.rule(113, 114, 128)
async def test_after_a_merge_notices_go_to_the_winner(desk: TaskDesk) -> None:
    """The winner carries the key, and what was said to the loser is not said to it again."""
    first, winner = await desk.notice("one"), await desk.task()
    assert first.task_id is not None
    await desk.merge(first.task_id, into=winner.id)
    assert await desk.notice("one") == Noticed(task_id=winner.id, created=False, commented=False)
    assert (await desk.notice("two")).commented
    assert [each.body for each in await desk.thread(winner.id)] == ["two"]
    last = await desk.task()
    await desk.merge(winner.id, into=last.id)
    for text in ("one", "two"):
        assert await desk.notice(text) == Noticed(task_id=last.id, created=False, commented=False)


@pytest.mark.rule(129)
async def test_a_winner_without_the_key_does_not_count(desk: TaskDesk) -> None:
    """Merged away, and the key taken from the winner: the next create files anew."""
    first, winner = await desk.notice(), await desk.task()
    assert first.task_id is not None
    await desk.merge(first.task_id, into=winner.id)
    await desk.edit(winner.id, remove_tags=(KEY,))
    anew = await desk.notice()
    assert anew.created
    assert anew.task_id not in (first.task_id, winner.id)


@pytest.mark.rule(113)
async def test_the_oldest_of_several_counts(desk: TaskDesk) -> None:
    """An owner may put the key on more tasks: the oldest open one has the notices."""
    older = await desk.task()
    first = await desk.notice()
    await desk.edit(older.id, add_tags=(KEY,))
    assert (await desk.notice()).task_id == older.id
    await desk.set_status(older.id, Status.DISMISSED)
    assert (await desk.notice()).task_id == first.task_id


@pytest.mark.rule(113)
async def test_another_owner_has_tasks_of_their_own(desk: TaskDesk) -> None:
    """The same key is another task for another owner."""
    first = await desk.notice()
    stranger = await open_task_desk(desk.db, await add_owner(desk.db))
    theirs = await stranger.notice()
    assert theirs.created
    assert theirs.task_id != first.task_id


@pytest.mark.rule(118, 119)
async def test_what_is_refused_writes_nothing(desk: TaskDesk) -> None:
    """A field that breaks its rule, a server without namespaces and a dead plugin leave no row."""
    before = await read_audit(desk.db, desk.owner, "task.")
    with pytest.raises(Invalid):
        await desk.notice(key="other:1")
    command = PostNotice(key=KEY, create=NEW, namespaces=frozenset())
    with pytest.raises(NotSetUp):
        await desk.db.run(desk.plugin, post_notice, command)
    await revoke(desk.db, desk.owner, desk.plugin)
    with pytest.raises(Unauthorized):
        await desk.notice()
    assert await read_audit(desk.db, desk.owner, "task.") == before


@pytest.mark.rule(111, 128)
async def test_what_differs_only_behind_the_cut_is_the_same(desk: TaskDesk) -> None:
    """Two comments that are alike in their first 16 KiB are one."""
    first = await desk.notice("é" * 9000)
    again = await desk.notice("é" * 8192 + "other")
    assert (first.commented, again.commented) == (True, False)
