"""A resume is carried on, a step at a time (plugins: "Resuming an ended session").

Whoever looks at it takes the step that is due: the next host is to be asked, a host's silence has
lasted too long, the message's route is tried. All of it is judged under the locks of the message
and of the resume, so two nodes that look at once do nothing twice. The frame to a host is written
after the commit, by the node that holds its socket.
"""

import attrs

from muster.agents import operations as agents
from muster.agents.rules import AgentRow
from muster.chief import dispositions, store
from muster.chief.self_routing.handing import hand_to_session
from muster.chief.self_routing.targets import Target
from muster.messages import operations as messages
from muster.messages.rules import Message
from muster.messages.rules import State as MessageState
from muster.mirror.operations import resuming
from muster.mirror.operations.sessions import find_session
from muster.mirror.resuming import (
    HELD_FOR,
    OPEN,
    SHOWN,
    WINDOW_FOR,
    Ask,
    Follow,
    GiveUp,
    Lapse,
    Refuse,
    Resume,
    Route,
    State,
    follow,
    goes_on,
    is_lapsed,
)
from muster.pg.database import Transaction

TAKEN = "The message was taken by another delivery."
NO_HOST = "No host that may be asked offers to resume it."
SWITCHED_OFF = "Resumes are switched off."
NO_ROUTING = "Session routing is switched off."
TOO_LONG = "It was not resumed within 10 minutes."
REVOKED = "The message's plugin is revoked."
DISABLED = "The account is disabled."
NO_CHIEF = "There is no chief to own the route."
NO_WINDOW = "No window shows the session."


@attrs.frozen(kw_only=True)
class Advance:
    """Take the step that is due of this resume; `node` is where a host would be asked from.

    `is_off`: no host is asked any more, but a window that was asked for is waited for. Without
    `routing` nothing is routed to a session, so every resume is over.
    """

    resume_id: int
    node: str
    is_off: bool = False
    routing: bool = True


@attrs.frozen(kw_only=True)
class AskHost:
    """The host of this connection is to be told the session's id, and nothing else."""

    resume_id: int
    claude_session: str
    host_id: int
    epoch: int


async def advance(tx: Transaction, command: Advance) -> AskHost | None:
    """As muster: take the step that is due, if one is; a host that is to be asked, or None."""
    found = await resuming.find_resume(tx, command.resume_id)
    if found is None or found.state not in OPEN:
        return None
    chief = await agents.lock_chief(tx)
    message = await messages.lock_message(tx, found.message_id)
    resume = await resuming.lock_resume(tx, found.id)
    assert resume is not None
    assert message is not None
    if resume.state not in OPEN:
        return None
    if message.state is not MessageState.QUEUED:
        await resuming.move(tx, resume, Refuse(why=TAKEN))
    elif (never := await _find_never(tx, message, command)) is not None:
        await _end(tx, resume, Refuse(why=never))
    elif tx.now >= resume.created_at + HELD_FOR:
        await _end(tx, resume, GiveUp(why=TOO_LONG))
    elif resume.state is State.WANTED and resume.joined_id is None:
        return await _ask_next(tx, resume, command)
    elif resume.state is State.WAITING:
        await _try_route(tx, resume, message, chief)
    elif resume.joined_id is not None:
        await _follow(tx, resume, resume.joined_id)
    elif is_lapsed(resume, tx.now):
        await resuming.move(tx, resume, Lapse())
    return None


async def _find_never(tx: Transaction, message: Message, command: Advance) -> str | None:
    """Why the message will not be routed, whatever becomes of the session."""
    if not command.routing:
        return NO_ROUTING
    acted = await dispositions.find_acted(tx, message.id)
    assert acted is not None
    return None if acted.plugin_lives else REVOKED


async def _follow(tx: Transaction, resume: Resume, leader_id: int) -> None:
    leader = await resuming.find_resume(tx, leader_id)
    assert leader is not None
    step = follow(resume, leader, tx.now)
    if isinstance(step, Follow):
        await resuming.move(tx, resume, step)
    elif step is not None:
        await _end(tx, resume, step)


async def _ask_next(tx: Transaction, resume: Resume, command: Advance) -> AskHost | None:
    session = await find_session(tx, resume.claude_session)
    if session is not None and session.online:
        await resuming.move(tx, resume, Follow(until=tx.now + WINDOW_FOR))
        return None
    if session is not None and session.shown:
        await _end(tx, resume, Refuse(why=SHOWN))
        return None
    if command.is_off:
        await _end(tx, resume, Refuse(why=SWITCHED_OFF))
        return None
    host = await resuming.lock_next_host(tx, resume)
    if host is None:
        await _end(tx, resume, Refuse(why=resume.why or NO_HOST))
        return None
    if host.node != command.node:
        return None  # that node asks it
    await resuming.move(tx, resume, Ask(host_id=host.id, epoch=host.epoch))
    return AskHost(
        resume_id=resume.id,
        claude_session=resume.claude_session,
        host_id=host.id,
        epoch=host.epoch,
    )


async def _try_route(
    tx: Transaction, resume: Resume, message: Message, chief: AgentRow | None
) -> None:
    assert resume.waits_until is not None
    session = await find_session(tx, resume.claude_session)
    no = NO_WINDOW if session is None else session.why_not
    if chief is None:
        no = NO_CHIEF
    else:
        setting = await store.find_setting(tx, chief.id, message.plugin_id)
        no = no if setting.owner_enabled else DISABLED
    if no is not None:
        if tx.now >= resume.waits_until and not await _leader_goes_on(tx, resume):
            await _end(tx, resume, GiveUp(why=no))
        return
    target = Target(
        cause=resume.cause,
        claude_session=resume.claude_session,
        session=session,
        via=resume.routed_via,
    )
    route_id = await hand_to_session(tx, message, target)
    await resuming.move(tx, resume, Route(route_id=route_id))


async def _leader_goes_on(tx: Transaction, resume: Resume) -> bool:
    if resume.joined_id is None:
        return False
    leader = await resuming.find_resume(tx, resume.joined_id)
    assert leader is not None
    return goes_on(leader, tx.now)


async def _end(tx: Transaction, resume: Resume, how: Refuse | GiveUp) -> None:
    """Give the message back to the chief, as if nothing had been tried."""
    await resuming.move(tx, resume, how)
    await messages.release_message(tx, resume.message_id)
