"""A message comes in: it is stored, and in the same transaction muster does what it does by itself.

In this order, and the first one that is so counts: a request for a fleet report is answered, a
reply on a session's thread goes to that session, a review goes to the pull request's author
(plugins: "A fleet-report request", "A reply on a thread a session started", "A pull-request review
mail"). Where the session has ended and the sender may have it resumed, the message waits for that.
Everything else, and a route that cannot be made, is an ordinary message for the chief.

The chief's row is locked before the plugin's, as everywhere; for messages of the plugin named
agent-mail alone, and only while one of these is on. A repeat is answered from what is stored, and
nothing is done with it.
"""

import attrs

from muster.agents import operations as agents
from muster.chief.self_routing.handing import NotRoutable, hand_to_session
from muster.chief.self_routing.settings import SelfRouting
from muster.chief.self_routing.targets import Target, find_targets
from muster.messages import operations as messages
from muster.messages.operations import Posted
from muster.messages.rules import Message, Post
from muster.mirror.operations.resuming import want_resume
from muster.mirror.resuming import Cause, WantResume
from muster.pg.database import Transaction
from muster.principals import Muster, Plugin
from muster.routes.threads import AGENT_MAIL

__all__ = ["NotRoutable", "Receive", "SelfRouting", "receive"]


@attrs.frozen(kw_only=True)
class Receive:
    """A message that a plugin posts, and what muster may do with it by itself."""

    post: Post
    settings: SelfRouting


async def receive(tx: Transaction, command: Receive) -> Posted:
    """As a plugin: store a message, once for its external id, and route it if it is a session's.

    The answer is the same whatever muster does with it. Raises as `messages.operations.post`, and
    NotRoutable, rarely, when the session is lost at the last moment: then it may be stored without
    a route.
    """
    plugin = tx.principal
    assert isinstance(plugin, Plugin)
    if plugin.name != AGENT_MAIL or not command.settings.is_on:
        return await messages.post(tx, command.post)
    chief = await agents.lock_chief(tx)
    posted = await messages.post(tx, command.post)
    if posted.created:
        message = await messages.get_message(tx, posted.id)
        with tx.acting_as(Muster(owner_id=tx.owner_id)):
            await _route(tx, message, plugin, command.settings, has_chief=chief is not None)
    return posted


async def _route(
    tx: Transaction, message: Message, plugin: Plugin, settings: SelfRouting, *, has_chief: bool
) -> None:
    if settings.answer_request is not None and await settings.answer_request(tx, message):
        return
    targets = await find_targets(tx, message, settings)
    for target in targets:
        if has_chief and target.can_take:
            await hand_to_session(tx, message, target)
            return
    if not _may_resume(message, plugin, settings):
        return
    for target in targets:
        if await want_resume(tx, _wanted(message, target)) is None:
            return


def _may_resume(message: Message, plugin: Plugin, settings: SelfRouting) -> bool:
    return (
        not settings.resume_off
        and message.sender_verified
        and message.sender is not None
        and settings.resume_allow(plugin.owner_id, plugin.name, message.sender)
    )


def _wanted(message: Message, target: Target) -> WantResume:
    return WantResume(
        message_id=message.id,
        sender=message.sender,
        claude_session=target.claude_session,
        cause=target.cause,
        routed_via=target.via,
        only=target.cause is Cause.REVIEW,
        host_id=target.host_id,
    )
