"""Asks and retries by the real program."""

from pathlib import Path

import attrs
import pytest
import trio

from muster.attention.operations import AskedBy, AskOwner, ask
from muster.pg.database import open_database
from tests.support.builders import make_agent, make_chief, make_plugin
from tests.support.cluster import OwnDatabase, add_owner
from tests.support.program import Program, program_on
from tests.support.unconfirmed import make_unconfirmed

HOSTILE = "\x1b[2Jwhat?\n[bold]now[/bold]\u202e"


@attrs.frozen(kw_only=True)
class Desk:
    """An owner with two open asks of an agent's, and a message that is not confirmed."""

    program: Program
    first_id: int
    second_id: int
    message_id: int


@pytest.fixture
def desk(own_database: OwnDatabase, tmp_path: Path) -> Desk:
    """Ada's desk."""

    async def furnish() -> Desk:
        async with open_database(own_database.app_url, publish=lambda _hints: None) as db:
            owner = await add_owner(db, "ada")
            scout = await make_agent(db, owner, "scout")
            asked = []
            for question in (HOSTILE, "Which one?"):
                command = AskOwner(asked_by=AskedBy.AGENT, question=question, answers=("A", "B"))
                made = await db.run(scout, ask, command)
                assert made is not None
                asked.append(made.id)
            chief = await make_chief(db, owner)
            message = await make_unconfirmed(db, await make_plugin(db, owner), chief)
            return Desk(
                program=program_on(own_database, tmp_path),
                first_id=asked[0],
                second_id=asked[1],
                message_id=message.id,
            )

    return trio.run(furnish)


def test_asks_are_listed_shown_and_answered(desk: Desk) -> None:
    """Open asks are listed newest first, shown whole, answered, and then among the ended ones."""
    call = desk.program.call
    rows = call("asks", "list", "--json").document
    assert [row["ask_id"] for row in rows] == [desk.second_id, desk.first_id]
    assert (rows[0]["agent"], rows[0]["answers"]) == ("scout", ["A", "B"])
    shown = call("asks", "show", str(desk.second_id)).out
    assert "Which one?" in shown
    assert f"asks answer {desk.second_id} TEXT" in shown
    answered = call("asks", "answer", str(desk.second_id), "the third", "--json").document
    assert (answered["state"], answered["answer"]) == ("answered", "the third")
    assert answered["answered_via"] == "cli"
    again = call("asks", "answer", str(desk.second_id), "A", "--json")
    assert (again.code, again.refusal["code"]) == (4, "ask_state")
    dismissed = call("asks", "dismiss", str(desk.first_id))
    assert (dismissed.code, dismissed.out) == (0, "")
    assert call("asks", "list").err == "Nothing is asked of you.\n"
    ended = call("asks", "list", "--ended", "--json").document
    assert [row["state"] for row in ended] == ["answered", "dismissed"]
    assert call("asks", "show", "999", "--json").code == 3


def test_a_question_paints_nothing(desk: Desk) -> None:
    """What an agent wrote is shown with its control characters spelled out."""
    for arguments in (("list",), ("show", str(desk.first_id))):
        out = desk.program.call("asks", *arguments).out
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "[bold]now[/bold]" in out


def test_answers_are_decisions(desk: Desk) -> None:
    """Where decisions by command line are switched off, nothing is answered or dismissed."""
    for arguments in (("answer", str(desk.first_id), "A"), ("dismiss", str(desk.first_id))):
        ended = desk.program.call("asks", *arguments, "--json", MUSTER_CLI_DECISIONS="0")
        assert (ended.code, ended.refusal["code"]) == (4, "cli_decisions_off")
    assert len(desk.program.call("asks", "list", "--json").document) == 2


@pytest.mark.rule(226, 230, 237)
@pytest.mark.parametrize("group", ["plugins", "plugin"])
def test_a_message_is_retried(desk: Desk, group: str) -> None:
    """`muster plugins retry ID` queues it anew; a second time it is refused, as it is queued."""
    message_id = str(desk.message_id)
    told = desk.program.call(group, "retry", message_id, "--json").document
    assert told == {"message_id": desk.message_id, "state": "queued", "retries": 1}
    again = desk.program.call(group, "retry", message_id, "--json")
    assert (again.code, again.refusal["code"]) == (4, "message_state")
    shown = desk.program.call("messages", "show", message_id, "--json").document
    assert (shown["state"], shown["retries"], shown["settle_reason"]) == ("queued", 1, None)
    assert desk.program.call(group, "retry", "999", "--json").code == 3
