"""The owners: they look at what is pending and let most of it go, as the command line would."""

import random
from collections.abc import Callable, Sequence

import trio

from bench.chaos.ledger import Ledger, What
from muster.drafts.operations import (
    Approve,
    DraftView,
    ListDrafts,
    Reject,
    approve,
    list_drafts,
    reject,
)
from muster.drafts.rules import State
from muster.errors import MusterError, Unavailable
from muster.outcomes import Hint
from muster.pg.database import Database
from muster.pg.listener import notify
from muster.principals import Owner

ROUND_SECONDS = 0.1
REJECTS = 0.03

Decide = Callable[[DraftView], What]
Note = Callable[[DraftView, What], None]


async def decide_pending(db: Database, owner: Owner, decide: Decide, note: Note) -> None:
    """Approve or reject each pending draft as `decide` says; `note` hears of what was done.

    Raises Unavailable; then nobody knows whether the last decision counts, and `note` did not hear
    of it.
    """
    for draft in await db.run(owner, list_drafts, ListDrafts(state=State.PENDING)):
        decision = decide(draft)
        try:
            if decision is What.APPROVED:
                command = Approve(draft_id=draft.id, sha256=draft.body_sha256)
                await db.run(owner, approve, command)
            else:
                await db.run(owner, reject, Reject(draft_id=draft.id, sha256=draft.body_sha256))
        except Unavailable:
            raise
        except MusterError:
            continue  # another reply to the message is in flight, or this one was superseded
        note(draft, decision)


async def decide_forever(
    db: Database,
    hints: list[Hint],
    owners: Sequence[Owner],
    ledger: Ledger,
    chance: random.Random,
) -> None:
    """Do so for all owners until cancelled, and tell the servers; `hints` are those of `db`.

    A database that is away is waited for.
    """

    def decide(_draft: DraftView) -> What:
        return What.REJECTED if chance.random() < REJECTS else What.APPROVED

    def note(draft: DraftView, what: What) -> None:
        ledger.write(what, "owner", draft_id=draft.id, external_id=draft.message_external_id)

    while True:
        for owner in owners:
            try:
                await decide_pending(db, owner, decide, note)
                told, hints[:] = list(hints), []
                await notify(db, told)
            except Unavailable:
                continue
        await trio.sleep(ROUND_SECONDS)
