"""The one turn in hand: which frames end it, and what is proven by that."""

from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from muster.agents.gateway import (
    CANCEL_GRACE_SECONDS,
    NOT_HANDED_OVER,
    Ended,
    Gateway,
    Gateways,
    Turn,
    TurnEnd,
    unproven,
)
from muster.connections.rules import BadFrame
from muster.failure import Cause, Failure
from muster.principals import Agent
from muster.token_use import TokenUse, read_token_use

AGENT = Agent(owner_id=1, agent_id=31, name="helper", credential_id=1)
TURN = Turn(
    turn_id="message:1:1", conversation="c", title="Mail", text="hello", deadline_seconds=10
)
USAGE: dict[str, Any] = {
    "model": "some-model",
    "calls": 2,
    "input_tokens": 300,
    "cached_input_tokens": 200,
    "output_tokens": 40,
}


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


DONE = TurnEnd(ended=Ended.COMPLETED)
SAID_NO = TurnEnd(ended=Ended.UNPROVEN, failure=Failure(cause=Cause.REPORTED, error="no ink"))


async def play(frames: list[tuple[str, dict[str, object]]], *, gone: bool = False) -> TurnEnd:
    """Hand a turn over, let the agent say `frames`, and tell how it ended."""
    wire = Wire()
    gateway = Gateway(agent=AGENT, peer=wire)
    ended: list[TurnEnd] = []

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
        ([("turn.done", {"text": ""})], DONE),
        ([("turn.started", {}), ("turn.done", {"text": "x"})], DONE),
        ([("turn.delta", {"text": "x"}), ("turn.done", {"text": "x"})], DONE),
        ([("turn.busy", {})], NOT_HANDED_OVER),
        ([("turn.started", {}), ("turn.busy", {})], unproven(Cause.BUSY)),
        ([("turn.delta", {"text": "x"}), ("turn.busy", {})], unproven(Cause.BUSY)),
        ([("turn.failed", {"error": "no\n\tink"})], SAID_NO),
        ([("turn.failed", {"error": "no ink"}), ("turn.done", {"text": ""})], SAID_NO),
        ([("turn.failed", {"error": "no ink"}), ("turn.failed", {"error": "late"})], SAID_NO),
        ([("turn.failed", {"error": " \x00"})], unproven(Cause.REPORTED)),
    ],
)
async def test_the_first_ending_counts(
    frames: list[tuple[str, dict[str, object]]], ended: TurnEnd
) -> None:
    """Done proves it, busy before anything else takes it back, else it is unproven, and why."""
    assert await play(frames) == ended


@pytest.mark.rule(218)
async def test_a_peer_that_goes_away_leaves_the_turn_unproven() -> None:
    """The end of the connection is the end of its turn."""
    assert await play([("turn.started", {})], gone=True) == unproven(Cause.LOST)


async def test_frames_for_another_turn_and_unknown_frames_change_nothing() -> None:
    """A late answer for an older turn and a type nobody knows are ignored."""
    frames: list[tuple[str, dict[str, object]]] = [
        ("turn.done", {"turn_id": "message:0:1", "text": ""}),
        ("turn.whatever", {}),
        ("dance", {}),
        ("turn.failed", {"error": "no ink"}),
    ]
    assert await play(frames) == SAID_NO


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
        assert await gateway.run_turn(TURN) == NOT_HANDED_OVER
        gateway.close()
    assert await gateway.run_turn(TURN) == NOT_HANDED_OVER
    with pytest.raises(trio.WouldBlock):
        wire.sent.receive_nowait()


@pytest.mark.rule(218)
async def test_a_write_that_breaks_is_unproven() -> None:
    """Once writing began, how much of it arrived is unknown."""
    wire = Wire()
    wire.broken = True
    gateway = Gateway(agent=AGENT, peer=wire)
    assert await gateway.run_turn(TURN) == unproven(Cause.LOST)
    assert not gateway.can_take_turn


async def test_the_deadline_cancels_the_turn_at_the_agent(autojump_clock: object) -> None:
    """When the time is over the agent is told to stop, and the turn is unproven."""
    wire = Wire()
    gateway = Gateway(agent=AGENT, peer=wire)
    begun = trio.current_time()
    assert await gateway.run_turn(TURN) == unproven(Cause.DEADLINE)
    assert trio.current_time() - begun == TURN.deadline_seconds + CANCEL_GRACE_SECONDS
    assert (await wire.sent.receive())["type"] == "turn"
    assert await wire.sent.receive() == {"type": "cancel", "turn_id": TURN.turn_id}
    with pytest.raises(trio.WouldBlock):
        wire.sent.receive_nowait()


@pytest.mark.parametrize(
    ("kind", "members", "ended"),
    [
        (
            "turn.failed",
            {"error": "the turn was cancelled"},
            TurnEnd(
                ended=Ended.UNPROVEN,
                failure=Failure(cause=Cause.DEADLINE, error="the turn was cancelled"),
            ),
        ),
        ("turn.done", {"text": "it crossed the cancel"}, DONE),
    ],
)
async def test_the_answer_to_a_cancel_by_deadline_brings_the_tokens(
    autojump_clock: object, kind: str, members: dict[str, object], ended: TurnEnd
) -> None:
    """An agent that answers the cancel at once is heard: how it ended, and what it took."""
    wire = Wire()
    gateway = Gateway(agent=AGENT, peer=wire)

    async def obey() -> None:
        while (await wire.sent.receive())["type"] != "cancel":
            pass
        await wire.say(kind, usage=USAGE, **members)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read, gateway)
        nursery.start_soon(obey)
        begun = trio.current_time()
        assert await gateway.run_turn(TURN) == attrs.evolve(ended, usage=TokenUse(**USAGE))
        assert trio.current_time() - begun == TURN.deadline_seconds
        nursery.cancel_scope.cancel()


async def test_a_turn_that_ended_tells_what_it_took() -> None:
    """The count of a turn that is done and of one that failed is handed on; a late one is not."""
    for kind, ended in (("turn.done", DONE), ("turn.failed", unproven(Cause.REPORTED))):
        frames: list[tuple[str, dict[str, object]]] = [
            (kind, {"text": "", "error": "", "usage": USAGE | {"more": 1}}),
            (kind, {"text": "", "error": "", "usage": USAGE | {"calls": 9}}),
        ]
        assert await play(frames) == attrs.evolve(ended, usage=TokenUse(**USAGE))


@pytest.mark.parametrize("kind", ["turn.done", "turn.failed"])
@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        {},
        {"model": "m", "calls": 1},
        *({**USAGE, "model": model} for model in (None, 7, "m" * 201, "a\nb", "a\x00", "\ud800")),
        *({**USAGE, "calls": calls} for calls in (None, -1, 10**12 + 1, 1.0, True, "1")),
        {**USAGE, "output_tokens": -1},
    ],
)
async def test_a_malformed_count_is_a_bad_frame(kind: str, wrong: object) -> None:
    """A usage that is not of its shape closes the connection, also for a turn nobody knows."""
    wire = Wire()
    gateway = Gateway(agent=AGENT, peer=wire)
    await wire.say(kind, text="", error="", usage=wrong)
    with trio.fail_after(5), pytest.raises(BadFrame, match=f"{kind}: usage"):
        await gateway.read()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(JSON | st.fixed_dictionaries(dict.fromkeys(USAGE, JSON | st.integers(0, 10**12))))
def test_what_is_read_of_a_count_stays_within_its_bounds(value: object) -> None:
    """Whatever an agent sends, it is refused in words or is within every bound."""
    try:
        use = read_token_use(value)
    except ValueError:
        return
    counts = (use.calls, use.input_tokens, use.cached_input_tokens, use.output_tokens)
    assert all(type(count) is int and 0 <= count <= 10**12 for count in counts)
    assert len(use.model) <= 200
    assert "\x00" not in use.model
    use.model.encode()


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
