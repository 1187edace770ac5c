"""One actor's place in the tree, and its loop.

The mailbox belongs to the place, so messages outlive a crash; the question in hand and those that
were deferred belong to the incarnation and end with it.

How an incarnation ends: a stop gives the message in hand `stop_seconds`; then, or as soon as it is
through, the nursery is cancelled; then stopping() has `stop_seconds`. After a crash nothing more of
the actor runs. The deadline is set on the scope in the instant of the request, so nobody has to
wait beside it.
"""

from __future__ import annotations

import trio

from actors.actor import Actor
from actors.address import Address
from actors.ask import Ask
from actors.exits import ActorCrashed, ActorStopped, Exit, ExitKind
from actors.log import ActorLog, Event
from actors.mailbox import Envelope, Mailbox, MailboxFull, Order
from actors.registry import Registry, Slot
from actors.specs import ChildSpec
from actors.timers import Timers
from actors.tree import Tree


class ActorSlot(Slot):
    """The place of an actor."""

    def __init__(self, spec: ChildSpec, *, path: str, dynamic: bool, registry: Registry) -> None:
        super().__init__(
            name=spec.name, path=path, policy=spec.policy, dynamic=dynamic, log=registry.log
        )
        self.spec = spec
        self._registry = registry
        self._mailbox = Mailbox(spec.mailbox_size)
        self._told_full = False
        self._work = trio.CancelScope()
        self._open: set[Ask] = set()
        self._in_hand: Ask | None = None
        self._nursery: trio.Nursery | None = None
        self._timers: Timers | None = None

    @property
    def wanted(self) -> bool:
        """A message waits, or somebody holds the address."""
        return len(self._mailbox) > 0 or (self.holders > 0 and not self.removing)

    def deliver(self, envelope: Envelope) -> None:
        """Take a message from an address."""
        if self.closed or self.removing:
            raise ActorStopped(f"{self.path} has stopped")
        self.force(envelope)

    def force(self, envelope: Envelope) -> None:
        """Take a message even while stop_child waits for the end of the incarnation."""
        try:
            self._mailbox.put(envelope)
        except MailboxFull:
            if not self._told_full:
                self._told_full = True
                reason = f"{self._mailbox.size} messages wait"
                self._registry.log.report(
                    self.path, Event.MAILBOX_FULL, reason=reason, decision="refuse"
                )
            raise MailboxFull(f"{self.path}: {self._mailbox.size} messages wait") from None

    def begin(self) -> None:
        """Open an incarnation with nothing left of the one before."""
        super().begin()
        self._mailbox.clear_orders()
        self._mailbox.discard_timers()
        self._work = trio.CancelScope()

    def request_stop(self) -> None:
        """Order a stop and start the clock for the message in hand."""
        if self.running and not self.stop_requested:
            self._mailbox.put_order(Order.STOP)
            self._work.deadline = trio.current_time() + self.spec.stop_seconds
        super().request_stop()

    def drain(self) -> None:
        """Drop what waits."""
        self._mailbox.drain(ActorStopped(f"{self.path} has stopped"))

    def close(self) -> None:
        """Give the place up: what still waits is dropped, and its askers are told."""
        super().close()
        self.drain()
        self._registry.forget(self)

    def leave_if_idle(self) -> bool:
        """See Actor.leave_if_idle."""
        assert self._nursery is not None
        assert self._timers is not None
        tasks = len(self._nursery.child_tasks) - self._timers.running
        if self.wanted or tasks > 0 or self._open - {self._in_hand}:
            return False
        self._mailbox.put_order(Order.LEAVE)
        return True

    def finish(self) -> None:
        """See Actor.finish."""
        self._mailbox.put_order(Order.FINISH)

    def defer(self) -> Ask:
        """See Actor.defer."""
        assert self._in_hand is not None, "the message in hand was told, not asked"
        question, self._in_hand = self._in_hand, None
        return question

    def end(self, exit_: Exit | None) -> None:
        """The incarnation is over: whoever still waits for an answer of it hears so."""
        for question in tuple(self._open):
            if exit_ is None or exit_.error is None:
                question.fail(ActorStopped(f"{self.path} stopped before it answered"))
            else:
                error = ActorCrashed(f"{self.path} crashed before it answered")
                error.__cause__ = exit_.error
                question.fail(error)
        self._open.clear()
        self._in_hand = self._nursery = self._timers = None
        super().end(exit_)

    async def run(self) -> Exit:
        """Live through one incarnation; an exception that leaves it is a crash."""
        actor = self.spec.start()
        assert isinstance(actor, Actor), f"{self.path}: start() made {actor!r}, not an Actor"
        kind = ExitKind.FINISHED
        was_up = False
        with self._work:
            async with trio.open_nursery() as nursery:
                self._bind(actor, nursery)
                task = trio.lowlevel.current_task()
                self._registry.loops[task] = self.path
                try:
                    await actor.started()
                    was_up = True
                    self.mark_up()
                    kind = await self._loop(actor)
                finally:
                    del self._registry.loops[task]
                nursery.cancel_scope.cancel()
        if self._work.cancelled_caught:
            kind = ExitKind.KILLED
        if was_up:
            with trio.move_on_after(self.spec.stop_seconds) as grace:
                await actor.stopping()
            if grace.cancelled_caught:
                kind = ExitKind.KILLED
        return Exit(kind=kind)

    def _bind(self, actor: Actor, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._timers = Timers(nursery, self._mailbox)
        actor.address = Address(self.path, self._registry)
        actor.path = self.path
        actor.nursery = nursery
        actor.timers = self._timers
        actor.log = ActorLog(self.path, self._registry.log)
        actor.tree = Tree(self.path.partition("/")[0], self._registry)
        actor._seat = self  # noqa: SLF001 (the two halves of one thing)

    async def _loop(self, actor: Actor) -> ExitKind:
        while True:
            match await self._mailbox.take():
                case Order.STOP:
                    return ExitKind.STOPPED
                case Order.LEAVE:
                    return ExitKind.LEFT
                case Order.FINISH:
                    return ExitKind.FINISHED
                case Envelope() as envelope:
                    if len(self._mailbox) * 2 < self._mailbox.size:
                        self._told_full = False
                    await self._handle(actor, envelope)

    async def _handle(self, actor: Actor, envelope: Envelope) -> None:
        question = envelope.ask
        if question is not None:
            if question.over:
                return
            question.keep_in(self._open)
        self._in_hand = question
        began = trio.current_time()
        answer = await actor.handle(envelope.message)
        took = trio.current_time() - began
        deferred = self._in_hand is not question
        if question is not None and not deferred and not question.answer(answer):
            actor.unreceived(envelope.message, answer)
        self._in_hand = None
        if took > self.spec.slow_seconds:
            reason = f"{type(envelope.message).__name__} took {took:.3f} s"
            self._registry.log.report(self.path, Event.SLOW_HANDLER, reason=reason)
