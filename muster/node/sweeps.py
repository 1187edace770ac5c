"""What happens by the clock: leases that lapse, drafts that expire, hints that were lost.

Each sweep is an actor that asks the database what is due and runs the room's own verb for each row,
as muster on the owner's behalf; the verb judges again under its lock, so a sweep that comes twice,
on two nodes at once or late changes nothing that is not due. A database that is away is waited for:
the sweep notes it and comes again.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from actors import Actor
from muster.credentials import operations as credentials
from muster.credentials import rules as credential_rules
from muster.drafts import operations as drafts
from muster.drafts import rules as draft_rules
from muster.drafts.actor import Waiters
from muster.errors import Unavailable
from muster.pg.database import Database
from muster.principals import Muster, System

BATCH = 200
ROUND: Final = "round"  # told to a sweep, it does one at once

Work = Callable[[], Awaitable[str | None]]


class Sweep(Actor):
    """Runs `work` at once and then again `interval_seconds` after each end.

    What the work answers with is a note for the log.
    """

    def __init__(self, work: Work, *, interval_seconds: float) -> None:
        super().__init__()
        self._work = work
        self._interval_seconds = interval_seconds

    async def started(self) -> None:
        """Begin with a round: what fell due while nobody looked is due now."""
        self.timers.after(0, ROUND, key=ROUND)

    async def handle(self, message: object) -> None:
        """Do one round."""
        assert message == ROUND, message
        try:
            note = await self._work()
        except Unavailable as away:
            note = f"the database is away: {away.sentence}"
        if note is not None:
            self.log.note(note)
        self.timers.after(self._interval_seconds, ROUND, key=ROUND)


class Seen:
    """Which credentials were used since the last write; no request writes a row to say it came."""

    def __init__(self) -> None:
        self._seen: dict[int, set[int]] = {}

    def note(self, *, owner_id: int, credential_id: int) -> None:
        """Remember that a credential was used."""
        self._seen.setdefault(owner_id, set()).add(credential_id)

    def take(self) -> dict[int, set[int]]:
        """Take what was noted: the ids of credentials, by owner."""
        taken, self._seen = self._seen, {}
        return taken


async def lapse_leases(db: Database) -> None:
    """Write `unconfirmed` for claims whose lease ended without a result."""
    async with db.transaction(System(), look=True) as tx:
        due = await drafts.due_lapses(tx, BATCH)
    for one in due:
        command = draft_rules.Lapse(draft_id=one.draft_id)
        await db.run(Muster(owner_id=one.owner_id), drafts.lapse, command)


async def expire_drafts(db: Database) -> None:
    """Write `expired` for drafts that were not sent within 7 days of being written."""
    async with db.transaction(System(), look=True) as tx:
        due = await drafts.due_expiries(tx, BATCH)
    for one in due:
        command = draft_rules.Expire(draft_id=one.draft_id)
        await db.run(Muster(owner_id=one.owner_id), drafts.expire, command)


async def wake_for_claimable(db: Database, waiters: Waiters) -> None:
    """Wake a waiter for each plugin that has a reply to collect: its hint may have been lost."""
    parked = waiters.plugin_ids()
    if not parked:
        return
    async with db.transaction(System(), look=True) as tx:
        command = drafts.FindClaimable(plugin_ids=parked, limit=BATCH)
        claimable = await drafts.find_claimable(tx, command)
    for one in claimable:
        waiters.wake(one.plugin_id)


async def write_last_seen(db: Database, seen: Seen) -> None:
    """Write when each credential was last used, as of now, in one transaction an owner."""
    for owner_id, credential_ids in seen.take().items():
        command = credential_rules.NoteSeen(credential_ids=frozenset(credential_ids))
        await db.run(Muster(owner_id=owner_id), credentials.note_seen, command)
