"""`attention_ask` and `attention_cancel`: how any agent puts a question before its owner."""

from collections.abc import Mapping

import msgspec

from muster.attention import operations as attention
from muster.chief import operations
from muster.chief.tools.tool import Call, Tool
from muster.messages import operations as messages
from muster.pg.database import Transaction
from muster.principals import Agent
from muster.tasks import operations as tasks


class AttentionAsk(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The arguments of `attention_ask`."""

    question: str
    answers: tuple[str, ...] = ()
    message_id: int | None = None
    task_id: int | None = None


class AttentionCancel(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The arguments of `attention_cancel`."""

    ask_id: int


async def attention_ask(tx: Transaction, call: Call) -> Mapping[str, object]:
    """Ask the owner; the answer comes later, as a turn of its own."""
    arguments = call.arguments
    assert isinstance(arguments, AttentionAsk)
    agent = tx.principal
    assert isinstance(agent, Agent)
    by = attention.AskedBy.AGENT
    if await operations.is_chief(tx, agent):
        by = attention.AskedBy.CHIEF
    if arguments.message_id is not None:
        message = await messages.find_message(tx, arguments.message_id)
        sentence = f"No message {arguments.message_id} was delivered to you."
        messages.require_handed(message, agent.agent_id, sentence)
    if arguments.task_id is not None:
        await tasks.get_task(tx, arguments.task_id)
    asked = await attention.ask(
        tx,
        attention.AskOwner(
            asked_by=by,
            question=arguments.question,
            answers=arguments.answers,
            message_id=arguments.message_id,
            task_id=arguments.task_id,
        ),
    )
    assert asked is not None
    return {
        "ask_id": asked.id,
        "status": asked.state.value,
        "expires_at": asked.expires_at.isoformat(timespec="seconds"),
    }


async def attention_cancel(tx: Transaction, call: Call) -> Mapping[str, object]:
    """Withdraw what this agent asked."""
    assert isinstance(call.arguments, AttentionCancel)
    asked = await attention.cancel(tx, attention.Cancel(ask_id=call.arguments.ask_id))
    return {"ask_id": asked.id, "status": asked.state.value}


ATTENTION_ASK = Tool(
    name="attention_ask",
    description=(
        "Ask your owner a question that you cannot decide yourself. It is shown to them with the "
        "answers you offer (at most 4, of 80 characters each), and they may write another. The "
        "answer reaches you later as a turn of its own; don't wait for it. question is at most "
        "2,000 characters. Give message_id or task_id when it is about a message that was "
        "delivered to you or about a task. After a day an ask expires unanswered; your owner has "
        "at most 50 open at a time."
    ),
    arguments=AttentionAsk,
    run=attention_ask,
)
ATTENTION_CANCEL = Tool(
    name="attention_cancel",
    description="Withdraw a question that you asked and that needs no answer any more.",
    arguments=AttentionCancel,
    run=attention_cancel,
)
