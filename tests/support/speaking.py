"""Says words to agents, and begins and ends their turns, as tests of words do."""

from muster.agents.operations import accept_gateway
from muster.agents.rules import Accept
from muster.chief.operations.conversations import (
    LookAtConversation,
    TurnView,
    look_at_chief,
    look_at_conversation,
)
from muster.chief.turns import By, Heard
from muster.chief.words import BeginWords, Say, SettleWords, Spoken, begin_words, say, settle_words
from muster.messages.rules import Complete, Fail, PutBack
from muster.pg.database import Database
from muster.principals import Agent, Muster, Owner


async def connect(db: Database, agent: Agent) -> int:
    """Open a gateway socket for the agent; its epoch."""
    accept = Accept(agent_id=agent.agent_id, node="one")
    return await db.run(Muster(owner_id=agent.owner_id), accept_gateway, accept)


async def speak(
    db: Database, owner: Owner, agent: Agent, text: str = "hello", by: By = By.OWNER
) -> int:
    """Say something to the agent; the turn's id."""
    said = await db.run(owner, say, Say(agent_id=agent.agent_id, text=text, by=by))
    return said.turn_id


async def begin(db: Database, agent: Agent, epoch: int) -> Spoken | None:
    """Begin the next words on a connection."""
    command = BeginWords(agent_id=agent.agent_id, epoch=epoch)
    return await db.run(Muster(owner_id=agent.owner_id), begin_words, command)


async def end(db: Database, agent: Agent, turn_id: int, ending: Complete | Fail | PutBack) -> None:
    """Write down how words ended."""
    command = SettleWords(turn_id=turn_id, ending=ending, heard=Heard(text="Noon.", left_out=7))
    await db.run(Muster(owner_id=agent.owner_id), settle_words, command)


async def turns(db: Database, owner: Owner) -> list[TurnView]:
    """The turns of all the chief's conversations, oldest first."""
    page = await db.run(owner, look_at_chief, None)
    found: list[TurnView] = []
    for line in page.conversations:
        command = LookAtConversation(conversation_id=line.id)
        found += (await db.run(owner, look_at_conversation, command)).turns
    return sorted(found, key=lambda turn: turn.id)
