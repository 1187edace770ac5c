"""Several statements in one trip: order, errors, cancels, and what a transaction makes of it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import attrs
import pytest
import trio

from muster.outcomes import Fact
from muster.pg.audit import list_audit
from muster.pg.database import Transaction
from muster.pg.driver import Connection, DatabaseError, Loss, classify
from muster.pg.pipeline import Answer, Step
from muster.pg.pool import Pool
from muster.pg.query import Query
from muster.pg.session import TryAgain
from muster.principals import Owner, System
from tests.support.cluster import Cluster, OwnDatabase, SpiedDatabase, add_owner

Outdate = Callable[[SpiedDatabase, Owner, str], Awaitable[None]]

ADD = Step("select %(a)s::int + %(b)s::int + %(a)s::int as sum", {"a": 1, "b": 2})
BROKEN = Step("select 1 / %(zero)s::int", {"zero": 0})
LONG = Step("select pg_sleep(30)")
EMAIL = Query("select email from users where id = %(owner_id)s")
SET_EMAIL = Query("update users set email = %(email)s where id = %(owner_id)s")
SINCE = Query("select count(*) from users where id = %(owner_id)s and created_at <= %(now)s")


@attrs.frozen(kw_only=True)
class Sum:
    """A row of ADD."""

    sum: int


@pytest.fixture
async def connection(cluster: Cluster) -> AsyncIterator[Connection]:
    """A session of muster_app's, in autocommit."""
    connection = await Connection.open(cluster.app_url)
    yield connection
    connection.close()


class Trips:
    """Counts the trips that connections make."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[list[str]] = []
        ask = Connection.ask

        async def counted(connection: Connection, *steps: Step) -> list[Answer]:
            self.steps.append([step.sql for step in steps])
            return await ask(connection, *steps)

        monkeypatch.setattr(Connection, "ask", counted)


async def test_answers_stand_in_the_order_of_the_statements(connection: Connection) -> None:
    """Each statement has its own answer, also one that is asked twice in its first trip."""
    text = Step("select %(text)s::text || '%%' as text", {"text": "50"})
    for _ in range(2):
        first, second, third = await connection.ask(ADD, text, ADD)
        assert first.rows(Sum) == third.rows(Sum) == [Sum(sum=4)]
        assert second.scalar() == "50%"
    assert connection.idle


async def test_an_error_passes_over_the_rest(connection: Connection) -> None:
    """What stands after the first error of a trip is not done, a COMMIT neither."""
    await connection.script("create temporary table noted (n int)")
    note = Step("insert into noted values (%(n)s)", {"n": 1})
    with pytest.raises(DatabaseError, match="division by zero"):
        await connection.ask(Step("begin"), note, BROKEN, note, Step("commit"))
    assert connection.failed
    await connection.rollback()
    # What the server parsed in that trip it still knows, and what it passed over is parsed anew.
    await connection.ask(note, ADD)
    assert await connection.scalar("select count(*) from noted", {}) == 1


async def test_a_value_that_does_not_fit_sends_nothing(connection: Connection) -> None:
    """A missing or impossible value is met before the trip, so the connection stays usable."""
    for params in ({"a": 1}, {"a": 1, "b": "nul \0 within"}):
        with pytest.raises((KeyError, DatabaseError)):
            await connection.ask(ADD, Step(ADD.sql, params))
        assert connection.idle
    assert (await connection.ask(ADD))[0].scalar() == 4


async def test_a_cancelled_trip_leaves_the_connection_usable(connection: Connection) -> None:
    """A cancel ends the trip on the server, and its statements can be asked again."""
    with trio.fail_after(10):
        for _ in range(2):
            with trio.move_on_after(0.1) as scope:
                await connection.ask(ADD, LONG, ADD)
            assert scope.cancelled_caught
            assert connection.idle
        assert (await connection.ask(ADD))[0].scalar() == 4


async def test_a_transaction_begins_with_its_first_statement(
    db: SpiedDatabase, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beginning costs no trip of its own, also where the first statement names the time."""
    trips = Trips(monkeypatch)
    async with db.transaction(owner) as tx:
        assert await tx.scalar(SINCE) == 1
    assert len(trips.steps) == 2
    assert trips.steps[0][0] == "begin"
    assert trips.steps[1] == ["commit"]
    trips.steps.clear()
    async with db.transaction(owner):
        pass
    assert trips.steps == []


async def test_a_look_is_one_trip_and_writes_nothing(
    db: SpiedDatabase, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look begins, reads and ends in one trip; the database refuses a write in it."""
    trips = Trips(monkeypatch)
    async with db.transaction(owner, look=True) as tx:
        before = await tx.scalar(EMAIL)
    assert len(trips.steps) == 1

    async def write() -> None:
        async with db.transaction(owner, look=True) as tx:
            await tx.execute(SET_EMAIL, email="x")

    async def look_twice() -> None:
        async with db.transaction(owner, look=True) as tx:
            await tx.scalar(EMAIL)
            await tx.scalar(EMAIL)

    with pytest.raises(DatabaseError, match="read-only"):
        await write()
    with pytest.raises(AssertionError, match="one statement"):
        await look_twice()
    async with db.transaction(owner) as tx:
        assert await tx.scalar(EMAIL) == before


async def test_what_waits_is_sent_before_what_follows(db: SpiedDatabase, owner: Owner) -> None:
    """A statement sees what was to be sent later, and what is left goes with the commit."""
    async with db.transaction(owner) as tx:
        await tx.later(SET_EMAIL, email="one")
        assert await tx.scalar(EMAIL) == "one"
        await tx.record(Fact(action="a", subject="s"))
        assert [row.action for row in await list_audit(tx)] == ["a"]
        await tx.record(Fact(action="b", subject="s"))
        await tx.later(SET_EMAIL, email="two")
    async with db.transaction(owner) as tx:
        assert await tx.scalar(EMAIL) == "two"
        assert [row.action for row in await list_audit(tx)] == ["b", "a"]


async def test_a_refusal_that_comes_with_the_commit_undoes_all(
    db: SpiedDatabase, owner: Owner
) -> None:
    """When the database refuses what travels with COMMIT, nothing is committed or published."""

    async def write() -> None:
        async with db.transaction(owner) as tx:
            await tx.execute(SET_EMAIL, email="half")
            await tx.later(SET_EMAIL, email=None)

    with pytest.raises(DatabaseError, match="null value"):
        await write()
    async with db.transaction(owner) as tx:
        assert await tx.scalar(EMAIL) != "half"
    async with db.transaction(System(), look=True) as tx:
        assert await tx.scalar(Query("select 1")) == 1


@pytest.fixture
async def alone(own_database: OwnDatabase) -> AsyncIterator[SpiedDatabase]:
    """One connection to a database whose schema may be changed."""
    alone = SpiedDatabase(Pool(own_database.app_url, size=1, waiters_max=2))
    yield alone
    alone.pool.close()


async def _thrown_away(alone: SpiedDatabase, owner: Owner, _admin_url: str) -> None:
    # No rollback brings them back; the COMMIT would be one of them.
    with suppress(LookupError):
        async with alone.transaction(owner) as tx:
            await tx.execute(Query("deallocate all"))
            raise LookupError


async def _migrated(_alone: SpiedDatabase, _owner: Owner, admin_url: str) -> None:
    admin = await Connection.open(admin_url)
    # Each time another type than before.
    kind = "select format_type(atttypid, atttypmod) = 'text' from pg_attribute"
    where = " where attrelid = 'muster.users'::regclass and attname = 'email'"
    is_text = (await admin.script(kind + where))[0][0]
    to = "varchar(300)" if is_text else "text"
    await admin.script(f"alter table muster.users alter column email type {to}")
    admin.close()


@pytest.mark.parametrize("outdate", [_thrown_away, _migrated])
async def test_an_outdated_statement_is_parsed_anew(
    own_database: OwnDatabase, alone: SpiedDatabase, outdate: Outdate
) -> None:
    """An operation is tried again and not told; a look is told to, once."""
    owner = await add_owner(alone)

    async def change(tx: Transaction, email: str) -> str:
        found: str = await tx.scalar(EMAIL)
        await tx.later(SET_EMAIL, email=email)
        return found

    await alone.run(owner, change, "one")
    await outdate(alone, owner, own_database.admin_url)
    assert await alone.run(owner, change, "two") == "one"
    await outdate(alone, owner, own_database.admin_url)

    async def look() -> str:
        async with alone.transaction(owner, look=True) as tx:
            found: str = await tx.scalar(EMAIL)
        return found

    with pytest.raises(TryAgain):
        await look()
    assert await look() == "two"


async def test_what_the_server_cannot_do_is_our_bug(connection: Connection) -> None:
    """Its other refusals of the kind are no reason to try again."""
    with pytest.raises(DatabaseError) as refused:
        await connection.ask(Step("select count(*) from users for update"))
    assert refused.value.sqlstate == "0A000"
    assert classify(refused.value) is Loss.BUG


async def _twice(tx: Transaction) -> list[str]:
    return [await tx.scalar(EMAIL), await tx.scalar(EMAIL)]


async def _after_a_change(tx: Transaction) -> str:
    await tx.later(SET_EMAIL, email="changed")
    email: str = await tx.scalar(EMAIL)
    return email


async def test_works_that_are_done_together_share_trips(
    db: SpiedDatabase, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What several works ask at one step is one trip, in their order, and each gets its answers."""
    trips = Trips(monkeypatch)
    async with db.transaction(owner) as tx:
        (before, after), changed = await tx.together(_twice(tx), _after_a_change(tx))
        assert len(trips.steps) == 2
        assert changed == after == "changed"
        assert before != "changed"
        assert await tx.together(_after_a_change(tx), _twice(tx)) == ("changed", ["changed"] * 2)


async def _ends_with_a_change(tx: Transaction) -> str:
    email: str = await tx.scalar(EMAIL)
    await tx.later(SET_EMAIL, email="left")
    return email


async def test_what_nobody_would_send_is_not_lost_in_silence(
    db: SpiedDatabase, owner: Owner
) -> None:
    """A work that ends with a statement for later fails, and another gathering starts clean."""

    async def gather(tx: Transaction) -> None:
        await tx.together(_ends_with_a_change(tx), _twice(tx))

    async with db.transaction(owner) as tx:
        before = await tx.scalar(EMAIL)
        with pytest.raises(AssertionError):
            await gather(tx)
        assert await tx.together(_twice(tx), _twice(tx)) == ([before] * 2, [before] * 2)
    async with db.transaction(owner) as tx:
        assert await tx.scalar(EMAIL) == before


async def test_a_work_that_fails_ends_the_others(db: SpiedDatabase, owner: Owner) -> None:
    """An error in one of several works is raised, and the transaction can be left cleanly."""

    async def fail(tx: Transaction) -> None:
        await tx.scalar(EMAIL)
        raise KeyError("no")

    async def wait(tx: Transaction) -> None:
        await tx.scalar(EMAIL)
        await trio.lowlevel.checkpoint()

    for work, error in ((fail, KeyError), (wait, AssertionError)):
        with pytest.raises(error):
            async with db.transaction(owner) as tx:
                await tx.together(_twice(tx), work(tx))
    async with db.transaction(owner) as tx:
        assert await tx.scalar(EMAIL)
