"""A session's answer is taken, and relayed as the reply (plugins: "Back to the sender, …").

Taking it is one transaction, relaying it another: what stands in the way of a relay for a moment
(the database restarts) loses no answer. The sweep relays what is left a minute later.
"""

import attrs

from muster.agents import operations as agents
from muster.allowlists import Allowlist
from muster.chief import notes
from muster.chief.operations.routing.ending import close
from muster.drafts import operations as drafts
from muster.errors import Invalid, NotFound, Refused, Unavailable
from muster.messages import operations as messages
from muster.messages.rules import Message
from muster.mirror.operations.sends import cancel_routed
from muster.mirror.send_rules import CancelRouted
from muster.outcomes import Changed
from muster.pg.database import Database, Transaction
from muster.plugins.operations import name_plugins
from muster.principals import MirrorHost, Muster, Owner
from muster.routes.operations import routes
from muster.routes.rules import Answer, Fail, Relay, Route, State, Wait, decide


@attrs.frozen(kw_only=True)
class RelaySettings:
    """What a relay needs of the settings: who may be answered unasked, and what no reply holds."""

    allow: Allowlist
    deny_words: frozenset[str]


@attrs.frozen(kw_only=True)
class AnswerRoute:
    """A session's answer to its route: 1 byte to 16 KiB. Leaves `session_route.answered`.

    `claude_session` is the session that the caller's pane shows; None at the API, where the route
    has to be the caller's owner's, and where the same answer may come twice.
    """

    route_id: int
    body: str
    via: str
    deny_words: frozenset[str]
    claude_session: str | None = None


async def answer_and_relay(
    db: Database, principal: Owner | MirrorHost, command: AnswerRoute, allow: Allowlist
) -> Route:
    """Take an answer and relay it at once; it is `answered` still when that has to wait.

    Raises what answer_route does.
    """
    route = await db.run(principal, answer_route, command)
    if route.state is not State.ANSWERED:
        return route
    relay = RelayRoute(
        route_id=route.id, settings=RelaySettings(allow=allow, deny_words=command.deny_words)
    )
    try:
        return await db.run(Muster(owner_id=route.owner_id), relay_route, relay)
    except Unavailable:
        return route


async def answer_route(tx: Transaction, command: AnswerRoute) -> Route:
    """Step 9: keep the answer of an open route; the reply's screen looks at it first.

    Raises NotFound, Invalid for the text (with the `rule` and the `offset`), Refused with
    `not_its_session`, `route_state` naming the state, or `other_answer`.
    """
    sentence = f"There is no route {command.route_id}."
    known = await routes.find(tx, command.route_id)
    if known is None:
        raise NotFound(sentence)
    if command.claude_session not in (None, known.claude_session):
        raise Refused(
            f"Route {known.id} is another session's to answer.",
            code="not_its_session",
            facts={"route_id": known.id},
        )
    reply = drafts.File(
        message_id=known.message_id, body=command.body, deny_words=command.deny_words
    )
    text = drafts.check_reply(reply)
    route = await lock_route(tx, known)
    given = Answer(text=text, via=command.via, repeats=command.claude_session is None)
    outcome = decide(route, given, tx.now)
    if isinstance(outcome, Refused):
        raise outcome
    if isinstance(outcome, Changed):
        await routes.save(tx, outcome)
        await cancel_routed(tx, CancelRouted(route_id=route.id, why="its route was answered"))
    return outcome.row


async def lock_route(tx: Transaction, known: Route) -> Route:
    """A route that was seen, with the rows of its chief and its message locked before its own."""
    await agents.lock_chief(tx)
    await messages.lock_message(tx, known.message_id)
    route = await routes.lock(tx, known.id)
    assert route is not None, "routes are never deleted"
    return route


@attrs.frozen(kw_only=True)
class RelayRoute:
    """Make a kept answer the message's reply draft. Leaves `session_route.relayed|fallback`."""

    route_id: int
    settings: RelaySettings


async def relay_route(tx: Transaction, command: RelayRoute) -> Route:
    """As muster: file the answer as the chief's draft, approved where the allowlist says so.

    What makes a relay impossible fails the route, and its message goes back to the chief. Nothing
    changes for one that was relayed meanwhile.
    """
    known = await routes.find(tx, command.route_id)
    assert known is not None
    route = await lock_route(tx, known)
    if route.state is not State.ANSWERED:
        return route
    message = await messages.get_message(tx, route.message_id)
    approved = await _is_allowed(tx, message, command.settings.allow)
    assert route.answer is not None
    reply = drafts.FileFor(
        reply=drafts.File(
            message_id=message.id, body=route.answer, deny_words=command.settings.deny_words
        ),
        agent_id=route.agent_id,
        route_id=route.id,
        decided=approved,
    )
    try:
        filed = await drafts.file_for(tx, reply)
    except (Refused, Invalid, NotFound) as refusal:
        return await close(tx, route, Fail(why=f"its answer could not be sent: {refusal}"))
    if approved:
        await drafts.approve(tx, drafts.Approve(draft_id=filed.draft.id, auto=True))
    outcome = decide(route, Relay(draft_id=filed.draft.id, approved=approved), tx.now)
    assert isinstance(outcome, Changed)
    relayed = await routes.save(tx, outcome)
    await notes.note(tx, notes.about(relayed, message.plugin_id, _told(relayed, filed.draft.id)))
    return relayed


async def put_off(tx: Transaction, route_id: int) -> None:
    """As muster: a relay could not be tried; it is in a minute."""
    known = await routes.find(tx, route_id)
    assert known is not None
    outcome = decide(await lock_route(tx, known), Wait(), tx.now)
    if isinstance(outcome, Changed):
        await routes.save(tx, outcome)


async def _is_allowed(tx: Transaction, message: Message, allow: Allowlist) -> bool:
    if not message.sender_verified:
        return False
    name = (await name_plugins(tx, [message.plugin_id])).get(message.plugin_id)
    return name is not None and allow.allows(tx.owner_id, name, message.sender)


def _told(route: Route, draft_id: int) -> str:
    went = (
        "was approved by the allowlist, and goes to its sender"
        if route.state is State.RELAYED
        else "waits for your owner's approval"
    )
    return (
        f"The session mirror:{route.claude_session} answered message {route.message_id} by route"
        f" {route.id}. Its answer is draft {draft_id}, which {went}. Nothing is left to do."
    )
