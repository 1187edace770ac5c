"""The runner's connection: how it is lost, waited for and made again, and when it is not."""

import json
import math
from collections.abc import Mapping

import pytest
import trio
import trio_websocket
from hypothesis import given
from hypothesis import strategies as st

from muster.clients.agent.frames import decode
from muster.clients.agent.gateway import PATH, Gateway
from muster.clients.coming_back import Backoff
from muster.clients.dial import Close, Closed, closed_by, closed_by_http, socket_url
from muster.clients.frames import FrameError
from tests.support.agent_door import DEADLINE_SECONDS, QUICK, TOKEN, Scripted, runner


@pytest.mark.parametrize("code", [1000, 1001, 1011, 4400, 4408])
async def test_a_lost_connection_is_made_again(code: int) -> None:
    """After any close that waiting mends, the runner is back and takes turns."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.welcome()
        await peer.socket.aclose(code=code, reason="bye")
        again = await running.door.accept()
        await again.turn("t2")
        assert (await again.receive())["turn_id"] == "t2"
        event, facts = running.reports[1]
        assert (event, facts["code"], facts["reason"]) == ("disconnected", code, "bye")


async def test_a_turn_dies_with_its_connection() -> None:
    """A connection lost in mid-turn cancels the backend, and nothing of it is said on the next."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.turn("t1", "wait")
        assert (await peer.receive())["type"] == "turn.started"
        await peer.socket.aclose(code=1011)
        again = await running.door.accept()
        assert running.backend.cancelled == ["t1"]
        await again.send("ping")
        assert await again.receive() == {"type": "pong"}


async def test_a_connection_that_is_cut_is_made_again() -> None:
    """A TCP connection that ends without a close frame is a lost one."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.welcome()
        await peer.socket._stream.aclose()
        await running.door.accept()
        assert running.reports[1][1]["code"] == Close.LOST


async def test_a_silent_server_is_left() -> None:
    """After three heartbeats without a frame the runner closes with 4408 and connects again."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.welcome(heartbeat_seconds=0.05)
        assert await peer.close_code() == Close.HEARTBEAT_MISSED
        await running.door.accept()


@pytest.mark.parametrize("code", [Close.BAD_TOKEN, Close.NOT_ALLOWED, Close.SUPERSEDED])
async def test_some_closes_end_the_runner(code: Close) -> None:
    """A bad token, a no, and another runner that took over are not tried again."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.welcome()
        await peer.socket.aclose(code=code, reason="no")
        assert await running.finish() == Closed(code=code, reason="no")
        assert running.door.knocks == 1


@pytest.mark.parametrize(("status", "code"), [(401, Close.BAD_TOKEN), (403, Close.NOT_ALLOWED)])
async def test_a_refused_handshake_ends_the_runner(status: int, code: Close) -> None:
    """A 401 or 403 instead of a socket means what 4401 and 4403 mean."""
    async with runner(status=status) as running:
        closed = await running.finish()
        assert closed is not None
        assert closed.code == code
        assert running.door.knocks == 1


async def test_a_server_that_is_not_ready_is_tried_again() -> None:
    """A 503 or 404 is waited out: the server may come, or come with its feature on."""
    async with runner(status=503) as running:
        with trio.fail_after(DEADLINE_SECONDS):
            while running.door.knocks < 3:
                await trio.lowlevel.checkpoint()
        running.door.status = None
        await running.door.accept()
        assert {event for event, _ in running.reports} == {"disconnected"}
        assert running.reports[0][1]["reason"] == "the server answered HTTP 503"


async def test_a_server_that_is_away_is_told_and_tried_again() -> None:
    """A refused connection is reported with its cause and a wait, not raised."""
    reports: list[Mapping[str, object]] = []
    told = trio.Event()

    def report(event: str, facts: Mapping[str, object]) -> None:
        reports.append({"event": event, **facts})
        if len(reports) == 3:
            told.set()

    free = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = free[0].socket.getsockname()[1]
    await free[0].aclose()
    gateway = Gateway(
        url=f"http://127.0.0.1:{port}",
        token=TOKEN,
        backend=Scripted(),
        report=report,
        backoff=QUICK,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.run)
        with trio.fail_after(DEADLINE_SECONDS):
            await told.wait()
        nursery.cancel_scope.cancel()
    assert all(each["event"] == "disconnected" for each in reports)
    assert "cannot be reached" in str(reports[0]["reason"])
    assert TOKEN not in json.dumps(reports)


async def test_a_runner_that_is_stopped_says_so() -> None:
    """Stopping the runner in mid-turn answers turn.failed before the socket goes."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.turn("t1", "wait")
        assert (await peer.receive())["type"] == "turn.started"
        running.scope.cancel()
        answer = await peer.receive()
        assert (answer["type"], answer["turn_id"]) == ("turn.failed", "t1")
        assert "stopped" in answer["error"]
        assert await running.finish() is None


async def test_a_backend_that_crashes_ends_loudly() -> None:
    """A bug in a backend is answered as a failed turn and then ends the runner with its error."""
    with pytest.RaisesGroup(ZeroDivisionError, flatten_subgroups=True):
        async with runner() as running:
            peer = await running.door.accept()
            await peer.turn("t1", "crash")
            assert (await peer.receive())["type"] == "turn.started"
            assert (await peer.receive())["type"] == "turn.failed"
            await trio.sleep_forever()


LOST = Closed(code=Close.LOST, reason="")


@given(attempt=st.integers(0, 10_000), chance=st.floats(0, 1))
def test_waits_stay_between_one_and_thirty_seconds(attempt: int, chance: float) -> None:
    """However often it failed, the wait is at least 1 s and at most 30 s."""
    assert 1 <= Backoff().wait_seconds(attempt, LOST, chance) <= 30


def test_waits_grow_with_the_failures() -> None:
    """The longest wait doubles from 2 s to 30 s; the jitter reaches down to 1 s."""
    longest = [Backoff().wait_seconds(attempt, LOST, 1) for attempt in range(6)]
    assert longest == [2, 4, 8, 16, 30, 30]
    assert Backoff().wait_seconds(9, LOST, 0) == 1


@pytest.mark.parametrize(
    ("reason", "seconds"),
    [("retry in 90 s", 90), ("", 30), ("slow down", 30), ("99999999999", 600)],
)
def test_a_slow_down_is_obeyed(reason: str, seconds: float) -> None:
    """After 4429 the wait is what the reason names, else 30 s, and never over 10 minutes."""
    wait = Backoff().wait_seconds(0, closed_by(Close.SLOW_DOWN, reason), 0)
    assert math.isclose(wait, seconds)


@pytest.mark.parametrize(
    ("url", "socket"),
    [
        ("http://localhost:8420", "ws://localhost:8420/agent/v1/socket"),
        ("https://desk.example.test/", "wss://desk.example.test/agent/v1/socket"),
        ("http://127.0.0.1:1/muster/", "ws://127.0.0.1:1/muster/agent/v1/socket"),
    ],
)
def test_the_gateway_is_under_musters_address(url: str, socket: str) -> None:
    """The socket's address follows from muster's."""
    assert socket_url(url, PATH) == socket


@pytest.mark.parametrize("url", ["", "localhost:8420", "ftp://x", "http://", "http://x/?a=b"])
def test_what_is_no_address_is_told(url: str) -> None:
    """An address of another shape is a ValueError that shows it."""
    with pytest.raises(ValueError, match="is not an address like"):
        socket_url(url, PATH)


@pytest.mark.parametrize(
    ("after", "seconds"), [(b"7", 7.0), ("²".encode("latin-1"), None), (b"-1", None), (b"", None)]
)
def test_a_refusal_names_its_seconds_in_plain_digits(after: bytes, seconds: float | None) -> None:
    """What a proxy puts into Retry-After is a number or nothing."""
    refusal = trio_websocket.ConnectionRejected(429, ((b"retry-after", after),), None)
    closed = closed_by_http(refusal)
    assert (closed.code, closed.retry_after_seconds) == (Close.SLOW_DOWN, seconds)


def test_a_frame_that_is_too_deep_is_none() -> None:
    """A frame that is nested beyond what can be read is a broken frame, not a crash."""
    with pytest.raises(FrameError):
        decode('{"type": "ping", "more": ' + "[" * 100_000 + "]" * 100_000 + "}")
