"""Sessions by the clock: texts that may not wait any longer, and what is kept for a time.

As the other sweeps (muster/node/sweeps.py): the place to look is System's, the verb is run as
muster for each owner and judges again under its locks.
"""

from muster.mirror.operations import due, pasting, unconfirmed
from muster.mirror.operations.focus import forget_focus
from muster.mirror.operations.windows import forget_windows
from muster.mirror.send_rules import AskAbout, LapseOffer, RefuseStanding
from muster.pg.database import Database
from muster.principals import Muster, System

BATCH = 200


async def settle_sends(db: Database, *, stepup_window_seconds: int) -> str | None:
    """Refuse what may not be pasted any more, settle what its host forgot, ask what is unasked.

    The note for the log when some owner has all the asks that there may be.
    """
    async with db.transaction(System()) as tx:
        find = due.FindRefused(stepup_window_seconds=stepup_window_seconds, limit=BATCH)
        refused = await due.find_refused(tx, find)
        lapsed = await due.find_lapsed(tx, BATCH)
        unasked = await due.find_unasked(tx, BATCH)
    refuse = RefuseStanding(stepup_window_seconds=stepup_window_seconds)
    for owner in refused:
        await db.run(Muster(owner_id=owner.owner_id), pasting.refuse_standing, refuse)
    for one in lapsed:
        lapse = LapseOffer(send_id=one.send_id)
        await db.run(Muster(owner_id=one.owner_id), unconfirmed.lapse_offer, lapse)
    full = 0
    for one in unasked:
        ask = AskAbout(send_id=one.send_id)
        full += not await db.run(Muster(owner_id=one.owner_id), unconfirmed.ask_about, ask)
    return f"{full} unconfirmed pastes wait for a place among the asks" if full else None


async def forget_mirrored(db: Database) -> None:
    """Delete titles of focus after 30 days, and windows of hosts that are gone for a day."""
    async with db.transaction(System()) as tx:
        titles = await due.find_old_focus(tx, BATCH)
        windows = await due.find_forgotten(tx, BATCH)
    for owner in titles:
        await db.run(Muster(owner_id=owner.owner_id), forget_focus, None)
    for owner in windows:
        await db.run(Muster(owner_id=owner.owner_id), forget_windows, None)
