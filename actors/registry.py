"""The places of one tree by their path. Each tree has a registry of its own; nothing is global."""

from __future__ import annotations

import abc
import contextlib
import enum
from collections.abc import Callable, Iterator

import attrs
import trio

from actors.ask import AskCycle
from actors.exits import ActorStopped, Exit
from actors.log import Event, Log
from actors.mailbox import Envelope
from actors.restart import Policy


class Phase(enum.Enum):
    """What a place is doing."""

    WAITING = "waiting"  # to be started, at once or when its backoff is over
    STARTING = "starting"
    UP = "up"
    IDLE = "idle"  # no incarnation, and none wanted for now


class Slot(abc.ABC):
    """A place in the tree: what outlives the incarnations that run in it."""

    def __init__(
        self, *, name: str, path: str, policy: Policy, dynamic: bool, log: Log
    ) -> None:
        self._log = log
        self.name = name
        self.path = path
        self.policy = policy
        self.dynamic = dynamic
        self.phase = Phase.WAITING
        self.not_before = float("-inf")
        self.history: tuple[float, ...] = ()
        self.incarnations = 0
        self.holders = 0
        # Set between the request and the end of the incarnation.
        self.stop_requested = False
        # stop_child wants it gone: it refuses messages, save from tell_or_start, which then
        # starts it anew.
        self.removing = False
        self.closed = False
        self.was_up = False
        self.last_exit: Exit | None = None
        # Set when started() has returned once, and when the place is closed.
        self.settled = trio.Event()
        self.done = trio.Event()
        self.done.set()
        self.on_change: Callable[[], None] = _nothing
        self.on_stop: Callable[[], None] = _nothing

    @property
    def running(self) -> bool:
        """An incarnation is at work."""
        return self.phase in (Phase.STARTING, Phase.UP)

    @abc.abstractmethod
    async def run(self) -> Exit:
        """Live through one incarnation."""

    @abc.abstractmethod
    def deliver(self, envelope: Envelope) -> None:
        """Take a message. Raises MailboxFull or ActorStopped."""

    @property
    @abc.abstractmethod
    def wanted(self) -> bool:
        """Something waits here, so that the place may not go."""

    def begin(self) -> None:
        """Open an incarnation; synchronous, so that no stop request falls in between."""
        assert not self.running
        self.phase = Phase.STARTING
        self.stop_requested = False
        self.incarnations += 1
        self.done = trio.Event()

    def mark_up(self) -> None:
        """`started()` has returned."""
        self.phase = Phase.UP
        event = Event.RESTARTED if self.was_up else Event.STARTED
        self.was_up = True
        self._log.report(self.path, event, reason=f"incarnation {self.incarnations} is up")
        self.settled.set()
        self.on_change()

    def end(self, exit_: Exit | None) -> None:
        """The incarnation is over; without an exit when it was cancelled with the whole tree."""
        self.last_exit = exit_
        self.phase = Phase.IDLE
        self.done.set()

    def request_stop(self) -> None:
        """Ask the incarnation to end."""
        self.stop_requested = True
        if not self.running:
            self.phase = Phase.IDLE
        self.on_stop()

    def wake(self) -> None:
        """Make whoever decides about this place look again."""
        self.on_change()

    def close(self) -> None:
        """Give the place up for good."""
        self.closed = True
        self.phase = Phase.IDLE
        self.settled.set()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the place from leaving for the length of the block."""
        self.holders += 1
        try:
            yield
        finally:
            self.holders -= 1
            self.wake()


def _nothing() -> None:
    """What a slot calls before anybody listens."""


@attrs.define(eq=False, kw_only=True)
class Registry:
    """What the places of one tree share."""

    log: Log
    jitter: Callable[[], float]
    slots: dict[str, Slot] = attrs.field(factory=dict)
    # The loops of actors by their task, and whom each waits for, to refuse a circle of questions.
    loops: dict[trio.lowlevel.Task, str] = attrs.field(factory=dict)
    waits: dict[str, str] = attrs.field(factory=dict)

    def get(self, path: str) -> Slot:
        """The place at `path`. Raises ActorStopped when there is none."""
        slot = self.slots.get(path)
        if slot is None:
            raise ActorStopped(f"nobody is at {path}")
        return slot

    def forget(self, slot: Slot) -> None:
        """Take a closed place out."""
        if self.slots.get(slot.path) is slot:
            del self.slots[slot.path]

    @contextlib.contextmanager
    def asking(self, target: str) -> Iterator[None]:
        """Note that the current task waits for `target`. Raises AskCycle."""
        asker = self.loops.get(trio.lowlevel.current_task())
        if asker is None:
            yield
            return
        step: str | None = target
        while step is not None:
            if step == asker:
                raise AskCycle(f"{asker} asks {target}, which waits for {asker}")
            step = self.waits.get(step)
        self.waits[asker] = target
        try:
            yield
        finally:
            del self.waits[asker]
