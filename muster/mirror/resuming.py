"""Resuming an ended session for a message (plugins: "Resuming an ended session").

| state     | means                                                                           |
|-----------|---------------------------------------------------------------------------------|
| wanted    | a host is to be asked next, or the resume that this one joined is to get on      |
| asking    | the host of (host_id, epoch) was told the session's id and did not answer yet    |
| waiting   | a window was started, or may have been: the message's route is tried each second |
| routed    | the message is in the session's queue                                            |
| refused   | it cannot be done; `why` says what was in the way                                |
| timed_out | no window took it in time; `why` names the last attempt's refusal                |

    state    Ask     Started  Denied  Lapse    Follow   Route   Refuse   GiveUp
    wanted   asking  -        -       -        waiting  -       refused  timed_out
    asking   -       waiting  wanted  waiting  -        -       refused  timed_out
    waiting  -       waiting  wanted  -        -        routed  refused  timed_out

`-` is Refused. While it is one of these three the message stays in the queue and is held: no
delivery takes it. What ends without a route gives it back to the chief, at the latest when the hold
is over by itself.

A host is asked once for a message. One that does not answer within ASK_FOR may have started a
window: nobody else is asked, and the window is waited for. A late answer proves: a denial of the
host that was asked last goes on with the next host, whatever was assumed meanwhile.

A session is resumed by one message at a time. A second message joins the first one's resume: it is
asked of nobody, and tried as soon as that one's window is, or the next one's after a late denial.

Races: whoever moves a row locks it, behind its message's; the answers of a host come through its
socket, on the node that holds it. Counts of starts are taken under the lock of the host's row.

Rejected: waiting for the host's answer in memory (a restart would lose it), and asking again after
one (a session might run twice).
"""

import enum
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, assert_never

import attrs

from muster.errors import Refused
from muster.outcomes import Changed, Fact, Hint, HintKind

ASK_FOR: Final = timedelta(seconds=60)
WINDOW_FOR: Final = timedelta(seconds=90)
HELD_FOR: Final = timedelta(minutes=10)
WITHIN: Final = timedelta(hours=1)
SESSION_STARTS_MAX: Final = 2  # within an hour
HOST_STARTS_MAX: Final = 6  # within an hour
WHY_CHARACTERS_MAX: Final = 500
SHOWN: Final = "A window shows the session."


class State(enum.Enum):
    """Where a resume stands; the table above."""

    WANTED = "wanted"
    ASKING = "asking"
    WAITING = "waiting"
    ROUTED = "routed"
    REFUSED = "refused"
    TIMED_OUT = "timed_out"


OPEN: Final = frozenset({State.WANTED, State.ASKING, State.WAITING})


class Cause(enum.Enum):
    """Why the message is the session's."""

    THREAD = "thread"
    REVIEW = "review"


@attrs.frozen(kw_only=True)
class Resume:
    """A row. `wanted_host_id` is the only host that may be asked, if there is one."""

    id: int
    owner_id: int
    message_id: int
    sender: str | None  # the message's
    claude_session: str
    cause: Cause = attrs.field(converter=Cause)
    routed_via: str
    wanted_host_id: int | None
    joined_id: int | None
    state: State = attrs.field(converter=State)
    created_at: datetime
    asked: list[int]
    host_id: int | None
    epoch: int | None
    asked_at: datetime | None
    started_at: datetime | None
    tmux_window: str | None
    waits_until: datetime | None
    route_id: int | None
    ended_at: datetime | None
    why: str | None


@attrs.frozen(kw_only=True)
class WantResume:
    """Resume this session for a queued message, and hold the message. Leaves `mail_resume.wanted`.

    `host_id` is the only host that may be asked, `only` whether there is such a limit.
    """

    message_id: int
    sender: str | None
    claude_session: str
    cause: Cause
    routed_via: str
    only: bool
    host_id: int | None = None


@attrs.frozen(kw_only=True)
class Gate:
    """What is known when a message wants its session resumed."""

    is_shown: bool  # by a host that is online or remembered, in whatever pane
    hosts: int  # that offer resumes, may be asked and started fewer than 6 windows in an hour
    session_starts: int  # in the last hour


def why_not(gate: Gate) -> str | None:
    """What forbids a resume, as a sentence; None when nothing does."""
    if gate.is_shown:
        return SHOWN
    if gate.session_starts >= SESSION_STARTS_MAX:
        return f"The session was resumed {SESSION_STARTS_MAX} times within an hour."
    if not gate.hosts:
        return "No host that may be asked offers to resume it."
    return None


@attrs.frozen(kw_only=True)
class Ask:
    """Ask this host on this connection. Leaves `mail_resume.asked`."""

    host_id: int
    epoch: int


@attrs.frozen(kw_only=True)
class Started:
    """The host started a window. Leaves `mail_resume.started`."""

    host_id: int
    window: str | None


@attrs.frozen(kw_only=True)
class Denied:
    """The host does not start one; the next host may. Leaves `mail_resume.denied`."""

    host_id: int
    why: str


@attrs.frozen(kw_only=True)
class Lapse:
    """The host did not answer, and may have started one. Leaves `mail_resume.started`."""


@attrs.frozen(kw_only=True)
class Follow:
    """A window is there, or on its way, without a host having been asked. No audit row."""

    until: datetime


@attrs.frozen(kw_only=True)
class Route:
    """The message is in the session's queue. Leaves `mail_resume.routed`."""

    route_id: int


@attrs.frozen(kw_only=True)
class Refuse:
    """It cannot be done. Leaves `mail_resume.refused`."""

    why: str


@attrs.frozen(kw_only=True)
class GiveUp:
    """No window took it in time. Leaves `mail_resume.timed_out`."""

    why: str


Command = Ask | Started | Denied | Lapse | Follow | Route | Refuse | GiveUp
Outcome = Changed[Resume] | Refused

MOVES: Final[Mapping[tuple[State, type[Command]], State]] = {
    (State.WANTED, Ask): State.ASKING,
    (State.WANTED, Follow): State.WAITING,
    (State.WANTED, Refuse): State.REFUSED,
    (State.WANTED, GiveUp): State.TIMED_OUT,
    (State.ASKING, Started): State.WAITING,
    (State.ASKING, Denied): State.WANTED,
    (State.ASKING, Lapse): State.WAITING,
    (State.ASKING, Refuse): State.REFUSED,
    (State.ASKING, GiveUp): State.TIMED_OUT,
    (State.WAITING, Started): State.WAITING,
    (State.WAITING, Denied): State.WANTED,
    (State.WAITING, Route): State.ROUTED,
    (State.WAITING, Refuse): State.REFUSED,
    (State.WAITING, GiveUp): State.TIMED_OUT,
}


def decide(resume: Resume, command: Command, now: datetime) -> Outcome:
    """Apply `command` to `resume` as of `now`.

    Refused, not raised, when its state forbids it, for the answer of a host that was not the last
    one asked, for the denial of one that told its window, and for an Ask of one that joined.
    """
    now = max(now, resume.created_at, resume.asked_at or now)
    target = MOVES.get((resume.state, type(command)))
    if target is None or _is_strangers(resume, command):
        return Refused(
            f"Resume {resume.id} is {resume.state.value}.",
            code="resume_state",
            facts={"resume_id": resume.id, "state": resume.state.value},
        )
    moved = attrs.evolve(resume, state=target)
    match command:
        case Ask(host_id=host_id, epoch=epoch):
            asked = [*resume.asked, host_id]
            row = attrs.evolve(moved, asked=asked, host_id=host_id, epoch=epoch, asked_at=now)
            return _changed(row, "asked")
        case Started(window=window):
            # What was assumed at a lapse and is told now is told once.
            row = attrs.evolve(
                moved,
                started_at=resume.started_at or now,
                tmux_window=window,
                waits_until=resume.waits_until or now + WINDOW_FOR,
            )
            return _changed(row, "started", window=window)
        case Denied(why=why):
            row = attrs.evolve(moved, started_at=None, waits_until=None, why=short(why))
            return _changed(row, "denied", why=row.why)
        case Lapse():
            row = attrs.evolve(
                moved, started_at=resume.asked_at or now, waits_until=now + WINDOW_FOR
            )
            return _changed(row, "started", window=None)
        case Follow(until=until):
            return Changed(row=attrs.evolve(moved, waits_until=until))
        case Route(route_id=route_id):
            row = attrs.evolve(moved, route_id=route_id, ended_at=now)
            return _changed(row, "routed", route=route_id)
        case Refuse(why=why) | GiveUp(why=why):
            # Nobody waits for the host that is asked any more, and it may have started one.
            started_at = resume.asked_at if resume.state is State.ASKING else resume.started_at
            row = attrs.evolve(moved, started_at=started_at, why=short(why), ended_at=now)
            return _changed(row, target.value, why=row.why)
        case _:
            assert_never(command)


def _is_strangers(resume: Resume, command: Command) -> bool:
    match command:
        case Ask(host_id=host_id):
            return resume.joined_id is not None or host_id in resume.asked
        case Started(host_id=host_id):
            return host_id != resume.host_id
        case Denied(host_id=host_id):
            return host_id != resume.host_id or resume.tmux_window is not None
        case _:
            return False


def is_lapsed(resume: Resume, now: datetime) -> bool:
    """Whether the host that is asked has not answered for so long that nobody knows."""
    asked_at = resume.asked_at
    return resume.state is State.ASKING and asked_at is not None and now >= asked_at + ASK_FOR


def follow(resume: Resume, leader: Resume, now: datetime) -> Follow | Refuse | GiveUp | None:
    """What a message that joined `leader`'s resume does as of `now`; None: it waits on."""
    match leader.state:
        case State.WANTED | State.ASKING:
            return None
        case State.WAITING | State.ROUTED:
            return Follow(until=max(leader.waits_until or now, resume.created_at))
        case State.REFUSED:
            return Refuse(why=leader.why or "The session could not be resumed.")
        case State.TIMED_OUT:
            return GiveUp(why=leader.why or "No window took it in time.")
        case _:
            assert_never(leader.state)


def goes_on(leader: Resume, now: datetime) -> bool:
    """Whether a window of this resume may still come: those that joined it wait for that one too.

    A late denial, of a host whose window was waited for already, leads to the next host.
    """
    if leader.state is not State.WAITING:
        return leader.state in OPEN
    return leader.waits_until is not None and now < leader.waits_until


def wanted(resume: Resume) -> Fact:
    """The fact that a message wants its session resumed."""
    return _fact(resume, "wanted")


def look_hint(owner_id: int, resume_id: int) -> Hint:
    """Whoever carries resumes on looks at once."""
    return Hint(kind=HintKind.RESUME_WANTED, owner_id=owner_id, id=resume_id)


def short(why: str) -> str:
    """A reason as it is kept."""
    return why[:WHY_CHARACTERS_MAX] or "No reason was given."


def _changed(row: Resume, what: str, **data: object) -> Changed[Resume]:
    hints = (look_hint(row.owner_id, row.id),) if row.state in OPEN else ()
    return Changed(row=row, facts=(_fact(row, what, **data),), hints=hints)


def _fact(resume: Resume, what: str, **data: object) -> Fact:
    told: dict[str, object] = {
        "resume": resume.id,
        "sender": resume.sender,
        "claude_session": resume.claude_session,
    }
    if resume.host_id is not None:
        told["host"] = resume.host_id
    return Fact(
        action=f"mail_resume.{what}", subject=f"message:{resume.message_id}", data=told | data
    )
