"""The steps of a message's way: stored, handed over, drafted or filed, decided, claimed, ended."""

import enum
from collections.abc import Iterator, Sequence
from datetime import datetime

import attrs

from muster.chief.operations.routing.listing import RouteView
from muster.drafts.operations import DraftView
from muster.drafts.rules import State as DraftState
from muster.failure import Failure
from muster.messages.rules import Message
from muster.messages.rules import State as MessageState
from muster.routes.rules import By
from muster.routes.rules import State as RouteState
from muster.token_use import TokenUse


class StepKind(enum.Enum):
    """What happened; the value names it in the templates."""

    STORED = "stored"
    HANDED_OVER = "handed_over"
    TURN_ENDED = "turn_ended"
    RETRIED = "retried"
    SETTLED = "settled"
    TASK_FILED = "task_filed"
    ASKED = "asked"
    ASK_ENDED = "ask_ended"
    ROUTED = "routed"
    ROUTE_ANSWERED = "route_answered"
    DRAFTED = "drafted"
    APPROVED = "approved"
    COLLECTED = "collected"
    ROUTE_ENDED = "route_ended"
    HANDED_BACK = "handed_back"
    ENDED = "ended"  # a draft's end


@attrs.frozen(kw_only=True)
class Step:
    """One step: when, what, with what outcome (a state's name), and its subject in the audit log.

    `number` is the id of the draft, the task, the ask or the route, or a turn's attempt; `text`
    comes from an agent, a plugin or the owner, so it is shown as what it is; `link` leads to more.
    """

    at: datetime
    kind: StepKind
    state: str
    subject: str
    number: int | None = None
    text: str | None = None
    who: str | None = None
    via: str | None = None
    usage: TokenUse | None = None
    failure: Failure | None = None
    conversation_id: int | None = None
    other: int | None = None  # the draft that superseded it


@attrs.frozen(kw_only=True)
class Turn:
    """A turn in which a message was handed over."""

    id: int
    attempt: int
    state: str
    begun_at: datetime
    ended_at: datetime | None
    conversation_id: int
    agent: str
    usage: TokenUse | None
    failure: Failure | None


@attrs.frozen(kw_only=True)
class RetriedStep:
    """Its owner had it handed over again."""

    at: datetime
    via: str


@attrs.frozen(kw_only=True)
class FiledStep:
    """A task that cites it."""

    id: int
    title: str
    status: str
    created_at: datetime
    created_by: str


@attrs.frozen(kw_only=True)
class AskedStep:
    """What muster asked about it, and how that ended."""

    id: int
    state: str
    created_at: datetime
    ended_at: datetime | None
    answer: str | None
    answered_via: str | None


def steps_of(
    message: Message,
    *,
    turns: Sequence[Turn],
    retries: Sequence[RetriedStep],
    filed: Sequence[FiledStep],
    asked: Sequence[AskedStep],
    replies: Sequence[DraftView],
    routes: Sequence[RouteView],
) -> list[Step]:
    """All steps, oldest first; of those at one time the earlier kind comes first."""
    steps = [
        *_of_message(message, retries),
        *(step for turn in turns for step in _of_turn(message, turn)),
        *(step for ask in asked for step in _of_ask(ask)),
        *(_of_task(task) for task in filed),
        *(step for reply in replies for step in _of_reply(reply)),
        *(step for route in routes for step in _of_route(route)),
    ]
    order = list(StepKind)
    return sorted(steps, key=lambda step: (step.at, order.index(step.kind)))


def _of_message(message: Message, retries: Sequence[RetriedStep]) -> Iterator[Step]:
    subject = f"message:{message.id}"
    yield Step(at=message.created_at, kind=StepKind.STORED, state="queued", subject=subject)
    for retry in retries:
        yield Step(
            at=retry.at, kind=StepKind.RETRIED, state="queued", subject=subject, via=retry.via
        )
    if message.dispositioned_at is not None:
        yield Step(
            at=message.dispositioned_at,
            kind=StepKind.SETTLED,
            state="settled",
            subject=subject,
            text=message.settle_reason,
        )


def _of_turn(message: Message, turn: Turn) -> Iterator[Step]:
    subject = f"message:{message.id}"
    begun = Step(
        at=turn.begun_at,
        kind=StepKind.HANDED_OVER,
        state=MessageState.DELIVERING.value,
        subject=subject,
        number=turn.attempt,
        who=turn.agent,
        conversation_id=turn.conversation_id,
    )
    yield begun
    if turn.ended_at is not None:
        yield attrs.evolve(
            begun,
            at=turn.ended_at,
            kind=StepKind.TURN_ENDED,
            state=turn.state,
            usage=turn.usage,
            failure=turn.failure,
        )


def _of_ask(ask: AskedStep) -> Iterator[Step]:
    begun = Step(
        at=ask.created_at,
        kind=StepKind.ASKED,
        state="open",
        subject=f"ask:{ask.id}",
        number=ask.id,
    )
    yield begun
    if ask.ended_at is not None:
        yield attrs.evolve(
            begun,
            at=ask.ended_at,
            kind=StepKind.ASK_ENDED,
            state=ask.state,
            text=ask.answer,
            via=ask.answered_via,
        )


def _of_task(task: FiledStep) -> Step:
    return Step(
        at=task.created_at,
        kind=StepKind.TASK_FILED,
        state=task.status,
        subject=f"task:{task.id}",
        number=task.id,
        text=task.title,
        who=task.created_by,
    )


def _of_reply(reply: DraftView) -> Iterator[Step]:
    drafted = Step(
        at=reply.created_at,
        kind=StepKind.DRAFTED,
        state=DraftState.PENDING.value,
        subject=f"draft:{reply.id}",
        number=reply.id,
    )
    source = None if reply.route_id is None else f"route {reply.route_id}"
    yield attrs.evolve(drafted, via=source)
    if reply.approved_at is not None:
        yield attrs.evolve(
            drafted,
            at=reply.approved_at,
            kind=StepKind.APPROVED,
            state=DraftState.APPROVED.value,
            # A withdrawal was decided later, and elsewhere perhaps.
            via=reply.decided_via if reply.decided_at == reply.approved_at else None,
        )
    if reply.claimed_at is not None:
        collected = DraftState.APPROVED.value
        yield attrs.evolve(
            drafted, at=reply.claimed_at, kind=StepKind.COLLECTED, state=collected, who=reply.plugin
        )
    if reply.ended_at is not None:
        yield attrs.evolve(
            drafted,
            at=reply.ended_at,
            kind=StepKind.ENDED,
            state=reply.state.value,
            who=reply.plugin,
            via=reply.decided_via if reply.state is DraftState.REJECTED else None,
            text=reply.detail,
            other=reply.superseded_by,
        )


_ROUTERS = {By.OWNER: "you", By.MUSTER: "muster"}


def _of_route(route: RouteView) -> Iterator[Step]:
    begun = Step(
        at=route.created_at,
        kind=StepKind.ROUTED,
        state=RouteState.ROUTED.value,
        subject=f"route:{route.id}",
        number=route.id,
        who=_ROUTERS.get(route.routed_by, route.agent),
        text=f"{route.session} on {route.host}",
    )
    yield begun
    if route.answered_at is not None:
        answered = RouteState.ANSWERED.value
        kind = StepKind.ROUTE_ANSWERED
        yield attrs.evolve(begun, at=route.answered_at, kind=kind, state=answered, text=None)
    if route.ended_at is not None:
        yield attrs.evolve(
            begun,
            at=route.ended_at,
            kind=StepKind.ROUTE_ENDED,
            state=route.state.value,
            text=route.why,
        )
    if route.handed_back_at is not None:
        yield attrs.evolve(
            begun,
            at=route.handed_back_at,
            kind=StepKind.HANDED_BACK,
            state="",
            who=None,
            text=None,
        )
