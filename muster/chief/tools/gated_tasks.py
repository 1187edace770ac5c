"""`task_create_gated`: how the chief turns a message into work that waits for its owner."""

from collections.abc import Mapping

import msgspec

from muster.chief import gating
from muster.chief.tools.tool import Call, Tool
from muster.pg.database import Transaction


class TaskCreateGated(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The arguments of `task_create_gated`."""

    title: str
    body: str
    gate_reason: str = ""
    message_id: int | None = None
    repo: str | None = None
    tags: tuple[str, ...] = ()


def _command(call: Call) -> gating.CreateGated:
    arguments = call.arguments
    assert isinstance(arguments, TaskCreateGated)
    return gating.CreateGated(
        title=arguments.title,
        body=arguments.body,
        gate_reason=arguments.gate_reason,
        message_id=arguments.message_id,
        repository=arguments.repo,
        tags=arguments.tags,
    )


async def reserve_task(tx: Transaction, call: Call) -> None:
    """Spend one of the chief's 20 a day."""
    await gating.reserve_gated(tx, _command(call))


async def create_task(tx: Transaction, call: Call) -> Mapping[str, object]:
    """File the gated task."""
    task = await gating.create_gated(tx, _command(call))
    return {"task_id": task.id, "status": task.status.value, "tags": list(task.tags)}


TASK_CREATE_GATED = Tool(
    name="task_create_gated",
    description=(
        "File a task because a message asks for work. It is created gated: nothing starts it "
        "until your owner removes the gate. gate_reason says in a few words what your owner has "
        "to decide, and becomes the gate's tag. Give message_id when a plugin message that was "
        "delivered, or is being delivered, to you asks for it: the task then cites it. title is "
        "one line of at most 512 characters, body plain text of at most 16 KiB, repo is written "
        "owner/name, tags are at most 19 and never gate: or auto:. You may file 20 in any 24 "
        "hours; one that fails counts too."
    ),
    arguments=TaskCreateGated,
    run=create_task,
    reserve=reserve_task,
)
