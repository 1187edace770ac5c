"""How a message becomes gated work: the gate, the message it cites, and the chief's day."""

from datetime import timedelta
from functools import partial

import attrs
import pytest

from actors.testing import cancel_at_every_step
from muster.agents.operations import add_agent
from muster.agents.rules import AddAgent
from muster.chief.gating import (
    GATED_ACTION,
    GATED_PER_DAY_MAX,
    CreateGated,
    compose,
    create_gated,
    gate_of,
    reserve_gated,
)
from muster.errors import Invalid, NotFound, Refused, TooMany
from muster.principals import Agent, Owner
from muster.tasks.operations import Task
from tests.support.barrier import collide
from tests.support.builders import (
    begin,
    make_agent,
    make_chief,
    make_message,
    make_plugin,
    move_message,
    read_audit,
)
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.reply_desk import ReplyDesk, open_desk
from tests.support.unconfirmed import make_unconfirmed

WORK = CreateGated(title="Rotate the build key", body="It is old.")


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> ReplyDesk:
    """A desk."""
    return await open_desk(db, owner)


async def reserve(desk: ReplyDesk, command: CreateGated = WORK, by: Agent | None = None) -> None:
    """Spend a unit."""
    await desk.db.run(by or desk.chief, reserve_gated, command)


async def create(desk: ReplyDesk, command: CreateGated = WORK, by: Agent | None = None) -> Task:
    """File the task."""
    return await desk.db.run(by or desk.chief, create_gated, command)


async def spent(desk: ReplyDesk) -> int:
    """How many units were spent."""
    return len(await read_audit(desk.db, desk.owner, GATED_ACTION))


@pytest.mark.rule(242)
@pytest.mark.parametrize(
    ("reason", "gate"),
    [
        ("needs owner ok", "gate:needs-owner-ok"),
        ("", "gate:awaiting-approval"),
        (" !? ", "gate:awaiting-approval"),
        ("\u043d\u0443\u0436\u043d\u043e", "gate:awaiting-approval"),
        ("Budget > 100\u20ac", "gate:budget-100"),
        ("x" * 500, "gate:" + "x" * 59),
        ("auto:now\0", "gate:auto-now"),
    ],
)
def test_the_server_makes_the_gate(reason: str, gate: str) -> None:
    """The gate is a slug of the reason, whatever the reason is, and there always is one."""
    assert gate_of(reason) == gate
    assert compose(attrs.evolve(WORK, gate_reason=reason)).tags == (gate,)


@pytest.mark.rule(244)
@pytest.mark.parametrize(
    "tag",
    [
        "gate:mine",
        "auto:codex",
        "Gate:mine",
        " AUTO:codex ",
        "\uff47\uff41\uff54\uff45\uff1amine",
        "\uff21UTO\ufe55codex",
        "ga\u00adte:mine",
        "superseded-by:7",
        "superseded_by:7",
    ],
)
def test_no_gate_or_start_is_the_chief_s_to_give(tag: str) -> None:
    """A tag of the chief's own in gate: or auto: is refused in any spelling, and a merge's too."""
    with pytest.raises(Invalid) as caught:
        compose(attrs.evolve(WORK, tags=("inbox", tag)))
    assert caught.value.field == "tags"


@pytest.mark.rule(242, 243, 245, 246)
async def test_a_message_becomes_a_gated_task(desk: ReplyDesk) -> None:
    """The task is gated, cites its message in a line of its body, and is told as any other."""
    message = await desk.message()
    command = attrs.evolve(
        WORK,
        gate_reason="needs owner ok",
        message_id=message.id,
        repository="ada/garden",
        tags=("In Box",),
    )
    await reserve(desk, command)
    task = await create(desk, command)
    assert task.tags == ("gate:needs-owner-ok", "in-box")
    assert task.gates
    assert task.body == f"It is old.\n\nFrom plugin message {message.id}."
    assert (task.message_id, task.repository) == (message.id, "ada/garden")
    assert task.created_by == f"agent:{desk.chief.name}"
    (gated,) = await read_audit(desk.db, desk.owner, GATED_ACTION)
    assert gated.subject == f"agent:{desk.chief.agent_id}"
    assert gated.data == {"gate": "gate:needs-owner-ok", "message": message.id}
    (created,) = await read_audit(desk.db, desk.owner, "task.created")
    assert created.subject == f"task:{task.id}"
    assert created.data["gated"] is True


@pytest.mark.rule(246)
async def test_a_message_is_cited_on_the_turn_that_delivers_it(desk: ReplyDesk) -> None:
    """While a message is being delivered to the chief it can be cited, though it is not settled."""
    message = await make_message(desk.db, desk.plugin)
    await move_message(desk.db, message.id, begin(desk.chief), owner_id=desk.owner.owner_id)
    command = attrs.evolve(WORK, body=" ", message_id=message.id)
    await reserve(desk, command)
    assert (await create(desk, command)).body == f"From plugin message {message.id}."


@pytest.mark.rule(246, 249)
async def test_another_message_is_not_there(desk: ReplyDesk) -> None:
    """One queued or cut off, another owner's, another agent's or none is not found and is free."""
    stranger = await add_owner(desk.db)
    other_plugin = await make_plugin(desk.db, stranger)
    theirs = await make_message(
        desk.db, other_plugin, delivered_to=await make_chief(desk.db, stranger)
    )
    former = await make_agent(desk.db, desk.owner)
    earlier = await make_message(desk.db, desk.plugin, delivered_to=former)
    queued = await make_message(desk.db, desk.plugin)
    cut = await make_unconfirmed(desk.db, desk.plugin, desk.chief)
    for message_id in (queued.id, cut.id, theirs.id, earlier.id, 2**62, 2**63, 2**90, 0, -1):
        for attempt in (reserve, create):
            with pytest.raises(NotFound):
                await attempt(desk, attrs.evolve(WORK, message_id=message_id))
    assert await spent(desk) == 0


@pytest.mark.rule(239)
async def test_the_chief_alone_may_ask(desk: ReplyDesk) -> None:
    """Another agent of the owner's is refused at both steps, and nothing is spent."""
    other = await make_agent(desk.db, desk.owner)
    for attempt in (reserve, create):
        with pytest.raises(Refused) as caught:
            await attempt(desk, by=other)
        assert caught.value.code == "not_chief"
    assert await spent(desk) == 0


@pytest.mark.rule(249)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", "nul\0"),
        ("title", ""),
        ("body", "nul\0"),
        ("body", "half \ud800"),
        ("body", "x" * (16 * 1024 + 1)),
        ("repository", "ada/gar\0den"),
        ("tags", ("nul\0",)),
        ("tags", tuple(f"t{n}" for n in range(20))),
        ("gate_reason", "x" * 501),
    ],
)
async def test_what_could_not_be_stored_costs_nothing(
    desk: ReplyDesk, field: str, value: object
) -> None:
    """A text that the database would refuse is refused before a unit is spent."""
    with pytest.raises(Invalid) as caught:
        await reserve(desk, attrs.evolve(WORK, **{field: value}))  # type: ignore[arg-type]
    assert caught.value.field == field
    assert await spent(desk) == 0


@pytest.mark.rule(247)
async def test_twenty_in_any_24_hours(desk: ReplyDesk) -> None:
    """The twenty-first waits until the first of twenty is a day old, to the second."""
    for _ in range(GATED_PER_DAY_MAX):
        await reserve(desk)
        desk.db.clock_offset += timedelta(minutes=1)
    with pytest.raises(TooMany) as caught:
        await reserve(desk)
    left = caught.value.retry_after_seconds
    assert 86_400 - 20 * 60 - 30 <= left <= 86_400 - 20 * 60
    desk.db.clock_offset += timedelta(seconds=left)
    await reserve(desk)
    with pytest.raises(TooMany):
        await reserve(desk)
    assert await spent(desk) == GATED_PER_DAY_MAX + 1


@pytest.mark.rule(247)
async def test_each_chief_has_a_day_of_its_own(desk: ReplyDesk) -> None:
    """What one chief spent is not counted for the next one, nor for another owner's."""
    for _ in range(GATED_PER_DAY_MAX):
        await reserve(desk)
    stranger = await open_desk(desk.db, await add_owner(desk.db))
    await reserve(stranger)
    with pytest.raises(TooMany):
        await reserve(desk)
    add = AddAgent(name="next", chief=True, replace=True)
    row, _ = await desk.db.run(desk.owner, add_agent, add)
    successor = Agent(owner_id=row.owner_id, agent_id=row.id, name=row.name, credential_id=0)
    await reserve(desk, by=successor)


@pytest.mark.rule(247)
async def test_ten_at_once_with_one_place_left(desk: ReplyDesk) -> None:
    """Of ten that meet with one unit left, one spends it."""
    for _ in range(GATED_PER_DAY_MAX - 1):
        await reserve(desk)
    outcomes = await collide(desk.db, *[(desk.chief, partial(reserve_gated, command=WORK))] * 10)
    assert sum(outcome is None for outcome in outcomes) == 1
    assert sum(isinstance(outcome, TooMany) for outcome in outcomes) == 9
    assert await spent(desk) == GATED_PER_DAY_MAX


@pytest.mark.rule(248)
async def test_both_steps_cancelled_anywhere(desk: ReplyDesk) -> None:
    """A cancelled step leaves its row or nothing; a filing that fails takes no unit back."""
    seen = [0, 0]

    async def attempt() -> None:
        await reserve(desk)
        await create(desk)

    async def check(completed: bool) -> None:
        now = [await spent(desk), len(await read_audit(desk.db, desk.owner, "task.created"))]
        reserved, filed = now[0] - seen[0], now[1] - seen[1]
        assert (reserved, filed) in ([(1, 1)] if completed else [(0, 0), (1, 0), (1, 1)])
        seen[:] = now
        desk.db.clock_offset += timedelta(hours=25)

    assert await cancel_at_every_step(attempt, check) >= 8
