"""How the rest of a program reaches into a tree: by path, through handles that survive restarts."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Hashable, Iterator

import attrs

from actors.address import Address
from actors.exits import ActorStopped
from actors.registry import Registry, Slot
from actors.specs import MAILBOX_SIZE, STOP_SECONDS, AnySpec, ChildSpec, Life, SupervisorSpec


class Branch(Slot):
    """What a handle needs of a supervisor."""

    children: dict[str, Slot]

    @abc.abstractmethod
    def add(self, spec: AnySpec) -> Slot:
        """Add a dynamic child; it starts soon. Raises NameTaken or ActorStopped."""

    @abc.abstractmethod
    def put_or_add(self, spec: ChildSpec, message: object, *, key: Hashable | None) -> None:
        """See SupervisorHandle.tell_or_start."""

    @abc.abstractmethod
    async def remove(self, name: str) -> None:
        """See SupervisorHandle.stop_child."""

    @abc.abstractmethod
    def attach(
        self, spec: ChildSpec, *, replace: bool, address: Address
    ) -> contextlib.AbstractAsyncContextManager[Address]:
        """See SupervisorHandle.attached."""


@attrs.frozen
class SupervisorHandle:
    """One supervisor, by its path. Each method raises ActorStopped when it is not there."""

    path: str
    _registry: Registry = attrs.field(repr=False)

    async def start_child(self, spec: AnySpec) -> Address:
        """Start a dynamic child and wait until it is up, through restarts if need be.

        Raises NameTaken, or ActorStopped when the child ended for good before it was up.
        """
        slot = self._branch().add(spec)
        await slot.settled.wait()
        if not slot.was_up:
            last = slot.last_exit
            reason = "it was stopped" if last is None else last.reason
            cause = None if last is None else last.error
            raise ActorStopped(f"{slot.path} ended before it was up: {reason}") from cause
        return Address(slot.path, self._registry)

    def start_supervisor(self, spec: SupervisorSpec) -> SupervisorHandle:
        """The dynamic supervisor of this name, started now if it is not there; never waits.

        Raises NameTaken when an actor has the name. Use the handle before the next await, or
        within its `hold()`, if the supervisor `leaves_when_empty`.
        """
        branch = self._branch()
        if not isinstance(branch.children.get(spec.name), Branch):
            branch.add(spec)
        return SupervisorHandle(f"{self.path}/{spec.name}", self._registry)

    def tell_or_start(
        self, spec: ChildSpec, message: object, *, key: Hashable | None = None
    ) -> Address:
        """Put a message into the mailbox of the child of this name, started if it is not there.

        Never waits: the message waits in the mailbox. A child that is leaving is started anew for
        it, after it has ended. Raises MailboxFull.
        """
        self._branch().put_or_add(spec, message, key=key)
        return self.address(spec.name)

    async def stop_child(self, name: str) -> None:
        """Stop a child, drop what waits in its mailbox, and forget it. No error if there is none.

        The stop goes on when the caller is cancelled.
        """
        await self._branch().remove(name)

    def children(self) -> tuple[str, ...]:
        """The names of the children there are, in the order in which they start."""
        return tuple(self._branch().children)

    def address(self, name: str) -> Address:
        """The address of a child, whether or not it is there."""
        return Address(f"{self.path}/{name}", self._registry)

    def attached(
        self,
        name: str,
        actor: Life,
        *,
        mailbox_size: int = MAILBOX_SIZE,
        stop_seconds: float = STOP_SECONDS,
        replace: bool = False,
    ) -> contextlib.AbstractAsyncContextManager[Address]:
        """Run `actor` beside the block, in the caller's task, as a temporary child.

        It is up when the block begins, and stops when the block ends or is cancelled. When it ends
        by itself, or the supervisor stops it, the block is cancelled and left without an error.
        Raises ActorCrashed when it crashed, unless the block raises something of its own, and
        NameTaken, unless `replace`, which stops the child of that name first.
        """
        spec = ChildSpec(
            name=name, start=lambda: actor, mailbox_size=mailbox_size, stop_seconds=stop_seconds
        )
        return self._branch().attach(spec, replace=replace, address=self.address(name))

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep a supervisor that leaves when it is empty, for the length of the block."""
        with self._branch().hold():
            yield

    def _branch(self) -> Branch:
        branch = self._registry.get(self.path)
        if not isinstance(branch, Branch):
            raise TypeError(f"{self.path} is an actor, not a supervisor")
        return branch


@attrs.frozen
class Tree:
    """The whole tree. Paths begin with the root's name."""

    root: str
    _registry: Registry = attrs.field(repr=False)

    def address(self, path: str) -> Address:
        """The address of the actor at `path`, whether or not it is there yet."""
        return Address(path, self._registry)

    def supervisor(self, path: str) -> SupervisorHandle:
        """The supervisor at `path`; looked up when used."""
        return SupervisorHandle(path, self._registry)

    def paths(self) -> tuple[str, ...]:
        """Every place there is, sorted."""
        return tuple(sorted(self._registry.slots))
