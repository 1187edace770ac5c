"""A plugin's notice about a record of its upstream (plugins: "one task per upstream record").

Two calls for one key file one task, by the lock of the owner's board: whoever posts a notice holds
it from the look for the open task to the commit, so the second sees what the first filed. That a
plugin's comment stands once in a thread, the database holds as well (`task_comments_once_key`).
"""

import attrs

from muster.pg.database import Transaction
from muster.plugins.operations import lock_live_plugin
from muster.principals import Plugin
from muster.tasks import store
from muster.tasks.operations import CreateTask, create_task, record_comment
from muster.tasks.rules.notices import NewTask, PostNotice, fit
from muster.tasks.store import comments

__all__ = ["NewTask", "Noticed", "PostNotice", "post_notice"]


@attrs.frozen(kw_only=True)
class Noticed:
    """The open task of a notice's key, if there is one, and what the notice added."""

    task_id: int | None
    created: bool
    commented: bool


async def post_notice(tx: Transaction, command: PostNotice) -> Noticed:
    """Record a notice on the oldest open task that carries its key, or on a new one.

    Sent again it adds nothing: the task is found, and so is the comment, though it was retracted.
    Raises Invalid for a field, NotSetUp while no namespaces are listed, Unauthorized once the
    plugin is revoked. You don't get Invalid for a text that is too long: it is cut.
    """
    plugin = tx.principal
    assert isinstance(plugin, Plugin)
    notice = fit(command)
    await lock_live_plugin(tx, plugin.plugin_id)
    await store.lock_board(tx)
    task = await store.find_open_by_key(tx, notice.key)
    created = task is None and notice.create is not None
    if task is None and notice.create is not None:
        task = await create_task(
            tx,
            CreateTask(title=notice.create.title, body=notice.create.body, tags=(notice.key,)),
        )
    if task is None:
        return Noticed(task_id=None, created=False, commented=False)
    commented = notice.comment is not None and not await comments.has_said(
        tx, task.id, notice.comment
    )
    if notice.comment is not None and commented:
        await record_comment(tx, task, notice.comment)
    return Noticed(task_id=task.id, created=created, commented=commented)
