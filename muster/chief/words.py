"""Words to an agent: stored first, then said in a turn of their own, at most once.

Words are the owner's, the owner's answer to an ask of the agent's, or muster's. They go to the
agent's default conversation, and are no untrusted data: what an outside sender wrote reaches an
agent by the fence alone (muster/chief/fence.py). A line of muster's own says whose they are.
"""

import attrs

from muster.agents import operations as agents
from muster.attention import operations as attention
from muster.chief import notes, turn_store
from muster.chief.recovery import recover_left, recover_left_words
from muster.chief.turns import WAITING_MAX, Begin, By, Heard, Turn, check, decide, said
from muster.errors import NotFound, Refused
from muster.messages.rules import Complete, Fail, PutBack, failure_of
from muster.outcomes import Changed, Hint, HintKind
from muster.pg.database import Transaction

DEFAULT_TITLE = "Owner"


@attrs.frozen(kw_only=True)
class Say:
    """Words for the agent's default conversation, at most 16 KiB. Leaves `conversation.said`.

    `ask_id` names the ask that they answer; they are then by `ask`.
    """

    agent_id: int
    text: str
    by: By = attrs.field(converter=By)
    ask_id: int | None = None


@attrs.frozen(kw_only=True)
class Said:
    """Words that wait: their turn, its conversation, and the agent's asks that they answered."""

    turn_id: int
    conversation_id: int
    ask_ids: tuple[int, ...] = ()


async def say(tx: Transaction, command: Say) -> Said:
    """Store words for a live agent of the owner's, who gets them once it is free.

    Words of the owner's answer what the agent has asked (muster.attention). Raises NotFound for no
    such agent or ask, Invalid for the text, Refused (`words_waiting`) while 50 of the owner's wait.
    """
    check(command.text)
    if command.ask_id is not None:
        await attention.get_ask(tx, command.ask_id)
    answered: list[int] = []
    if command.by is By.OWNER:
        # Before any row of the agent's: an answer to an ask comes to the agent by the same order.
        answered = await attention.settle_by_chat(tx, command.agent_id, command.text)
        # Then the agent, so that of two who write at once the second counts what the first said.
        await agents.lock_live_agent(tx, command.agent_id)
    conversation = await turn_store.open_default(
        tx, command.agent_id, title=DEFAULT_TITLE, most=WAITING_MAX
    )
    if conversation is None:
        raise NotFound(f"There is no agent {command.agent_id}.")
    if command.by is By.OWNER and conversation.waiting >= WAITING_MAX:
        raise Refused(
            f"{WAITING_MAX} messages wait for this agent already; it has to be connected first.",
            code="words_waiting",
        )
    turn_id = await turn_store.add_words(
        tx,
        conversation.id,
        agent_id=command.agent_id,
        words=command.text,
        by=command.by,
        ask_id=command.ask_id,
    )
    await tx.record(said(turn_id, conversation.id, command.by, command.text))
    tx.hint(Hint(kind=HintKind.WORDS_QUEUED, owner_id=tx.owner_id, id=command.agent_id))
    return Said(turn_id=turn_id, conversation_id=conversation.id, ask_ids=tuple(answered))


@attrs.frozen(kw_only=True)
class BeginWords:
    """Say the oldest words that wait for this agent on this connection."""

    agent_id: int
    epoch: int


@attrs.frozen(kw_only=True)
class Spoken:
    """Words that are `delivering` now; `question` is the ask's, if they answer one."""

    turn: Turn
    epoch: int
    question: str | None
    title: str  # of the conversation
    notes: tuple[str, ...]


@attrs.frozen(kw_only=True)
class SettleWords:
    """Write down how the turn of words ended, if that turn is still the one in hand."""

    turn_id: int
    ending: Complete | Fail | PutBack
    heard: Heard = turn_store.NOTHING


async def begin_words(tx: Transaction, command: BeginWords) -> Spoken | None:
    """Write `delivering` before the turn starts; None when the agent can be told nothing.

    None too when the connection is no longer the agent's current one and when the account is
    disabled. Words that an earlier turn left `delivering` are settled as unconfirmed in any case; a
    message that was left is when a turn begins, which is the next delivery to the same agent.
    """
    agent, turn = await tx.together(
        agents.lock_live_agent(tx, command.agent_id),
        turn_store.lock_next_words(tx, command.agent_id),
    )
    if agent is None or agent.epoch != command.epoch:
        return None
    if turn is None:
        await recover_left_words(tx, agent.id)
        return None
    await recover_left(tx, agent.id)
    outcome = decide(turn, Begin(epoch=command.epoch), tx.now)
    assert isinstance(outcome, Changed), outcome
    begun = await turn_store.save(tx, outcome)
    question = None
    if begun.ask_id is not None:
        question = (await attention.get_ask(tx, begun.ask_id)).question
    title, told = await tx.together(
        turn_store.find_title(tx, begun.conversation_id),
        notes.read_notes(tx, begun.conversation_id, begun.id),
    )
    return Spoken(turn=begun, epoch=command.epoch, question=question, title=title, notes=told)


async def settle_words(tx: Transaction, command: SettleWords) -> None:
    """Record the ending; a turn that was settled meanwhile (by a later epoch) changes nothing."""
    turn = await turn_store.lock(tx, command.turn_id)
    if turn is None:
        return
    outcome = decide(turn, command.ending, tx.now)
    if not isinstance(outcome, Changed):
        return
    match command.ending:
        case PutBack():
            await turn_store.save(tx, outcome)
            await notes.put_notes_back(tx, turn.id)
        case Complete(usage=usage) | Fail(usage=usage):
            failure = failure_of(command.ending)
            await turn_store.save(tx, outcome, command.heard, usage=usage, failure=failure)


def render_words(spoken: Spoken) -> str:
    """The text of a turn of words: a line of muster's own, and what was said as it was said."""
    words = spoken.turn.words or ""
    match spoken.turn.said_by:
        case By.ASK:
            return "\n".join([*_asked(spoken), words])
        case By.MUSTER:
            return f"muster: this is muster itself.\n\n{words}"
        case _:
            return f"muster: your owner writes to you.\n\n{words}"


def _asked(spoken: Spoken) -> list[str]:
    opening = f"muster: your owner answered your ask {spoken.turn.ask_id}."
    if spoken.question is None:
        return [opening, ""]
    quoted = [f"> {line}" for line in spoken.question.splitlines()]
    return [f"{opening} You had asked:", *quoted, "", "The answer:"]
