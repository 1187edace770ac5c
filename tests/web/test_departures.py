"""A handler that waits for something else ends with its client."""

from collections.abc import Callable

import pytest
import trio

from tests.support.waiting import until
from tests.support.wire import RawClient, served
from web.asgi import PeerGone, Receive, Scope, Send
from web.departures import WHILE_THERE

GET = b"GET /park HTTP/1.1\r\nHost: test\r\n\r\n"


class Parked:
    """An app whose handlers wait until their client leaves."""

    def __init__(self) -> None:
        self.waiting = 0
        self.ended = 0
        self.slow = trio.Event()

    async def __call__(self, scope: Scope, _receive: Receive, _send: Send) -> None:
        """Wait, and take some time to end."""
        self.waiting += 1
        with scope["extensions"][WHILE_THERE]():
            try:
                await trio.Event().wait()
            finally:
                with trio.CancelScope(shield=True):
                    await self.slow.wait()
        self.ended += 1


async def _half_close(client: RawClient) -> None:
    await client.half_close()


async def _leave(client: RawClient) -> None:
    client.leave()


async def _reset(client: RawClient) -> None:
    client.reset()


async def _half_close_behind_more(client: RawClient) -> None:
    await client.send(GET)
    await client.half_close()


@pytest.mark.parametrize("leave", [_half_close, _leave, _reset, _half_close_behind_more])
async def test_each_way_to_leave_ends_the_wait(leave: Callable[[RawClient], object]) -> None:
    """An end, a reset, and an end behind a request that nobody has read are all heard at once."""
    app = Parked()
    app.slow.set()
    async with served(app) as floor:
        stays, leaves = await floor.open(), await floor.open()
        for client in (stays, leaves):
            await client.send(GET)
        await until(lambda: app.waiting == 2)
        await leave(leaves)  # type: ignore[misc]
        await until(lambda: app.ended >= 1, 4.0)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert floor.reports == []
        assert app.waiting - app.ended >= 1, "the one who stays still waits"


async def test_a_client_that_left_before_the_wait_is_heard_too() -> None:
    """Its end lies in the socket already when the handler begins to wait."""
    app = Parked()
    app.slow.set()
    async with served(app) as floor:
        client = await floor.open()
        await client.send(GET)
        await client.half_close()
        await until(lambda: app.ended == 1, 4.0)


async def test_who_only_ended_its_side_is_told_of_no_crash() -> None:
    """There is no answer, and no 500 that speaks of a report which nobody made."""

    async def gone(scope: Scope, _receive: Receive, _send: Send) -> None:
        with scope["extensions"][WHILE_THERE]():
            await trio.Event().wait()
        raise PeerGone

    async with served(gone) as floor:
        client = await floor.open()
        await client.send(GET)
        await client.half_close()
        assert await client.read_to_end() == b""
        assert floor.reports == []


async def test_a_handler_that_is_slow_to_end_keeps_the_loop_asleep() -> None:
    """Between the client's leaving and the handler's end nothing runs again and again."""
    app = Parked()
    async with served(app) as floor:
        client = await floor.open()
        await client.send(GET)
        await until(lambda: app.waiting == 1)
        client.leave()
        try:
            # It would never return beside a task that is always ready.
            with trio.fail_after(4):
                await trio.testing.wait_all_tasks_blocked(0.05)
            assert app.ended == 0
        finally:
            app.slow.set()
        await until(lambda: app.ended == 1, 4.0)
