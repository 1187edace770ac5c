"""Settling what a stop left in the middle of a turn (plugins: "Delivery to your chief")."""

from muster.chief import turn_store
from muster.chief.turns import Turn, decide
from muster.failure import Cause, Failure
from muster.messages import operations as messages
from muster.messages import rules as message_rules
from muster.outcomes import Changed
from muster.pg.database import Transaction


async def recover_left(tx: Transaction, agent_id: int) -> None:
    """Settle as unconfirmed what is `delivering` to the agent, before its next turn begins.

    The caller holds the agent's row, and has no turn of the agent's in hand.
    """
    for left in await messages.lock_delivering(tx, agent_id):
        outcome = message_rules.decide(left, message_rules.Recover(), tx.now)
        assert isinstance(outcome, Changed), outcome
        await messages.save(tx, outcome)
    await _recover(tx, await turn_store.lock_left(tx, agent_id))


async def recover_left_words(tx: Transaction, agent_id: int) -> None:
    """Settle words alone; a message waits for the chief's next turn."""
    await _recover(tx, await turn_store.lock_left_words(tx, agent_id))


async def _recover(tx: Transaction, left: Turn | None) -> None:
    if left is not None:
        outcome = decide(left, message_rules.Recover(), tx.now)
        assert isinstance(outcome, Changed), outcome
        await turn_store.save(tx, outcome, failure=Failure(cause=Cause.UNRECORDED))
