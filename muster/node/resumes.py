"""Carries resumes on: each one that is not over takes its step every second, on every node.

What is due is judged by the database (muster.chief.self_routing.resumed); the frame to a host is
written here, after the commit, by the node that holds its socket. A node that dies in between, or
whose write fails, leaves a host that may have been told: its answer is then waited for, and nobody
else is asked.
"""

from collections.abc import Callable

import attrs

from actors import Actor
from muster.chief.self_routing.handing import NotRoutable
from muster.chief.self_routing.resumed import Advance, AskHost, advance
from muster.errors import Unavailable
from muster.mirror.gateway import Links
from muster.mirror.operations.resuming import NoteAnswer, find_open, note_answer
from muster.mirror.resuming import Denied
from muster.node.sweeps import BATCH, ROUND
from muster.pg.database import Database
from muster.principals import Muster, System

OPEN_SECONDS = 1.0  # between looks while a resume is not over
IDLE_SECONDS = 30.0  # between looks while none is known: a hint may have been lost
GONE = "The host is not connected any more."


@attrs.frozen(kw_only=True)
class ResumeSettings:
    """`is_off` is the kill switch; nothing begins once the node drains."""

    is_off: bool
    routing: bool
    may_begin: Callable[[], bool]


class Resumes(Actor):
    """Looks at what is not over, and writes to the hosts that are connected here."""

    def __init__(self, db: Database, links: Links, *, node: str, settings: ResumeSettings) -> None:
        super().__init__()
        self._db = db
        self._links = links
        self._node = node
        self._settings = settings

    async def started(self) -> None:
        """Begin with a look: what a stopped server left is carried on."""
        self.timers.after(0, ROUND, key=ROUND)

    async def handle(self, message: object) -> None:
        """Let each take its step; those that a database's absence left wait for the next look."""
        assert message == ROUND, message
        is_open = True
        try:
            if self._settings.may_begin():
                is_open = await self._round()
        except Unavailable as away:
            self.log.note(f"the database is away: {away.sentence}")
        self.timers.after(OPEN_SECONDS if is_open else IDLE_SECONDS, ROUND, key=ROUND)

    async def _round(self) -> bool:
        async with self._db.transaction(System(), look=True) as tx:
            found = await find_open(tx, BATCH)
        for one in found:
            command = Advance(
                resume_id=one.id,
                node=self._node,
                is_off=self._settings.is_off,
                routing=self._settings.routing,
            )
            try:
                asked = await self._db.run(Muster(owner_id=one.owner_id), advance, command)
            except NotRoutable:
                continue  # its window went while the route was made; the next look says why
            if asked is not None:
                # A host that does not read holds up nobody else's resume.
                self.nursery.start_soon(self._ask, one.owner_id, asked)
        return bool(found)

    async def _ask(self, owner_id: int, ask: AskHost) -> None:
        link = self._links.find(ask.host_id)
        if link is None or link.epoch != ask.epoch or link.closed:
            await self._unwritten(owner_id, ask)
            return
        try:
            await link.resume(ask.resume_id, ask.claude_session)
        except OSError:
            return  # how much was written is unknown

    async def _unwritten(self, owner_id: int, ask: AskHost) -> None:
        """It was never told, so the next host may be."""
        command = NoteAnswer(resume_id=ask.resume_id, answer=Denied(host_id=ask.host_id, why=GONE))
        try:
            await self._db.run(Muster(owner_id=owner_id), note_answer, command)
        except Unavailable:
            return  # its silence lapses
