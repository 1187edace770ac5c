"""What the actors of connected clients have in common: they live in the task of a socket.

Of two connections of one client the one attached later is the current one, by an epoch that it
takes in the database, and what the older says changes nothing. The older is closed as superseded:
on this node by being replaced, on another by the hint that the new epoch sends there.
"""

import abc
from collections.abc import Awaitable, Callable
from typing import Protocol

import attrs

from actors import Actor
from muster.connections.rules import Farewell
from muster.errors import Unauthorized, Unavailable
from muster.pg.database import Database
from muster.principals import Muster

DOUBT_SECONDS = 1.0  # until a database that was away is asked again

Prove = Callable[[], Awaitable[object]]  # raises Unauthorized once the credential is no good


@attrs.frozen(kw_only=True)
class Doubt:
    """The client, its credential or its account changed: prove again that the connection holds."""


class Held(Protocol):
    """The connection that an actor holds."""

    epoch: int  # once it was accepted
    superseded: bool  # a newer connection of the client is about to take its place

    def close(self) -> None:
        """Ask nothing of the client any more."""


class ConnectionActor(Actor, abc.ABC):
    """Keeps a connection listed among the node's while it is its client's current one."""

    def __init__(self, held: Held, *, owner_id: int, db: Database, prove: Prove) -> None:
        super().__init__()
        self.farewell = Farewell.SHUTDOWN
        self.principal = Muster(owner_id=owner_id)
        self.db = db
        self._held = held
        self._prove = prove

    async def started(self) -> None:
        """Take the next epoch, and be found."""
        self._held.epoch = await self.accept()
        self.enter()

    async def handle(self, message: object) -> None:
        """End the connection once it no longer holds.

        A database that is away proves nothing, and is asked again: what is in hand goes on.
        """
        assert isinstance(message, Doubt), message
        try:
            await self._prove()
            epoch = await self.find_epoch()
        except Unauthorized:
            self._end(Farewell.UNAUTHORIZED)
            return
        except Unavailable as away:
            self.log.note(f"the connection is still in doubt: {away.sentence}")
            self.timers.after(DOUBT_SECONDS, message, key="doubt")
            return
        if epoch is None:
            self._end(Farewell.UNAUTHORIZED)
        elif epoch != self._held.epoch:
            self._end(Farewell.SUPERSEDED)

    async def stopping(self) -> None:
        """Be found no more; say so in the client's row, unless a newer connection is there."""
        self._held.close()
        self.leave()
        if self._held.superseded:
            self.farewell = Farewell.SUPERSEDED
        try:
            await self.release()
        except Unavailable:
            return  # The row goes on naming this connection until the next one is accepted.

    def _end(self, farewell: Farewell) -> None:
        self.farewell = farewell
        self._held.close()
        self.finish()

    @abc.abstractmethod
    async def accept(self) -> int:
        """Take the client's next epoch."""

    @abc.abstractmethod
    async def find_epoch(self) -> int | None:
        """The client's newest epoch; None once there is no such client."""

    @abc.abstractmethod
    async def release(self) -> None:
        """Note the end of the connection in the client's row, while it names this one."""

    @abc.abstractmethod
    def enter(self) -> None:
        """List the connection among the node's."""

    @abc.abstractmethod
    def leave(self) -> None:
        """Take it out of the list."""
