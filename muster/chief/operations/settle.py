"""Why a message needs nothing more (plugins: "A message the chief does not act on")."""

import attrs

from muster.errors import Refused
from muster.messages import operations as messages
from muster.messages.rules import Message, Settle, check_reason, decide
from muster.outcomes import Changed
from muster.pg.database import Transaction
from muster.principals import Agent


@attrs.frozen(kw_only=True)
class SettleMessage:
    """The chief's judgement on a message that was delivered to it. At most 2,000 characters.

    Leaves `plugin.message.settled`.
    """

    message_id: int
    reason: str


async def settle_message(tx: Transaction, command: SettleMessage) -> Message:
    """As the chief: note why a message needs nothing more; a second reason changes nothing.

    Whether the agent is the owner's chief is for the caller to see. Raises Invalid for the reason,
    NotFound for a message that was not delivered, and is not being delivered, to this agent.
    """
    agent = tx.principal
    assert isinstance(agent, Agent)
    check_reason(command.reason)
    message = messages.require_handed(
        await messages.lock_message(tx, command.message_id),
        agent.agent_id,
        f"{command.message_id} is not a plugin message delivered to you.",
    )
    return await settle_locked(tx, message, Settle(reason=command.reason))


async def settle_locked(tx: Transaction, message: Message, command: Settle) -> Message:
    """Settle a message whose row the caller holds."""
    outcome = decide(message, command, tx.now)
    if isinstance(outcome, Refused):
        raise outcome
    return await messages.save(tx, outcome) if isinstance(outcome, Changed) else outcome.row
