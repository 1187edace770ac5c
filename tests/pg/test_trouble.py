"""What a cancel, a dead server process or a busy pool leaves: the row or not, and a whole pool."""

import os
import signal
from collections.abc import AsyncIterator

import attrs
import pytest
import trio
import trio.testing

from actors.testing import cancel_at_every_step
from muster.errors import OutcomeUnknown, Unavailable
from muster.outcomes import Changed, Fact, Hint, HintKind
from muster.pg import pool, session
from muster.pg.audit import list_audit
from muster.pg.database import Transaction
from muster.pg.driver import Connection, DatabaseError
from muster.pg.pool import Pool
from muster.pg.query import Query
from muster.pg.session import TryAgain
from muster.principals import Owner
from tests.support.barrier import collide
from tests.support.cluster import Cluster, SpiedDatabase, add_owner
from tests.support.rows import add_rows
from tests.support.waiting import until

PID = Query("select pg_backend_pid()")
SLEEP = Query("select pg_sleep(30)")
EMAIL = Query("select id, email from users where id = %(owner_id)s")
SET_EMAIL = Query("update users set email = %(email)s where id = %(id)s")
TOUCH = Query("update credentials set last_seen_at = %(now)s where id = %(id)s")
LOCK = Query("select id from users where id = %(owner_id)s for update")


@attrs.frozen(kw_only=True)
class User:
    """What these tests change of a user."""

    id: int
    email: str


async def set_email(tx: Transaction, email: str) -> User:
    """Read, decide, save: an operation as they all are."""
    user = await tx.one(EMAIL, User)
    changed = Changed(
        row=attrs.evolve(user, email=email),
        facts=(Fact(action="user.changed", subject=f"user:{user.id}"),),
        hints=(Hint(kind=HintKind.USER_CHANGED, owner_id=user.id, id=user.id),),
    )
    return await tx.save(SET_EMAIL, changed)


async def email_of(db: SpiedDatabase, owner: Owner) -> str:
    """The address that is committed."""
    async with db.transaction(owner) as tx:
        return (await tx.one(EMAIL, User)).email


def assert_whole(db: SpiedDatabase) -> None:
    """Every connection is back, and none was lent while a transaction is open on it."""
    assert db.pool.free == db.pool.size
    assert db.pool.waiting == 0


@pytest.fixture
async def small(cluster: Cluster) -> AsyncIterator[SpiedDatabase]:
    """A database of its own with two connections, and room for two waiters."""
    small = SpiedDatabase(Pool(cluster.app_url, size=2, waiters_max=2))
    yield small
    small.pool.close()


@pytest.fixture
async def admin(cluster: Cluster) -> AsyncIterator[Connection]:
    """A superuser's session."""
    connection = await Connection.open(cluster.admin_url)
    yield connection
    connection.close()


async def terminate(admin: Connection, pid: int) -> None:
    """End a server process, and wait until it is gone."""
    await admin.scalar("select pg_terminate_backend(%(pid)s)", {"pid": pid})
    gone = "select count(*) = 0 from pg_stat_activity where pid = %(pid)s"
    await until(lambda: admin.scalar(gone, {"pid": pid}))


@pytest.mark.parametrize("connections", ["none", "idle"])
async def test_cancelled_at_every_step(
    small: SpiedDatabase, owner: Owner, connections: str
) -> None:
    """Wherever an operation is cancelled, row, fact and hint are all there or none is."""
    tries = 0
    facts = 0

    async def operation() -> None:
        nonlocal tries
        tries += 1
        small.published.clear()
        if connections == "none":
            small.pool._close_idle()
        await small.run(owner, set_email, f"try-{tries}")

    async def check(completed: bool) -> None:
        nonlocal facts
        assert_whole(small)
        written = await email_of(small, owner) == f"try-{tries}"
        facts += written
        assert len(small.published) == written
        assert written or not completed
        async with small.transaction(owner) as tx:
            assert len(await list_audit(tx, 500)) == facts

    steps = await cancel_at_every_step(operation, check)
    assert steps >= 4
    assert facts >= 1


async def test_cancel_while_waiting_for_a_connection(small: SpiedDatabase, owner: Owner) -> None:
    """A task that is cancelled in the queue leaves no trace in it."""
    async with small.transaction(owner), small.transaction(owner):
        with trio.move_on_after(0.05) as scope:
            await email_of(small, owner)
        assert scope.cancelled_caught
        assert small.pool.waiting == 0
    assert_whole(small)


async def test_waiters_are_served_in_order(cluster: Cluster) -> None:
    """Who waits longest gets the next connection, also before a newcomer."""
    single = Pool(cluster.app_url, size=1, waiters_max=10)
    served: list[int] = []

    async def wait(number: int) -> None:
        async with single.permit():
            served.append(number)

    async with trio.open_nursery() as nursery:
        async with single.permit():
            for number in range(5):
                nursery.start_soon(wait, number)
                await until(lambda: single.waiting == number + 1)  # noqa: B023
        async with single.permit():
            served.append(99)
    assert served == [0, 1, 2, 3, 4, 99]


async def test_queue_is_bounded(small: SpiedDatabase, owner: Owner) -> None:
    """Who would wait behind too many others is told at once."""
    async with (
        trio.open_nursery() as nursery,
        small.transaction(owner),
        small.transaction(owner),
    ):
        for _ in range(2):
            nursery.start_soon(email_of, small, owner)
        await until(lambda: small.pool.waiting == 2)
        with pytest.raises(Unavailable, match="too many"):
            await email_of(small, owner)
    assert_whole(small)


async def test_waiting_is_bounded(
    small: SpiedDatabase, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits too long is told that the database is busy."""
    monkeypatch.setattr(pool, "WAIT_SECONDS", 0.05)
    async with small.transaction(owner), small.transaction(owner):
        with pytest.raises(Unavailable, match="busy"):
            await email_of(small, owner)
    assert_whole(small)


async def test_closed_database_is_unavailable(small: SpiedDatabase, owner: Owner) -> None:
    """After the end of the database nobody gets a connection, and what was lent is closed."""
    async with small.transaction(owner):
        small.pool.close()
    assert small.pool.idle == 0
    with pytest.raises(Unavailable, match="closed"):
        await email_of(small, owner)


async def test_dead_idle_connections_cost_nothing(
    small: SpiedDatabase, owner: Owner, admin: Connection
) -> None:
    """When every idle connection is dead, the next transaction opens a new one and is not told."""
    async with small.transaction(owner) as one, small.transaction(owner) as two:
        pids = [await one.scalar(PID), await two.scalar(PID)]
    for pid in pids:
        await terminate(admin, pid)
    assert small.pool.idle == 2
    assert await email_of(small, owner)
    assert small.pool.idle == 1
    assert_whole(small)


async def test_server_process_dies_in_mid_transaction(
    small: SpiedDatabase, owner: Owner, admin: Connection
) -> None:
    """Nothing was done, the caller is told so, and the pool goes on."""

    async def operation(tx: Transaction, email: str) -> None:
        await set_email(tx, email)
        await terminate(admin, await tx.scalar(PID))
        await tx.scalar(PID)

    with pytest.raises(Unavailable) as caught:
        await small.run(owner, operation, "lost")
    assert type(caught.value) is Unavailable
    assert await email_of(small, owner) != "lost"
    assert small.published == []
    assert_whole(small)


async def test_lost_answer_to_a_commit_is_unknown(
    small: SpiedDatabase, owner: Owner, admin: Connection
) -> None:
    """When the server is gone at the commit, the outcome is unknown and nobody tries again."""
    tries = 0

    async def operation(tx: Transaction, email: str) -> None:
        nonlocal tries
        tries += 1
        await set_email(tx, email)
        await terminate(admin, await tx.scalar(PID))

    with pytest.raises(OutcomeUnknown):
        await small.run(owner, operation, "perhaps")
    assert tries == 1
    assert small.published == []
    assert_whole(small)


async def test_commit_has_a_deadline(
    small: SpiedDatabase, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that is not answered in time is unknown, and its connection is closed."""
    monkeypatch.setattr(session, "COMMIT_SECONDS", 0.2)
    pids: list[int] = []

    async def operation(tx: Transaction, email: str) -> None:
        await set_email(tx, email)
        pids.append(await tx.scalar(PID))
        os.kill(pids[0], signal.SIGSTOP)

    try:
        # Sooner than a query's cancel would be drained: a commit is never asked to stop.
        with trio.fail_after(2), pytest.raises(OutcomeUnknown):
            await small.run(owner, operation, "perhaps")
    finally:
        os.kill(pids[0], signal.SIGCONT)
    assert small.pool.idle == 0
    assert_whole(small)


async def test_deadlock_is_tried_again(db: SpiedDatabase, owner: Owner) -> None:
    """Two operations that lock two rows crosswise both succeed, one at its second try."""
    rows = await add_rows(db, owner)
    tries = 0
    holding = 0
    both = trio.Event()

    async def cross(tx: Transaction, order: tuple[str, str]) -> None:
        nonlocal tries, holding
        tries += 1
        for row in order:
            if row == "user":
                await tx.scalar(LOCK)
            else:
                await tx.execute(TOUCH, id=rows.credential_id)
            holding += 1
            if holding == 2:
                both.set()
            await both.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(db.run, owner, cross, ("user", "credential"))
        nursery.start_soon(db.run, owner, cross, ("credential", "user"))
    assert tries == 3
    assert_whole(db)


async def test_retries_end(db: SpiedDatabase, owner: Owner) -> None:
    """An operation that is always asked to try again is given up after three tries."""
    tries = 0

    async def hopeless(tx: Transaction, _command: None) -> None:
        nonlocal tries
        tries += 1
        fail = "do $$ begin raise exception 'no' using errcode = 'serialization_failure'; end $$"
        await tx.execute(Query(fail))

    with pytest.raises(TryAgain):
        await db.run(owner, hopeless, None)
    assert tries == 3


async def test_lock_wait_is_bounded(
    db: SpiedDatabase, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits too long for a row is told that the database is busy."""
    monkeypatch.setattr(session, "LOCK_SECONDS", 0.1)
    async with db.transaction(owner) as tx:
        await tx.scalar(LOCK)
        with pytest.raises(Unavailable, match="lock timeout"):
            await db.run(owner, set_email, "late")
    assert_whole(db)


async def test_statement_is_bounded(
    db: SpiedDatabase, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that runs too long is stopped by the server."""
    monkeypatch.setattr(session, "STATEMENT_SECONDS", 0.1)
    with trio.fail_after(5), pytest.raises(Unavailable, match="statement timeout"):
        async with db.transaction(owner) as tx:
            await tx.scalar(SLEEP)


async def test_our_bugs_are_not_dressed_up(small: SpiedDatabase, owner: Owner) -> None:
    """A constraint that refuses is raised as it is, and what was written before is gone."""

    async def twice(tx: Transaction, email: str) -> None:
        await set_email(tx, email)
        await tx.execute(Query("update users set name = 'Bad Name' where id = %(owner_id)s"))

    with pytest.raises(DatabaseError, match="permission denied"):
        await small.run(owner, twice, "dressed")
    # Rolled back, the connection is as good as before.
    assert small.pool.idle == 1
    assert await email_of(small, owner) != "dressed"


async def test_swallowed_error_is_not_committed(db: SpiedDatabase, owner: Owner) -> None:
    """An operation that goes on after the database refused it fails; nothing is half done."""

    async def swallow(tx: Transaction, email: str) -> None:
        await set_email(tx, email)
        with pytest.raises(DatabaseError):
            await tx.scalar(Query("select 1 / 0"))

    with pytest.raises(AssertionError, match="went on"):
        await db.run(owner, swallow, "swallowed")
    assert await email_of(db, owner) != "swallowed"
    assert_whole(db)


async def test_row_that_is_not_there_is_our_bug(db: SpiedDatabase, owner: Owner) -> None:
    """A save that hits no row fails and writes nothing."""

    async def miss(tx: Transaction, email: str) -> None:
        await tx.save(SET_EMAIL, Changed(row=User(id=-1, email=email)))

    with pytest.raises(DatabaseError, match="division by zero"):
        await db.run(owner, miss, "x")


async def test_colliding_writers_take_turns(db: SpiedDatabase) -> None:
    """Ten operations that change one row at once all succeed, one after the other."""
    owner = await add_owner(db)

    async def append(tx: Transaction) -> None:
        await tx.scalar(LOCK)
        user = await tx.one(EMAIL, User)
        await tx.save(SET_EMAIL, Changed(row=attrs.evolve(user, email=user.email + "x")))

    outcomes = await collide(db, *[(owner, append)] * 10)
    assert outcomes == [None] * 10
    assert (await email_of(db, owner)).endswith("x" * 10)
