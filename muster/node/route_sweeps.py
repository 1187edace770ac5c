"""Routes by the clock: deadlines, texts that were never pasted, relays put off, hand-backs owed.

As the other sweeps (muster/node/sweeps.py): the place to look is System's, the verb is run as
muster for each owner and judges again under its locks. A hand-back is delivered here and nowhere
else; a route that fails brings this sweep on at once (HintKind.ROUTE_ENDED).
"""

from muster.chief.operations.routing import due
from muster.chief.operations.routing.answering import (
    RelayRoute,
    RelaySettings,
    put_off,
    relay_route,
)
from muster.chief.operations.routing.ending import EndRoute, GiveBackRoute, end_route, give_back
from muster.errors import Refused
from muster.mirror.operations.gone import find_gone
from muster.pg.database import Database
from muster.principals import Muster, System

BATCH = 200
BATCHES_MAX = 50  # of one round


async def sweep_routes(db: Database, settings: RelaySettings) -> str | None:
    """One round. The note for the log when an answer could not be relayed, and is kept."""
    await _end_gone(db)
    kept = 0
    for _ in range(BATCHES_MAX):
        found, kept_now = await _batch(db, settings)
        kept += kept_now
        if found < BATCH:
            break
    return f"{kept} answers of sessions could not be relayed, and are kept" if kept else None


async def _end_gone(db: Database) -> None:
    """End what waits for sessions that no window shows."""
    after = 0
    while True:
        find = due.FindOwners(after=after, limit=BATCH)
        async with db.transaction(System(), look=True) as tx:
            waiting = await due.find_waiting_owners(tx, find)
        for owner in waiting:
            after = owner.owner_id
            for gone in await db.run(Muster(owner_id=after), find_gone, BATCH):
                end = EndRoute(route_id=gone.route_id, why=due.GONE)
                await db.run(Muster(owner_id=after), end_route, end)
        if len(waiting) < BATCH:
            return


async def _batch(db: Database, settings: RelaySettings) -> tuple[int, int]:
    """A batch of each kind: the longest one's length, and the answers that could not be relayed."""
    async with db.transaction(System()) as tx:
        overdue = await due.find_overdue(tx, BATCH)
        unpasted = await due.find_unpasted(tx, BATCH)
        unrelayed = await due.find_unrelayed(tx, BATCH)
    for one in unpasted:
        end = EndRoute(route_id=one.route_id, why=due.REASONS[one.send_state])
        await db.run(Muster(owner_id=one.owner_id), end_route, end)
    for late in overdue:
        end = EndRoute(route_id=late.route_id)
        await db.run(Muster(owner_id=late.owner_id), end_route, end)
    kept = 0
    for one_late in unrelayed:
        kept += not await _relay(db, one_late, settings)
    # What ended in this batch is handed back in it.
    async with db.transaction(System(), look=True) as tx:
        owed = await due.find_owed(tx, BATCH)
    for one_owed in owed:
        back = GiveBackRoute(route_id=one_owed.route_id)
        await db.run(Muster(owner_id=one_owed.owner_id), give_back, back)
    longest = max(len(overdue), len(unpasted), len(unrelayed), len(owed))
    return longest, kept


async def _relay(db: Database, one: due.DueRoute, settings: RelaySettings) -> bool:
    muster = Muster(owner_id=one.owner_id)
    try:
        await db.run(muster, relay_route, RelayRoute(route_id=one.route_id, settings=settings))
    except Refused:
        await db.run(muster, put_off, one.route_id)
        return False
    return True
