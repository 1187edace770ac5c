"""What a running server does by the clock, by hints, and when it is asked how it is."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
import trio

from actors import Event
from muster.drafts import operations as drafts
from muster.drafts.rules import Approve, State
from muster.messages import rules
from muster.node import sweeps
from muster.outcomes import Hint, HintKind
from muster.pg.database import Database
from muster.pg.listener import notify
from muster.pg.pool import Pool
from muster.pg.query import Query
from muster.principals import Agent, Owner
from muster.principals import Node as NodePrincipal
from tests.support.builders import (
    begin,
    make_chief,
    make_draft,
    make_message,
    make_plugin,
    move_message,
    read_audit,
)
from tests.support.cluster import (
    POOL_SIZE,
    Cluster,
    OwnDatabase,
    SpiedDatabase,
    add_owner,
)
from tests.support.desk import Desk, OpenDesk
from tests.support.server import Server, running_server
from tests.support.waiting import until

STORED_STATE = Query("select state from drafts where owner_id = %(owner_id)s and id = %(id)s")
REPORTED = Query("select count(*) from reports where node = %(node)s and reason like %(like)s")
LAST_SEEN = Query("""
    select last_seen_at from credentials where owner_id = %(owner_id)s and id = %(id)s
""")


async def stored_state(db: SpiedDatabase, owner: Owner, draft_id: int) -> str:
    """The state in the row, whatever a reader would make of it."""
    async with db.transaction(owner) as tx:
        state: str = await tx.scalar(STORED_STATE, id=draft_id)
    return state


@pytest.mark.rule(85, 278)
async def test_a_lapsed_lease_is_written_within_five_seconds(
    db: SpiedDatabase, owner: Owner, cluster: Cluster
) -> None:
    """The sweep writes `unconfirmed` and its audit row for a claim that was never reported."""
    plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
    message = await make_message(db, plugin, delivered_to=chief)
    draft = await make_draft(db, chief, message, approved_by=owner, claimed_by=plugin)
    async with running_server(db, cluster.app_url):
        db.clock_offset = timedelta(minutes=2)

        async def written() -> bool:
            return await stored_state(db, owner, draft.id) == "unconfirmed"

        await until(written)
    (row,) = await read_audit(db, owner, "plugin.draft.unconfirmed")
    assert row.subject == f"draft:{draft.id}"


@pytest.fixture
def alone(own_database: OwnDatabase) -> Iterator[SpiedDatabase]:
    """A database without rows of other tests, which would fall due with a clock that runs ahead."""
    pool = Pool(own_database.app_url, size=POOL_SIZE, waiters_max=1000)
    yield SpiedDatabase(pool)
    pool.close()


@pytest.mark.rule(277, 278)
async def test_an_old_draft_is_written_expired(
    alone: SpiedDatabase, own_database: OwnDatabase
) -> None:
    """At its start the sweep writes what fell due while no server ran."""
    db, owner = alone, await add_owner(alone)
    plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
    message = await make_message(db, plugin, delivered_to=chief)
    draft = await make_draft(db, chief, message)
    db.clock_offset = timedelta(days=7)
    async with running_server(db, own_database.app_url):

        async def written() -> bool:
            return await stored_state(db, owner, draft.id) == "expired"

        await until(written)
    assert len(await read_audit(db, owner, "plugin.draft.expired")) == 1


@pytest.mark.rule(63)
async def test_an_approval_by_another_process_wakes_a_parked_claim(desk: OpenDesk) -> None:
    """The command line's hint comes through the listener."""
    async with desk() as at:
        message_id = await at.post()
        await approve_elsewhere(at.db, at, message_id, tell=True)


@pytest.mark.rule(63)
async def test_an_approval_whose_hint_was_lost_is_found_by_the_sweep(desk: OpenDesk) -> None:
    """Without any hint a parked claim is woken within seconds."""
    async with desk() as at:
        message_id = await at.post()
        await approve_elsewhere(at.db, at, message_id, tell=False)


async def approve_elsewhere(db: SpiedDatabase, at: Desk, message_id: int, *, tell: bool) -> None:
    """Draft and approve past the server, and expect the parked claim to be answered."""
    chief = Agent(owner_id=at.owner.owner_id, agent_id=at.chief_id, name="helper", credential_id=0)
    await move_message(db, message_id, begin(chief), owner_id=at.owner.owner_id)
    message = await move_message(
        db, message_id, rules.Complete(epoch=1), owner_id=at.owner.owner_id
    )
    draft = await make_draft(db, chief, message)
    answers = []

    async def park() -> None:
        answers.append(await at.claim(20))

    with trio.fail_after(8):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(park)
            await until(at.server.node.waiters.plugin_ids)
            await db.run(at.owner, drafts.approve, Approve(draft_id=draft.id))
            if tell:
                await notify(db, db.published)
    assert answers[0].json()["draft_id"] == draft.id
    view = await db.run(at.owner, drafts.get_draft, draft.id)
    assert view.state is State.APPROVED


async def test_readyz_tells_why_not(desk: OpenDesk) -> None:
    """Ready while all stands; 503 with a reason once it drains; healthz is 200 all the while."""
    async with desk() as at, at.server.client() as client:
        assert (await client.get("/readyz")).json() == {"status": "ready", "reasons": []}
        at.server.node.schema_version += 1
        answer = await client.get("/readyz")
        assert answer.status_code == 503
        assert "the schema is version" in answer.json()["reasons"][0]
        at.server.node.schema_version -= 1
        await at.server.node.drain()
        answer = await client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["reasons"] == ["the server is stopping"]
        assert (await client.get("/healthz")).status_code == 200


async def test_the_supervision_log_is_written_whatever_it_quotes(
    db: SpiedDatabase, cluster: Cluster
) -> None:
    """Reports reach the table, NUL and halves of characters included."""
    async with running_server(db, cluster.app_url) as server:
        node = server.node
        node.log.report("root/web", Event.NOTE, reason="quotes \0 and \ud800 here")

        async def written() -> bool:
            async with db.transaction(NodePrincipal()) as tx:
                found: int = await tx.scalar(REPORTED, node=node.node_id, like="quotes %")
            return found == 1

        await until(written)


async def test_the_last_use_of_a_token_is_noted_without_a_write(desk: OpenDesk) -> None:
    """A request keeps in memory who came; the sweep's round writes it."""
    async with desk() as at:
        await at.claim()
        ((credential_id,),) = at.server.node.seen._seen.values()
        async with at.db.transaction(at.owner) as tx:
            assert await tx.scalar(LAST_SEEN, id=credential_id) is None
        await sweeps.write_last_seen(at.db, at.server.node.seen)
        async with at.db.transaction(at.owner) as tx:
            assert await tx.scalar(LAST_SEEN, id=credential_id) is not None
        assert at.server.node.seen.take() == {}


async def test_hints_reach_other_servers_only_while_there_are_some(
    alone: SpiedDatabase, own_database: OwnDatabase
) -> None:
    """Alone, a server sends no notification; beside another it does."""
    db, app_url = alone, own_database.app_url
    async with running_server(db, app_url) as first:
        hint = Hint(kind=HintKind.DRAFT_CLAIMABLE, owner_id=1, id=7)
        first.node.publish([hint])
        assert first.node.outgoings.take() == []
        async with running_server(db, app_url) as second:
            await second.node.heartbeat.beat()
            await until(lambda: knows(first, alone=False))
            first.node.publish([hint])
            assert hint in first.node.outgoings.take()
        # One that could not take its sign of life back in time is alive for 30 s.
        await until(lambda: knows(first, alone=True), 45)


async def knows(server: Server, *, alone: bool) -> bool:
    """Whether a server that looked knows that it is alone, or that it is not."""
    await server.node.heartbeat.beat()
    return server.node.heartbeat.alone is alone


async def test_a_sweep_that_always_fails_ends_nobody(
    desk: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep that stumbles each time is begun anew each time, and the doors stay open."""
    begun = 0
    often = trio.Event()

    async def stumble(_db: Database) -> None:
        nonlocal begun
        begun += 1
        if begun > 7:
            often.set()
        raise ZeroDivisionError

    monkeypatch.setattr(sweeps, "lapse_leases", stumble)
    async with desk() as at, at.server.client(at.plugin_token) as client:
        with trio.fail_after(40):
            await often.wait()
        assert (await client.post("/plugin/v1/drafts/claim")).status_code == 204
        events = {report.event for report in at.server.node.log.recent()}
    assert Event.CRASHED in events
    assert Event.GAVE_UP not in events
