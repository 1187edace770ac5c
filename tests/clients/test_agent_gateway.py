"""The runner's socket: every frame, both ways, against a gateway that the test plays."""

import contextlib
import json
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
import trio_websocket
from hypothesis import given
from hypothesis import strategies as st

from muster.clients.agent.backend import Backend, Tools, Turn, TurnError
from muster.clients.agent.dial import Closed, closed_by, socket_url
from muster.clients.agent.frames import Close
from muster.clients.agent.gateway import Backoff, Gateway

TOKEN = "mag_secret-of-the-test"
QUICK = Backoff(least_seconds=0.01, most_seconds=0.05)
DEADLINE_SECONDS = 10


@attrs.define
class Peer:
    """The server's end of one connection."""

    socket: trio_websocket.WebSocketConnection
    headers: dict[bytes, bytes]
    path: str

    async def send(self, kind: str, **members: object) -> None:
        """Send a frame of the server."""
        await self.socket.send_message(json.dumps({"type": kind, **members}))

    async def receive(self) -> dict[str, Any]:
        """Wait for the runner's next frame."""
        with trio.fail_after(DEADLINE_SECONDS):
            frame: dict[str, Any] = json.loads(await self.socket.get_message())
            return frame

    async def welcome(self, heartbeat_seconds: float = 15) -> None:
        """Greet the runner as the agent helper."""
        await self.send(
            "welcome",
            agent_id=3,
            name="helper",
            instructions="Be kind.",
            heartbeat_seconds=heartbeat_seconds,
        )

    async def turn(self, turn_id: str, text: str = "hello", deadline_seconds: float = 60) -> None:
        """Hand the runner a turn."""
        await self.send(
            "turn",
            turn_id=turn_id,
            conversation="plugin:1",
            title="Mail",
            text=text,
            deadline_seconds=deadline_seconds,
        )

    async def close_code(self) -> int:
        """Wait for the runner's close frame."""
        with trio.fail_after(DEADLINE_SECONDS):
            while self.socket.closed is None:
                with contextlib.suppress(trio_websocket.ConnectionClosed):
                    await self.socket.get_message()
        return self.socket.closed.code


@attrs.define
class Door:
    """A gateway that accepts, or refuses with `status`, whoever knocks."""

    url: str = ""
    status: int | None = None
    knocks: int = 0
    peers: Any = attrs.field(factory=lambda: trio.open_memory_channel[Peer](4))

    async def answer(self, request: trio_websocket.WebSocketRequest) -> None:
        """Serve one knock."""
        self.knocks += 1
        if self.status is not None:
            await request.reject(self.status, body=b'{"error": "no", "code": "no"}')
            return
        socket = await request.accept()
        await self.peers[0].send(Peer(socket, dict(request.headers), request.path))
        await trio.sleep_forever()

    async def accept(self) -> Peer:
        """Wait for the next connection."""
        with trio.fail_after(DEADLINE_SECONDS):
            peer: Peer = await self.peers[1].receive()
            return peer


@attrs.define
class Scripted(Backend):
    """Does as the turn's text says, and keeps what it saw."""

    seen: list[Turn] = attrs.field(factory=list)
    cancelled: list[str] = attrs.field(factory=list)
    release: trio.Event = attrs.field(factory=trio.Event)

    def takes(self, turn: Turn) -> bool:
        """All but a turn that says busy."""
        return turn.text != "busy"

    async def turn(self, turn: Turn, _tools: Tools) -> str:
        """Do what the turn's text says."""
        self.seen.append(turn)
        match turn.text:
            case "fail":
                raise TurnError("it cannot be done")
            case "wait":
                try:
                    await self.release.wait()
                except trio.Cancelled:
                    with trio.CancelScope(shield=True):
                        for _step in range(200):  # it tidies up, for longer than a frame takes
                            await trio.lowlevel.checkpoint()
                    self.cancelled.append(turn.turn_id)
                    raise
            case "long":
                return "\x01" * 400_000
            case "crash":
                raise ZeroDivisionError
        await turn.say("thinking")
        return f"did {turn.text}"


@attrs.define
class Running:
    """A runner in a nursery: its door, its backend, what it reported and how it ended."""

    door: Door
    backend: Scripted
    reports: list[tuple[str, Mapping[str, object]]]
    scope: trio.CancelScope
    ended: trio.Event = attrs.field(factory=trio.Event)
    closed: Closed | None = None

    async def finish(self) -> Closed | None:
        """Wait for the runner to end, and say how."""
        with trio.fail_after(DEADLINE_SECONDS):
            await self.ended.wait()
        return self.closed


@asynccontextmanager
async def runner(**door: Any) -> AsyncIterator[Running]:
    """A gateway on 127.0.0.1 and a runner that connects to it."""
    listening = Door(**door)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(
            trio_websocket.serve_websocket, listening.answer, "127.0.0.1", 0, None
        )
        listening.url = f"http://127.0.0.1:{server.port}"
        running = Running(listening, Scripted(), [], trio.CancelScope())
        gateway = Gateway(
            url=listening.url,
            token=TOKEN,
            backend=running.backend,
            report=lambda event, facts: running.reports.append((event, facts)),
            backoff=QUICK,
        )

        async def run() -> None:
            with running.scope:
                running.closed = await gateway.run()
            running.ended.set()

        nursery.start_soon(run)
        yield running
        running.scope.cancel()
        await running.finish()
        nursery.cancel_scope.cancel()


async def test_the_runner_knocks_with_its_token() -> None:
    """The socket is opened at the gateway's path with the token in the header alone."""
    async with runner() as running:
        peer = await running.door.accept()
        assert peer.path == "/agent/v1/socket"
        assert peer.headers[b"authorization"] == f"Bearer {TOKEN}".encode()


async def test_a_turn_is_started_told_about_and_done() -> None:
    """A turn is answered by turn.started, what the backend says, and turn.done."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.welcome()
        await peer.turn("t1", "this", deadline_seconds=9)
        assert [await peer.receive() for _ in range(3)] == [
            {"type": "turn.started", "turn_id": "t1"},
            {"type": "turn.delta", "turn_id": "t1", "text": "thinking"},
            {"type": "turn.done", "turn_id": "t1", "text": "did this"},
        ]
        turn = running.backend.seen[0]
        assert (turn.conversation, turn.title, turn.deadline_seconds, turn.instructions) == (
            "plugin:1",
            "Mail",
            9,
            "Be kind.",
        )
        assert running.reports[0] == ("connected", {"agent_id": 3, "name": "helper"})


async def test_a_turn_that_the_backend_gives_up_fails() -> None:
    """The backend's sentence goes out as turn.failed, and the next turn is taken."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.welcome()
        await peer.turn("t1", "fail")
        assert (await peer.receive())["type"] == "turn.started"
        assert await peer.receive() == {
            "type": "turn.failed",
            "turn_id": "t1",
            "error": "it cannot be done",
        }
        await peer.turn("t2")
        assert (await peer.receive())["turn_id"] == "t2"


async def test_a_second_turn_is_busy() -> None:
    """While one turn is in hand another is answered turn.busy alone, and the first goes on."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.welcome()
        await peer.turn("t1", "wait")
        assert (await peer.receive())["type"] == "turn.started"
        await peer.turn("t2")
        assert await peer.receive() == {"type": "turn.busy", "turn_id": "t2"}
        running.backend.release.set()
        assert (await peer.receive())["type"] == "turn.delta"
        assert (await peer.receive())["text"] == "did wait"
        assert [turn.turn_id for turn in running.backend.seen] == ["t1"]


async def test_a_turn_that_the_backend_does_not_take_is_busy() -> None:
    """A backend that says no beforehand never sees the turn and nothing is started."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.turn("t1", "busy")
        assert await peer.receive() == {"type": "turn.busy", "turn_id": "t1"}
        assert running.backend.seen == []


async def test_cancel_stops_the_backend_and_frees_the_runner() -> None:
    """A cancel unwinds the turn in hand, and the turn sent right after it is taken."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.welcome()
        await peer.turn("t1", "wait")
        assert (await peer.receive())["type"] == "turn.started"
        await peer.send("cancel", turn_id="another")
        await peer.send("cancel", turn_id="t1")
        await peer.turn("t2")
        assert await peer.receive() == {
            "type": "turn.failed",
            "turn_id": "t1",
            "error": "the turn was cancelled",
        }
        assert await peer.receive() == {"type": "turn.started", "turn_id": "t2"}
        assert running.backend.cancelled == ["t1"]


async def test_turns_can_follow_each_other_at_once() -> None:
    """A turn sent the moment the last one is answered is never called busy."""
    async with runner() as running:
        peer = await running.door.accept()
        for number in range(50):
            await peer.turn(f"t{number}")
            kinds = [(await peer.receive())["type"] for _ in range(3)]
            assert kinds == ["turn.started", "turn.delta", "turn.done"]


async def test_a_deadline_is_kept_by_the_runner_too() -> None:
    """A turn that outlives its deadline is cancelled and answered as failed."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.turn("t1", "wait", deadline_seconds=0.05)
        assert (await peer.receive())["type"] == "turn.started"
        answer = await peer.receive()
        assert (answer["type"], answer["error"]) == (
            "turn.failed",
            "the turn did not end within its 0.05 s",
        )


async def test_a_long_answer_is_cut_to_what_a_frame_may_hold() -> None:
    """The server's 256 KiB for a frame hold whatever the backend says, in its longest spelling."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.turn("t1", "long")
        assert (await peer.receive())["type"] == "turn.started"
        with trio.fail_after(DEADLINE_SECONDS):
            raw = await peer.socket.get_message()
        assert json.loads(raw)["type"] == "turn.done"
        assert 200_000 < len(raw) <= 256 * 1024


async def test_ping_is_answered_also_in_mid_turn() -> None:
    """A ping is a pong at once, whatever the backend is doing."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.send("ping")
        assert await peer.receive() == {"type": "pong"}
        await peer.turn("t1", "wait")
        assert (await peer.receive())["type"] == "turn.started"
        await peer.send("ping")
        assert await peer.receive() == {"type": "pong"}


async def test_frames_of_a_newer_server_are_read() -> None:
    """An unknown type is ignored and unknown members of a known one too."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.send("weather", sky="blue")
        await peer.send("ping", because="why not")
        assert await peer.receive() == {"type": "pong"}


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "hello",
        "[]",
        "{}",
        '{"type": 3}',
        '{"type": "turn"}',
        '{"type": "turn", "turn_id": 3, "text": "x", "deadline_seconds": 9}',
        '{"type": "turn", "turn_id": "t", "text": "x", "deadline_seconds": 0}',
        '{"type": "turn", "turn_id": "t", "text": "x", "deadline_seconds": "9"}',
        '{"type": "turn", "turn_id": "t", "text": "\\ud800", "deadline_seconds": 9}',
        '{"type": "cancel"}',
        '{"type": "welcome", "agent_id": "3", "name": "x"}',
        '{"type": "welcome", "agent_id": 3, "name": "x", "heartbeat_seconds": -1}',
        b"\x00\xff",
        b'{"type": "ping"}',
    ],
)
async def test_a_malformed_frame_closes_4400(raw: str | bytes) -> None:
    """What is no frame closes the socket with 4400, and the runner connects again."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.socket.send_message(raw)
        assert await peer.close_code() == Close.BAD_FRAME
        again = await running.door.accept()
        await again.send("ping")
        assert await again.receive() == {"type": "pong"}
        assert running.backend.seen == []


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
    assert socket_url(url) == socket


@pytest.mark.parametrize("url", ["", "localhost:8420", "ftp://x", "http://", "http://x/?a=b"])
def test_what_is_no_address_is_told(url: str) -> None:
    """An address of another shape is a ValueError that shows it."""
    with pytest.raises(ValueError, match="is not an address like"):
        socket_url(url)
