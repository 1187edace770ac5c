"""Gated tasks: how a message becomes work (plugins: "When a message asks for work").

Nothing starts work on a task that carries a gate, and only the owner takes a gate away. A chief may
ask for 20 in any 24 hours. A unit of that is spent by an audit row, in a transaction of its own
before the task is created: so a chief whose creates fail cannot try for ever, and a task's creation
that is rolled back takes no unit back. Both transactions check everything, for what was so at the
first need not be at the second.

Two calls of one chief cannot spend one unit: each holds the chief's row from the count to the
commit. Rejected: a counter in the chief's row, which would have to be turned back by the clock.
"""

import math
from datetime import datetime, timedelta
from typing import Final

import attrs

from muster.chief.operations import require_chief
from muster.errors import Invalid, TooMany
from muster.messages import operations as messages
from muster.names import namespace_of, slug
from muster.outcomes import Fact
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.principals import Agent
from muster.tasks import operations as tasks
from muster.tasks.rules import GATE, CreateTask, check_create, check_tags

GATED_PER_DAY_MAX: Final = 20
DAY: Final = timedelta(hours=24)
GATED_ACTION: Final = "plugin.task_gated"  # also in the index audit_gated_idx
REASON_CHARACTERS_MAX: Final = 500
SLUG_CHARACTERS_MAX: Final = 59  # what a tag has room for behind `gate:`
UNREASONED: Final = "awaiting-approval"
CHIEFS_OWN: Final = frozenset({GATE, "auto"})


@attrs.frozen(kw_only=True)
class CreateGated:
    """File a task that waits for the owner. Leaves `plugin.task_gated` and `task.created`."""

    title: str
    body: str
    gate_reason: str = ""
    message_id: int | None = None
    repository: str | None = None
    tags: tuple[str, ...] = ()


def gate_of(reason: str) -> str:
    """The tag that a reason makes; a reason without letters a-z and digits is none."""
    return f"{GATE}:{slug(reason, characters_max=SLUG_CHARACTERS_MAX) or UNREASONED}"


def compose(command: CreateGated) -> CreateTask:
    """The task as it is filed: with its gate, and the line that cites its message.

    Raises Invalid for a field, and for a `gate:` or `auto:` tag of the chief's own in any spelling.
    """
    if len(command.gate_reason) > REASON_CHARACTERS_MAX:
        raise Invalid(
            f"gate_reason may have {REASON_CHARACTERS_MAX} characters.", field="gate_reason"
        )
    tags = check_tags(command.tags)
    for tag in tags:
        if namespace_of(tag) in CHIEFS_OWN:
            raise Invalid(f"The tag {tag} is not yours to give.", field="tags", code="tag_reserved")
    body = command.body
    if command.message_id is not None:
        cited = f"From plugin message {command.message_id}."
        body = f"{body.rstrip()}\n\n{cited}" if body.strip() else cited
    return check_create(
        CreateTask(
            title=command.title,
            body=body,
            tags=(*tags, gate_of(command.gate_reason)),
            repository=command.repository,
            message_id=command.message_id,
        )
    )


async def reserve_gated(tx: Transaction, command: CreateGated) -> None:
    """Spend a unit of the chief's day on a request that can be carried out as far as one can see.

    Raises Invalid for a field, Refused for another agent than the chief, NotFound for a message
    that this chief was not handed, TooMany when 20 were asked for in the last 24 hours.
    """
    agent = tx.principal
    assert isinstance(agent, Agent)
    await _require(tx, agent, compose(command))
    subject = f"agent:{agent.agent_id}"
    newer = GATED_PER_DAY_MAX - 1
    _check_budget(await tx.scalar(TWENTIETH_GATED, subject=subject, newer=newer), tx.now)
    data: dict[str, object] = {"gate": gate_of(command.gate_reason)}
    if command.message_id is not None:
        data["message"] = command.message_id
    await tx.record(Fact(action=GATED_ACTION, subject=subject, data=data))


async def create_gated(tx: Transaction, command: CreateGated) -> tasks.Task:
    """File the task that a unit was spent on. Raises as `reserve_gated`, but for the budget."""
    agent = tx.principal
    assert isinstance(agent, Agent)
    composed = compose(command)
    await _require(tx, agent, composed)
    return await tasks.create_task(tx, composed)


# The action is spelled out, so that the partial index audit_gated_idx serves this.
TWENTIETH_GATED = Query("""
    select at from audit
    where owner_id = %(owner_id)s and action = 'plugin.task_gated' and subject = %(subject)s
    order by at desc
    limit 1 offset %(newer)s
""")


def _check_budget(twentieth_newest_at: datetime | None, now: datetime) -> None:
    if twentieth_newest_at is None or twentieth_newest_at <= now - DAY:
        return
    left = twentieth_newest_at + DAY - now
    raise TooMany(
        f"You asked for {GATED_PER_DAY_MAX} gated tasks in the last 24 hours; that is all there"
        " may be.",
        retry_after_seconds=math.ceil(left / timedelta(seconds=1)),
        code="gated_tasks_per_day",
    )


async def _require(tx: Transaction, agent: Agent, task: CreateTask) -> None:
    """The chief alone, and only because of what it was handed; both rows are locked then."""
    await require_chief(tx, agent)
    if task.message_id is None:
        return
    message = await messages.lock_message(tx, task.message_id)
    messages.require_handed(
        message, agent.agent_id, f"No message {task.message_id} was delivered to you."
    )
