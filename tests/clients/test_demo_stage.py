"""Where the demo serves."""

import pytest
import trio

from muster.clients.demo.children import DemoError
from muster.clients.demo.stage import FIRST_PORT, PORTS_MAX, choose_bind


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
