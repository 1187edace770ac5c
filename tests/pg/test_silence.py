"""A server process that is frozen keeps nobody waiting, and nobody from stopping."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
import trio

from muster.errors import Unavailable
from muster.node.nodes import Heartbeat
from muster.pg import driver, session
from muster.pg.pool import Pool
from muster.pg.query import Query
from muster.principals import Owner
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.waiting import until

PID = Query("select pg_backend_pid()")
ONE = Query("select 1")


@pytest.fixture
async def lone(cluster: Cluster) -> AsyncIterator[SpiedDatabase]:
    """A database with a single connection."""
    lone = SpiedDatabase(Pool(cluster.app_url, size=1, waiters_max=9))
    yield lone
    lone.pool.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the deadlines be short."""
    monkeypatch.setattr(session, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(driver, "DRAIN_SECONDS", 0.2)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stop a server process for the length of the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def _pid(db: SpiedDatabase, owner: Owner) -> int:
    async with db.transaction(owner) as tx:
        pid = await tx.scalar(PID)
    assert isinstance(pid, int)
    return pid


async def test_a_silent_server_at_the_opening_is_unavailable(
    lone: SpiedDatabase, owner: Owner
) -> None:
    """An idle connection whose server froze is given up, and the next transaction takes another."""
    with frozen(await _pid(lone, owner)), trio.fail_after(5):
        with pytest.raises(Unavailable):
            await _pid(lone, owner)
        assert lone.pool.free == lone.pool.size
        assert await _pid(lone, owner) > 0


async def test_a_silent_server_in_mid_transaction_is_unavailable(
    lone: SpiedDatabase, owner: Owner
) -> None:
    """A statement that is never answered ends the transaction, with the pool whole."""

    async def work() -> None:
        async with lone.transaction(owner) as tx:
            with frozen(await tx.scalar(PID)):
                await tx.scalar(ONE)

    with trio.fail_after(5), pytest.raises(Unavailable):
        await work()
    await until(lambda: lone.pool.free == lone.pool.size)
    assert await _pid(lone, owner) > 0


async def test_a_node_leaves_though_the_server_is_silent(
    lone: SpiedDatabase, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taking the sign of life back is tried for a short while and then let be."""
    monkeypatch.setattr(session, "ANSWER_SECONDS", 60)
    monkeypatch.setattr("muster.node.nodes.LEAVE_SECONDS", 0.3)
    with frozen(await _pid(lone, owner)), trio.fail_after(5):
        await Heartbeat(node_id="frozen", db=lone).leave()
