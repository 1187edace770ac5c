"""Handing a message to the owner's chief, and writing down how that ended.

Both run as muster on the owner's behalf. `begin` locks the chief's row, then messages: so one
handing-over at a time for a chief, whichever node asks, and the epoch in hand is the current one.
The database holds the same rule as unique indexes (`messages_one_turn_key`, `turns_one_turn_key`
for words as well). Each time that a message is handed over has a row of `turns`, which travels with
what is sent anyway: it costs the message no trip of its own.
"""

from typing import assert_never

import attrs

from muster.agents import operations as agents
from muster.chief import notes, store, turn_store
from muster.chief.recovery import recover_left
from muster.chief.self_routing.targets import find_absent_author
from muster.chief.sessions_block import Candidate, find_candidates
from muster.chief.turns import Heard, conversation_hint
from muster.errors import Refused
from muster.messages import operations as messages
from muster.messages import rules as message_rules
from muster.outcomes import Changed
from muster.pg.database import Transaction
from muster.principals import Agent
from muster.routes.authors import Author

Ending = message_rules.Complete | message_rules.Fail | message_rules.PutBack


@attrs.frozen(kw_only=True)
class Begin:
    """Hand over message `message_id`, or the owner's oldest queued one, to the chief.

    `agent_id` and `epoch` name the gateway connection that would carry the turn. The author of a
    review is looked up for mail of `review_senders`, and with `session_focus` the sessions that may
    be on the message already.
    """

    agent_id: int
    epoch: int
    message_id: int | None = None
    review_senders: frozenset[str] = frozenset()
    session_focus: bool = False


@attrs.frozen(kw_only=True)
class Handover:
    """A message that is `delivering` now, and what its turn needs; times are UTC.

    `words_wait`: there are words for the chief too. `author`: the message is a review, and no
    window shows the session that authored its pull request. `notes` come before the message.
    """

    message: message_rules.Message
    epoch: int
    turn_id: int
    conversation_id: int
    words_wait: bool
    plugin_label: str
    scope: str
    author: Author | None = None
    notes: tuple[str, ...] = ()
    sessions: tuple[Candidate, ...] = ()


@attrs.frozen(kw_only=True)
class Settle:
    """Write down how the turn on a message ended, if that turn is still the one in hand.

    `ending` names the epoch that the turn was begun with (plugins: "Delivery to your chief"),
    `attempt` and `turn_id` are the handover's, and `heard` what the chief said.
    """

    message_id: int
    attempt: int
    turn_id: int
    conversation_id: int
    ending: Ending
    heard: Heard = turn_store.NOTHING


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
    if message.is_held(tx.now):
        return None
    setting = await store.find_setting(tx, chief.id, message.plugin_id)
    if not (setting.plugin_lives and setting.owner_enabled):
        return None
    if setting.is_delivering:
        await recover_left(tx, chief.id)
    outcome = message_rules.decide(
        message, message_rules.Begin(agent_id=chief.id, epoch=command.epoch), tx.now
    )
    assert isinstance(outcome, Changed), outcome
    begun = await messages.save(tx, outcome)
    conversation_id = setting.conversation_id or await store.open_conversation(
        tx, chief.id, message.plugin_id, setting.label
    )
    turn = turn_store.BegunTurn(
        id=setting.turn_id,
        conversation_id=conversation_id,
        agent_id=chief.id,
        message_id=begun.id,
        attempt=begun.attempts,
        epoch=command.epoch,
    )
    await turn_store.begin_of_message(tx, turn)
    tx.hint(conversation_hint(tx.owner_id, conversation_id))
    author, told, sessions = await tx.together(
        find_absent_author(tx, begun, command.review_senders),
        notes.read_notes(tx, conversation_id, turn.id),
        _find_sessions(tx, begun, command),
    )
    return Handover(
        message=begun,
        epoch=command.epoch,
        turn_id=turn.id,
        conversation_id=conversation_id,
        words_wait=setting.words_wait,
        plugin_label=setting.label,
        scope=setting.scope,
        author=author,
        notes=told,
        sessions=sessions,
    )


async def _find_sessions(
    tx: Transaction, message: message_rules.Message, command: Begin
) -> tuple[Candidate, ...]:
    return await find_candidates(tx, message) if command.session_focus else ()


async def settle_turn(tx: Transaction, command: Settle) -> None:
    """Record the ending; of a turn that was settled meanwhile (by a later epoch) nothing changes.

    The epoch alone does not tell: after a retry the message may be with another chief, whose
    connections are counted from one as well.
    """
    message = await messages.lock_message(tx, command.message_id)
    if message is None or message.attempts != command.attempt:
        return
    outcome = message_rules.decide(message, command.ending, tx.now)
    if not isinstance(outcome, Changed):
        return
    settled = await messages.save(tx, outcome)
    match command.ending:
        case message_rules.PutBack():
            await notes.put_notes_back(tx, command.turn_id)
            await turn_store.take_back(tx, command.turn_id)
        case message_rules.Complete(usage=usage) | message_rules.Fail(usage=usage):
            end = turn_store.EndedTurn(
                id=command.turn_id,
                state=settled.state.value,
                ended_at=settled.settled_at,
                heard=command.heard,
                usage=usage,
                failure=message_rules.failure_of(command.ending),
            )
            await turn_store.end_of_message(tx, end)
        case _:
            assert_never(command.ending)
    tx.hint(conversation_hint(tx.owner_id, command.conversation_id))


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
        return await messages.lock_next_queued(tx, command.agent_id)
    return await messages.lock_message(tx, command.message_id)
