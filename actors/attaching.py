"""An actor beside a block of code: a connection's actor lives in its socket's own task.

The actor runs in a nursery around the block, shielded, so that a cancel of the block reaches it as
a stop, with its deadline and its stopping(). Its end is judged by the supervisor like any other.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Protocol

import trio

from actors.address import Address
from actors.exits import ActorCrashed, ActorStopped
from actors.registry import Slot
from actors.specs import ChildSpec


class Host(Protocol):
    """What a supervisor does for a child that is run by somebody else."""

    def hold(self) -> contextlib.AbstractContextManager[None]:
        """Keep it from leaving."""

    def place_attached(self, spec: ChildSpec) -> Slot:
        """Take the child in; it counts as running from now on."""

    async def run_child(self, slot: Slot) -> None:
        """Run it to its end."""

    async def remove(self, name: str) -> None:
        """Stop the child of this name."""


@contextlib.asynccontextmanager
async def attach(
    host: Host, spec: ChildSpec, *, replace: bool, address: Address
) -> AsyncIterator[Address]:
    """See SupervisorHandle.attached; `address` is the child's."""
    if replace:
        with host.hold():
            await host.remove(spec.name)
    slot = host.place_attached(spec)
    failure: BaseException | None = None
    was_up = False
    async with trio.open_nursery() as nursery:
        body = trio.CancelScope()
        slot.on_stop = body.cancel
        nursery.start_soon(_run, host, slot, body, name=slot.path)
        # An error of the block goes around the nursery, which would wrap it in a group.
        try:
            await slot.settled.wait()
            if not slot.closed:
                was_up = True
                with body:
                    yield address
        except BaseException as error:  # noqa: BLE001 (raised again below)
            failure = error
        slot.request_stop()
        with trio.CancelScope(shield=True):
            await slot.done.wait()
    if failure is not None:
        raise failure
    last = slot.last_exit
    if last is not None and last.error is not None:
        raise ActorCrashed(f"{slot.path} crashed: {last.reason}") from last.error
    if not was_up:
        raise ActorStopped(f"{slot.path} was stopped before it was up")


async def _run(host: Host, slot: Slot, body: trio.CancelScope) -> None:
    with trio.CancelScope(shield=True):
        await host.run_child(slot)
    body.cancel()
