"""`plugin_message_settle`: the chief says why a message needs nothing more."""

from collections.abc import Mapping

import msgspec

from muster.chief import operations
from muster.chief.operations.settle import SettleMessage, settle_message
from muster.chief.tools.tool import Call, Tool
from muster.pg.database import Transaction
from muster.principals import Agent


class PluginMessageSettle(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The arguments of `plugin_message_settle`."""

    message_id: int
    reason: str


async def plugin_message_settle(tx: Transaction, call: Call) -> Mapping[str, object]:
    """Settle a message; answers with the reason that counts, the first."""
    assert isinstance(call.arguments, PluginMessageSettle)
    assert isinstance(tx.principal, Agent)
    await operations.require_chief(tx, tx.principal)
    settled = await settle_message(
        tx,
        SettleMessage(message_id=call.arguments.message_id, reason=call.arguments.reason),
    )
    return {"message_id": settled.id, "settle_reason": settled.settle_reason}


PLUGIN_MESSAGE_SETTLE = Tool(
    name="plugin_message_settle",
    description=(
        "Say that a plugin message that was delivered, or is being delivered, to you needs "
        "nothing more, and why: a notice, a newsletter, or one that was dealt with in another "
        "way. Nothing is sent. A message that you neither answer nor settle nor file a task for "
        "may be put before your owner. reason is at most 2,000 characters; a second settle keeps "
        "the first reason."
    ),
    arguments=PluginMessageSettle,
    run=plugin_message_settle,
)
