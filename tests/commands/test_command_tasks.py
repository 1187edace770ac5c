"""Tasks by the real program: the board, and one whole."""

from pathlib import Path

import attrs
import pytest
import trio

from muster.pg.database import open_database
from muster.tasks.operations import Status
from tests.support.cluster import OwnDatabase, SpiedDatabase, add_owner
from tests.support.program import Program, program_on
from tests.support.task_desk import open_task_desk

HOSTILE = "\x1b[2J\u202etxt"


@attrs.frozen(kw_only=True)
class Ids:
    """Ada's tasks."""

    program: Program
    gated: int
    done: int
    lost: int


@pytest.fixture
def board(own_database: OwnDatabase, tmp_path: Path) -> Ids:
    """Three tasks of Ada's: one gated, one complete, one merged into the first."""
    program = program_on(own_database, tmp_path)

    async def furnish() -> Ids:
        async with open_database(own_database.app_url, publish=lambda _hints: None) as db:
            desk = await open_task_desk(SpiedDatabase(db.pool), await add_owner(db, "ada"))
            gated = await desk.task("gate:x", "inbox", title="Dig", body=f"Deep.\n{HOSTILE}")
            first = await desk.comment(gated.id, "wrong")
            await desk.comment(gated.id, f"said {HOSTILE}", by=desk.plugin)
            await desk.retract(first)
            done = await desk.task("inbox", title="Done")
            await desk.set_status(done.id, Status.COMPLETE)
            lost = await desk.task(title="Dig again")
            await desk.merge(lost.id, into=gated.id)
            return Ids(program=program, gated=gated.id, done=done.id, lost=lost.id)

    return trio.run(furnish)


def test_tasks_are_listed(board: Ids) -> None:
    """Tasks are listed newest first, by status, tag and words."""
    listing = ("tasks", "list", "--owner", "ada", "--json")
    (row,) = board.program.call(*listing).document
    assert (row["task_id"], row["status"], row["gated"], row["open"]) == (
        board.gated,
        "open",
        True,
        True,
    )
    assert row["tags"] == ["gate:x", "inbox"]
    assert "body" not in row

    def ids(*options: str) -> list[int]:
        return [row["task_id"] for row in board.program.call(*listing, *options).document]

    assert ids("--status", "all") == [board.lost, board.done, board.gated]
    assert ids("--status", "all", "--tag", "InBox") == [board.done, board.gated]
    assert ids("--status", "complete") == [board.done]
    assert ids("--text", "deep") == [board.gated]
    assert ids("--limit", "1", "--status", "all") == [board.lost]
    assert board.program.call(*listing, "--tag", "a#b").code == 2
    table = board.program.call("tasks", "list", "--status", "all").out
    assert f"merged into {board.gated}" in table
    assert "open, gated" in table


def test_one_task_is_shown(board: Ids) -> None:
    """A task is shown whole with its thread; nothing of it paints, nothing retracted shows."""
    document = board.program.call("tasks", "show", str(board.gated), "--json").document
    assert document["body"] == f"Deep.\n{HOSTILE}"
    assert [each["body"] for each in document["comments"]] == [None, f"said {HOSTILE}"]
    ended = board.program.call("tasks", "show", str(board.gated))
    assert ended.code == 0
    assert r"\x1b[2J\u202etxt" in ended.out
    assert "wrong" not in ended.out
    assert "plugin:tracker" in ended.out
    assert board.program.call("tasks", "show", "999999").code == 3
