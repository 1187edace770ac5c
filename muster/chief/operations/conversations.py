"""The chief as its owner sees it: its state, its conversations and their turns.

What a message says is not here: a turn names its message, whose page shows it as what it is.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import attrs

from muster.accounts.operations import lock_account
from muster.agents.operations import find_chief_id
from muster.agents.rules import NODE_ALIVE_SECONDS
from muster.chief.turns import By, State
from muster.chief.words import Said, Say, say
from muster.errors import NotFound, Refused
from muster.failure import Failure, read_failure
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.token_use import TokenUse

PAGE_TURNS: Final = 30
LISTED_MAX: Final = 200
COUNTED_MAX: Final = 1000
OPENING_CHARACTERS: Final = 160
NO_ID_ABOVE: Final = 2**63 - 1

_FIND_CHIEF = Query("""
    select a.id, a.name, a.epoch, a.connected_at, coalesce(a.left_at, n.seen_at) as left_at,
           coalesce(n.seen_at > %(now)s - make_interval(secs => %(alive_seconds)s), false)
               as is_connected,
           (select count(*) from (
                select from turns t
                where t.owner_id = a.owner_id and t.agent_id = a.id and t.state = 'queued'
                limit %(most)s
           ) words) as words_waiting,
           (select count(*) from (
                select from messages m where m.owner_id = a.owner_id and m.state = 'queued'
                limit %(most)s
           ) messages) as messages_waiting,
           t.id as turn_id, t.conversation_id, t.message_id, t.begun_at
    from agents a
    left join nodes n on n.id = a.node
    left join turns t
        on t.owner_id = a.owner_id and t.agent_id = a.id and t.state = 'delivering'
    where a.owner_id = %(owner_id)s and a.chief and a.retired_at is null
""")


@attrs.frozen(kw_only=True)
class ChiefNow:
    """The chief; a turn in hand has `turn_id` and `begun_at`. Counts go no further than 1,000.

    One that was never connected has the epoch 0; `left_at` is when it was last known to be there.
    """

    id: int
    name: str
    epoch: int
    is_connected: bool
    connected_at: datetime | None
    left_at: datetime | None
    words_waiting: int
    messages_waiting: int
    turn_id: int | None
    conversation_id: int | None
    message_id: int | None
    begun_at: datetime | None


_LIST_CONVERSATIONS = Query("""
    select c.id, c.kind, c.title, t.id as turn_id, t.state, t.message_id, t.said_by,
           left(t.words, %(opening)s) as words, left(t.answer, %(opening)s) as answer,
           coalesce(t.ended_at, t.begun_at, t.created_at) as at
    from conversations c
    left join lateral (
        select * from turns t where t.owner_id = c.owner_id and t.conversation_id = c.id
        order by t.id desc limit 1
    ) t on true
    where c.owner_id = %(owner_id)s and c.agent_id = %(agent_id)s
    order by c.kind = 'default' desc, t.id desc nulls last, c.id
    limit %(limit)s
""")


@attrs.frozen(kw_only=True)
class ConversationLine:
    """A conversation with its newest turn, if it has one; texts are their openings."""

    id: int
    kind: str
    title: str
    turn_id: int | None
    state: State | None = attrs.field(converter=attrs.converters.optional(State))
    message_id: int | None
    said_by: By | None = attrs.field(converter=attrs.converters.optional(By))
    words: str | None
    answer: str | None
    at: datetime | None


@attrs.frozen(kw_only=True)
class ChiefPage:
    """The chief, if there is one, and its conversations: the default one first."""

    chief: ChiefNow | None
    conversations: list[ConversationLine]
    now: datetime


async def look_at_chief(tx: Transaction, _command: None) -> ChiefPage:
    """Which agent is the chief, whether it is there, what it is at, and what was said."""
    chief = await tx.find(_FIND_CHIEF, ChiefNow, alive_seconds=NODE_ALIVE_SECONDS, most=COUNTED_MAX)
    if chief is None:
        return ChiefPage(chief=None, conversations=[], now=tx.now)
    lines = await tx.all(
        _LIST_CONVERSATIONS,
        ConversationLine,
        agent_id=chief.id,
        opening=OPENING_CHARACTERS,
        limit=LISTED_MAX,
    )
    return ChiefPage(chief=chief, conversations=lines, now=tx.now)


_FIND_CONVERSATION = Query("""
    select c.id, c.kind, c.title, c.agent_id, a.name as agent, a.retired_at is null as agent_lives,
           a.chief and a.retired_at is null as is_chief
    from conversations c join agents a on a.owner_id = c.owner_id and a.id = c.agent_id
    where c.owner_id = %(owner_id)s and c.id = %(conversation_id)s
""")


@attrs.frozen(kw_only=True)
class Conversation:
    """One of an agent's conversations."""

    id: int
    kind: str
    title: str
    agent_id: int
    agent: str  # its name
    agent_lives: bool
    is_chief: bool


_LIST_TURNS = Query("""
    select t.id, t.message_id, t.words, t.said_by, t.ask_id, q.question, t.state, t.attempt,
           t.created_at, t.begun_at, t.ended_at, t.answer, t.left_out, t.usage,
           case when t.failure is not null
               then jsonb_build_object('cause', t.failure, 'error', t.error) end as failure
    from turns t
    left join asks q on q.owner_id = t.owner_id and q.id = t.ask_id
    where t.owner_id = %(owner_id)s and t.conversation_id = %(conversation_id)s
      and t.id < %(before)s
    order by t.id desc
    limit %(limit)s
""")


def _usage(stored: Mapping[str, object] | None) -> TokenUse | None:
    return None if stored is None else TokenUse(**stored)  # type: ignore[arg-type]


@attrs.frozen(kw_only=True)
class TurnView:
    """A turn as it is shown: a message's, or words; `answer` is what the agent said.

    Of words that answer an ask there is the `question`; `left_out` counts the bytes of the answer
    that were not kept, and `failure` is why the turn did not come to its end, if that is known.
    """

    id: int
    message_id: int | None
    words: str | None
    said_by: By | None = attrs.field(converter=attrs.converters.optional(By))
    ask_id: int | None
    question: str | None
    state: State = attrs.field(converter=State)
    attempt: int
    created_at: datetime
    begun_at: datetime | None
    ended_at: datetime | None
    answer: str | None
    left_out: int
    usage: TokenUse | None = attrs.field(converter=_usage)
    failure: Failure | None = attrs.field(converter=read_failure)


@attrs.frozen(kw_only=True)
class LookAtConversation:
    """Which conversation, and of its turns those of ids below `before`."""

    conversation_id: int
    before: int | None = None


@attrs.frozen(kw_only=True)
class ConversationPage:
    """A page of turns, newest last; `older_than` asks for the one before."""

    conversation: Conversation
    turns: list[TurnView]
    older_than: int | None
    now: datetime


async def look_at_conversation(tx: Transaction, command: LookAtConversation) -> ConversationPage:
    """One conversation of any agent of the owner's; raises NotFound for none."""
    found = await tx.find(_FIND_CONVERSATION, Conversation, conversation_id=command.conversation_id)
    if found is None:
        raise NotFound(f"There is no conversation {command.conversation_id}.")
    turns = await tx.all(
        _LIST_TURNS,
        TurnView,
        conversation_id=found.id,
        before=command.before or NO_ID_ABOVE,
        limit=PAGE_TURNS + 1,
    )
    shown = turns[:PAGE_TURNS]
    older_than = shown[-1].id if len(turns) > PAGE_TURNS else None
    return ConversationPage(
        conversation=found, turns=shown[::-1], older_than=older_than, now=tx.now
    )


# Only what came after the page was made: there is little of it.
_FIND_REPEATED = Query("""
    select t.id as turn_id, t.conversation_id from turns t
    join conversations c on c.owner_id = t.owner_id and c.id = t.conversation_id
    where t.owner_id = %(owner_id)s and c.agent_id = %(agent_id)s and c.kind = 'default'
      and t.created_at >= %(made_at)s and t.said_by = 'owner' and t.words = %(words)s
    order by t.id desc
    limit 1
""")


@attrs.frozen(kw_only=True)
class WriteToChief:
    """The owner's words for the chief, whoever that is now.

    `made_at` is when the page was made that they were typed into. Sent twice, they are said once.
    """

    text: str
    made_at: datetime | None = None


async def write_to_chief(tx: Transaction, command: WriteToChief) -> Said:
    """Say it to the chief; where it stands, and which of the chief's asks it answered.

    Raises Refused (`no_chief`), and what `say` raises.
    """
    agent_id = await find_chief_id(tx)
    if agent_id is None:
        raise Refused("You have no chief to write to. Nothing was sent.", code="no_chief")
    if command.made_at is not None:
        # The second of two forms waits here for the first, and finds its words.
        await lock_account(tx)
        repeated = await tx.find(
            _FIND_REPEATED, Said, agent_id=agent_id, made_at=command.made_at, words=command.text
        )
        if repeated is not None:
            return repeated
    return await say(tx, Say(agent_id=agent_id, text=command.text, by=By.OWNER))
