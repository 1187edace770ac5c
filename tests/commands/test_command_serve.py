"""`muster serve` where it can't serve: told in a sentence, with an exit code of the design's."""

import socket
from pathlib import Path

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
