"""The runner's turns: every frame, both ways, against a gateway that the test plays."""

import json

import pytest
import trio

from muster.clients.dial import Close
from tests.support.agent_door import DEADLINE_SECONDS, TOKEN, runner


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


async def test_turns_without_a_label_are_one_conversation() -> None:
    """A backend is never given an empty label."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.welcome()
        await peer.send("turn", turn_id="t1", text="this", deadline_seconds=9)
        while (await peer.receive())["type"] != "turn.done":
            pass
        assert running.backend.seen[0].conversation == "default"


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


async def test_what_a_backend_reports_is_told_of_its_turn() -> None:
    """A backend's event goes to the runner's report with its turn, and to the server not at all."""
    async with runner() as running:
        peer = await running.door.accept()
        await peer.welcome()
        await peer.turn("t1", "again")
        kinds = [(await peer.receive())["type"] for _ in range(3)]
        assert kinds == ["turn.started", "turn.delta", "turn.done"]
        told = {"turn_id": "t1", "reason": "busy", "seconds": 1.5}
        assert ("model.retry", told) in running.reports


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
