"""Children that come and go: tell_or_start, leaving, holding, stopping."""

from __future__ import annotations

import pytest
import trio

from actors import (
    Actor,
    ActorStopped,
    ChildSpec,
    Intensity,
    Log,
    MailboxFull,
    NameTaken,
    Policy,
    SupervisorSpec,
    open_tree,
)
from actors.testing import Recorder, cancel_at_every_step, wait_until
from tests.actors.guests import ROOT, World, owners_of


async def test_tell_or_start_starts_and_the_message_waits() -> None:
    """The first message starts the child and is its first; later ones reach the same child."""
    world = World()
    async with open_tree(ROOT, Log()) as tree:
        owners = owners_of(tree)
        address = owners.tell_or_start(world.spec(), 1)
        assert address.path == "root/owners/chief:12"
        owners.tell_or_start(world.spec(), 2)
        address.tell(3)
        await wait_until(lambda: len(world.handled) == 3)
        assert (world.handled, world.starts) == ([1, 2, 3], 1)
        assert owners.children() == ("chief:12",)


async def test_tell_or_start_keeps_the_bound_and_the_key() -> None:
    """A full mailbox refuses, and a waiting message of the key is replaced."""
    world = World()
    async with open_tree(ROOT, Log()) as tree:
        owners = owners_of(tree)
        spec = world.spec(mailbox_size=2)
        owners.tell_or_start(spec, 1, key="k")
        owners.tell_or_start(spec, 2)
        owners.tell_or_start(spec, 3, key="k")
        with pytest.raises(MailboxFull):
            owners.tell_or_start(spec, 4)
        await wait_until(lambda: len(world.handled) == 2)
        assert world.handled == [3, 2]


@pytest.mark.parametrize("through", ["tell_or_start", "address", "nested"])
async def test_no_message_is_lost_however_it_meets_a_leaving(through: str) -> None:
    """A message sent any number of steps after a leaving is handled once, by one at a time."""
    lost_to_the_sender = 0
    starts = set()
    for steps in range(40):
        world = World()
        nested = SupervisorSpec(name="owner:7", leaves_when_empty=True)
        async with open_tree(ROOT, Log()) as tree:
            owners = owners_of(tree)
            parent = owners if through != "nested" else owners.start_supervisor(nested)
            address = parent.tell_or_start(world.spec(), "leave")
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            try:
                if through == "address":
                    address.tell("m")
                else:
                    if through == "nested":
                        parent = owners.start_supervisor(nested)
                    parent.tell_or_start(world.spec(), "m")
            except ActorStopped:
                lost_to_the_sender += 1
            else:
                await wait_until(lambda world=world: world.handled == ["m"])  # type: ignore[misc]
        assert world.most_alive == 1
        assert world.alive == 0
        starts.add(world.starts)
    # Early messages meet the first incarnation, later ones a second; only a bare address may
    # come too late, and then its sender is told.
    assert starts == {1, 2}
    assert (lost_to_the_sender > 0) == (through == "address")


async def test_an_empty_owner_leaves_and_comes_back(autojump_clock: trio.testing.MockClock) -> None:
    """A supervisor that leaves when empty goes with its last child, unless somebody holds it."""
    world = World()
    nested = SupervisorSpec(name="owner:7", leaves_when_empty=True)
    async with open_tree(ROOT, Log()) as tree:
        owners = owners_of(tree)
        owner = owners.start_supervisor(nested)
        chief = owner.tell_or_start(world.spec(), "m")
        assert chief.path == "root/owners/owner:7/chief:12"
        with owner.hold():
            assert await chief.ask("leave", deadline_seconds=1)
            await trio.sleep(1)
            assert (owners.children(), owner.children()) == (("owner:7",), ())
        await trio.sleep(1)
        assert owners.children() == ()
        with pytest.raises(ActorStopped):
            owner.tell_or_start(world.spec(), "too late")
        again = owners.start_supervisor(nested).tell_or_start(world.spec(), "again")
        assert await again.ask("hi", deadline_seconds=1) == "hi"
        assert chief == again
        assert await chief.ask("old address", deadline_seconds=1) == "old address"


async def test_who_keeps_an_actor_from_leaving(autojump_clock: trio.testing.MockClock) -> None:
    """A holder, a waiting message or work in the nursery each refuse the leave."""
    world = World()
    async with open_tree(ROOT, Log()) as tree:
        address = await owners_of(tree).start_child(world.spec())
        with address.hold():
            assert await address.ask("leave", deadline_seconds=1) is False
        address.tell("leave")
        address.tell("m")
        assert await address.ask("still here", deadline_seconds=1) == "still here"
        address.tell("work")
        assert await address.ask("leave", deadline_seconds=1) is False
        await trio.sleep(11)
        assert await address.ask("leave", deadline_seconds=1) is True
        await trio.sleep(1)
        assert not address.reachable
        assert world.starts == 1


async def test_tell_or_start_after_a_crash_waits_for_the_restart(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A message to a crashed dynamic child is handled by its next incarnation, once."""
    world = World()
    async with open_tree(ROOT, Log()) as tree:
        owners = owners_of(tree)
        owners.tell_or_start(world.spec(), "crash")
        await trio.testing.wait_all_tasks_blocked()
        owners.tell_or_start(world.spec(), "m")
        await trio.sleep(1)
        assert (world.handled, world.starts) == (["m"], 2)


async def test_start_child_waits_until_it_is_up(autojump_clock: trio.testing.MockClock) -> None:
    """start_child returns with the child up; a temporary one that crashes first is told."""

    class Slow(Recorder):
        async def started(self) -> None:
            await trio.sleep(3)

    def broken() -> Actor:
        raise OSError("no port")

    async with open_tree(ROOT, Log()) as tree:
        owners = owners_of(tree)
        began = trio.current_time()
        await owners.start_child(ChildSpec(name="slow", start=Slow))
        assert trio.current_time() - began == pytest.approx(3)
        with pytest.raises(NameTaken):
            await owners.start_child(ChildSpec(name="slow", start=Slow))
        with pytest.raises(ActorStopped, match="no port") as caught:
            await owners.start_child(
                ChildSpec(name="broken", start=broken, policy=Policy.TEMPORARY)
            )
        assert isinstance(caught.value.__cause__, OSError)
        inner = SupervisorSpec(name="inner", children=[ChildSpec(name="slow", start=Slow)])
        address = await owners.start_child(inner)
        assert trio.current_time() - began == pytest.approx(6)
        assert owners.children() == ("slow", "inner")
        with pytest.raises(TypeError, match="supervisor"):
            address.tell("x")


async def test_stop_child_drops_what_waits_and_forgets(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A stopped child is gone with its mailbox; stopping it again is no error."""
    world = World()
    async with open_tree(ROOT, Log()) as tree:
        owners = owners_of(tree)
        address = owners.tell_or_start(world.spec(), "stuck")
        await trio.testing.wait_all_tasks_blocked()
        address.tell("dropped")
        await owners.stop_child("chief:12")
        await owners.stop_child("chief:12")
        assert owners.children() == ()
        assert (world.handled, world.alive) == ([], 0)
        with pytest.raises(ActorStopped):
            address.tell("x")


async def test_tell_or_start_while_stop_child_waits(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A message that starts a child while the old one still stops is handled by a new one."""
    world = World()
    async with open_tree(ROOT, Log()) as tree:
        owners = owners_of(tree)
        address = owners.tell_or_start(world.spec(), "stuck")
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(owners.stop_child, "chief:12")
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(ActorStopped):
                address.tell("refused")
            owners.tell_or_start(world.spec(), "m")
        await trio.sleep(1)
        assert (world.handled, world.starts, world.most_alive) == (["m"], 2, 1)


async def test_a_cancelled_stop_child_still_stops() -> None:
    """Cancelled at each step in turn, stop_child leaves the child whole or gone, never half."""
    world = World()
    async with open_tree(ROOT, Log()) as tree:
        owners = owners_of(tree)
        await owners.start_child(world.spec())

        async def check(completed: bool) -> None:
            await trio.testing.wait_all_tasks_blocked()
            address = owners.tell_or_start(world.spec(), "m")
            assert await address.ask("hi", deadline_seconds=5) == "hi"
            assert world.most_alive == 1

        await cancel_at_every_step(lambda: owners.stop_child("chief:12"), check)


async def test_a_restarted_supervisor_has_no_dynamic_children(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Dynamic children end with the incarnation of their supervisor, and can be started anew."""
    world = World()
    quick = Intensity(restarts=0)
    inner = SupervisorSpec(name="inner", intensity=quick)
    root = SupervisorSpec(name="root", children=[inner])
    async with open_tree(root, Log()) as tree:
        handle = tree.supervisor("root/inner")
        handle.tell_or_start(world.spec("a"), "m")
        handle.tell_or_start(world.spec("b"), "crash")
        await trio.sleep(5)
        assert handle.children() == ()
        handle.tell_or_start(world.spec("a"), "n")
        await trio.sleep(5)
        assert (world.handled, world.alive) == (["m", "n"], 1)


async def test_a_handle_to_nothing_says_so() -> None:
    """Handles and addresses of what is not there raise ActorStopped when used."""
    async with open_tree(ROOT, Log()) as tree:
        nowhere = tree.supervisor("root/nowhere")
        with pytest.raises(ActorStopped):
            nowhere.children()
        with pytest.raises(ActorStopped):
            tree.address("root/nowhere/x").tell("x")
        with pytest.raises(ActorStopped), tree.address("root/nowhere/x").hold():
            raise AssertionError("held nothing")
    with pytest.raises(ActorStopped):
        tree.supervisor("root/owners").tell_or_start(World().spec(), "x")


async def test_a_stopped_supervisor_takes_its_children_along() -> None:
    """stop_child on a supervisor stops all below it and frees every path."""
    world = World()
    inner = SupervisorSpec(name="inner", children=[world.spec("a")])
    async with open_tree(ROOT, Log()) as tree:
        owners = owners_of(tree)
        await owners.start_child(inner)
        tree.supervisor("root/owners/inner").tell_or_start(world.spec("b"), "m")
        await wait_until(lambda: world.handled == ["m"])
        await owners.stop_child("inner")
        assert tree.paths() == ("root", "root/owners")
        assert (world.starts, world.alive) == (2, 0)
