"""Handing a message to the owner's chief, and writing down how that ended.

Both run as muster on the owner's behalf. `begin` locks the chief's row, then messages: so one
handing-over at a time for a chief, whichever node asks, and the epoch in hand is the current one.
The database holds the same rule as a unique index (`messages_one_turn_key`).
"""

import attrs

from muster.agents import operations as agents
from muster.chief import store
from muster.errors import Refused
from muster.messages import operations as messages
from muster.messages import rules as message_rules
from muster.outcomes import Changed
from muster.pg.database import Transaction
from muster.principals import Agent

Ending = message_rules.Complete | message_rules.Fail | message_rules.PutBack


@attrs.frozen(kw_only=True)
class Begin:
    """Hand over message `message_id`, or the owner's oldest queued one, to the chief.

    `agent_id` and `epoch` name the gateway connection that would carry the turn.
    """

    agent_id: int
    epoch: int
    message_id: int | None = None


@attrs.frozen(kw_only=True)
class Handover:
    """A message that is `delivering` now, and what its turn needs; times are UTC."""

    message: message_rules.Message
    epoch: int
    conversation_id: int
    plugin_label: str
    scope: str


@attrs.frozen(kw_only=True)
class Settle:
    """Write down how the turn on a message ended, if that turn is still the one in hand.

    `ending` names the epoch that the turn was begun with (plugins: "Delivery to your chief").
    """

    message_id: int
    ending: Ending


async def begin(tx: Transaction, command: Begin) -> Handover | None:
    """Write `delivering` before the turn starts; None when there is nothing this chief can take.

    None too when the connection is no longer the chief's current one, when the account is disabled,
    and when the message's plugin is revoked. What an earlier turn left `delivering` to this chief
    is settled as unconfirmed in the same transaction (plugins: "Delivery to your chief").
    """
    chief, message = await tx.together(agents.lock_chief(tx), _lock_wanted(tx, command))
    if chief is None or (chief.id, chief.epoch) != (command.agent_id, command.epoch):
        return None
    if message is None or message.state is not message_rules.State.QUEUED:
        return None
    setting = await store.find_setting(tx, chief.id, message.plugin_id)
    if not (setting.plugin_lives and setting.owner_enabled):
        return None
    if setting.is_delivering:
        for left in await messages.lock_delivering(tx, chief.id):
            await _apply(tx, left, message_rules.Recover())
    begun = await _apply(tx, message, message_rules.Begin(agent_id=chief.id, epoch=command.epoch))
    conversation_id = setting.conversation_id or await store.open_conversation(
        tx, chief.id, message.plugin_id, setting.label
    )
    return Handover(
        message=begun,
        epoch=command.epoch,
        conversation_id=conversation_id,
        plugin_label=setting.label,
        scope=setting.scope,
    )


async def settle(tx: Transaction, command: Settle) -> None:
    """Record the ending; a turn that was settled meanwhile (by a later epoch) changes nothing."""
    message = await messages.lock_message(tx, command.message_id)
    if message is None:
        return
    outcome = message_rules.decide(message, command.ending, tx.now)
    if isinstance(outcome, Changed):
        await messages.save(tx, outcome)


async def require_chief(tx: Transaction, agent: Agent) -> None:
    """Refuse an agent that is not its owner's chief: the chief's tools are offered to it alone."""
    chief = await agents.lock_chief(tx)
    if chief is None or chief.id != agent.agent_id:
        raise Refused("This tool is the chief's alone.", code="not_chief")


async def is_chief(tx: Transaction, agent: Agent) -> bool:
    """Tell whether `agent` is its owner's chief now."""
    return await agents.find_chief_id(tx) == agent.agent_id


async def _lock_wanted(tx: Transaction, command: Begin) -> message_rules.Message | None:
    if command.message_id is None:
        return await messages.lock_next_queued(tx)
    return await messages.lock_message(tx, command.message_id)


async def _apply(
    tx: Transaction, message: message_rules.Message, command: message_rules.Command
) -> message_rules.Message:
    outcome = message_rules.decide(message, command, tx.now)
    assert isinstance(outcome, Changed), outcome
    return await messages.save(tx, outcome)
