"""`muster chief` by the real program."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs
import pytest
import trio

from muster.messages.rules import Complete
from muster.pg.database import Database, open_database
from muster.principals import Agent, Owner
from tests.support.builders import make_chief
from tests.support.cluster import OwnDatabase, add_owner
from tests.support.program import Program, program_on
from tests.support.speaking import begin, connect, end

HOSTILE = "\x1b[2JNoon\n[bold]now[/bold]\u202e"


@attrs.frozen(kw_only=True)
class Desk:
    """An owner with a chief, and their command line."""

    program: Program
    database: OwnDatabase
    owner: Owner
    chief: Agent

    def work(self, job: Callable[[Database], Awaitable[None]]) -> None:
        """Do something on the database."""

        async def run() -> None:
            async with open_database(self.database.app_url, publish=lambda _hints: None) as db:
                await job(db)

        trio.run(run)


@pytest.fixture
def desk(own_database: OwnDatabase, tmp_path: Path) -> Desk:
    """Ada's desk."""

    async def furnish() -> Desk:
        async with open_database(own_database.app_url, publish=lambda _hints: None) as db:
            owner = await add_owner(db, "ada")
            return Desk(
                program=program_on(own_database, tmp_path),
                database=own_database,
                owner=owner,
                chief=await make_chief(db, owner, "helper"),
            )

    return trio.run(furnish)


def test_words_are_written_and_the_answer_is_read(desk: Desk) -> None:
    """What is said waits, is listed with the chief, and stands beside what was answered."""
    call = desk.program.call
    assert "Nothing was said yet." in call("chief", "show").err
    written = call("chief", "say", "When?", "--json").document
    number = str(written["conversation_id"])
    chief = call("chief", "show", "--json").document
    assert (chief["agent"], chief["connected"], chief["words_waiting"]) == ("helper", False, 1)
    assert [line["conversation_id"] for line in chief["conversations"]] == [int(number)]

    async def answer(db: Database) -> None:
        epoch = await connect(db, desk.chief)
        spoken = await begin(db, desk.chief, epoch)
        assert spoken is not None
        await end(db, desk.chief, spoken.turn.id, Complete(epoch=epoch))

    desk.work(answer)
    (turn,) = call("chief", "show", number, "--json").document
    assert (turn["words"], turn["said_by"], turn["state"]) == ("When?", "owner", "delivered")
    assert (turn["answer"], turn["left_out"]) == ("Noon.", 7)
    shown = call("chief", "show", number).out
    assert "  | When?" in shown
    assert "  | Noon." in shown
    assert "7 more bytes" in shown
    assert call("chief", "say", "And then?").out == ""
    newest = call("chief", "show", number, "--limit", "1", "--json").document
    assert [turn["words"] for turn in newest] == ["And then?"]


def test_what_was_said_paints_nothing(desk: Desk) -> None:
    """Control characters are spelled out, in the list as well as in the conversation."""
    said = desk.program.call("chief", "say", HOSTILE, "--json").document
    for arguments in ((), (str(said["conversation_id"]),)):
        out = desk.program.call("chief", "show", *arguments).out
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "Noon" in out


@pytest.mark.parametrize(
    ("arguments", "code", "slug"),
    [
        (("say", "x" * 16_385), 2, "words_too_long"),
        (("say", " "), 2, "invalid"),
        (("show", "999"), 3, "not_found"),
    ],
)
def test_what_cannot_be_done_is_refused(
    desk: Desk, arguments: tuple[str, ...], code: int, slug: str
) -> None:
    """Words that cannot be said and a conversation that is not there end with their code."""
    ended = desk.program.call("chief", *arguments, "--json")
    assert (ended.refusal["code"], ended.code) == (slug, code)


def test_without_a_chief_nothing_is_said(desk: Desk) -> None:
    """An owner without a chief is told so, by both commands."""
    desk.program.call("agent", "retire", "helper")
    assert desk.program.call("chief", "show", "--json").code == 3
    ended = desk.program.call("chief", "say", "hello", "--json")
    assert (ended.code, ended.refusal["code"]) == (4, "no_chief")


def test_writing_to_the_chief_is_a_decision(desk: Desk) -> None:
    """It answers what the chief has asked, so it is off where decisions here are."""
    ended = desk.program.call("chief", "say", "x", "--json", MUSTER_CLI_DECISIONS="0")
    assert (ended.code, ended.refusal["code"]) == (4, "cli_decisions_off")
