"""A connection and a delivery, cancelled at every step: nothing is left half done."""

from collections.abc import Mapping

import pytest
import trio

from actors.testing import cancel_at_every_step
from muster.agents.gateway import Gateway
from muster.agents.operations import accept_gateway, find_agent
from muster.agents.rules import Accept
from muster.chief.deliveries import Deliveries, DeliverySettings
from muster.chief.turns import State as TurnState
from muster.messages.rules import State
from muster.principals import Muster, Owner
from tests.support.builders import get_message, make_chief, make_message, make_plugin, read_audit
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.server import running_server
from tests.support.speaking import connect, speak, turns

SETTINGS = DeliverySettings(turn_deadline_seconds=30, may_begin=lambda: True)


class _Peer:
    """An agent's end that is done with a turn as soon as the turn was written."""

    def __init__(self) -> None:
        self.gateway: Gateway | None = None
        self.written: list[Mapping[str, object]] = []

    async def receive_frame(self) -> Mapping[str, object]:
        """Stay silent."""
        await trio.sleep_forever()
        raise AssertionError("unreachable")

    async def send_frame(self, frame: Mapping[str, object]) -> None:
        """Take a frame whole, at a checkpoint before it as a socket has one."""
        await trio.lowlevel.checkpoint()
        self.written.append(frame)
        if frame["type"] == "turn":
            assert self.gateway is not None
            done = {"type": "turn.done", "turn_id": frame["turn_id"], "text": ""}
            self.gateway._take(done)


@pytest.mark.rule(215, 218)
async def test_a_delivery_stopped_anywhere_is_settled_as_what_it_may_have_been(
    db: SpiedDatabase, owner: Owner
) -> None:
    """Never left `delivering`, and queued again only when no byte of the turn was written."""
    plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
    muster = Muster(owner_id=owner.owner_id)
    peer = _Peer()
    gateway = peer.gateway = Gateway(agent=chief, peer=peer)
    accept = Accept(agent_id=chief.agent_id, node="n")
    gateway.epoch = await db.run(muster, accept_gateway, accept)
    ids: list[int] = []
    ends: set[State] = set()

    async def prepare() -> None:
        ids.append((await make_message(db, plugin)).id)
        peer.written.clear()

    async def operation() -> None:
        deliveries = Deliveries(
            chief.agent_id,
            muster,
            db,
            gateway=lambda _: gateway,
            settings=SETTINGS,
            nursery=nursery,
            again=lambda: None,
        )
        await deliveries.hand_over(ids[-1])

    async def check(completed: bool) -> None:
        state = (await get_message(db, owner, ids[-1])).state
        wrote = any(frame["type"] == "turn" for frame in peer.written)
        assert gateway.can_take_turn
        assert db.pool.free == db.pool.size
        match state:
            case State.QUEUED:
                assert not wrote
            case State.DELIVERED:
                assert wrote
            case _:
                assert state is State.UNCONFIRMED
        assert state is State.DELIVERED or not completed
        ends.add(state)
        await prepare()

    await prepare()
    async with trio.open_nursery() as nursery:
        assert await cancel_at_every_step(operation, check) >= 8
    assert ends >= {State.QUEUED, State.DELIVERED}
    assert not [
        row for row in await read_audit(db, owner, "plugin.delivered") if "recovered" in row.data
    ]


async def test_words_stopped_anywhere_are_settled_as_what_they_may_have_been(
    db: SpiedDatabase, owner: Owner
) -> None:
    """Never left `delivering`, and waiting again only when no byte of the turn was written."""
    chief = await make_chief(db, owner)
    peer = _Peer()
    gateway = peer.gateway = Gateway(agent=chief, peer=peer)
    gateway.epoch = await connect(db, chief)
    ids: list[int] = []
    ends: set[TurnState] = set()

    async def prepare() -> None:
        ids.append(await speak(db, owner, chief))
        peer.written.clear()

    async def operation() -> None:
        deliveries = Deliveries(
            chief.agent_id,
            Muster(owner_id=owner.owner_id),
            db,
            gateway=lambda _: gateway,
            settings=SETTINGS,
            nursery=nursery,
            again=lambda: None,
        )
        await deliveries.hand_words_over()

    async def check(completed: bool) -> None:
        state = {turn.id: turn.state for turn in await turns(db, owner)}[ids[-1]]
        wrote = any(frame["type"] == "turn" for frame in peer.written)
        assert gateway.can_take_turn
        assert db.pool.free == db.pool.size
        assert state is not TurnState.DELIVERING
        assert not (wrote and state is TurnState.QUEUED)
        assert wrote or state is not TurnState.DELIVERED
        assert state is TurnState.DELIVERED or not completed
        ends.add(state)
        if state is not TurnState.QUEUED:
            await prepare()

    await prepare()
    async with trio.open_nursery() as nursery:
        assert await cancel_at_every_step(operation, check) >= 8
    assert ends >= {TurnState.QUEUED, TurnState.DELIVERED}
    rows = await read_audit(db, owner, "conversation.delivered")
    assert not [row for row in rows if "recovered" in row.data]


async def test_a_connection_that_ends_anywhere_leaves_nobody_connected(
    db: SpiedDatabase, owner: Owner, cluster: Cluster
) -> None:
    """Wherever an agent's socket is cut, its place, its row and the tree are free again."""
    chief = await make_chief(db, owner)

    async def prove() -> None:
        await trio.lowlevel.checkpoint()

    async with running_server(db, cluster.app_url) as server:
        node = server.node

        async def operation() -> None:
            gateway = Gateway(agent=chief, peer=_Peer())
            async with node.owners.connected(gateway, prove=prove):
                assert node.gateways.find(chief.agent_id) is gateway
                await trio.lowlevel.checkpoint()

        async def check(_completed: bool) -> None:
            assert node.gateways.find(chief.agent_id) is None
            place = node.tree.supervisor(f"root/owners/owner:{owner.owner_id}")
            assert f"agent:{chief.agent_id}" not in place.children()
            row = await db.run(owner, find_agent, chief.name)
            assert row is not None
            assert (row.node, row.connected_at) == (None, None)

        await operation()
        assert await cancel_at_every_step(operation, check) >= 4
