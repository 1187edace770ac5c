"""What the owner's answer to an ask does beyond being written down.

An answer about a message settles that message, with the answer as the reason; nothing is sent and
the chief is not told. One about an unconfirmed paste says what became of it. Any other is said to
the agent that asked, in its default conversation. Lock order: the message, the ask, the text that
was pasted or the agent.
"""

import attrs

from muster.agents import operations as agents
from muster.attention import operations as attention
from muster.attention.operations import AskedBy, AskView
from muster.chief import words
from muster.chief.operations.settle import settle_locked
from muster.chief.turns import By
from muster.messages import operations as messages
from muster.messages.rules import Settle, check_reason
from muster.mirror.operations import unconfirmed
from muster.mirror.send_rules import ResolveByAsk
from muster.outcomes import Changed
from muster.pg.database import Transaction


@attrs.frozen(kw_only=True)
class AnswerAsk:
    """The owner's answer: a button's words, or others; at most 4,096 bytes. Leaves `ask.answered`.

    One about a message has at most 2,000 characters, for it becomes the reason of the settle. One
    about an unconfirmed paste is one of the two buttons.
    """

    ask_id: int
    text: str


async def answer_ask(tx: Transaction, command: AnswerAsk) -> AskView:
    """As the owner: answer an ask; the same words once more change nothing.

    Raises NotFound, Invalid for the text, Refused (`ask_state`) for an ask that has ended.
    """
    asked = await attention.get_ask(tx, command.ask_id)
    message = None
    if asked.plugin_message_id is not None:
        check_reason(command.text)
        message = await messages.lock_message(tx, asked.plugin_message_id)
    send_id = None
    if asked.asked_by is AskedBy.MUSTER and message is None:
        send_id = await unconfirmed.find_asked(tx, asked.id)
    if send_id is not None:
        unconfirmed.check_word(command.text)
    answered = await attention.answer(
        tx, attention.Answer(ask_id=command.ask_id, text=command.text)
    )
    if isinstance(answered, Changed):
        if message is not None:
            await settle_locked(tx, message, Settle(reason=command.text, ask_id=command.ask_id))
        elif send_id is not None:
            resolve = ResolveByAsk(send_id=send_id, answer=command.text)
            await unconfirmed.resolve_by_ask(tx, resolve)
        elif asked.agent_id is not None and await agents.lock_live_agent(tx, asked.agent_id):
            said = words.Say(
                agent_id=asked.agent_id,
                text=command.text,
                by=By.ASK,
                ask_id=command.ask_id,
            )
            await words.say(tx, said)
    return await attention.get_ask(tx, command.ask_id)
