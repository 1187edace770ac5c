"""What the pages of mirrored sessions show, in one look each."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs

from muster.chief.operations.routing.listing import RouteView, list_routes_of_session
from muster.mirror.operations.focus_history import FocusTitle, list_focus, newest_focus
from muster.mirror.operations.hosts import list_hosts
from muster.mirror.operations.queue import list_queue
from muster.mirror.operations.sessions import (
    ListSessions,
    SessionView,
    get_session,
    list_sessions,
)
from muster.mirror.rules import HostView, ListHosts, PaneState
from muster.mirror.send_rules import ListQueue, QueuedSend, SendState
from muster.pg.database import Transaction

ENDED_SHOWN: Final = 100
RECEIPTS_SHOWN: Final = 30
FOCUS_SHOWN: Final = 30


@attrs.frozen(kw_only=True)
class LookAtSessions:
    """Those that windows show, or those that no window shows any more."""

    ended: bool = False


@attrs.frozen(kw_only=True)
class SessionsPage:
    """The sessions, what each is about (by its id), and the live hosts."""

    sessions: Sequence[SessionView]
    titles: Mapping[int, str]
    hosts: Sequence[HostView]
    now: datetime


async def look_at_sessions(tx: Transaction, command: LookAtSessions) -> SessionsPage:
    """The page of sessions; of ended ones the ENDED_SHOWN that were seen last."""
    wanted = ListSessions(ended=True, limit=ENDED_SHOWN) if command.ended else ListSessions()
    sessions = await list_sessions(tx, wanted)
    return SessionsPage(
        sessions=sessions,
        titles=await newest_focus(tx, [one.id for one in sessions]),
        hosts=await list_hosts(tx, ListHosts()),
        now=tx.now,
    )


@attrs.frozen(kw_only=True)
class LookAtSession:
    """Which session; whether a text is refused at its paste depends on the step-up window."""

    mirrored_id: int
    stepup_window_seconds: int


@attrs.frozen(kw_only=True)
class QueueLine:
    """A text of the queue; `waits_for` is None for one that waits for nothing any more."""

    send: QueuedSend
    waits_for: str | None


@attrs.frozen(kw_only=True)
class SessionPage:
    """A session: its queue in order, what ended of it, its focus and its routes, newest first."""

    session: SessionView
    queue: Sequence[QueueLine]
    receipts: Sequence[QueuedSend]
    focus: Sequence[FocusTitle]
    routes: Sequence[RouteView]
    now: datetime


async def look_at_session(tx: Transaction, command: LookAtSession) -> SessionPage:
    """One session; raises NotFound for none and for somebody else's."""
    session = await get_session(tx, command.mirrored_id)
    wanted = ListQueue(mirrored_id=session.id, stepup_window_seconds=command.stepup_window_seconds)
    ended = attrs.evolve(wanted, ended=True, limit=RECEIPTS_SHOWN)
    return SessionPage(
        session=session,
        queue=_lines(session, await list_queue(tx, wanted)),
        receipts=await list_queue(tx, ended),
        focus=await list_focus(tx, session.id, FOCUS_SHOWN),
        routes=await list_routes_of_session(tx, session.id),
        now=tx.now,
    )


def _lines(session: SessionView, queue: Sequence[QueuedSend]) -> list[QueueLine]:
    """Each text with what it waits for; of several the first alone waits for the session."""
    lines: list[QueueLine] = []
    before: QueuedSend | None = None
    for send in queue:
        waits_for = None
        if send.state is SendState.QUEUED:
            waits_for = _session_wait(session) if before is None else _turn_wait(before)
        if send.state is not SendState.REFUSED:
            before = send
        lines.append(QueueLine(send=send, waits_for=waits_for))
    return lines


def _turn_wait(before: QueuedSend) -> str:
    if before.state is SendState.UNCONFIRMED:
        return "your word on whether the text before it arrived"
    if before.state is SendState.OFFERED:
        return "the text before it, which is being pasted"
    return "the text before it"


def _session_wait(session: SessionView) -> str:
    if session.why_not is not None:
        return f"its session: {session.why_not}"
    if session.state is PaneState.WORKING:
        return "its session to be idle: it works"
    if session.state is PaneState.WAITING:
        return "its session to be idle: it has asked its person something"
    return "its session to have been idle for long enough"
