"""Why a turn failed, and what was answered by words, on the command line."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import attrs
import pytest
import trio

from muster.attention.operations import AskedBy, AskOwner, ask
from muster.chief import operations as chief_operations
from muster.failure import Cause, Failure
from muster.messages.rules import Fail
from muster.node.nodes import beat
from muster.pg.database import Database, open_database
from muster.principals import Agent, Muster, Node, Owner
from tests.support.builders import make_chief, make_message, make_plugin
from tests.support.cluster import OwnDatabase, add_owner
from tests.support.program import Program, bare_program, program_on
from tests.support.speaking import connect

ERROR = "no [bold]ink[/bold]\u202e"


@attrs.frozen(kw_only=True)
class Desk:
    """An owner with a chief, and their command line."""

    program: Program
    database: OwnDatabase
    owner: Owner
    chief: Agent
    message_id: int

    def work(self, job: Callable[[Database], Awaitable[None]]) -> None:
        """Do something on the database."""

        async def run() -> None:
            async with open_database(self.database.app_url, publish=lambda _hints: None) as db:
                await job(db)

        trio.run(run)

    async def fail(self, db: Database) -> None:
        """Hand the message over, and let its turn fail."""
        muster = Muster(owner_id=self.owner.owner_id)
        epoch = await connect(db, self.chief)
        begin = chief_operations.Begin(agent_id=self.chief.agent_id, epoch=epoch)
        handover = await db.run(muster, chief_operations.begin, begin)
        assert handover is not None
        settle = chief_operations.Settle(
            message_id=self.message_id,
            attempt=1,
            turn_id=handover.turn_id,
            conversation_id=handover.conversation_id,
            ending=Fail(epoch=epoch, failure=Failure(cause=Cause.REPORTED, error=ERROR)),
        )
        await db.run(muster, chief_operations.settle_turn, settle)


@pytest.fixture
def desk(own_database: OwnDatabase, tmp_path: Path) -> Desk:
    """Ada's desk, with one message in the queue."""

    async def furnish() -> Desk:
        async with open_database(own_database.app_url, publish=lambda _hints: None) as db:
            owner = await add_owner(db, "ada")
            message = await make_message(db, await make_plugin(db, owner, "mail"))
            return Desk(
                program=program_on(own_database, tmp_path),
                database=own_database,
                owner=owner,
                chief=await make_chief(db, owner, "helper"),
                message_id=message.id,
            )

    return trio.run(furnish)


def test_a_failed_turn_is_told_with_its_message(desk: Desk) -> None:
    """`messages show` tells the reason for people and for programs, and none before there is."""
    show = ("messages", "show", str(desk.message_id))
    assert desk.program.call(*show, "--json").document["failure"] is None
    assert "failed" not in desk.program.call(*show).out
    desk.work(desk.fail)
    shown = desk.program.call(*show, "--json").document
    assert shown["failure"] == {"cause": "reported", "error": ERROR}
    out = desk.program.call(*show).out
    assert "The chief said that its turn failed." in out
    assert "  The agent, on why it failed:\n  | no [bold]ink[/bold]\\u202e\n" in out
    (row, *_) = desk.program.call("audit", "--json").document
    assert row["data"]["failure"] == shown["failure"]


def test_a_failed_turn_is_told_in_its_conversation(desk: Desk) -> None:
    """`chief show ID` tells it beside the turn, for people and for programs."""
    desk.work(desk.fail)
    (line,) = desk.program.call("chief", "show", "--json").document["conversations"]
    show = ("chief", "show", str(line["conversation_id"]))
    (turn,) = desk.program.call(*show, "--json").document
    assert turn["failure"] == {"cause": "reported", "error": ERROR}
    out = desk.program.call(*show).out
    assert "  The agent said that its turn failed.\n" in out
    assert "  | no [bold]ink[/bold]\\u202e\n" in out


def test_a_chief_that_is_connected_has_not_left(desk: Desk) -> None:
    """It has left at no time while it is there, and at its node's last sign of life after that."""

    async def come(db: Database) -> None:
        await connect(db, desk.chief)
        await db.run(Node(), beat, "one")

    async def go(db: Database) -> None:
        db.clock_offset = timedelta(minutes=-5)
        await db.run(Node(), beat, "one")

    for job, connected in ((come, True), (go, False)):
        desk.work(job)
        shown = desk.program.call("chief", "show", "--json").document
        assert (shown["connected"], shown["left_at"] is None) == (connected, connected)


def test_saying_tells_which_ask_it_answered(desk: Desk) -> None:
    """Words that answer what the chief asked name the ask; others name none."""
    say = ("chief", "say", "yes")
    assert desk.program.call(*say, "--json").document["ask_ids"] == []
    asked: list[int] = []

    async def open_ask(db: Database) -> None:
        command = AskOwner(asked_by=AskedBy.AGENT, question="Lunch?")
        view = await db.run(desk.chief, ask, command)
        assert view is not None
        asked.append(view.id)

    desk.work(open_ask)
    assert desk.program.call(*say, "--json").document["ask_ids"] == asked
    assert "answers ask" not in desk.program.call(*say).err
    desk.work(open_ask)
    assert f"It answers ask {asked[-1]}.\n" in desk.program.call(*say).err


@pytest.mark.parametrize(
    ("arguments", "noun"),
    [
        (("messages", "show"), "message"),
        (("plugins", "retry"), "message"),
        (("drafts", "show"), "draft"),
        (("drafts", "approve"), "draft"),
        (("drafts", "reject"), "draft"),
        (("tasks", "show"), "task"),
        (("asks", "show"), "ask"),
        (("asks", "dismiss"), "ask"),
        (("chief", "show"), "conversation"),
    ],
)
@pytest.mark.parametrize("given", ["seventeen", "0", "9223372036854775808", "1.0", "\u0661"])
def test_what_is_no_id_is_told_in_a_sentence(
    tmp_path: Path, arguments: tuple[str, ...], noun: str, given: str
) -> None:
    """Every command that takes an id names whose id it is, and what one is."""
    program = bare_program(tmp_path)
    sentence = f"{noun} id must be a whole number from 1 to 9223372036854775807."
    ended = program.call(*arguments, given)
    assert (ended.code, ended.err) == (2, f"muster: {sentence}\n")
    assert program.call(*arguments, given, "--json").refusal == {
        "error": sentence,
        "code": "usage",
        "field": f"{noun}_id",
    }
