"""Accounts, plugins and agents by the real program, on a real database."""

import shutil
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
import trio

from muster.outcomes import Hint, HintKind
from muster.pg.embedded import Embedded
from muster.pg.listener import listen
from tests.support.cluster import OwnDatabase
from tests.support.program import Program, bare_program, program_on


@pytest.fixture
def program(own_database: OwnDatabase, tmp_path: Path) -> Program:
    """The program on an empty database."""
    return program_on(own_database, tmp_path)


def test_an_account(program: Program) -> None:
    """An account is added, listed, disabled and enabled; its name is taken once."""
    added = program.add_user("ada")
    assert isinstance(added["user_id"], int)
    assert (added["name"], added["email"]) == ("ada", "ada@example.test")
    (listed,) = program.call("user", "list", "--json").document
    assert listed == added | {"disabled_at": None}
    assert listed["created_at"].endswith("Z")
    assert datetime.fromisoformat(listed["created_at"]).tzinfo is not None
    again = program.call(
        *("user", "add", "ada", "--email", "b@example.test", "--password-stdin", "--json"),
        stdin="correct horse",
    )
    assert (again.code, again.refusal["code"]) == (7, "name_taken")
    disabled = program.call("user", "disable", "ada", "--json").document
    assert disabled["user_id"] == added["user_id"]
    (listed,) = program.call("user", "list", "--json").document
    assert listed["disabled_at"] == disabled["disabled_at"] is not None
    assert program.call("user", "enable", "ada", "--json").document["disabled_at"] is None
    assert program.call("user", "disable", "bob", "--json").refusal["code"] == "not_found"
    assert program.call("user", "enable", "bob").code == 3


@pytest.mark.parametrize(
    "password", [b"short\n", b"", b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\n", b"x" * 1025]
)
def test_a_bad_password(program: Program, password: bytes) -> None:
    """A password that breaks the rule is exit 2 and adds nobody."""
    ended = program.call(
        *("user", "add", "ada", "--email", "ada@example.test", "--password-stdin", "--json"),
        stdin=password,
    )
    assert (ended.code, ended.refusal["field"]) == (2, "password")
    assert program.call("user", "list", "--json").document == []


@pytest.mark.rule(11, 16)
def test_a_plugin(program: Program) -> None:
    """A plugin's token is told once; it is listed, revoked, and its name free again."""
    program.add_user("ada")
    add = ("plugin", "add", "mail", "--owner", "ada", "--label", "Mail", "--scope", "mail")
    added = program.call(*add, "--json").document
    assert isinstance(added["plugin_id"], int)
    assert added["token"].startswith("mpl_")
    for listing in ("plugin", "plugins"):
        ended = program.call(listing, "list", "--owner", "ada", "--json")
        (listed,) = ended.document
        assert added["token"] not in ended.out
    assert listed | {"created_at": None} == {
        "plugin_id": added["plugin_id"],
        "name": "mail",
        "label": "Mail",
        "scope": "mail",
        "created_at": None,
        "last_seen_at": None,
        "waiting": 0,
        "revoked_at": None,
    }
    assert program.call(*add, "--json").refusal["code"] == "name_taken"
    revoke = ("plugin", "revoke", "mail", "--owner", "ada", "--json")
    assert program.call(*revoke).document["plugin_id"] == added["plugin_id"]
    assert program.call(*revoke).code == 3
    assert program.call("plugin", "list", "--owner", "ada", "--json").document == []
    plain = program.call(*add)
    assert plain.code == 0
    assert plain.out.startswith("mpl_")
    assert plain.out.count("\n") == 1
    everything = program.call("plugin", "list", "--owner", "ada", "--all", "--json").document
    assert [row["revoked_at"] is None for row in everything] == [False, True]


def test_an_agent(program: Program) -> None:
    """There is one chief; --replace moves it, and a retired agent leaves its name."""
    program.add_user("ada")
    add = ("agent", "add", "helper", "--owner", "ada", "--chief", "--json")
    added = program.call(*add).document
    assert isinstance(added["agent_id"], int)
    assert added["token"].startswith("mag_")
    second = ("agent", "add", "other", "--owner", "ada", "--chief", "--json")
    ended = program.call(*second)
    assert (ended.code, ended.refusal["code"]) == (7, "chief_exists")
    assert program.call(*second, "--replace").document["chief"]
    listed = program.call("agent", "list", "--owner", "ada", "--json").document
    assert [(row["name"], row["chief"], row["connected"]) for row in listed] == [
        ("helper", False, False),
        ("other", True, False),
    ]
    retire = ("agent", "retire", "helper", "--owner", "ada", "--json")
    assert program.call(*retire).document["agent_id"] == added["agent_id"]
    assert program.call(*retire).code == 3


def test_whose_it_is(program: Program) -> None:
    """--owner may be left out while there is one account, and names one that there is."""
    assert program.call("plugin", "list", "--json").refusal["code"] == "not_found"
    program.add_user("ada")
    assert program.call("plugin", "list", "--json").document == []
    assert program.call("plugin", "list", "--owner", "bob", "--json").code == 3
    program.add_user("bob")
    assert program.call("plugin", "list", "--json").refusal["code"] == "usage"


def test_the_audit_log(program: Program) -> None:
    """Each administrative act is one row, the newest first, with the door it came through."""
    program.add_user("ada")
    owner = ("--owner", "ada")
    program.call("plugin", "add", "mail", *owner, "--label", "Mail", "--scope", "mail")
    program.call("agent", "add", "helper", *owner, "--chief")
    program.call("agent", "add", "other", *owner, "--chief", "--replace")
    program.call("agent", "retire", "helper", *owner)
    program.call("plugin", "revoke", "mail", *owner)
    program.call("user", "disable", "ada")
    program.call("user", "enable", "ada")
    rows = program.call("audit", *owner, "--json").document
    assert [row["action"] for row in reversed(rows)] == [
        "user.added",
        "plugin.added",
        "agent.added",
        "agent.added",
        "agent.chief_moved",
        "agent.retired",
        "plugin.revoked",
        "user.disabled",
        "user.enabled",
    ]
    assert {(row["actor"], row["via"]) for row in rows} == {("owner", "cli")}
    assert all(isinstance(row["id"], int) and row["at"].endswith("Z") for row in rows)
    assert len(program.call("audit", *owner, "--limit", "2", "--json").document) == 2
    assert "user.enabled" in program.call("audit", *owner).out


def test_tables_for_people(program: Program) -> None:
    """Without --json there are tables; nothing to list is said on stderr."""
    empty = program.call("user", "list")
    assert (empty.code, empty.out) == (0, "")
    assert "muster user add" in empty.err
    program.add_user("ada")
    assert "ada@example.test" in program.call("user", "list").out
    program.call("agent", "add", "helper", "--chief")
    assert "helper" in program.call("agent", "list").out


def test_settings_are_shown_without_secrets(program: Program) -> None:
    """Each setting is told with its value and where it came from, and no secret is."""
    settings = {"MUSTER_PLUGIN_TOKEN": "mpl_hunter2", "MUSTER_LOG": "debug"}
    ended = program.call("config", "show", "--json", **settings)
    rows = {row["name"]: row for row in ended.document}
    assert (rows["MUSTER_LOG"]["value"], rows["MUSTER_LOG"]["source"]) == ("debug", "environment")
    assert rows["MUSTER_BIND"]["source"] == "default"
    assert rows["MUSTER_STEPUP_WINDOW"]["value"] == "12h"
    assert rows["MUSTER_DATABASE_URL"]["value"] == "(set)"
    assert rows["MUSTER_AGENT_TOKEN"]["value"] is None
    plain = program.call("config", "show", **settings)
    for out in (ended.out, plain.out):
        assert "hunter2" not in out
        assert program.environ["MUSTER_DATABASE_URL"] not in out
    assert "MUSTER_TURN_DEADLINE" in plain.out
    assert program.call("config", "check", "--json").document == {"ok": True}


def test_the_database_is_migrated(program: Program) -> None:
    """Migrating tells the schema's version, as often as it is asked."""
    for _ in range(2):
        assert program.call("db", "migrate", "--json").document["schema_version"] >= 1


def test_without_a_url_muster_runs_its_own_database(tmp_path: Path) -> None:
    """On a machine without any database, one command makes it and the next finds what is there."""
    program = bare_program(tmp_path)
    try:
        added = program.add_user("ada")
        (listed,) = program.run("user", "list", "--json").document
        assert listed["user_id"] == added["user_id"]
    finally:
        embedded = Embedded(tmp_path / ".local/share/muster")
        assert embedded.postmaster is None
        shutil.rmtree(embedded.places.home)


async def test_a_running_server_is_told_at_once(own_database: OwnDatabase, tmp_path: Path) -> None:
    """What a command commits reaches whoever listens on the same database."""
    program = program_on(own_database, tmp_path)
    added = await trio.to_thread.run_sync(program.add_user, "ada")
    heard: list[Hint] = []
    listening, told = trio.Event(), trio.Event()

    def handle(hints: Sequence[Hint]) -> None:
        heard.extend(hints)
        told.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen, own_database.app_url, handle, listening.set)
        with trio.fail_after(30):
            await listening.wait()
            ended = await trio.to_thread.run_sync(partial(program.run, "user", "disable", "ada"))
            assert ended.code == 0
            await told.wait()
        nursery.cancel_scope.cancel()
    owner_id = added["user_id"]
    assert heard == [Hint(kind=HintKind.USER_CHANGED, owner_id=owner_id, id=owner_id)]
