"""An unconfirmed message is handed over again (plugins: "Retrying an unconfirmed message").

It goes back into the queue and is handed to the current chief like any other. Whatever says that
the chief acted on it already refuses the retry, and takes it off the list of those that may be.
"""

# ruff: noqa: S608 - what is put into the statements is a constant of this module

from datetime import datetime

import attrs

from muster.agents import operations as agents
from muster.chief import dispositions
from muster.errors import NotFound, Refused
from muster.messages import operations as messages
from muster.messages.rules import Message, Retry, decide
from muster.outcomes import Changed
from muster.pg.database import Transaction
from muster.pg.query import Query

LISTED_MAX = 200


@attrs.frozen(kw_only=True)
class RetryMessage:
    """Hand this message over again. Leaves `plugin.retried`."""

    message_id: int


async def retry_message(tx: Transaction, command: RetryMessage) -> Message:
    """As the owner: put an unconfirmed message back into the queue.

    Raises NotFound, and Refused with nothing changed: `message_state` unless it is unconfirmed,
    `reply_exists`, `task_exists` and `route_exists` when the chief acted on it, `plugin_revoked`,
    `no_chief`.
    """
    chief, message, acted = await tx.together(
        agents.lock_chief(tx),
        messages.lock_message(tx, command.message_id),
        dispositions.find_acted(tx, command.message_id),
    )
    if message is None or acted is None:
        raise NotFound(f"There is no message {command.message_id}.")
    outcome = decide(message, Retry(), tx.now)
    if isinstance(outcome, Refused):
        raise outcome
    assert isinstance(outcome, Changed), outcome
    _require(message.id, acted, has_chief=chief is not None)
    return await messages.save(tx, outcome)


def _require(message_id: int, acted: dispositions.Acted, *, has_chief: bool) -> None:
    """Raise Refused with the first reason why a message may not be handed over again."""
    if acted.drafted:
        sentence = f"Your chief drafted a reply to message {message_id} already."
        raise Refused(sentence, code="reply_exists")
    if acted.gated:
        sentence = f"Your chief filed a task because of message {message_id} already."
        raise Refused(sentence, code="task_exists")
    if acted.routed:
        sentence = f"Message {message_id} was routed to a session already."
        raise Refused(sentence, code="route_exists")
    if not acted.plugin_lives:
        sentence = f"The plugin of message {message_id} is revoked: nothing of it is handed over."
        raise Refused(sentence, code="plugin_revoked")
    if not has_chief:
        raise Refused("You have no chief to hand it to.", code="no_chief")


@attrs.frozen(kw_only=True)
class Unconfirmed:
    """A message that nobody knows whether the chief had it, and that may be handed over again."""

    message_id: int
    plugin: str  # its name
    sender: str | None
    sender_verified: bool
    subject: str | None
    created_at: datetime
    settled_at: datetime
    attempts: int
    retries: int


@attrs.frozen(kw_only=True)
class ListUnconfirmed:
    """How many to list, newest first; at most 200."""

    limit: int = 50


@attrs.frozen(kw_only=True)
class RetryList:
    """What is not confirmed by the chief; without a chief nothing can be retried."""

    messages: list[Unconfirmed]
    has_chief: bool


# By messages_unconfirmed_idx: a limit that is spelled out leads there, and what is looked up of a
# message stands behind a lateral join, or all tasks would be read to know which of them cites one.
LIST_UNCONFIRMED = Query(f"""
    select m.id as message_id, p.name as plugin, m.sender, m.sender_verified, m.subject,
           m.created_at, m.settled_at, m.attempts, m.retries
    from messages m
    cross join lateral (
        select p.name from plugins p
        where p.owner_id = m.owner_id and p.id = m.plugin_id and p.revoked_at is null
        offset 0
    ) p
    cross join lateral (select {dispositions.CHIEF_ACTED} as chief_acted offset 0) did
    where m.owner_id = %(owner_id)s and m.state = 'unconfirmed' and not did.chief_acted
    order by m.id desc
    limit {LISTED_MAX}
""")


async def list_unconfirmed(tx: Transaction, command: ListUnconfirmed) -> RetryList:
    """The owner's unconfirmed messages that may be retried: "Not confirmed by your chief"."""
    limit = max(0, min(command.limit, LISTED_MAX))
    found = await tx.all(LIST_UNCONFIRMED, Unconfirmed)
    return RetryList(messages=found[:limit], has_chief=await agents.find_chief_id(tx) is not None)
