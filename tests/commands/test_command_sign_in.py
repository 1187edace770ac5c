"""Ways in by the real program: one-time links, and a person's own tokens."""

from pathlib import Path

import httpx2
import pytest

from tests.support.chaos import ServerChild, server_child
from tests.support.cluster import OwnDatabase
from tests.support.program import Program, program_on
from tests.support.waiting import until

PASSWORD = "correct horse battery"


@pytest.fixture
def program(own_database: OwnDatabase, tmp_path: Path) -> Program:
    """The program on an empty database."""
    return program_on(own_database, tmp_path)


def pages(server: ServerChild) -> httpx2.AsyncClient:
    """A browser's client, by the public name."""
    public = f"http://localhost:{server.port}"
    headers = {"Accept": "text/html", "Host": f"localhost:{server.port}", "Origin": public}
    return httpx2.AsyncClient(
        base_url=server.url, headers=headers, timeout=40, trust_env=False, verify=False
    )


async def test_a_new_server_tells_how_to_begin(program: Program, tmp_path: Path) -> None:
    """With no account `serve` prints an address, after ready, that makes the first one, once."""
    async with server_child(program, tmp_path) as server:

        async def told() -> bool:
            return "/setup?link=" in server.last_words()

        await until(told)
        ready, setup = server.events()
        assert ready["event"] == "ready"
        assert setup["event"] == "setup"
        assert setup["url"] in server.last_words()
        assert setup["url"] not in str(server.complaints())
        front = f"http://localhost:{server.port}"
        assert setup["url"].startswith(f"{front}/setup?link=")
        path = setup["url"].removeprefix(front)
        form = {
            "link": path.partition("=")[2],
            "name": "ada",
            "password": PASSWORD,
            "time_zone": "Europe/Berlin",
        }
        async with pages(server) as client:
            assert "Welcome to muster" in (await client.get(path)).text
            assert (await client.get(path)).status_code == 200
            made = await client.post("/setup", data=form)
            assert made.status_code == 303, made.text
            client.cookies.clear()
            assert (await client.get(path)).status_code == 404
            again = await client.post("/setup", data=form | {"name": "eve"})
            assert again.status_code == 404
            entered = await client.post("/sign-in", data={"name": "ada", "password": PASSWORD})
            assert entered.status_code == 303
        await server.stop()
    async with server_child(program, tmp_path, name="second") as server:
        assert await server.is_healthy()
        stopped = await server.stop()
        assert [one["event"] for one in stopped.events] == ["ready", "draining", "stopped"]
    (listed,) = program.run("user", "list", "--json").document
    assert (listed["name"], listed["email"]) == ("ada", "")


def test_a_link_for_somebody(program: Program) -> None:
    """`user link` prints an address for a known name alone."""
    program.add_user("ada")
    made = program.call("user", "link", "ada", "--json").document
    assert made["url"].startswith("http://localhost:")
    assert "/setup?link=" in made["url"]
    assert made["expires_at"].endswith("Z")
    assert program.call("user", "link", "bob", "--json").refusal["code"] == "not_found"


def test_an_account_that_begins_with_a_link(program: Program) -> None:
    """`user add --link` opens an account that nothing opens yet but the address it prints."""
    words = ("user", "add", "ada", "--email", "ada@example.test", "--link")
    added = program.call(*words, "--json").document
    assert "/setup?link=" in added["url"]
    assert added["name"] == "ada"
    both = program.call("user", "add", "bob", "--email", "b@example.test", "--link",
                        "--password-stdin", stdin=PASSWORD)  # fmt: skip
    assert both.code == 2
    plain = program.call("user", "add", "eve", "--email", "e@example.test", "--link")
    assert plain.out.startswith("http://localhost:")


def test_personal_tokens(program: Program) -> None:
    """A token is made, listed without its text, and revoked; a live name is taken once."""
    program.add_user("ada")
    added = program.call(
        *("token", "add", "--owner", "ada", "--kind", "personal", "--name", "laptop", "--json")
    ).document
    assert added["token"].startswith("mst_")
    assert (added["scope"], added["expires_at"]) == ("write", None)
    again = program.call("token", "add", "--name", "laptop", "--json")
    assert (again.code, again.refusal["code"]) == (7, "name_taken")
    read = program.call(
        "token", "add", "--name", "box", "--scope", "read", "--expires", "30d", "--json"
    )
    assert read.document["expires_at"] is not None
    listed = program.call("token", "list", "--json").document
    assert [one["name"] for one in listed] == ["box", "laptop"]
    assert added["token"] not in str(listed)
    assert program.call("token", "revoke", "laptop", "--json").document["revoked_at"] is not None
    assert program.call("token", "revoke", "laptop").code == 3
    assert [one["name"] for one in program.call("token", "list", "--json").document] == ["box"]
    assert len(program.call("token", "list", "--all", "--json").document) == 2
    bad = program.call("token", "add", "--name", "x", "--expires", "30")
    assert (bad.code, "--expires is no duration" in bad.err) == (2, True)
    assert program.call("token", "add", "--name", "No", "--json").refusal["field"] == "name"
    shown = program.call("token", "add", "--name", "plain")
    assert shown.out.startswith("mst_")
    assert "shown this once" in shown.err


async def test_a_hook_owner_that_does_not_exist_is_noted(program: Program, tmp_path: Path) -> None:
    """The server starts, and says that the hook token acts as nobody."""
    settings = {"MUSTER_HOOK_TOKEN": "h" * 32, "MUSTER_HOOK_OWNER": "ada"}
    async with server_child(program, tmp_path, **settings) as server:

        async def told() -> bool:
            return any("MUSTER_HOOK_OWNER names ada" in one["reason"] for one in notes(server))

        await until(told)
        await server.stop()


def notes(server: ServerChild) -> list[dict[str, str]]:
    """What the server noted on stderr so far."""
    return [line for line in server.complaints() if line.get("event") == "note"]
