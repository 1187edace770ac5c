"""A mirrored session asks the chief, and reads what it answered (decisions: `chief_ask`).

The question is words of muster's to the chief, in its conversation about the routed message's
plugin or else in its default one; what the chief says in that turn is the answer. A turn that was
cut off, or an agent that is retired, ends the ask without one; it is asked anew if it matters.
"""

import secrets
from datetime import datetime
from typing import Final

import attrs

from muster.agents import operations as agents
from muster.attention.rules import QUESTION_CHARACTERS_MAX
from muster.chief import notes, store, turn_store
from muster.chief.fence import enclose, one_line
from muster.chief.operations.routing.block import fenced_message
from muster.chief.turns import By, said
from muster.chief.words import DEFAULT_TITLE
from muster.errors import Invalid, NotFound, Refused
from muster.ids import is_row_id
from muster.messages import operations as messages
from muster.names import count_bytes
from muster.outcomes import Hint, HintKind
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.routes.operations import routes
from muster.routes.rules import Route

WAITING_MAX: Final = 10  # questions of one session that the chief has not answered yet


@attrs.frozen(kw_only=True)
class AskChief:
    """A session's question, 1 to 2,000 characters, about a route of its own or about none.

    Leaves `conversation.said`.
    """

    mirrored_id: int
    claude_session: str
    host: str
    question: str
    route_id: int | None = None


@attrs.frozen(kw_only=True)
class SessionAsk:
    """A question as it stands; `state` is waiting, answered or cut_off."""

    id: int
    question: str
    route_id: int | None
    state: str
    answer: str | None
    created_at: datetime
    answered_at: datetime | None


INSERT = Query("""
    insert into session_asks (owner_id, mirrored_id, agent_id, route_id, turn_id, question,
                              created_at)
    values (%(owner_id)s, %(mirrored_id)s, %(agent_id)s, %(route_id)s, %(turn_id)s, %(question)s,
            %(now)s)
    returning id
""")
COUNT_WAITING = Query("""
    select count(*) from session_asks a
    join turns t on t.owner_id = a.owner_id and t.id = a.turn_id
    join agents g on g.owner_id = a.owner_id and g.id = a.agent_id and g.retired_at is null
    where a.owner_id = %(owner_id)s and a.mirrored_id = %(mirrored_id)s
      and t.state in ('queued', 'delivering')
""")


async def ask_chief(tx: Transaction, command: AskChief) -> int:
    """Put a session's question to the chief; the ask's id.

    Raises Invalid for the question, NotFound for a route that is not this session's, Refused with
    `no_chief` or, with WAITING_MAX of the session's unanswered, `too_many_asks`.
    """
    count_bytes(command.question, field="question")
    if not command.question.strip() or len(command.question) > QUESTION_CHARACTERS_MAX:
        raise Invalid(
            f"The question must be 1 to {QUESTION_CHARACTERS_MAX} characters.", field="question"
        )
    chief = await agents.lock_chief(tx)
    if chief is None:
        raise Refused("There is no chief to ask.", code="no_chief")
    if await tx.scalar(COUNT_WAITING, mirrored_id=command.mirrored_id) >= WAITING_MAX:
        raise Refused(
            f"{WAITING_MAX} questions of this session wait for the chief already.",
            code="too_many_asks",
        )
    conversation_id, text = await _words(tx, chief.id, command)
    turn_id = await turn_store.add_words(
        tx, conversation_id, agent_id=chief.id, words=text, by=By.MUSTER, ask_id=None
    )
    await tx.record(said(turn_id, conversation_id, By.MUSTER, text))
    tx.hint(Hint(kind=HintKind.WORDS_QUEUED, owner_id=tx.owner_id, id=chief.id))
    made = await tx.scalar(
        INSERT,
        mirrored_id=command.mirrored_id,
        agent_id=chief.id,
        route_id=command.route_id,
        turn_id=turn_id,
        question=command.question,
    )
    assert isinstance(made, int)
    return made


async def _words(tx: Transaction, agent_id: int, command: AskChief) -> tuple[int, str]:
    """The conversation that the question stands in, and its text with the message quoted."""
    asker = f"The session mirror:{command.claude_session} on {one_line(command.host)}"
    quoted = "\n".join(f"> {line}" for line in command.question.splitlines())
    ending = "What you say in this turn goes back to it as the answer."
    if command.route_id is None:
        text = f"{asker} asks you:\n\n{quoted}\n\n{ending}"
        default = await turn_store.open_default(tx, agent_id, title=DEFAULT_TITLE, most=1)
        assert default is not None, "the chief lives: its row is locked"
        return default.id, text
    route = await _find_route(tx, command)
    message = await messages.get_message(tx, route.message_id)
    setting = await store.find_setting(tx, agent_id, message.plugin_id)
    shown = fenced_message(message, label=setting.label, scope=setting.scope)
    fence = "\n".join(enclose(shown, nonce=secrets.token_hex(8)))
    about = f"about message {message.id}, which route {route.id} gave it"
    text = f"{asker} asks you {about}:\n\n{quoted}\n\n{ending} The message is:\n{fence}"
    conversation_id = await notes.conversation_of(tx, agent_id, message.plugin_id)
    return conversation_id, text


async def _find_route(tx: Transaction, command: AskChief) -> Route:
    assert command.route_id is not None
    route = await routes.find(tx, command.route_id)
    if route is None or route.claude_session != command.claude_session:
        raise NotFound(f"There is no route {command.route_id} of this session.")
    return route


# What was asked of the owner and answered there is told by its own door.
FIND_ASKS = Query("""
    select a.id, a.question, a.route_id, a.created_at,
           case when t.state = 'delivered' then 'answered'
                when t.state in ('queued', 'delivering') and g.retired_at is null then 'waiting'
                else 'cut_off' end as state,
           case when t.state = 'delivered' then t.answer end as answer,
           case when t.state = 'delivered' then t.ended_at end as answered_at
    from session_asks a
    join turns t on t.owner_id = a.owner_id and t.id = a.turn_id
    join agents g on g.owner_id = a.owner_id and g.id = a.agent_id
    where a.owner_id = %(owner_id)s and a.mirrored_id = %(mirrored_id)s and a.id = any(%(ids)s)
    order by a.id
""")


@attrs.frozen(kw_only=True)
class FindAsks:
    """Questions of one session, by their ids."""

    mirrored_id: int
    ids: tuple[int, ...]


async def find_asks(tx: Transaction, command: FindAsks) -> list[SessionAsk]:
    """The session's own questions as they stand; another session's are none."""
    ids = [each for each in command.ids if is_row_id(each)]
    return await tx.all(FIND_ASKS, SessionAsk, mirrored_id=command.mirrored_id, ids=ids)
