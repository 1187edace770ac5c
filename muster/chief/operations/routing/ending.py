"""A route ends without a reply of its session's, and the chief has its message back.

The debt is written down with the end, and paid by the sweep alone (give_back), once: in a turn of
the chief's, or as a note while the chief is not running or in the middle of a turn.
"""

import attrs

from muster.agents import operations as agents
from muster.chief import notes
from muster.errors import NotFound
from muster.messages import operations as messages
from muster.mirror.operations.sends import cancel_routed
from muster.mirror.send_rules import CancelRouted
from muster.outcomes import Changed
from muster.pg.database import Transaction
from muster.principals import Plugin
from muster.routes.operations import routes
from muster.routes.rules import (
    Fail,
    GiveBack,
    HandBack,
    OwnerReplied,
    Route,
    State,
    TimeOut,
    decide,
)

SUPERSEDED = "superseded by a newer review round"


@attrs.frozen(kw_only=True)
class EndRoute:
    """A route may be over: what its queue, its windows or the clock said when it was looked at."""

    route_id: int
    why: str | None = None  # None: its deadline


async def end_route(tx: Transaction, command: EndRoute) -> Route | None:
    """As muster: fail an open route or time it out; one that ended meanwhile stays as it is.

    Leaves `session_route.failed` or `session_route.timed_out`. A text that waits is cancelled.
    """
    known = await routes.find(tx, command.route_id)
    if known is None:
        return None
    await agents.lock_chief(tx)
    await messages.lock_message(tx, known.message_id)
    route = await routes.lock(tx, known.id)
    assert route is not None
    if route.state is not State.ROUTED:
        return route
    return await close(tx, route, TimeOut() if command.why is None else Fail(why=command.why))


async def close(tx: Transaction, route: Route, command: Fail | TimeOut | OwnerReplied) -> Route:
    """End a locked route, and take its text out of the queue; unchanged where the rules refuse."""
    outcome = decide(route, command, tx.now)
    if not isinstance(outcome, Changed):
        return route
    ended = await routes.save(tx, outcome)
    await cancel_routed(tx, CancelRouted(route_id=route.id, why=_why_cancelled(ended)))
    return ended


def _why_cancelled(route: Route) -> str:
    return f"its route {route.state.value.replace('_', ' ')}: {route.why or 'the owner replied'}"


@attrs.frozen(kw_only=True)
class GiveBackRoute:
    """The chief is owed the message of this route."""

    route_id: int


async def give_back(tx: Transaction, command: GiveBackRoute) -> bool:
    """Step 10, as muster: tell the chief that its route ended; false when nothing is owed any more.

    A turn of its own, or a note while the chief is not running or mid-turn. It is the owner's chief
    of now that is told: the one that held the message may be gone.
    """
    known = await routes.find(tx, command.route_id)
    if known is None:
        return False
    chief = await agents.lock_chief(tx)
    message = await messages.lock_message(tx, known.message_id)
    route = await routes.lock(tx, known.id)
    assert route is not None
    assert message is not None
    if route.handback is not HandBack.OWED:
        return False
    agent_id = route.agent_id if chief is None else chief.id
    is_free = chief is not None and await notes.is_free(tx, chief.id)
    outcome = decide(route, GiveBack(), tx.now)
    assert isinstance(outcome, Changed)
    await routes.save(tx, outcome)
    told = notes.Note(agent_id=agent_id, plugin_id=message.plugin_id, text=_told(route))
    await (notes.say if is_free else notes.note)(tx, told)
    return True


def _told(route: Route) -> str:
    return (
        f"Message {route.message_id} is with you again: route {route.id} to the session"
        f" mirror:{route.claude_session} ended without a reply ({route.why}). Deal with it as you"
        " would have without the route: draft a reply, route it to another session, file a task or"
        " settle it. message ids are those of the turns in this conversation."
    )


@attrs.frozen(kw_only=True)
class OwnerAnswered:
    """A plugin's sending tool answered the message directly, in this thread.

    Leaves `session_route.owner_answered`.
    """

    message_id: int
    thread: str


@attrs.frozen(kw_only=True)
class Stamped:
    """What a stamp changed: the route, if there is one, and why nothing was settled."""

    message_id: int
    route_id: int | None
    state: str
    settled: bool
    error: str | None = None


async def find_stamped(tx: Transaction, message_id: int) -> None:
    """Raise NotFound unless this is a message of the plugin that asks."""
    plugin = tx.principal
    assert isinstance(plugin, Plugin)
    message = await messages.find_message(tx, message_id)
    if message is None or message.plugin_id != plugin.plugin_id:
        raise NotFound(f"There is no message {message_id} of this plugin.")


async def owner_answered(tx: Transaction, command: OwnerAnswered) -> Stamped:
    """Settle the message's waiting route (plugins: "When the owner answers it directly").

    Raises NotFound for a message that is none of this plugin's. A stamp that settles nothing for
    good says why in `error`, and changes nothing.
    """
    plugin = tx.principal
    assert isinstance(plugin, Plugin)
    await find_stamped(tx, command.message_id)
    await agents.lock_chief(tx)
    message = await messages.lock_message(tx, command.message_id)
    assert message is not None
    route = await routes.lock_newest(tx, message.id)
    state = "none" if route is None else route.state.value
    stamped = Stamped(
        message_id=message.id, route_id=None if route is None else route.id, state=state,
        settled=False,
    )  # fmt: skip
    if message.thread is None:
        return attrs.evolve(stamped, error="The message was stored with no thread.")
    if message.thread != command.thread:
        return attrs.evolve(stamped, error="The thread is not the message's.")
    if route is None:
        return attrs.evolve(stamped, error="The message was never routed.")
    if route.state is State.OWNER_ANSWERED:
        return stamped
    if route.state is not State.ROUTED:
        return attrs.evolve(stamped, error=f"Route {route.id} is {state}: it does not wait.")
    ended = await close(tx, route, OwnerReplied())
    text = (
        f"The sender of message {message.id} was answered directly, outside of muster, so route"
        f" {route.id} is over. Nothing is left to do."
    )
    await notes.note(tx, notes.about(ended, message.plugin_id, text))
    return attrs.evolve(stamped, state=ended.state.value, settled=True)


@attrs.frozen(kw_only=True)
class Round:
    """A round of a review for a session: its message, and the words of its route's audit row.

    Of two rounds the one whose message came later is the newer.
    """

    mirrored_id: int
    routed_via: str
    message_id: int


async def supersede_queued(tx: Transaction, of: Round) -> int:
    """As muster: fail older review rounds that were not pasted; the chief is owed nothing.

    The caller holds the chief's row. How many there were. A text that a host took since it was
    looked at is pasted, and its route stays.
    """
    older = await routes.list_queued_before(
        tx, mirrored_id=of.mirrored_id, routed_via=of.routed_via, message_id=of.message_id
    )
    ended = 0
    for one in older:
        await messages.lock_message(tx, one.message_id)
        route = await routes.lock(tx, one.id)
        assert route is not None
        cancel = CancelRouted(route_id=route.id, why=f"its route failed: {SUPERSEDED}")
        if route.state is State.ROUTED and await cancel_routed(tx, cancel):
            await close(tx, route, Fail(why=SUPERSEDED, owed=False))
            ended += 1
    return ended


async def end_stale(tx: Transaction, route: Route, of: Round) -> None:
    """As muster: fail a round's own new route where a newer round was routed before it.

    The older message waited for its session to be resumed, say. The chief is owed nothing.
    """
    if await routes.is_newer_routed(
        tx, mirrored_id=of.mirrored_id, routed_via=of.routed_via, message_id=of.message_id
    ):
        await close(tx, route, Fail(why=SUPERSEDED, owed=False))
