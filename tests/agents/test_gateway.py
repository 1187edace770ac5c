"""The one turn in hand: which frames end it, and what is proven by that."""

from typing import Any

import pytest
import trio

from muster.agents.gateway import BadFrame, Ended, Gateway, Gateways, Turn
from muster.principals import Agent

AGENT = Agent(owner_id=1, agent_id=31, name="helper", credential_id=1)
TURN = Turn(
    turn_id="message:1:1", conversation="c", title="Mail", text="hello", deadline_seconds=10
)


class Wire:
    """A peer made of two channels: what the gateway sent, and what it is to receive."""

    def __init__(self) -> None:
        self._sent_in, self.sent = trio.open_memory_channel[dict[str, Any]](100)
        self.agent, self._frames = trio.open_memory_channel[dict[str, object]](100)
        self.broken = False

    async def receive_frame(self) -> dict[str, object]:
        """What the agent said next."""
        try:
            return await self._frames.receive()
        except trio.EndOfChannel:
            raise ConnectionError("gone") from None

    async def send_frame(self, frame: Any) -> None:
        """Keep what the gateway sent."""
        await trio.lowlevel.checkpoint()
        if self.broken:
            raise ConnectionError("broken")
        await self._sent_in.send(frame)

    async def say(self, kind: str, turn_id: object = TURN.turn_id, **members: object) -> None:
        """Let the agent say something."""
        await self.agent.send({"type": kind, "turn_id": turn_id, **members})


async def read(gateway: Gateway) -> None:
    """Read until the peer is gone."""
    try:
        await gateway.read()
    except OSError:
        return


async def play(frames: list[tuple[str, dict[str, object]]], *, gone: bool = False) -> Ended:
    """Hand a turn over, let the agent say `frames`, and tell how it ended."""
    wire = Wire()
    gateway = Gateway(agent=AGENT, peer=wire)
    ended: list[Ended] = []

    async def go() -> None:
        ended.append(await gateway.run_turn(TURN))
        nursery.cancel_scope.cancel()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, gateway)
            nursery.start_soon(go)
            assert (await wire.sent.receive())["type"] == "turn"
            for kind, members in frames:
                await wire.say(kind, **members)
            if gone:
                await wire.agent.aclose()
    return ended[0]


@pytest.mark.rule(217, 218, 220)
@pytest.mark.parametrize(
    ("frames", "ended"),
    [
        ([("turn.done", {"text": ""})], Ended.COMPLETED),
        ([("turn.started", {}), ("turn.done", {"text": "x"})], Ended.COMPLETED),
        ([("turn.delta", {"text": "x"}), ("turn.done", {"text": "x"})], Ended.COMPLETED),
        ([("turn.busy", {})], Ended.NOT_HANDED_OVER),
        ([("turn.started", {}), ("turn.busy", {})], Ended.UNPROVEN),
        ([("turn.delta", {"text": "x"}), ("turn.busy", {})], Ended.UNPROVEN),
        ([("turn.failed", {"error": "no"})], Ended.UNPROVEN),
        ([("turn.failed", {"error": "no"}), ("turn.done", {"text": ""})], Ended.UNPROVEN),
    ],
)
async def test_the_first_ending_counts(
    frames: list[tuple[str, dict[str, object]]], ended: Ended
) -> None:
    """Done proves it, busy before anything else takes it back, everything else is unproven."""
    assert await play(frames) is ended


@pytest.mark.rule(218)
async def test_a_peer_that_goes_away_leaves_the_turn_unproven() -> None:
    """The end of the connection is the end of its turn."""
    assert await play([("turn.started", {})], gone=True) is Ended.UNPROVEN


async def test_frames_for_another_turn_and_unknown_frames_change_nothing() -> None:
    """A late answer for an older turn and a type nobody knows are ignored."""
    frames: list[tuple[str, dict[str, object]]] = [
        ("turn.done", {"turn_id": "message:0:1", "text": ""}),
        ("turn.whatever", {}),
        ("dance", {}),
        ("turn.failed", {"error": "this one"}),
    ]
    assert await play(frames) is Ended.UNPROVEN


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("turn.done", {}),
        ("turn.done", {"text": 7}),
        ("turn.delta", {"text": None}),
        ("turn.failed", {}),
        ("turn.started", {"turn_id": 7}),
    ],
)
async def test_a_malformed_frame_is_named_and_ends_the_connection(
    kind: str, members: dict[str, object]
) -> None:
    """A frame of a known type that lacks what it needs is a BadFrame that says what."""
    wire = Wire()
    gateway = Gateway(agent=AGENT, peer=wire)
    await wire.say(kind, **members)
    with pytest.raises(BadFrame, match=kind):
        await gateway.read()
    assert not gateway.can_take_turn


@pytest.mark.rule(220)
async def test_a_closed_or_busy_connection_is_handed_nothing() -> None:
    """Nothing is written to a connection that has a turn in hand or is over."""
    wire = Wire()
    gateway = Gateway(agent=AGENT, peer=wire)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.run_turn, TURN)
        await wire.sent.receive()
        assert await gateway.run_turn(TURN) is Ended.NOT_HANDED_OVER
        gateway.close()
    assert await gateway.run_turn(TURN) is Ended.NOT_HANDED_OVER
    with pytest.raises(trio.WouldBlock):
        wire.sent.receive_nowait()


@pytest.mark.rule(218)
async def test_a_write_that_breaks_is_unproven() -> None:
    """Once writing began, how much of it arrived is unknown."""
    wire = Wire()
    wire.broken = True
    gateway = Gateway(agent=AGENT, peer=wire)
    assert await gateway.run_turn(TURN) is Ended.UNPROVEN
    assert not gateway.can_take_turn


async def test_the_deadline_cancels_the_turn_at_the_agent(autojump_clock: object) -> None:
    """When the time is over the agent is told to stop, and the turn is unproven."""
    wire = Wire()
    gateway = Gateway(agent=AGENT, peer=wire)
    begun = trio.current_time()
    assert await gateway.run_turn(TURN) is Ended.UNPROVEN
    assert trio.current_time() - begun == TURN.deadline_seconds
    assert (await wire.sent.receive())["type"] == "turn"
    assert await wire.sent.receive() == {"type": "cancel", "turn_id": TURN.turn_id}


async def test_a_newer_connection_stays_listed_when_the_older_leaves() -> None:
    """Leaving takes out only the connection that is listed."""
    gateways, older = Gateways(), Gateway(agent=AGENT, peer=Wire())
    gateways.enter(older)
    newer = Gateway(agent=AGENT, peer=Wire())
    gateways.enter(newer)
    gateways.leave(older)
    assert gateways.find(AGENT.agent_id) is newer
    assert gateways.serves(AGENT.owner_id)
    gateways.leave(newer)
    assert gateways.find(AGENT.agent_id) is None
    assert not gateways.serves(AGENT.owner_id)


async def test_waiting_for_idle_ends_with_the_turn() -> None:
    """A drain waits for the turn in hand and for nothing else."""
    wire = Wire()
    gateways, gateway = Gateways(), Gateway(agent=AGENT, peer=wire)
    gateways.enter(gateway)
    with trio.fail_after(5):
        await gateways.until_idle()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gateway.run_turn, TURN)
            await wire.sent.receive()
            with trio.move_on_after(0) as early:
                await gateways.until_idle()
            assert early.cancelled_caught
            nursery.start_soon(gateways.until_idle)
            gateway.close()
