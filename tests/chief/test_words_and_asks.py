"""Words and asks: an answer reaches its asker, and the owner's words answer what was asked."""

import pytest

from muster.attention.operations import AskedBy, AskOwner, ask, get_ask
from muster.attention.rules import CHAT
from muster.attention.rules import State as AskState
from muster.chief.operations.asks import AnswerAsk, answer_ask
from muster.chief.turns import By
from muster.chief.words import Say, render_words, say
from muster.errors import NotFound
from muster.principals import Agent, Owner
from tests.support.builders import make_agent, make_chief
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.speaking import begin, connect, speak, turns


async def asked(db: SpiedDatabase, agent: Agent, question: str) -> int:
    """An ask of the agent's; its id."""
    command = AskOwner(asked_by=AskedBy.CHIEF, question=question)
    made = await db.run(agent, ask, command)
    assert made is not None
    return made.id


async def test_an_answer_goes_to_the_asker_as_a_turn(db: SpiedDatabase, owner: Owner) -> None:
    """The asker is told which question it is that the owner answered, and how."""
    agent = await make_agent(db, owner)
    ask_id = await asked(db, agent, "Noon,\nor one?")
    await db.run(owner, answer_ask, AnswerAsk(ask_id=ask_id, text="Noon."))
    epoch = await connect(db, agent)
    spoken = await begin(db, agent, epoch)
    assert spoken is not None
    assert (spoken.turn.said_by, spoken.turn.ask_id) == (By.ASK, ask_id)
    assert render_words(spoken) == (
        f"muster: your owner answered your ask {ask_id}. You had asked:\n"
        "> Noon,\n> or one?\n\nThe answer:\nNoon."
    )


async def test_what_the_owner_writes_answers_what_the_chief_has_asked(
    db: SpiedDatabase, owner: Owner
) -> None:
    """Words in the chief's chat settle its open asks; muster's words and others' chats do not."""
    chief, other = await make_chief(db, owner), await make_agent(db, owner)
    ask_id, others = await asked(db, chief, "Noon?"), await asked(db, other, "One?")
    await speak(db, owner, chief, "Just so you know.", By.MUSTER)
    assert (await db.run(owner, get_ask, ask_id)).state is AskState.OPEN
    await speak(db, owner, chief, "Noon is fine.")
    settled = await db.run(owner, get_ask, ask_id)
    assert (settled.state, settled.answer, settled.answered_via) == (
        AskState.ANSWERED,
        "Noon is fine.",
        CHAT,
    )
    assert (await db.run(owner, get_ask, others)).state is AskState.OPEN
    assert [turn.said_by for turn in await turns(db, owner)] == [By.MUSTER, By.OWNER]


async def test_words_about_an_ask_that_is_not_there_are_refused(
    db: SpiedDatabase, owner: Owner
) -> None:
    """An answer names an ask of the owner's own."""
    chief = await make_chief(db, owner)
    for ask_id in (10**9, await asked(db, await make_chief(db, await add_owner(db)), "what?")):
        with pytest.raises(NotFound):
            await db.run(
                owner, say, Say(agent_id=chief.agent_id, text="x", by=By.ASK, ask_id=ask_id)
            )


@pytest.mark.parametrize(
    ("by", "text"),
    [
        (By.OWNER, "muster: your owner writes to you.\n\nhello"),
        (By.MUSTER, "muster: this is muster itself.\n\nhello"),
    ],
)
async def test_a_line_of_musters_says_who_speaks(
    db: SpiedDatabase, owner: Owner, by: By, text: str
) -> None:
    """The owner's words and muster's are told apart, and are as they were written."""
    chief = await make_chief(db, owner)
    await speak(db, owner, chief, by=by)
    spoken = await begin(db, chief, await connect(db, chief))
    assert spoken is not None
    assert render_words(spoken) == text
