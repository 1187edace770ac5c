"""Which servers run on this database: each writes when it was last alive.

A hint costs its transaction nothing while it stays in the process. It is sent to other servers only
while there are some, by one notification for all that is due (`Outbox`).
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import attrs
import trio

from actors import Actor
from muster.errors import Unavailable
from muster.outcomes import Hint
from muster.pg.database import Database, Transaction
from muster.pg.query import Query
from muster.principals import Node

ALIVE_SECONDS = 30
HINTS_MAX = 1000
LEAVE_SECONDS = 2.0

Send = Callable[[Sequence[Hint]], Awaitable[None]]

_BEAT = Query("""
    insert into nodes (id, started_at, seen_at) values (%(id)s, %(now)s, %(now)s)
    on conflict (id) do update set seen_at = excluded.seen_at
""")

_COUNT_OTHERS = Query("""
    select count(*) from nodes
    where id <> %(id)s and seen_at > %(now)s - make_interval(secs => %(alive_seconds)s)
""")

_LEAVE = Query("delete from nodes where id = %(id)s")

_FORGET = Query("""
    delete from nodes where seen_at < %(now)s - make_interval(days => 1)
""")


async def beat(tx: Transaction, node_id: str) -> int:
    """Say that the node is alive; how many others were within the last 30 s."""
    await tx.execute(_BEAT, id=node_id)
    await tx.execute(_FORGET)
    others = await tx.scalar(_COUNT_OTHERS, id=node_id, alive_seconds=ALIVE_SECONDS)
    assert isinstance(others, int)
    return others


async def leave(tx: Transaction, node_id: str) -> None:
    """The node stops."""
    await tx.execute(_LEAVE, id=node_id)


@attrs.define
class Heartbeat:
    """This node's sign of life, and whether there are others."""

    node_id: str
    db: Database
    alone: bool = True

    async def beat(self) -> None:
        """Write the sign of life and count the others."""
        self.alone = await self.db.run(Node(), beat, self.node_id) == 0

    async def leave(self) -> None:
        """Take the sign of life back; a database that is away forgets it by itself."""
        with trio.move_on_after(LEAVE_SECONDS):
            try:
                await self.db.run(Node(), leave, self.node_id)
            except Unavailable:
                return


@attrs.frozen(kw_only=True)
class Outgoing:
    """Hints for the other nodes wait in the outbox."""


class Outgoings:
    """Hints that wait to be sent to the other nodes, at most HINTS_MAX; the newest stay."""

    def __init__(self) -> None:
        self._waiting: deque[Hint] = deque(maxlen=HINTS_MAX)

    def add(self, hints: Sequence[Hint]) -> None:
        """Let hints wait for the outbox."""
        self._waiting.extend(hints)

    def take(self) -> list[Hint]:
        """Take all that wait."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken


class Outbox(Actor):
    """Sends hints to the other nodes, one notification for all that came meanwhile.

    What was dropped costs the others a look that comes a few seconds later.
    """

    def __init__(self, send: Send, outgoings: Outgoings) -> None:
        super().__init__()
        self._send = send
        self._outgoings = outgoings

    async def handle(self, message: object) -> None:
        """Send what waits; what cannot be sent is dropped, for a hint is not the truth."""
        assert isinstance(message, Outgoing), message
        due = self._outgoings.take()
        if due:
            try:
                await self._send(due)
            except Unavailable as away:
                self.log.note(f"{len(due)} hints were not sent: {away.sentence}")
