"""Actors that live beside a block of code."""
# ruff: noqa: ARG002 (the methods of the actors under test explain themselves)

from __future__ import annotations

import pytest
import trio

from actors import (
    Actor,
    ActorCrashed,
    Event,
    Intensity,
    Log,
    NameTaken,
    SupervisorHandle,
    SupervisorSpec,
    open_tree,
)
from actors.testing import cancel_at_every_step, wait_until
from tests.actors.guests import ROOT, Guest, World, owners_of


async def test_an_attached_actor_lives_as_long_as_its_block() -> None:
    """It is up in the block, in the tree under its name, and stopped after it."""
    world = World()
    async with open_tree(ROOT, Log()) as tree:
        owners = owners_of(tree)
        async with owners.attached("host:box", Guest(world)) as address:
            assert address.path == "root/owners/host:box"
            assert await tree.address("root/owners/host:box").ask("hi", deadline_seconds=1) == "hi"
            with pytest.raises(NameTaken):
                async with owners.attached("host:box", Guest(world)):
                    raise AssertionError("two of one name")
        assert (world.alive, owners.children()) == (0, ())
        with pytest.raises(LookupError, match="mine"):
            async with owners.attached("host:box", Guest(world)):
                raise LookupError("mine")
        assert world.alive == 0


@pytest.mark.parametrize("moment", ["started", "handle", "stopping"])
async def test_a_crash_of_an_attached_actor_is_raised_and_reported_once(moment: str) -> None:
    """The block is cancelled, the caller gets ActorCrashed, and the supervisor goes on."""

    class Fragile(Actor):
        async def started(self) -> None:
            self.crash("started")

        async def handle(self, message: object) -> None:
            self.crash("handle")

        async def stopping(self) -> None:
            self.crash("stopping")

        def crash(self, now: str) -> None:
            if now == moment:
                raise ValueError(now)

    async def use(owners: SupervisorHandle) -> None:
        async with owners.attached("host:box", Fragile()) as address:
            assert moment != "started"
            address.tell("go")
            if moment == "handle":
                await trio.sleep_forever()

    log = Log()
    async with open_tree(ROOT, log) as tree:
        with pytest.raises(ActorCrashed) as caught:
            await use(owners_of(tree))
        assert isinstance(caught.value.__cause__, ValueError)
        assert owners_of(tree).children() == ()
    crashes = [report for report in log.recent() if report.event is Event.CRASHED]
    assert [crash.error for crash in crashes] == [f"ValueError: {moment}"]


async def test_an_attached_block_cancelled_at_any_step_leaves_nothing() -> None:
    """Wherever the block is cancelled, its actor has stopped in order and its name is free."""
    world = World()
    log = Log()
    async with open_tree(ROOT, log) as tree:
        owners = owners_of(tree)

        async def operation() -> None:
            async with owners.attached("host:box", Guest(world)) as address:
                assert await address.ask("hi", deadline_seconds=5) == "hi"
                await trio.lowlevel.checkpoint()

        async def check(completed: bool) -> None:
            assert (world.alive, owners.children()) == (0, ())

        assert await cancel_at_every_step(operation, check) >= 4
    assert Event.CRASHED not in {report.event for report in log.recent()}


async def test_the_stop_of_a_supervisor_cancels_an_attached_block() -> None:
    """When the tree stops the child, its block is cancelled and left without an error."""
    world = World()
    left: list[str] = []
    async with trio.open_nursery() as nursery, open_tree(ROOT, Log()) as tree:
        owners = owners_of(tree)

        async def connection(task_status: trio.TaskStatus[None]) -> None:
            async with owners.attached("host:box", Guest(world)):
                task_status.started()
                await trio.Event().wait()
            left.append("quietly")

        await nursery.start(connection)
        await owners.stop_child("host:box")
        await wait_until(lambda: bool(left))
        await nursery.start(connection)
    assert (left, world.alive) == (["quietly"] * 2, 0)


async def test_a_newer_connection_replaces_an_older() -> None:
    """attached(replace=True) stops the one of that name first, then takes its place."""
    world = World()
    left: list[str] = []
    async with open_tree(ROOT, Log()) as tree, trio.open_nursery() as nursery:
        owners = owners_of(tree)

        async def older(task_status: trio.TaskStatus[None]) -> None:
            async with owners.attached("host:box", Guest(world)):
                task_status.started()
                await trio.Event().wait()
            left.append("older")

        await nursery.start(older)
        async with owners.attached("host:box", Guest(world), replace=True) as address:
            assert await address.ask("hi", deadline_seconds=1) == "hi"
        assert left == ["older"]
        assert world.most_alive == 1


@pytest.mark.parametrize("replace", [False, True])
async def test_an_owner_may_be_started_for_an_attached_child(replace: bool) -> None:
    """A supervisor that leaves when empty stays for its attached child, and then leaves."""
    world = World()
    nested = SupervisorSpec(name="owner:7", leaves_when_empty=True)
    async with open_tree(ROOT, Log()) as tree:
        for _ in range(2):
            owner = owners_of(tree).start_supervisor(nested)
            async with owner.attached("host:box", Guest(world), replace=replace) as address:
                for _ in range(20):
                    await trio.lowlevel.checkpoint()
                assert await address.ask("hi", deadline_seconds=5) == "hi"
                assert owner.children() == ("host:box",)
            await wait_until(lambda: owners_of(tree).children() == ())
    assert (world.starts, world.most_alive) == (2, 1)


async def test_attaching_to_an_owner_that_is_leaving() -> None:
    """An actor attached any number of steps after an owner's last child left lives through it."""
    for steps in range(30):
        world = World()
        nested = SupervisorSpec(name="owner:7", leaves_when_empty=True)
        async with open_tree(ROOT, Log()) as tree:
            owners = owners_of(tree)
            owners.start_supervisor(nested).tell_or_start(world.spec(), "leave")
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            owner = owners.start_supervisor(nested)
            async with owner.attached("host:box", Guest(World())) as address:
                await wait_until(lambda owner=owner: owner.children() == ("host:box",))  # type: ignore[misc]
                assert await address.ask("hi", deadline_seconds=5) == "hi"
        assert world.alive == 0


async def test_what_was_attached_during_a_backoff_stops_with_its_supervisor(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A supervisor that is stopped before it runs again stops what was attached meanwhile."""
    world = World()
    left: list[float] = []
    slow = Intensity(backoff_first_seconds=100, backoff_max_seconds=100)
    inner = SupervisorSpec(name="inner", intensity=Intensity(restarts=0))
    root = SupervisorSpec(name="root", intensity=slow, children=[inner])
    async with open_tree(root, Log()) as tree, trio.open_nursery() as nursery:
        handle = tree.supervisor("root/inner")
        handle.tell_or_start(world.spec("a"), "crash")
        await trio.sleep(1)

        async def connection(task_status: trio.TaskStatus[None]) -> None:
            async with handle.attached("host:box", Guest(world)):
                task_status.started()
                await trio.Event().wait()
            left.append(trio.current_time())

        await nursery.start(connection)
        began = trio.current_time()
        await tree.supervisor("root").stop_child("inner")
        await trio.testing.wait_all_tasks_blocked()
        assert left == [began]
        assert world.alive == 0
