"""Asks by the clock: their day ends, and messages that the chief does nothing about become one.

As the other sweeps (muster/node/sweeps.py): the place to look is System's, the verb is run as
muster for each owner and judges again under its locks.
"""

from muster.attention import operations as attention
from muster.chief.operations import unrouted
from muster.pg.database import Database
from muster.principals import Muster, System

BATCH = 200


async def expire_asks(db: Database) -> None:
    """Write `expired` for asks whose day is over."""
    async with db.transaction(System(), look=True) as tx:
        due = await attention.due_expiries(tx, BATCH)
    for one in due:
        command = attention.Expire(ask_id=one.ask_id)
        await db.run(Muster(owner_id=one.owner_id), attention.expire, command)


async def ask_about_unrouted(db: Database) -> str | None:
    """Ask about agent-mail that nobody answered, and close what was asked needlessly by now.

    The note for the log when some owner has all the asks that there may be, one for the round.
    """
    after, full = 0, 0
    while True:
        async with db.transaction(System(), look=True) as tx:
            found = await unrouted.find_owners(tx, unrouted.FindOwners(after=after, limit=BATCH))
        for one in found:
            after = one.owner_id
            swept = await db.run(
                Muster(owner_id=one.owner_id),
                unrouted.ask_about_unrouted,
                unrouted.AskAboutUnrouted(),
            )
            full += swept.full
        if len(found) < BATCH:
            break
    if not full:
        return None
    return f"messages wait for an ask of {full} owners, who have as many open as there may be"
