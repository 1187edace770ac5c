"""What the exit code says, and what is told on stderr."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from muster.commands.exits import Exit, as_sentence, exit_of, lone_error, say, wants_json
from muster.config import ConfigError
from muster.errors import (
    Conflict,
    Invalid,
    MusterError,
    NotFound,
    OutcomeUnknown,
    Refused,
    TooMany,
    Unauthorized,
    Unavailable,
)
from muster.pg.faults import DatabaseFault
from tests.support.program import bare_program

UNREACHABLE = "postgresql://muster@127.0.0.1:1/muster"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MusterError("x"), 1),
        (Invalid("x"), 2),
        (NotFound("x"), 3),
        (Refused("x"), 4),
        (Unauthorized("x"), 5),
        (Unavailable("x"), 6),
        (OutcomeUnknown("x"), 6),
        (Conflict("x"), 7),
        (TooMany("x", retry_after_seconds=1), 75),
        (ConfigError(("x",)), 78),
        (DatabaseFault("x"), 78),
        (Invalid("x", code="bad_configuration"), 78),
    ],
)
def test_each_error_has_its_exit_code(error: MusterError, code: int) -> None:
    """Every class of refusal ends with the code that the design names."""
    assert exit_of(error) == code


def test_what_a_client_says_becomes_a_sentence() -> None:
    """A command ends with a capital and a full stop, whoever wrote the words; muster is small."""
    assert as_sentence("no token: give one") == "No token: give one."
    assert as_sentence("Done.") == "Done."
    assert as_sentence("muster is away") == "muster is away."


def test_json_is_asked_for_before_the_double_dash() -> None:
    """`--json` counts as an option and not as an argument behind `--`."""
    assert wants_json(["user", "list", "--json"])
    assert not wants_json(["user", "add", "--", "--json"])
    assert not wants_json([])


def test_an_error_cannot_paint_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence that quotes outside text is one line without controls."""
    say(Refused("no \x1b[2J\n\treply\u202e"), as_json=False)
    assert capsys.readouterr().err == "muster: no ?[2J reply?\n"


def test_an_error_in_json_carries_its_facts(capsys: pytest.CaptureFixture[str]) -> None:
    """Field and facts stand beside the sentence and the code."""
    say(Invalid("é", field="name"), as_json=True)
    assert json.loads(capsys.readouterr().err) == {
        "error": "é",
        "code": "invalid",
        "field": "name",
    }
    say(Refused("x", facts={"draft_id": 17}), as_json=True)
    assert json.loads(capsys.readouterr().err)["draft_id"] == 17


def test_a_lone_error_is_found_in_its_groups() -> None:
    """One refusal in groups of nothing else is told as itself; beside a bug it is not."""
    error = Refused("x")
    assert lone_error(ExceptionGroup("a", [ExceptionGroup("b", [error])])) is error
    assert lone_error(ExceptionGroup("a", [error, ValueError()])) is None
    assert lone_error(ExceptionGroup("a", [ValueError()])) is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("user", "add", "ada", "--json"),
        ("user", "frob", "--json"),
        ("frob", "--json"),
        ("drafts", "show", "seventeen", "--json"),
        ("drafts", "show", "0", "--json"),
        ("drafts", "approve", "1", "--sha256", "abc", "--json"),
        ("drafts", "list", "--state", "lost", "--json"),
        ("messages", "list", "--limit", "0", "--json"),
        ("agent", "add", "helper", "--replace", "--json"),
        ("plugin", "add", "mail", "--label", "Mail", "--json"),
        ("demo", "--once", "--data-dir", "/dev/null/demo", "--json"),
        ("user", "add", "ada", "--email", "ada@example.test", "--json"),
        ("user", "add", "Ada", "--email", "ada@example.test", "--password-stdin", "--json"),
    ],
)
def test_wrong_arguments_exit_2(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """What cannot be understood is exit 2, one line of JSON on stderr, and opens no database."""
    ended = bare_program(tmp_path).call(*arguments)
    assert ended.code == Exit.USAGE
    assert {"error", "code"} <= set(ended.refusal)
    assert list(tmp_path.iterdir()) == []


def test_wrong_arguments_without_json(tmp_path: Path) -> None:
    """Without --json the usage is told, on stderr."""
    ended = bare_program(tmp_path).run("drafts", "approve")
    assert (ended.code, ended.out) == (2, "")
    assert "Usage: muster drafts approve" in ended.err


@pytest.mark.parametrize(
    "arguments", [("user", "list"), ("db", "migrate"), ("drafts", "list", "--owner", "ada")]
)
def test_an_unreachable_database_exits_6(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """A database that nobody answers for is exit 6, in one sentence that shows no password."""
    url = UNREACHABLE.replace("muster@", "muster:hunter2@")
    ended = bare_program(tmp_path).call(*arguments, MUSTER_DATABASE_URL=url)
    assert (ended.code, ended.out) == (6, "")
    assert ended.err.startswith("muster: ")
    assert "Traceback" not in ended.err
    assert "hunter2" not in ended.err
    told = bare_program(tmp_path).call(*arguments, "--json", MUSTER_DATABASE_URL=url).refusal
    assert told["code"] == "unavailable"


def test_bad_configuration_exits_78(tmp_path: Path) -> None:
    """A configuration with faults is exit 78 and tells all of them."""
    settings = {"MUSTER_PLUGIN": "1", "MUSTER_DRAIN": "20"}
    ended = bare_program(tmp_path).run("user", "list", **settings)
    assert (ended.code, ended.out, ended.err.count("\n")) == (78, "", 2)
    told = bare_program(tmp_path).run("config", "check", "--json", **settings).refusal
    assert told["code"] == "bad_configuration"
    assert len(told["faults"]) == 2


def test_a_data_folder_that_cannot_be_made_exits_78(tmp_path: Path) -> None:
    """A data folder in a place that holds none is exit 78 and one sentence that names both."""
    (tmp_path / "file").write_text("")
    folder = str(tmp_path / "file" / "data")
    for command in (("user", "list"), ("serve",)):
        ended = bare_program(tmp_path).run(*command, MUSTER_DATA_DIR=folder)
        assert (ended.code, ended.out) == (78, "")
        assert folder in ended.err
        assert "MUSTER_DATA_DIR" in ended.err
        assert ended.err.count("\n") == 1


def test_nobody_reads_the_output(tmp_path: Path) -> None:
    """A reader that left ends the program without a traceback."""
    program = bare_program(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-m", "muster", "config", "show"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=program.environ,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        err = child.stderr.read().decode()
        assert child.wait(30) == 1
    assert err == ""


def test_status_without_a_server_exits_6(tmp_path: Path) -> None:
    """Where no server answers, status says how to start one."""
    ended = bare_program(tmp_path).run("status", MUSTER_BIND="127.0.0.1:1")
    assert (ended.code, ended.out) == (6, "")
    assert "muster serve" in ended.err
