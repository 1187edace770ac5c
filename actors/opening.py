"""Opening a tree around a block of code."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Callable

import trio

from actors.exits import Exit, ExitKind
from actors.log import Event, Log
from actors.registry import Registry
from actors.specs import SupervisorSpec
from actors.supervisor import Supervisor
from actors.tree import Tree


@contextlib.asynccontextmanager
async def open_tree(
    spec: SupervisorSpec, log: Log, *, jitter: Callable[[], float] = random.random
) -> AsyncIterator[Tree]:
    """Run the tree of `spec` for the length of the block.

    The block begins when all children of the spec are up. When it ends or is cancelled, they are
    stopped in reverse order, each within its deadline: a cancel of the tree is a stop.
    When the root gives up, the block is cancelled and GaveUp raised, unless the block raises
    something of its own. `jitter` returns 0 to 1; tests pass a constant.
    """
    registry = Registry(log=log, jitter=jitter)
    root = Supervisor(spec, path=spec.name, dynamic=False, registry=registry)
    registry.slots[root.path] = root
    root.begin()
    body = trio.CancelScope()
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_run, root, registry, body, name=root.path)
        # An error of the block goes around the nursery, which would wrap it in a group.
        try:
            await root.settled.wait()
            if not root.closed:
                with body:
                    yield Tree(root.path, registry)
        except BaseException as error:  # noqa: BLE001 (raised again below)
            failure = error
        root.request_stop()
        with trio.CancelScope(shield=True):
            await root.done.wait()
    if failure is not None:
        raise failure
    if root.last_exit is not None and root.last_exit.error is not None:
        raise root.last_exit.error


async def _run(root: Supervisor, registry: Registry, body: trio.CancelScope) -> None:
    exit_: Exit | None = None
    try:
        # A cancel from outside reaches the block, whose end stops the tree in order.
        with trio.CancelScope(shield=True):
            exit_ = await root.run()
    finally:
        root.end(exit_)
        root.close()
        body.cancel()
    assert exit_ is not None
    event = Event.GAVE_UP if exit_.kind is ExitKind.CRASHED else Event.EXITED
    registry.log.report(
        root.path, event, reason=exit_.reason, decision="the tree ends", error=exit_.error
    )
