"""`/sessions`: what the windows of the owner's machines show, and the queue of each session.

A text is queued behind a fresh sign-in, and carries its time: it is pasted only while that is fresh
(plugins: "Routing a message to a session"). A form says when its page was made: sent twice, its
text is queued once. Whoever looks at a session has its terminal told by its host for as long as
they look (`Links.look`); that changes nothing but what is shown.
"""

from datetime import UTC

from quart import Blueprint
from quart.typing import ResponseReturnValue

from muster.chief.operations.session_desk import (
    LookAtSession,
    LookAtSessions,
    look_at_session,
    look_at_sessions,
)
from muster.errors import Invalid
from muster.mirror.operations.queue import (
    CancelSend,
    QueueText,
    ResolveSend,
    cancel_send,
    queue_text,
    resolve_send,
)
from muster.mirror.operations.sessions import get_session
from web.pages.reading import read_id, read_time
from web.pages.visits import Visit, go_to, show, signed_in

SESSIONS = Blueprint("mirrored_sessions", __name__)
_PAGE = "/sessions/<session_id>"
_WORDS = {"yes": True, "no": False}


@signed_in(SESSIONS, "GET", "/sessions")
async def sessions(visit: Visit) -> ResponseReturnValue:
    """The sessions that windows show, or those that ended, and the hosts."""
    command = LookAtSessions(ended=visit.args.get("show") == "ended")
    page = await visit.node.db.run(visit.owner, look_at_sessions, command)
    return await show("sessions/list.html", page=page, ended=command.ended)


@signed_in(SESSIONS, "GET", _PAGE)
async def session(visit: Visit, session_id: str) -> ResponseReturnValue:
    """One session, with its queue and the box that sends to it."""
    command = LookAtSession(
        mirrored_id=read_id(session_id),
        stepup_window_seconds=visit.node.config.stepup_window_seconds,
    )
    page = await visit.node.db.run(visit.owner, look_at_session, command)
    screen = await visit.node.links.look(visit.owner.owner_id, page.session.id)
    idle = visit.node.config.send_queue_idle_seconds
    return await show(
        "sessions/session.html", page=page, session=page.session, screen=screen, idle_seconds=idle
    )


@signed_in(SESSIONS, "GET", f"{_PAGE}/screen")
async def screen(visit: Visit, session_id: str) -> ResponseReturnValue:
    """What the session's terminal shows, as a part of its page."""
    found = await visit.node.db.run(visit.owner, get_session, read_id(session_id))
    seen = await visit.node.links.look(visit.owner.owner_id, found.id)
    return await show("sessions/_screen.html", session=found, screen=seen)


@signed_in(SESSIONS, "POST", f"{_PAGE}/sends", page=_PAGE)
async def send(visit: Visit, session_id: str) -> ResponseReturnValue:
    """Queue a text for the session."""
    command = QueueText(
        mirrored_id=read_id(session_id),
        text=visit.form.get("text", "").replace("\r\n", "\n"),
        signed_in_at=visit.visitor.signed_in_at,
        made_at=read_time(visit.form, "made_at", UTC),
    )
    queued = await visit.node.db.run(visit.owner, visit.risky(queue_text), command)
    return go_to(f"/sessions/{queued.mirrored_id}#send-{queued.id}")


@signed_in(SESSIONS, "POST", f"{_PAGE}/sends/<send_id>/cancel", page=_PAGE)
async def cancel(visit: Visit, session_id: str, send_id: str) -> ResponseReturnValue:  # noqa: ARG001
    """Take a text out of the queue; a routed one goes back to the chief."""
    command = CancelSend(send_id=read_id(send_id))
    cancelled = await visit.node.db.run(visit.owner, cancel_send, command)
    return go_to(f"/sessions/{cancelled.mirrored_id}#queue")


@signed_in(SESSIONS, "POST", f"{_PAGE}/sends/<send_id>/resolve", page=_PAGE)
async def resolve(visit: Visit, session_id: str, send_id: str) -> ResponseReturnValue:  # noqa: ARG001
    """Say whether an unconfirmed text arrived."""
    arrived = _WORDS.get(visit.form.get("arrived", ""))
    if arrived is None:
        raise Invalid("The form does not say whether it arrived.", field="arrived")
    command = ResolveSend(send_id=read_id(send_id), arrived=arrived)
    resolved = await visit.node.db.run(visit.owner, resolve_send, command)
    return go_to(f"/sessions/{resolved.mirrored_id}#queue")
