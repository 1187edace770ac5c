"""`chief_ask`, `attention_wait` and `attention_answer`: a session asks the chief, and answers."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
import trio
from msgspec import UNSET, Meta, UnsetType

from muster.chief.operations.asks import AnswerAsk, answer_ask
from muster.chief.operations.session_asks import (
    AskChief,
    FindAsks,
    SessionAsk,
    ask_chief,
    find_asks,
)
from muster.chief.tools.sessions.tool import Change, SessionCall, SessionTool
from muster.errors import NotFound

WAIT_SECONDS_MAX: Final = 25
IDS_MAX: Final = 20


class ChiefAsk(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The arguments of `chief_ask`."""

    question: str
    route_id: int | UnsetType = UNSET


class AttentionWait(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The arguments of `attention_wait`."""

    ids: Annotated[tuple[int, ...], Meta(min_length=1, max_length=IDS_MAX)]
    wait_seconds: Annotated[int, Meta(ge=0, le=WAIT_SECONDS_MAX)] = WAIT_SECONDS_MAX


class AttentionAnswer(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The arguments of `attention_answer`."""

    ask_id: int
    text: str


async def chief_ask(call: SessionCall) -> Mapping[str, object]:
    """Ask the chief; the answer comes through attention_wait."""
    assert isinstance(call.arguments, ChiefAsk)
    route_id = call.arguments.route_id
    command = AskChief(
        mirrored_id=call.session.mirrored_id,
        claude_session=call.session.claude_session,
        host=call.session.host,
        question=call.arguments.question,
        route_id=None if route_id is UNSET else route_id,
    )
    return {"ask_id": await call.db.run(call.session.owner, ask_chief, command)}


async def attention_wait(call: SessionCall) -> Mapping[str, object]:
    """Wait until one of the session's questions is answered, or the time is over."""
    assert isinstance(call.arguments, AttentionWait)
    ends_at = trio.current_time() + call.arguments.wait_seconds
    asks = await _look(call, call.arguments.ids)
    # Listening begins before the look that may find nothing, so that no answer falls between.
    if call.arguments.wait_seconds and _all_wait(asks):
        with call.changes() as changed:
            asks = await _look(call, call.arguments.ids)
            patient = True
            while patient and _all_wait(asks):
                patient = await _is_changed(changed, ends_at)
                await call.prove()
                asks = await _look(call, call.arguments.ids)
    return {"asks": [_document(one) for one in asks]}


async def _look(call: SessionCall, ids: tuple[int, ...]) -> list[SessionAsk]:
    command = FindAsks(mirrored_id=call.session.mirrored_id, ids=ids)
    asks = await call.db.run(call.session.owner, find_asks, command)
    missing = sorted(set(ids) - {one.id for one in asks})
    if missing:
        raise NotFound(f"This session asked nothing under {missing[0]}.")
    return asks


def _all_wait(asks: list[SessionAsk]) -> bool:
    return all(one.state == "waiting" for one in asks)


async def _is_changed(changed: Change, ends_at: float) -> bool:
    """Sleep until a change; False once the time is over or nobody waits any more."""
    with trio.move_on_at(ends_at):
        return await changed()
    return False


def _document(one: SessionAsk) -> dict[str, Any]:
    told: dict[str, Any] = {"ask_id": one.id, "state": one.state}
    if one.answer is not None:
        told["answer"] = one.answer
    return told


async def attention_answer(call: SessionCall) -> Mapping[str, object]:
    """Answer what an agent, the chief or muster asked the owner, as the owner."""
    assert isinstance(call.arguments, AttentionAnswer)
    command = AnswerAsk(ask_id=call.arguments.ask_id, text=call.arguments.text)
    view = await call.db.run(call.session.owner, answer_ask, command)
    return {"ask_id": view.id, "state": view.state.value}


CHIEF_ASK = SessionTool(
    name="chief_ask",
    description=(
        "Ask your owner's chief agent something that you need to know, for instance before you "
        "answer a routed message: give its route_id then, and the chief sees the message. Returns "
        "an ask_id for attention_wait. The route's deadline runs on meanwhile."
    ),
    arguments=ChiefAsk,
    run=chief_ask,
    of_plugins=False,
)
ATTENTION_WAIT = SessionTool(
    name="attention_wait",
    description=(
        "Wait up to wait_seconds (25 at most) until one of your chief_ask questions is answered. "
        "Each is waiting, answered or cut_off; ask anew after cut_off."
    ),
    arguments=AttentionWait,
    run=attention_wait,
    of_plugins=False,
)
ATTENTION_ANSWER = SessionTool(
    name="attention_answer",
    description=(
        "Answer an ask of your owner's (muster asks list, or their attention page), for them and "
        "only as they told you."
    ),
    arguments=AttentionAnswer,
    run=attention_answer,
    of_plugins=False,
)
