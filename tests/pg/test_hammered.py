"""Connections that are shared, cancelled and killed at random: who acts, and what was done."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from muster.errors import OutcomeUnknown, Unavailable
from muster.outcomes import Fact
from muster.pg.database import Transaction
from muster.pg.driver import Connection, DatabaseError
from muster.pg.pool import Pool
from muster.pg.query import Query
from muster.principals import Node, Owner, Principal, System
from tests.support.cluster import Cluster, SpiedDatabase, add_owner
from tests.support.waiting import dawdle

ROUNDS = 60
WORKERS = 8
BY_ZERO = "22012"
WHO = Query(
    """
    select current_user::text as role, current_setting('muster.owner_id', true) as owner,
           current_setting('muster.actor', true) as actor,
           current_setting('transaction_read_only') as read_only, pg_backend_pid() as pid
    """
)
VISIBLE = Query("select id from users order by id limit 500")
BROKEN = Query("select 1 / (%(owner)s::int - %(owner)s::int)")
FATES = Query("select subject from audit where owner_id = %(owner_id)s")


@attrs.frozen(kw_only=True)
class Who:
    """As whom a statement ran, and where."""

    role: str
    owner: str
    actor: str
    read_only: str
    pid: int


@attrs.frozen(kw_only=True)
class Subject:
    """The subject of a fact that is there, or the id of a user that is seen."""

    subject: str = ""
    id: int = 0


@attrs.define
class Storm:
    """A small pool, whose server processes are ended now and then."""

    db: SpiedDatabase
    admin: Connection
    dice: random.Random
    pids: list[int] = attrs.field(factory=list)

    async def kill(self) -> None:
        """End a process that was seen lately, again and again."""
        while True:
            pause = self.dice.uniform(0.0005, 0.01)
            await dawdle(pause, because="kills come at any time")
            if self.pids:
                pid = self.pids.pop()
                self.pids.clear()
                await self.admin.scalar("select pg_terminate_backend(%(pid)s::int)", {"pid": pid})

    def patience(self) -> float:
        """How long a worker has: often too short."""
        return self.dice.choice([5, 5, 5, 0, 0.0003, 0.001, 0.003])


@asynccontextmanager
async def _storm(cluster: Cluster) -> AsyncIterator[tuple[Storm, trio.Nursery]]:
    db = SpiedDatabase(Pool(cluster.app_url, size=4, waiters_max=100))
    storm = Storm(db, await Connection.open(cluster.admin_url), random.Random(7))
    with trio.fail_after(60):
        async with trio.open_nursery() as killing:
            killing.start_soon(storm.kill)
            async with trio.open_nursery() as workers:
                yield storm, workers
            killing.cancel_scope.cancel()
    assert db.pool.free == db.pool.size
    storm.admin.close()
    db.pool.close()


def _check(who: Who, principal: Principal, *, look: bool) -> None:
    owner = str(principal.owner_id) if isinstance(principal, Owner) else ""
    role = "muster_system" if isinstance(principal, System) else "muster_app"
    wanted = (role, owner, principal.actor, "on" if look else "off")
    assert (who.role, who.owner, who.actor, who.read_only) == wanted


async def test_nobody_acts_as_another(cluster: Cluster, db: SpiedDatabase) -> None:
    """Each transaction has its own role and owner, whatever became of those before it."""
    principals = (await add_owner(db), await add_owner(db), System(), Node())
    looked = 0

    async with _storm(cluster) as (storm, workers):

        async def act(tx: Transaction, principal: Principal, *, look: bool) -> None:
            nonlocal looked
            who, seen = await tx.together(tx.one(WHO, Who), tx.all(VISIBLE, Subject))
            storm.pids.append(who.pid)
            _check(who, principal, look=look)
            looked += 1
            if isinstance(principal, Owner):
                assert [row.id for row in seen] == [principal.owner_id]
            else:
                assert bool(seen) is isinstance(principal, System)
            if not look:
                await tx.scalar(BROKEN, owner=storm.dice.choice([None, 1]))

        async def work() -> None:
            for _ in range(ROUNDS):
                principal, look = storm.dice.choice(principals), storm.dice.random() < 0.5
                with trio.move_on_after(storm.patience()):
                    try:
                        async with storm.db.transaction(principal, look=look) as tx:
                            await act(tx, principal, look=look)
                    except (OutcomeUnknown, Unavailable):
                        continue
                    except DatabaseError as error:
                        if error.sqlstate != BY_ZERO:
                            raise

        for _ in range(WORKERS):
            workers.start_soon(work)
    assert looked > ROUNDS


async def test_what_was_told_is_so(cluster: Cluster, db: SpiedDatabase) -> None:
    """What was told to be done is there once; what was told not to be, or was cancelled, is not."""
    owner = await add_owner(db)
    told: dict[str, str] = {}

    async with _storm(cluster) as (storm, workers):

        async def write(mark: str) -> None:
            try:
                with trio.move_on_after(storm.patience()) as patience:
                    async with storm.db.transaction(owner) as tx:
                        storm.pids.append((await tx.one(WHO, Who)).pid)
                        await tx.record(Fact(action="user.changed", subject=mark))
                    told[mark] = "done"
                if patience.cancelled_caught:
                    told.setdefault(mark, "not done")
            except OutcomeUnknown:
                told[mark] = "unknown"
            except Unavailable:
                told[mark] = "not done"

        async def work(number: int) -> None:
            for turn in range(ROUNDS):
                await write(f"user:{number}-{turn}")

        for number in range(WORKERS):
            workers.start_soon(work, number)
    async with db.transaction(owner) as tx:
        there = [row.subject for row in await tx.all(FATES, Subject)]
    assert len(there) == len(set(there))
    for mark, fate in told.items():
        assert fate == "unknown" or (mark in there) is (fate == "done"), mark
    assert set(told.values()) >= {"done", "not done"}
