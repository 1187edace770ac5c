"""`muster serve` where it can't serve, or not everybody: told in a sentence."""

import socket
from pathlib import Path

import pytest

from muster.commands.serve import DOORS_CLOSED
from tests.support.chaos import server_child
from tests.support.cluster import OwnDatabase
from tests.support.program import program_on


def test_a_taken_port_exits_7(own_database: OwnDatabase, tmp_path: Path) -> None:
    """A port that somebody else listens on is exit 7, and the last word is a sentence."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = program_on(own_database, tmp_path).run("serve", MUSTER_BIND=bind)
    assert (ended.code, ended.out) == (7, "")
    assert ended.err.splitlines()[-1].startswith(f"muster: The address {bind} is in use")
    assert "Traceback" not in ended.err


def test_an_address_of_another_machine_exits_78(own_database: OwnDatabase, tmp_path: Path) -> None:
    """An address that this machine does not have is a wrong setting."""
    ended = program_on(own_database, tmp_path).run("serve", MUSTER_BIND="192.0.2.1:8420")
    assert (ended.code, ended.out) == (78, "")
    assert "192.0.2.1:8420 of MUSTER_BIND" in ended.err.splitlines()[-1]
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(("plugins", "told"), [("0", [DOORS_CLOSED]), ("1", [])])
async def test_closed_doors_are_told(
    own_database: OwnDatabase, tmp_path: Path, plugins: str, told: list[str]
) -> None:
    """A server without its doors for plugins says so on stderr, once, and which setting opens."""
    program = program_on(own_database, tmp_path)
    async with server_child(program, tmp_path, MUSTER_PLUGINS=plugins) as server:
        assert server.events()[0]["plugins"] is (plugins == "1")
        assert (await server.stop()).code == 0
        assert [line["reason"] for line in server.complaints()] == told
