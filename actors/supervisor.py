"""Starting, judging, restarting and stopping children.

Each incarnation of a child is one task in the supervisor's nursery, and its end is judged in that
task, synchronously: the decision and its report stand before anything else can happen. What takes
time (launching when a backoff is over, stopping the siblings of a crashed child, the stop of all)
is done by the supervisor's own loop, one thing after the other.

A place (`Slot`) outlives its incarnations and, for the children of the spec, those of its
supervisor too: their mailboxes stay open while the supervisor itself is restarted. Dynamic children
end with the incarnation of their supervisor.

What can race, and how it is settled. A message to a child that is leaving or being stopped by
`stop_child` waits in the mailbox; `_ended` runs in one step after the last step of the incarnation
and starts it anew if anything waits, else takes the place out: there is no step in between. Two
incarnations of one place never overlap. A supervisor that leaves is a place like any other: what is
added to it before its parent has seen it end makes the parent run it again.
Rejected: letting children end by themselves on a cancel of the whole tree. They would all go at
once, in no order; `open_tree` shields the tree and stops it in order instead.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Hashable, Sequence
from typing import assert_never

import trio

from actors.address import Address
from actors.attaching import attach
from actors.exits import ActorStopped, Exit, ExitKind, GaveUp, NameTaken
from actors.log import Event
from actors.mailbox import Envelope
from actors.registry import Phase, Registry, Slot
from actors.restart import Decision, GiveUp, Leave, Policy, Restart, decide_restart
from actors.seat import ActorSlot
from actors.specs import AnySpec, ChildSpec, Strategy, SupervisorSpec
from actors.tree import Branch


class Supervisor(Branch):
    """The place of a supervisor, and its loop."""

    def __init__(
        self, spec: SupervisorSpec, *, path: str, dynamic: bool, registry: Registry
    ) -> None:
        super().__init__(
            name=spec.name, path=path, policy=spec.policy, dynamic=dynamic, log=registry.log
        )
        self.spec = spec
        self.children: dict[str, Slot] = {}
        self._registry = registry
        self._lot = trio.lowlevel.ParkingLot()
        self._woken = False
        # Places in phase WAITING; those in the line start in its order, one after the other.
        self._waiting: dict[Slot, None] = {}
        self._line: deque[Slot] = deque()
        self._groups: deque[tuple[Slot, float]] = deque()
        # When its children were restarted; a new incarnation begins with none.
        self.history_below: tuple[float, ...] = ()
        self._gave_up: GaveUp | None = None
        self._add_static()

    @property
    def wanted(self) -> bool:
        """It has children or a holder, so it can't leave."""
        return not self.removing and (bool(self.children) or self.holders > 0)

    def deliver(self, envelope: Envelope) -> None:
        """Refuse: only actors take messages."""
        raise TypeError(f"{self.path} is a supervisor and takes no {envelope.message!r:.100}")

    def begin(self) -> None:
        """Open an incarnation: a clean slate, the children of the spec in line, in order."""
        super().begin()
        self._gave_up = None
        self.history_below = ()
        self._groups.clear()
        self._line.clear()
        self._add_static()
        for slot in self.children.values():
            if slot.running:
                continue  # attached before this supervisor's first step: its own task runs it
            self._wait(slot, float("-inf"))
            if not slot.dynamic:
                self._line.append(slot)

    async def run(self) -> Exit:
        """Look after the children until asked to stop, given up or left."""
        async with trio.open_nursery() as nursery:
            while not (self.stop_requested or self._gave_up or self._may_leave()):
                if self._groups:
                    await self._restart_group(*self._groups.popleft())
                    continue
                self._launch(nursery)
                if self.phase is Phase.STARTING and not self._line:
                    self.mark_up()
                await self._next_event()
            left = not (self.stop_requested or self._gave_up)
            await self._stop(tuple(self.children.values()))
        if left:
            return Exit(kind=ExitKind.LEFT)
        for slot in [each for each in self.children.values() if each.dynamic]:
            self._close_child(slot)
        if self._gave_up is not None and not self.stop_requested:
            return Exit(kind=ExitKind.CRASHED, error=self._gave_up)
        return Exit(kind=ExitKind.STOPPED)

    def request_stop(self) -> None:
        """Ask the loop to stop all children; without a loop only attached ones can be running."""
        if not self.running:
            for slot in self.children.values():
                slot.request_stop()
        super().request_stop()
        self.wake()

    def close(self) -> None:
        """Give the place up, and those below it."""
        super().close()
        for slot in tuple(self.children.values()):
            self._close_child(slot)
        self._registry.forget(self)

    def add(self, spec: AnySpec) -> Slot:
        """See Branch.add."""
        self._check_open()
        slot = self._add(spec, dynamic=True)
        self._wait(slot, float("-inf"))
        return slot

    def put_or_add(self, spec: ChildSpec, message: object, *, key: Hashable | None) -> None:
        """See SupervisorHandle.tell_or_start."""
        self._check_open()
        slot = self.children.get(spec.name)
        if slot is None:
            slot = self.add(spec)
        if not isinstance(slot, ActorSlot):
            raise TypeError(f"{slot.path} is a supervisor and takes no messages")
        slot.force(Envelope(message=message, key=key))

    async def remove(self, name: str) -> None:
        """See SupervisorHandle.stop_child."""
        slot = self.children.get(name)
        if slot is None:
            await trio.lowlevel.checkpoint()
            return
        slot.removing = True
        if isinstance(slot, ActorSlot):
            slot.drain()
        slot.request_stop()
        if slot.done.is_set():
            self._close_child(slot)
        await slot.done.wait()

    def attach(
        self, spec: ChildSpec, *, replace: bool, address: Address
    ) -> contextlib.AbstractAsyncContextManager[Address]:
        """See SupervisorHandle.attached."""
        return attach(self, spec, replace=replace, address=address)

    def place_attached(self, spec: ChildSpec) -> Slot:
        """Take in a temporary child whose task is run by somebody else."""
        self._check_open()
        slot = ActorSlot(
            spec, path=f"{self.path}/{spec.name}", dynamic=True, registry=self._registry
        )
        slot.policy = Policy.TEMPORARY
        self._admit(slot)
        slot.begin()
        return slot

    async def run_child(self, slot: Slot) -> None:
        """Run one incarnation that has begun, to its end and judgement."""
        exit_: Exit | None = None
        try:
            exit_ = await slot.run()
        except Exception as error:  # noqa: BLE001 (the one place where a crash becomes data)
            exit_ = Exit.crash(error)
        finally:
            slot.end(exit_)
        self._ended(slot, exit_)

    # The children there are.

    def _check_open(self) -> None:
        if self.closed or self.stop_requested or self.removing:
            raise ActorStopped(f"{self.path} has stopped")

    def _add_static(self) -> None:
        for spec in self.spec.children:
            if spec.name not in self.children:
                self._add(spec, dynamic=False)

    def _add(self, spec: AnySpec, *, dynamic: bool) -> Slot:
        path = f"{self.path}/{spec.name}"
        slot: Slot
        if isinstance(spec, SupervisorSpec):
            slot = Supervisor(spec, path=path, dynamic=dynamic, registry=self._registry)
        else:
            slot = ActorSlot(spec, path=path, dynamic=dynamic, registry=self._registry)
        self._admit(slot)
        return slot

    def _admit(self, slot: Slot) -> None:
        if slot.name in self.children:
            raise NameTaken(f"{slot.path} is there already")
        slot.on_change = self.wake
        self.children[slot.name] = slot
        self._registry.slots[slot.path] = slot

    def _close_child(self, slot: Slot) -> None:
        if self.children.get(slot.name) is slot:
            del self.children[slot.name]
        self._waiting.pop(slot, None)
        slot.close()
        self.wake()

    def _close_or_start_anew(self, slot: Slot) -> None:
        if slot.wanted and not self.stop_requested:
            slot.removing = False
            self._wait(slot, float("-inf"))
        else:
            self._close_child(slot)

    def _wait(self, slot: Slot, not_before: float) -> None:
        slot.phase = Phase.WAITING
        slot.not_before = not_before
        self._waiting[slot] = None
        self.wake()

    # Judging.

    def _ended(self, slot: Slot, exit_: Exit) -> None:
        if slot.removing or exit_.kind is ExitKind.LEFT:
            self._close_or_start_anew(slot)
            anew = "remove" if slot.closed else "start anew, a message waits"
            self._tell(slot, exit_, anew)
        elif slot.stop_requested or self._gave_up is not None:
            self._tell(slot, exit_, "as its supervisor says")
            if slot.policy is Policy.TEMPORARY:
                self._close_child(slot)
        else:
            self._judge(slot, exit_)
        self.wake()

    def _judge(self, slot: Slot, exit_: Exit) -> None:
        own = self.spec.isolate and slot.dynamic
        decision: Decision = decide_restart(
            slot.history if own else self.history_below,
            exit_,
            policy=slot.policy,
            intensity=self.spec.intensity,
            now=trio.current_time(),
            jitter=self._registry.jitter(),
        )
        match decision:
            case Leave():
                self._tell(slot, exit_, "leave it ended")
                self._close_child(slot)
            case Restart(delay_seconds=delay, history=history):
                if own:
                    slot.history = history
                else:
                    self.history_below = history
                self._tell(slot, exit_, f"restart in {delay:.3f} s ({self.spec.strategy.value})")
                not_before = trio.current_time() + delay
                if self.spec.strategy is Strategy.ONE_FOR_ONE:
                    self._wait(slot, not_before)
                else:
                    self._groups.append((slot, not_before))
            case GiveUp(restarts=restarts, window_seconds=window):
                often = f"{restarts} restarts within {window:g} s"
                if own:
                    self._tell(slot, exit_, f"drop the child after {often}")
                    self._close_child(slot)
                else:
                    self._tell(slot, exit_, f"give up after {often}")
                    self._gave_up = GaveUp(f"{self.path} gave up after {often}: {exit_.reason}")
                    self._gave_up.__cause__ = exit_.error
            case _:
                assert_never(decision)

    def _tell(self, slot: Slot, exit_: Exit, decision: str) -> None:
        event = Event.EXITED
        if isinstance(exit_.error, GaveUp):
            event = Event.GAVE_UP
        elif exit_.error is not None:
            event = Event.CRASHED
        self._registry.log.report(
            slot.path, event, reason=exit_.reason, decision=decision, error=exit_.error
        )

    # The loop's parts.

    def _may_leave(self) -> bool:
        return self.spec.leaves_when_empty and self.dynamic and not self.wanted

    def _launch(self, nursery: trio.Nursery) -> None:
        while self._line and self._line[0].phase not in (Phase.WAITING, Phase.STARTING):
            self._line.popleft()
        now = trio.current_time()
        for slot in tuple(self._waiting):
            if slot.phase is not Phase.WAITING:
                del self._waiting[slot]
            elif slot.not_before <= now and self._is_its_turn(slot):
                del self._waiting[slot]
                slot.begin()
                nursery.start_soon(self.run_child, slot, name=slot.path)

    def _is_its_turn(self, slot: Slot) -> bool:
        return slot not in self._line or slot is self._line[0]

    async def _next_event(self) -> None:
        due = min(
            (slot.not_before for slot in self._waiting if self._is_its_turn(slot)),
            default=float("inf"),
        )
        if self._woken:
            await trio.lowlevel.checkpoint()
        else:
            with trio.move_on_at(due):
                await self._lot.park()
        self._woken = False

    def wake(self) -> None:
        """Make the loop look again."""
        self._woken = True
        self._lot.unpark_all()

    async def _restart_group(self, slot: Slot, not_before: float) -> None:
        """Stop those that restart with `slot`, and put them all in line again, in order."""
        order = tuple(self.children.values())
        if slot not in order:
            return
        first = 0 if self.spec.strategy is Strategy.ONE_FOR_ALL else order.index(slot)
        group = order[first:]
        await self._stop([each for each in group if each is not slot])
        again = set(self._line)
        for each in group:
            if self.children.get(each.name) is each and not each.running:
                self._wait(each, not_before)
                again.add(each)
        self._line = deque(each for each in self.children.values() if each in again)

    async def _stop(self, slots: Sequence[Slot]) -> None:
        """Stop the dynamic ones together, then those of the spec one by one, last first."""
        together = [slot for slot in slots if slot.dynamic]
        for slot in together:
            slot.request_stop()
        for slot in together:
            await slot.done.wait()
        for slot in reversed([slot for slot in slots if not slot.dynamic]):
            slot.request_stop()
            await slot.done.wait()
