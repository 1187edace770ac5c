"""Parked claims: who waits for an approved reply, and whom to wake (plugins: "drafts/claim").

A claim runs in its handler's own task and parks here. It enters the queue *before* it looks, so an
approval between its look and its wait wakes it. One approved draft wakes exactly one waiter, the
longest waiting: waking all of 10,000 would hold the loop for seconds, and all but one would look in
vain. A waiter that leaves with a wake that it did not look for hands the wake on.

The deadline bounds the wait, never the claim: a claim that was begun is carried through, and its
lease is whole or absent. At the deadline a waiter looks again only if it was woken meanwhile.

Rejected: a poll by each claim (its cost grows with the plugins that wait, not with the replies).
"""

import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import attrs
import trio

from muster.drafts import operations
from muster.pg.database import Database
from muster.principals import Plugin

WAIT_SECONDS_MAX = 25.0
JITTER = 0.02
PROOFS_PER_SECOND = 500


@attrs.define(eq=False)
class Waiter:
    """One parked claim."""

    plugin_id: int
    owner_id: int
    deadline: float  # on Trio's clock: when its wait ends
    woken: bool = False  # since its last look
    doubted: bool = False  # its credential may have been withdrawn: knock again
    patience: float = 0.0  # seconds: how long it may take its time for that
    bell: trio.Event = attrs.field(factory=trio.Event)

    def ring(self) -> None:
        """Let it look again."""
        self.bell.set()

    def begin_look(self) -> None:
        """What rings from here on was not seen by this look."""
        self.woken = False
        self.bell = trio.Event()


class Waiters:
    """The parked claims of one node, by plugin, longest waiting first."""

    def __init__(self) -> None:
        self._queues: dict[int, OrderedDict[Waiter, None]] = {}
        self._draining = False

    @property
    def draining(self) -> bool:
        """Whether claims are to be answered at once, for the node is stopping."""
        return self._draining

    @contextmanager
    def parked(self, principal: Plugin, *, wait_seconds: float) -> Iterator[Waiter]:
        """Hold a place in the plugin's queue; more than WAIT_SECONDS_MAX count as that.

        Waits end up to 2% early, so that claims that began together do not return together.
        """
        wait = min(wait_seconds, WAIT_SECONDS_MAX) * (1 - random.random() * JITTER)  # noqa: S311
        waiter = Waiter(
            plugin_id=principal.plugin_id,
            owner_id=principal.owner_id,
            deadline=trio.current_time() + wait,
        )
        queue = self._queues.setdefault(waiter.plugin_id, OrderedDict())
        queue[waiter] = None
        try:
            yield waiter
        finally:
            del queue[waiter]
            if not queue:
                del self._queues[waiter.plugin_id]
            if waiter.woken:
                self.wake(waiter.plugin_id)

    def parked_for(self, plugin_id: int) -> tuple[Waiter, ...]:
        """The claims of a plugin that are parked here, longest waiting first."""
        return tuple(self._queues.get(plugin_id, ()))

    def plugin_ids(self) -> list[int]:
        """The plugins that have a claim parked here."""
        return list(self._queues)

    def wake(self, plugin_id: int) -> None:
        """Let the longest waiting claim that was not woken yet look for a reply."""
        for waiter in self._queues.get(plugin_id, ()):
            if not waiter.woken:
                waiter.woken = True
                waiter.ring()
                return

    def doubt(self, *, plugin_id: int | None = None, owner_id: int | None = None) -> None:
        """Let the claims of a plugin, or all of an owner's, prove their credential again."""
        self._doubt(lambda waiter: plugin_id == waiter.plugin_id or owner_id == waiter.owner_id)

    def doubt_all(self) -> None:
        """Let every claim prove its credential again: hints may have been lost.

        Not all at once: after an outage of the database 10,000 claims would overrun its pool.
        """
        spread = sum(map(len, self._queues.values())) / PROOFS_PER_SECOND
        self._doubt(lambda _: True, spread_seconds=spread)

    def _doubt(self, chosen: Callable[[Waiter], bool], *, spread_seconds: float = 0.0) -> None:
        for queue in self._queues.values():
            for waiter in queue:
                if chosen(waiter):
                    waiter.doubted = True
                    waiter.patience = random.uniform(0, spread_seconds)  # noqa: S311
                    waiter.ring()

    def wake_all(self) -> None:
        """Let one claim of each plugin look: hints may have been lost."""
        for plugin_id in self._queues:
            self.wake(plugin_id)

    def drain(self) -> None:
        """Answer every parked claim now, and those that arrive from here on without a wait."""
        self._draining = True
        for queue in self._queues.values():
            for waiter in queue:
                waiter.ring()


async def claim(
    db: Database,
    waiters: Waiters,
    principal: Plugin,
    *,
    wait_seconds: float,
    prove: Callable[[], Awaitable[object]],
) -> operations.Claimed | None:
    """Claim one approved reply of `principal`'s, waiting at most `wait_seconds` for one.

    `prove` raises Unauthorized once the credential is no longer good; it is asked whenever there is
    doubt.
    """
    with waiters.parked(principal, wait_seconds=wait_seconds) as waiter:
        while True:
            waiter.begin_look()
            if waiter.doubted:
                waiter.doubted = False
                with trio.move_on_at(min(waiter.deadline, trio.current_time() + waiter.patience)):
                    await waiter.bell.wait()
                await prove()
            try:
                claimed = await db.run(principal, operations.claim_next, operations.ClaimNext())
            except BaseException:
                waiters.wake(principal.plugin_id)  # this look may have missed what another finds
                raise
            if claimed is not None or waiters.draining:
                return claimed
            with trio.move_on_at(waiter.deadline):
                await waiter.bell.wait()
            if not waiter.bell.is_set():
                return None
