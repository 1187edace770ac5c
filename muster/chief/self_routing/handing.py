"""A queued message goes to a session by muster's own choice, without a turn of the chief's."""

from muster.chief.operations.routing.ending import Round, end_stale, supersede_queued
from muster.chief.operations.routing.making import (
    HandOver,
    RouteMessage,
    hand_over_without_turn,
    route_message,
    show_without_turn,
)
from muster.chief.self_routing.targets import Target, deadline_of
from muster.errors import Refused
from muster.messages.rules import Message
from muster.mirror.resuming import Cause
from muster.mirror.rules import subject_of
from muster.pg.database import Transaction
from muster.routes.rules import By


class NotRoutable(Exception):
    """The session could take a message when it was looked at, and can't now: nothing may be kept.

    Whoever runs the transaction does it again without the route, or later.
    """


async def hand_to_session(tx: Transaction, message: Message, target: Target) -> int:
    """Make the route; its id. The caller holds the chief's row and saw that the session can take.

    The message is handed to the chief without a turn in the same transaction (`plugin.delivered`
    with `routed`), and stands in the chief's conversation with a line that names the route. Of a
    pull request's older rounds those whose paste is still queued are superseded first, so they hold
    no place in the queue; a round that waited while a newer one came is superseded itself. A window
    whose queue is full leaves a route that failed, and the message comes back to the chief.

    Raises NotRoutable when the session can take none any more.
    """
    try:
        return await _hand(tx, message, target)
    except Refused as refusal:
        raise NotRoutable(refusal.sentence) from refusal


async def _hand(tx: Transaction, message: Message, target: Target) -> int:
    handed = await hand_over_without_turn(tx, HandOver(message_id=message.id))
    assert handed is not None, "the caller saw a chief, and holds its row"
    assert target.session is not None, "the caller saw that it can take"
    of = Round(mirrored_id=target.session.id, routed_via=target.via, message_id=message.id)
    if target.cause is Cause.REVIEW:
        await supersede_queued(tx, of)
    route = await route_message(
        tx,
        RouteMessage(
            message_id=message.id,
            subject=subject_of(target.claude_session),
            by=By.MUSTER,
            via=target.via,
            deadline=deadline_of(target.cause),
        ),
    )
    if target.cause is Cause.REVIEW:
        await end_stale(tx, route, of)
    told = (
        f"muster routed this message by itself ({target.via}): route {route.id} to the session"
        f" {subject_of(target.claude_session)}, whose answer becomes the reply. Nothing is left to"
        " do unless it comes back to you."
    )
    await show_without_turn(tx, handed, told)
    return route.id
