"""What muster says in a chief's conversation: a note, or a turn where the chief is to act.

A note stands in the conversation and begins no turn. The chief gets it with its next turn in that
conversation, before that turn's own text; so a note costs no turn, and is not missed.
"""

from typing import Final

import attrs

from muster.agents.rules import NODE_ALIVE_SECONDS
from muster.chief import store, turn_store
from muster.chief.turns import By, conversation_hint, said
from muster.outcomes import Hint, HintKind
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.routes.rules import Route

NOTE_BYTES_MAX: Final = 96 * 1024


@attrs.frozen(kw_only=True)
class Note:
    """Words for the chief's conversation about a plugin, at most NOTE_BYTES_MAX bytes."""

    agent_id: int
    plugin_id: int
    text: str


def about(route: Route, plugin_id: int, text: str) -> Note:
    """A note for the chief that holds the message of a route."""
    return Note(agent_id=route.agent_id, plugin_id=plugin_id, text=text)


ADD_NOTE = Query("""
    insert into turns (owner_id, conversation_id, agent_id, words, said_by, state, attempt,
                       created_at, ended_at)
    values (%(owner_id)s, %(conversation_id)s, %(agent_id)s, %(words)s, 'muster', 'noted', 0,
            %(now)s, %(now)s)
""")


async def note(tx: Transaction, command: Note) -> None:
    """Write a note (no audit row: what it tells of has one). The caller holds the chief's row."""
    conversation_id = await conversation_of(tx, command.agent_id, command.plugin_id)
    await tx.later(
        ADD_NOTE,
        conversation_id=conversation_id,
        agent_id=command.agent_id,
        words=command.text,
    )
    tx.hint(conversation_hint(tx.owner_id, conversation_id))


async def say(tx: Transaction, command: Note) -> None:
    """Have it said in a turn of its own, which waits for the chief to be free. As for a note.

    Leaves `conversation.said`.
    """
    conversation_id = await conversation_of(tx, command.agent_id, command.plugin_id)
    turn_id = await turn_store.add_words(
        tx,
        conversation_id,
        agent_id=command.agent_id,
        words=command.text,
        by=By.MUSTER,
        ask_id=None,
    )
    await tx.record(said(turn_id, conversation_id, By.MUSTER, command.text))
    tx.hint(Hint(kind=HintKind.WORDS_QUEUED, owner_id=tx.owner_id, id=command.agent_id))


async def conversation_of(tx: Transaction, agent_id: int, plugin_id: int) -> int:
    """The chief's conversation about a plugin, made if it is not there; its row is locked."""
    setting = await store.find_setting(tx, agent_id, plugin_id)
    return setting.conversation_id or await store.open_conversation(
        tx, agent_id, plugin_id, setting.label
    )


IS_FREE = Query("""
    select exists (
        select from agents a join nodes n on n.id = a.node
        where a.owner_id = %(owner_id)s and a.id = %(agent_id)s and a.retired_at is null
          and n.seen_at > %(now)s - make_interval(secs => %(alive_seconds)s)
    ) and not exists (
        select from turns t
        where t.owner_id = %(owner_id)s and t.agent_id = %(agent_id)s and t.state = 'delivering'
    )
""")


async def is_free(tx: Transaction, agent_id: int) -> bool:
    """Whether the chief is running and not in the middle of a turn."""
    return bool(await tx.scalar(IS_FREE, agent_id=agent_id, alive_seconds=NODE_ALIVE_SECONDS))


# A note is read once: the turn that takes it along is written down with it.
READ_NOTES = Query("""
    with read as (
        update turns set read_in = %(turn_id)s
        where owner_id = %(owner_id)s and conversation_id = %(conversation_id)s
          and state = 'noted' and read_in is null
        returning id, words
    )
    select words from read order by id
""")
UNREAD = Query("""
    update turns set read_in = null where owner_id = %(owner_id)s and read_in = %(turn_id)s
""")


@attrs.frozen(kw_only=True)
class _Words:
    words: str


async def read_notes(tx: Transaction, conversation_id: int, turn_id: int) -> tuple[str, ...]:
    """The notes that the chief gets with the turn that begins, oldest first."""
    found = await tx.all(READ_NOTES, _Words, conversation_id=conversation_id, turn_id=turn_id)
    return tuple(one.words for one in found)


async def put_notes_back(tx: Transaction, turn_id: int) -> None:
    """Nothing of that turn was sent: its notes go with the next one."""
    await tx.later(UNREAD, turn_id=turn_id)


def with_notes(text: str, notes: tuple[str, ...]) -> str:
    """The text of a turn, behind the notes that come with it."""
    if not notes:
        return text
    told = "\n\n".join(notes)
    return (
        f"muster: since your last turn in this conversation, for you to know:\n\n{told}\n\n{text}"
    )
