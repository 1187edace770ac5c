"""A tree with room for guests, and guests that come and go."""
# ruff: noqa: D102 (the methods of what is under test explain themselves)

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from actors import (
    Actor,
    Address,
    ChildSpec,
    Intensity,
    Log,
    Policy,
    SupervisorHandle,
    SupervisorSpec,
    Tree,
    open_tree,
)

QUICK = Intensity(restarts=50, window_seconds=1000, backoff_first_seconds=0.01)

OWNERS = SupervisorSpec(name="owners")
ROOT = SupervisorSpec(name="root", children=[OWNERS])


class World:
    """What the actors of one test did, over all incarnations."""

    def __init__(self) -> None:
        self.handled: list[object] = []
        self.alive = 0
        self.most_alive = 0
        self.starts = 0

    def spec(self, name: str = "chief:12", *, mailbox_size: int = 64) -> ChildSpec:
        return ChildSpec(name=name, start=lambda: Guest(self), mailbox_size=mailbox_size)


class Guest(Actor):
    """Leaves when told to, if it may; starting and stopping take a few steps."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def started(self) -> None:
        self.world.starts += 1
        self.world.alive += 1
        self.world.most_alive = max(self.world.most_alive, self.world.alive)
        await trio.lowlevel.checkpoint()

    async def handle(self, message: object) -> object:
        await trio.lowlevel.checkpoint()
        if message == "crash":
            self.world.alive -= 1
            raise ValueError("on request")
        if message == "work":
            self.nursery.start_soon(trio.sleep, 10)
        if message == "stuck":
            await trio.sleep_forever()
        if message == "leave":
            return self.leave_if_idle()
        self.world.handled.append(message)
        return message

    async def stopping(self) -> None:
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        self.world.alive -= 1


def owners_of(tree: Tree) -> SupervisorHandle:
    """The dynamic supervisor of ROOT."""
    return tree.supervisor("root/owners")


@asynccontextmanager
async def one(
    start: Callable[[], Actor],
    log: Log | None = None,
    *,
    mailbox_size: int = 8,
    policy: Policy = Policy.PERMANENT,
    stop_seconds: float = 5,
) -> AsyncIterator[Address]:
    """A tree with one actor in it."""
    spec = ChildSpec(
        name="one", start=start, mailbox_size=mailbox_size, policy=policy, stop_seconds=stop_seconds
    )
    root = SupervisorSpec(name="root", intensity=QUICK, children=[spec])
    async with open_tree(root, log or Log(), jitter=lambda: 0.0) as tree:
        yield tree.address("root/one")
