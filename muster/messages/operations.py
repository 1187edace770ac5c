"""The verbs of messages: post, look, and what the chief's delivery needs.

Lock order everywhere: the account's row, an agent's, a plugin's, a message's, then its drafts.
"""

from datetime import datetime

import attrs

from muster.errors import NotFound
from muster.ids import is_row_id
from muster.messages import store
from muster.messages.posts import check, check_allowance
from muster.messages.rules import Message, Post, State, subject
from muster.outcomes import Changed, Fact, Hint, HintKind
from muster.pg.database import Transaction
from muster.plugins.operations import lock_live_plugin
from muster.principals import Plugin
from muster.token_use import TokenUse

__all__ = [
    "ListMessages",
    "Message",
    "Post",
    "Posted",
    "State",
    "find_message",
    "find_token_use",
    "get_message",
    "hold_message",
    "list_messages",
    "lock_delivering",
    "lock_message",
    "lock_next_queued",
    "post",
    "release_message",
    "require_handed",
    "save",
]

LISTED_MAX = 1000


@attrs.frozen(kw_only=True)
class Posted:
    """What a plugin is answered: 202 when it was `created`, else 200 with where it stands."""

    id: int
    status: str
    created: bool


@attrs.frozen(kw_only=True)
class ListMessages:
    """Which messages to list; `plugin` is a name. At most 1,000."""

    state: State | None = None
    plugin: str | None = None
    limit: int = 50


async def post(tx: Transaction, command: Post) -> Posted:
    """Store an inbound message, once for its external id (plugins: "POST /plugin/v1/messages").

    Raises Invalid for a field, TooMany over an allowance, Unauthorized once the plugin is revoked.
    You don't get TooMany for a repeat: that is answered from what is stored, whatever it says now.
    """
    plugin = tx.principal
    assert isinstance(plugin, Plugin)
    check(command)
    # Most repeats end here without a lock. A new one takes the plugin's row, which makes the counts
    # exact and lets the second of two equal posts see the first.
    stored = await store.find_by_external_id(tx, plugin.plugin_id, command.external_id)
    if stored is None:
        _, usage = await tx.together(
            lock_live_plugin(tx, plugin.plugin_id),
            store.find_usage(tx, plugin.plugin_id, command.external_id),
        )
        if usage.is_repeat:
            stored = await store.find_by_external_id(tx, plugin.plugin_id, command.external_id)
    if stored is not None:
        return Posted(id=stored.id, status=stored.status, created=False)
    check_allowance(usage.undelivered, usage.sixtieth_newest_at, tx.now)
    message = await store.insert(tx, plugin.plugin_id, command)
    await tx.record(
        Fact(
            action="plugin.message.received",
            subject=subject(message.id),
            data={"external_id": message.external_id, "no_reply": message.no_reply},
        )
    )
    tx.hint(Hint(kind=HintKind.MESSAGE_QUEUED, owner_id=tx.owner_id, id=message.id))
    return Posted(id=message.id, status=message.status, created=True)


async def get_message(tx: Transaction, message_id: int) -> Message:
    """The owner's message; raises NotFound for none and for somebody else's."""
    message = await find_message(tx, message_id)
    if message is None:
        raise NotFound(f"There is no message {message_id}.")
    return message


async def find_message(tx: Transaction, message_id: int) -> Message | None:
    """The owner's message; None for none, whatever the number, and for somebody else's."""
    return await store.find(tx, message_id) if is_row_id(message_id) else None


async def find_token_use(tx: Transaction, message_id: int) -> TokenUse | None:
    """The tokens that the message's turn took; None for none counted, and for none settled."""
    return await store.find_token_use(tx, message_id)


async def list_messages(tx: Transaction, command: ListMessages) -> list[Message]:
    """The owner's messages, newest first."""
    return await store.list_newest(
        tx,
        state=command.state,
        plugin=command.plugin,
        limit=max(0, min(command.limit, LISTED_MAX)),
    )


async def lock_message(tx: Transaction, message_id: int) -> Message | None:
    """The owner's message with its row locked until the transaction ends; None as for a find."""
    return await store.lock(tx, message_id) if is_row_id(message_id) else None


def require_handed(message: Message | None, agent_id: int, sentence: str) -> Message:
    """The message, if it is or was handed to this agent; else NotFound, saying `sentence`.

    To an agent every other message is none: it learns of nothing that it was not handed.
    """
    if message is None or not message.is_handed_to(agent_id):
        raise NotFound(sentence)
    return message


async def lock_next_queued(tx: Transaction, agent_id: int) -> Message | None:
    """The owner's oldest queued message whose plugin lives, with its row locked.

    The caller holds the row of the chief `agent_id`: so two deliveries of one owner do not meet
    here. For an agent that is the chief no more it is None, and nothing is locked.
    """
    return await store.lock_next_queued(tx, agent_id)


async def hold_message(tx: Transaction, message_id: int, until: datetime) -> None:
    """Keep a queued message from every delivery until then: a session is being resumed for it."""
    await store.hold(tx, message_id, until)


async def release_message(tx: Transaction, message_id: int) -> None:
    """Hold a message no longer; one that is queued is offered to the chief at once."""
    if await store.hold(tx, message_id, None):
        tx.hint(Hint(kind=HintKind.MESSAGE_QUEUED, owner_id=tx.owner_id, id=message_id))


async def lock_delivering(tx: Transaction, agent_id: int) -> list[Message]:
    """What is `delivering` to this agent, locked: none or one."""
    return await store.lock_delivering(tx, agent_id)


async def save(tx: Transaction, changed: Changed[Message]) -> Message:
    """Write what `rules.decide` said about a locked message, with its facts and hints."""
    return await store.save(tx, changed)
