"""A route begins: the checks, its row, and the text in the session's queue."""

import secrets
from datetime import timedelta

import attrs

from muster.agents import operations as agents
from muster.chief import notes, store
from muster.chief.fence import render
from muster.chief.operations.routing.block import fenced_message, render_routed
from muster.chief.operations.routing.ending import close
from muster.drafts.operations import find_in_flight_to
from muster.errors import NotFound, Refused
from muster.messages import operations as messages
from muster.messages.rules import HandOver as HandOverMessage
from muster.messages.rules import Message, decide
from muster.mirror.operations.sends import enqueue
from muster.mirror.operations.sessions import SessionView, find_session, online_sessions
from muster.mirror.rules import SUBJECT_PREFIX, subject_of
from muster.mirror.send_rules import Enqueue
from muster.outcomes import Changed
from muster.pg.database import Transaction
from muster.routes.operations import routes
from muster.routes.rules import DEADLINE, LONG_DEADLINE, By, Fail, Route, routed

CANDIDATES_MAX = 20


@attrs.frozen(kw_only=True)
class RouteMessage:
    """Hand a message to the session that `subject` names. Leaves `session_route.routed`.

    `subject` is `mirror:<claude session id>`. `via` stands in the audit row as `routed_via`. The
    deadline is 30 minutes, or 4 hours for a message of a human conversation, if none is given.
    """

    message_id: int
    subject: str
    by: By
    via: str | None = None
    deadline: timedelta | None = None


@attrs.frozen(kw_only=True)
class HandOver:
    """Give a queued message to the chief without a turn. Leaves `plugin.delivered`, with `how`."""

    message_id: int
    how: str = "routed"


async def route_message(tx: Transaction, command: RouteMessage) -> Route:
    """Step 8: make a route, its row and the stored message in the session's queue.

    The message is one that was delivered, or is being delivered, to the owner's chief. Raises
    NotFound for none, Refused with `not_delivered`, `already_routed`, `no_reply`,
    `reply_on_its_way`, `subject_not_found` (with `candidates`), `cannot_take` or `queue_full`.
    """
    chief = await agents.lock_chief(tx)
    message = await messages.lock_message(tx, command.message_id)
    if message is None:
        raise NotFound(f"no such plugin message: {command.message_id}")
    if chief is None or not message.is_handed_to(chief.id):
        raise Refused(
            f"Message {message.id} is {message.state.value}: it can be routed once the chief has"
            " it.",
            code="not_delivered",
            facts={"message_id": message.id, "state": message.state.value},
        )
    await _check_message(tx, message)
    session = await _find_target(tx, command.subject)
    setting = await store.find_setting(tx, chief.id, message.plugin_id)
    deadline = command.deadline or (LONG_DEADLINE if message.human_conversation else DEADLINE)
    route = await routes.insert(
        tx,
        routes.NewRoute(
            message_id=message.id,
            agent_id=chief.id,
            mirrored_id=session.id,
            routed_by=command.by,
            routed_via=command.via,
            deadline_at=tx.now + deadline,
        ),
    )
    shown = fenced_message(message, label=setting.label, scope=setting.scope)
    text = render_routed(route, shown, nonce=secrets.token_hex(8))
    await tx.record(routed(route))
    try:
        await enqueue(tx, Enqueue(mirrored_id=session.id, text=text, route_id=route.id))
    except Refused as refusal:
        if command.by is not By.MUSTER:
            raise
        # Nobody is there to be refused: the route stands, failed, and the chief has the message.
        return await close(tx, route, Fail(why=str(refusal)))
    return route


async def _check_message(tx: Transaction, message: Message) -> None:
    if message.no_reply:
        raise Refused(f"Nobody may reply to message {message.id}.", code="no_reply")
    open_id = await routes.find_open(tx, message.id)
    if open_id is not None:
        raise Refused(
            f"Message {message.id} is routed already, and route {open_id} waits for an answer.",
            code="already_routed",
            facts={"message_id": message.id, "route_id": open_id},
        )
    flying = await find_in_flight_to(tx, message.id)
    if flying is not None:
        raise Refused(
            f"A reply to message {message.id} is on its way already: draft {flying.id}.",
            code="reply_on_its_way",
            facts={"message_id": message.id, "draft_id": flying.id},
        )


async def _find_target(tx: Transaction, subject: str) -> SessionView:
    claude_session = subject.removeprefix(SUBJECT_PREFIX)
    found = await find_session(tx, claude_session) if claude_session != subject else None
    if found is None or not found.online:
        online = await online_sessions(tx)
        shown = [
            {"subject": subject_of(one.claude_session), "name": one.name, "host": one.host}
            for one in online[:CANDIDATES_MAX]
        ]
        raise Refused(
            "No online window shows such a session. A subject is mirror:<claude session id>.",
            code="subject_not_found",
            facts={"candidates": shown},
        )
    if found.why_not is not None:
        raise Refused(
            f"{found.name} can take no message now: {found.why_not}.",
            code="cannot_take",
            facts={"subject": subject, "why": found.why_not},
        )
    return found


async def hand_over_without_turn(tx: Transaction, command: HandOver) -> Message | None:
    """As muster: a queued message is the chief's, without a turn; None when there is no chief.

    Whoever hands it over then tells the chief why (show_without_turn). Raises Refused
    (`message_state`) for one that is not queued.
    """
    chief = await agents.lock_chief(tx)
    message = await messages.lock_message(tx, command.message_id)
    if chief is None or message is None:
        return None
    given = HandOverMessage(agent_id=chief.id, epoch=chief.epoch, how=command.how)
    outcome = decide(message, given, tx.now)
    if isinstance(outcome, Refused):
        raise outcome
    assert isinstance(outcome, Changed)
    return await messages.save(tx, outcome)


async def show_without_turn(tx: Transaction, message: Message, told: str) -> None:
    """Write a message that was handed over without a turn into the chief's conversation.

    As its turn would have shown it, with muster's own words behind it.
    """
    assert message.agent_id is not None
    setting = await store.find_setting(tx, message.agent_id, message.plugin_id)
    shown = fenced_message(message, label=setting.label, scope=setting.scope)
    text = f"{render(shown, nonce=secrets.token_hex(8))}\n\n{told}"
    note = notes.Note(agent_id=message.agent_id, plugin_id=message.plugin_id, text=text)
    await notes.note(tx, note)
