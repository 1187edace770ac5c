"""Routes: messages in a session's hands (plugins: "Routing a message to a session").

    state            Answer    Relay              Wait    Fail        TimeOut    OwnerReplied
    routed           answered  -                  -       failed [1]  timed_out  owner_answered
    answered         = [2]     relayed, fallback  (later) failed [1]  -          -
    relayed          = [2]     =                  -       -           -          -
    fallback         = [2]     =                  -       -           -          -
    timed_out        -         -                  -       -           =          -
    failed           -         -                  -       =           -          -
    owner_answered   -         -                  -       -           -          =

`-` is Refused, `=` is Unchanged. [1] A Fail says whether the chief is owed the message back: it is,
unless the chief knows already, or a newer review round took its place. A timeout owes it always.
[2] The same answer again; another one is refused. Through a session's own door a repeat is refused
too, naming the state.

A route is open while it is routed or answered, and a message has one open route at a time, by a
unique index. `relayed` is a reply that goes without asking its owner, `fallback` a draft that waits
for the owner. A hand-back is owed once, from the end on, and delivered once: GiveBack on a route
that owes nothing is Unchanged.

What can race: the answer, the deadline, a failed paste, a stamp of the owner's own reply: each
takes the message's row and then the route's, and the first one ends it. A paste looks at the
route's state in its own transaction (muster/mirror), and cancels are a convenience for the reader.

Rejected: answered and relayed as one step (a relay that a database's restart cut off would lose the
answer); the hand-back as part of the end (a chief that is busy would hold the end up).
"""

import enum
from datetime import datetime, timedelta
from typing import Final, assert_never

import attrs

from muster.errors import Refused
from muster.outcomes import Changed, Fact, Hint, HintKind, Unchanged

DEADLINE: Final = timedelta(minutes=30)
LONG_DEADLINE: Final = timedelta(hours=4)  # of reviews, and of a person's conversation
RELAY_AGAIN: Final = timedelta(minutes=1)
ANSWER_BYTES_MAX: Final = 16 * 1024  # a reply draft's
WHY_CHARACTERS_MAX: Final = 500


class State(enum.Enum):
    """Where a route is."""

    ROUTED = "routed"
    ANSWERED = "answered"
    RELAYED = "relayed"
    FALLBACK = "fallback"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    OWNER_ANSWERED = "owner_answered"


OPEN: Final = frozenset({State.ROUTED, State.ANSWERED})


class By(enum.Enum):
    """Who routed it."""

    CHIEF = "chief"
    OWNER = "owner"
    MUSTER = "muster"


class HandBack(enum.Enum):
    """Whether the chief is owed the message back."""

    NONE = "none"
    OWED = "owed"
    DELIVERED = "delivered"


@attrs.frozen(kw_only=True)
class Route:
    """A route as it is stored, with the Claude Code id of its session."""

    id: int
    owner_id: int
    message_id: int
    agent_id: int  # the chief that holds the message
    mirrored_id: int
    claude_session: str
    routed_by: By = attrs.field(converter=By)
    routed_via: str | None
    state: State = attrs.field(converter=State)
    created_at: datetime
    deadline_at: datetime
    answer: str | None
    answered_at: datetime | None
    answered_via: str | None
    relay_due_at: datetime | None
    owner_replied_at: datetime | None
    ended_at: datetime | None
    why: str | None
    handback: HandBack = attrs.field(converter=HandBack)
    handed_back_at: datetime | None

    @property
    def is_open(self) -> bool:
        """Whether an answer is waited for, or waits to be relayed."""
        return self.state in OPEN


@attrs.frozen(kw_only=True)
class Answer:
    """The session's answer, folded and screened. Leaves `session_route.answered`.

    `repeats` lets the same answer come again without a word: at the API, not at a session's door.
    """

    text: str
    via: str
    repeats: bool


@attrs.frozen(kw_only=True)
class Relay:
    """Its answer became a draft. Leaves `session_route.relayed` or `.fallback`."""

    draft_id: int
    approved: bool


@attrs.frozen(kw_only=True)
class Wait:
    """Its answer is to be relayed later. Leaves no row."""


@attrs.frozen(kw_only=True)
class Fail:
    """It cannot come to an answer that is sent. Leaves `session_route.failed`."""

    why: str
    owed: bool = True


@attrs.frozen(kw_only=True)
class TimeOut:
    """Its deadline is over. Leaves `session_route.timed_out`."""


@attrs.frozen(kw_only=True)
class OwnerReplied:
    """The sender was answered directly. Leaves `session_route.owner_answered`."""


@attrs.frozen(kw_only=True)
class GiveBack:
    """The chief is told of the end that was owed to it. Leaves no row: the end's says it."""


Command = Answer | Relay | Wait | Fail | TimeOut | OwnerReplied | GiveBack
Outcome = Changed[Route] | Unchanged[Route] | Refused


def decide(route: Route, command: Command, now: datetime) -> Outcome:
    """Apply `command` to `route` as of `now`; Refused, not raised, where the table has a `-`."""
    now = max(now, route.created_at, route.answered_at or now, route.ended_at or now)
    match command:
        case Answer():
            return _answer(route, command, now)
        case Relay():
            return _relay(route, command, now)
        case Wait():
            if route.state is not State.ANSWERED:
                return refuse(route)
            row = attrs.evolve(route, relay_due_at=now + RELAY_AGAIN)
            return Changed(row=row, hints=(shown_hint(route),))
        case Fail():
            return _fail(route, command, now)
        case TimeOut():
            return _time_out(route, now)
        case OwnerReplied():
            return _owner_replied(route, now)
        case GiveBack():
            if route.handback is not HandBack.OWED:
                return Unchanged(row=route)
            row = attrs.evolve(route, handback=HandBack.DELIVERED, handed_back_at=now)
            return Changed(row=row, hints=(shown_hint(route),))
        case _:
            assert_never(command)


def refuse(route: Route) -> Refused:
    """What whoever answers a route is told that does not wait for it."""
    sentences = {
        State.OWNER_ANSWERED: "its reply was already sent to the sender directly",
        State.TIMED_OUT: "it timed out, and the message went back to the chief",
        State.FAILED: "it failed, and the message went back to the chief",
    }
    told = sentences.get(route.state, f"it is {route.state.value} already")
    return Refused(
        f"Route {route.id} takes no answer: {told}.",
        code="route_state",
        facts={"route_id": route.id, "state": route.state.value},
    )


def _answer(route: Route, command: Answer, now: datetime) -> Outcome:
    if route.state is State.ROUTED:
        row = attrs.evolve(
            route,
            state=State.ANSWERED,
            answer=command.text,
            answered_at=now,
            answered_via=command.via,
            relay_due_at=now + RELAY_AGAIN,
        )
        fact = _fact(route, "answered", bytes=len(command.text.encode()), via=command.via)
        return Changed(row=row, facts=(fact,))
    if route.answer is None or route.state is State.FAILED or not command.repeats:
        return refuse(route)
    if route.answer == command.text:
        return Unchanged(row=route)
    return Refused(
        f"Route {route.id} has another answer already.",
        code="other_answer",
        facts={"route_id": route.id, "state": route.state.value},
    )


def _relay(route: Route, command: Relay, now: datetime) -> Outcome:
    if route.state in {State.RELAYED, State.FALLBACK}:
        return Unchanged(row=route)
    if route.state is not State.ANSWERED:
        return refuse(route)
    state = State.RELAYED if command.approved else State.FALLBACK
    row = attrs.evolve(route, state=state, relay_due_at=None, ended_at=now)
    return Changed(row=row, facts=(_fact(route, state.value, draft=command.draft_id),))


def _fail(route: Route, command: Fail, now: datetime) -> Outcome:
    if route.state is State.FAILED:
        return Unchanged(row=route)
    if not route.is_open:
        return refuse(route)
    row = attrs.evolve(
        route,
        state=State.FAILED,
        relay_due_at=None,
        ended_at=now,
        why=command.why[:WHY_CHARACTERS_MAX],
        handback=HandBack.OWED if command.owed else HandBack.NONE,
    )
    return _ended(row, _fact(route, "failed", why=row.why, owed=command.owed))


def _time_out(route: Route, now: datetime) -> Outcome:
    if route.state is State.TIMED_OUT:
        return Unchanged(row=route)
    if route.state is not State.ROUTED:
        return refuse(route)
    if now < route.deadline_at:
        return Unchanged(row=route)
    row = attrs.evolve(
        route,
        state=State.TIMED_OUT,
        ended_at=now,
        why="no answer came by its deadline",
        handback=HandBack.OWED,
    )
    return _ended(row, _fact(route, "timed_out", owed=True))


def _owner_replied(route: Route, now: datetime) -> Outcome:
    if route.state is State.OWNER_ANSWERED:
        return Unchanged(row=route)
    if route.state is not State.ROUTED:
        return refuse(route)
    row = attrs.evolve(route, state=State.OWNER_ANSWERED, ended_at=now, owner_replied_at=now)
    return Changed(row=row, facts=(_fact(route, "owner_answered"),))


def _ended(row: Route, fact: Fact) -> Changed[Route]:
    hints: tuple[Hint, ...] = ()
    if row.handback is HandBack.OWED:
        hints = (Hint(kind=HintKind.ROUTE_ENDED, owner_id=row.owner_id, id=row.id),)
    return Changed(row=row, facts=(fact,), hints=hints)


def routed(route: Route) -> Fact:
    """The fact of a route that was made."""
    data: dict[str, object] = {"by": route.routed_by.value}
    if route.routed_via is not None:
        data["routed_via"] = route.routed_via
    return _fact(route, "routed", deadline_at=route.deadline_at.isoformat(), **data)


def shown_hint(route: Route) -> Hint:
    """Whoever shows the route looks again."""
    return Hint(kind=HintKind.ROUTE_CHANGED, owner_id=route.owner_id, id=route.id)


def _fact(route: Route, action: str, **data: object) -> Fact:
    return Fact(
        action=f"session_route.{action}",
        subject=f"route:{route.id}",
        data={"message": route.message_id, "session": route.claude_session, **data},
    )
