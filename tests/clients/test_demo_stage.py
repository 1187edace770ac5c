"""Where the demo serves."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio

from muster.clients.demo import program
from muster.clients.demo.children import ChildEndedError, DemoError
from muster.clients.demo.stage import (
    CONFLICT,
    FIRST_PORT,
    PORTS_MAX,
    Stage,
    choose_bind,
    set_out,
)


async def test_the_address_of_the_person_is_taken_as_it_is() -> None:
    """MUSTER_BIND decides where the demo serves."""
    assert await choose_bind({"MUSTER_BIND": "127.0.0.2:1"}) == "127.0.0.2:1"


async def test_a_port_that_is_taken_is_passed_over() -> None:
    """Without MUSTER_BIND the first free port from 8420 on is chosen."""
    chosen = await choose_bind({})
    host, port = chosen.split(":")
    assert (host, FIRST_PORT <= int(port) < FIRST_PORT + PORTS_MAX) == ("127.0.0.1", True)
    (listener,) = await trio.open_tcp_listeners(int(port), host=host)
    async with listener:
        assert int((await choose_bind({})).split(":")[1]) > int(port)


async def test_no_port_at_all_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """When every port of the range is taken the person is asked to name one."""
    monkeypatch.setattr("muster.clients.demo.stage.PORTS_MAX", 0)
    with pytest.raises(DemoError, match="set MUSTER_BIND"):
        await choose_bind({})


SERVER = """
import json, os, signal, sys
if os.environ["MUSTER_BIND"].endswith(":1"):
    sys.exit({code})
print(json.dumps({{"event": "ready", "url": os.environ["MUSTER_BIND"]}}), flush=True)
signal.pause()
"""


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A stage, and ports of which the first is taken once the server comes to it."""
    binds = iter(["127.0.0.1:1", "127.0.0.1:2"])

    async def choose(environ: Mapping[str, str]) -> str:
        return environ.get("MUSTER_BIND") or next(binds)

    monkeypatch.setattr(program, "choose_bind", choose)
    return set_out(tmp_path)


def play_server(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Have a child in the server's place, which ends with this code where the port is taken."""
    child = [sys.executable, "-c", SERVER.format(code=code)]
    monkeypatch.setattr(program, "leashed", lambda *_arguments: child)


async def test_a_port_that_is_taken_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that finds its port taken (exit 7) is started again on the next one."""
    play_server(monkeypatch, code=CONFLICT)
    said: list[str] = []
    async with program._serving(stage, {}, said.append) as url:
        assert url == "127.0.0.1:2"
    assert said[1:] == ["127.0.0.1:1 was taken meanwhile; trying the next free port"]


@pytest.mark.parametrize(("bind", "code"), [("127.0.0.1:1", CONFLICT), ("", 78)])
async def test_no_other_end_starts_the_server_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, bind: str, code: int
) -> None:
    """Where the person chose the port, or something else is wrong, the demo ends with that."""
    play_server(monkeypatch, code=code)
    with pytest.RaisesGroup(pytest.RaisesExc(ChildEndedError, match=f"exit code {code}")):
        async with program._serving(stage, {"MUSTER_BIND": bind}, print):
            pass
