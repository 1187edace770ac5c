"""What the driver leans on in psycopg: when one of these fails, read muster/pg/driver.py again."""

import importlib.metadata
import os
import signal
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from muster.pg import driver
from muster.pg.driver import Connection, DatabaseError, OperationalError
from tests.support.cluster import Cluster
from tests.support.waiting import until

LONG = "select pg_sleep(30)"


@pytest.fixture
async def connection(cluster: Cluster) -> AsyncIterator[Connection]:
    """A session of muster_app's, in autocommit."""
    connection = await Connection.open(cluster.app_url)
    yield connection
    connection.close()


@pytest.fixture
async def other(cluster: Cluster) -> AsyncIterator[Connection]:
    """A superuser's session, to look at the first from outside."""
    connection = await Connection.open(cluster.admin_url)
    yield connection
    connection.close()


async def test_version_is_the_one_that_was_read() -> None:
    """The pinned psycopg is installed, with its C speedups."""
    assert importlib.metadata.version("psycopg") == "3.3.9"
    assert driver.IMPLEMENTATION == "binary"


async def test_connect_needs_no_asyncio(cluster: Cluster) -> None:
    """The library's own connect() wants an asyncio loop; ours does without."""
    with pytest.raises(RuntimeError, match="no running event loop"):
        await driver._Wire.connect("host=localhost")
    connection = await Connection.open(cluster.app_url)
    assert connection.idle
    connection.close()
    assert connection.dead


async def test_lock_may_be_contended(connection: Connection) -> None:
    """Two tasks in scripts on one connection take turns under Trio's lock, not asyncio's."""
    answers: list[int] = []

    async def ask(number: int) -> None:
        ((answer,),) = await connection.script(f"select {number}")
        answers.append(answer)

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(ask, number)
    assert sorted(answers) == list(range(20))


async def test_host_names_are_resolved_by_trio() -> None:
    """A host name becomes the addresses that Trio finds for it, each an attempt."""
    found = await driver._addresses({"host": "localhost", "port": "1"})
    assert {"127.0.0.1", "::1"} >= {attempt["hostaddr"] for attempt in found}
    assert all(attempt["host"] == "localhost" for attempt in found)


async def test_unreachable_hosts_are_named() -> None:
    """Each attempt's failure is in the error."""
    with pytest.raises(OperationalError, match=r"cannot resolve a\.\.b: .*127\.0\.0\.1"):
        await Connection.open("host=a..b,127.0.0.1 port=1,1")


async def test_connecting_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that accepts and says nothing is given up."""
    monkeypatch.setattr(driver, "CONNECT_SECONDS", 0.1)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    with trio.fail_after(5), pytest.raises(OperationalError, match="timed out"):
        await Connection.open(f"host=127.0.0.1 port={port}")
    await listener.aclose()


async def test_timeout_of_notifies_is_honoured(connection: Connection) -> None:
    """The library leaves the time limit of notifies() to the waiting, which is ours."""
    with trio.fail_after(5):
        heard = [notify async for notify in connection._wire.notifies(timeout=0.01)]
    assert heard == []


async def test_closing_wakes_a_waiter(connection: Connection) -> None:
    """A task that waits for an answer learns that the connection was closed."""
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await connection.scalar(LONG, {})

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked(0.05)
            connection.close()
    assert connection.dead


async def test_cancel_stops_the_query(connection: Connection, other: Connection) -> None:
    """A cancelled query ends on the server too, and the connection can be used again."""
    with trio.fail_after(5):
        with trio.move_on_after(0.1) as scope:
            await connection.scalar(LONG, {})
        assert scope.cancelled_caught
        assert connection.idle
        busy = "select state from pg_stat_activity where pid = %(pid)s"
        assert await other.scalar(busy, {"pid": connection.backend_pid}) == "idle"
        assert await connection.scalar("select 1", {}) == 1


async def test_cancel_in_a_transaction_dooms_it(connection: Connection) -> None:
    """After a cancel inside a transaction, only a rollback makes the connection usable."""
    await connection.script("begin")
    with trio.move_on_after(0.1):
        await connection.scalar(LONG, {})
    assert connection.failed
    assert not connection.idle
    await connection.rollback()
    assert connection.idle


async def test_cancel_of_a_deaf_server_closes(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the server does not answer to a cancel in time, the connection is closed."""
    monkeypatch.setattr(driver, "DRAIN_SECONDS", 0.2)
    pid = connection.backend_pid
    os.kill(pid, signal.SIGSTOP)
    try:
        with trio.fail_after(5), trio.move_on_after(0.1):
            await connection.scalar("select 1", {})
        assert connection.dead
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_dead_idle_connection_looks_idle(connection: Connection, other: Connection) -> None:
    """A connection whose server process is gone is idle until it is used."""
    pid = connection.backend_pid
    await other.scalar("select pg_terminate_backend(%(pid)s)", {"pid": pid})
    gone = "select count(*) = 0 from pg_stat_activity where pid = %(pid)s"
    await until(lambda: other.scalar(gone, {"pid": pid}))
    assert connection.idle
    assert not connection.dead
    with pytest.raises(OperationalError):
        await connection.scalar("select 1", {})
    assert connection.dead


async def test_commit_of_a_doomed_transaction_is_told(connection: Connection) -> None:
    """The server answers COMMIT by ROLLBACK when an error was swallowed, and that is not missed."""
    await connection.script("begin")
    with pytest.raises(DatabaseError):
        await connection.scalar("select 1 / 0", {})
    assert connection.failed
    with pytest.raises(AssertionError, match="ROLLBACK"):
        await connection.commit()


async def test_large_parameters_are_sent_piecemeal(connection: Connection) -> None:
    """A text larger than the socket's buffer arrives whole, whatever the server says meanwhile."""
    text = "é" * 10_000_000
    assert await connection.scalar("select length(%(text)s::text)", {"text": text}) == len(text)


async def test_notifications_are_kept_while_others_run(
    connection: Connection, other: Connection
) -> None:
    """What arrives beside the answer of another statement is handed out afterwards."""
    heard = await connection.notifications("muster_contract")
    await other.execute("select pg_notify('muster_contract', 'a')", {})
    await connection.scalar("select pg_sleep(0.05)", {})
    await other.execute("select pg_notify('muster_contract', 'b')", {})
    said: list[str] = []
    with trio.fail_after(5):
        while len(said) < 2:
            said.extend(await heard())
    assert said == ["a", "b"]


async def test_quoting_holds(connection: Connection) -> None:
    """A quoted text comes back as it was, whatever it holds."""
    text = "it's \\ a 'trap'; drop table users; -- é\n"
    assert await connection.script(f"select {connection.quote(text)}") == [(text,)]


async def test_rows_come_in_python_types(connection: Connection) -> None:
    """Bytes are bytes, times are aware and in UTC, documents are dicts."""
    ((raw, at, document),) = await connection.script(
        r"""select '\x00ff'::bytea, '2026-01-02 03:04+02'::timestamptz, '{"a": [1]}'::jsonb"""
    )
    assert raw == b"\x00\xff"
    assert type(raw) is bytes
    assert at.isoformat() == "2026-01-02T01:04:00+00:00"
    assert document == {"a": [1]}


async def test_scripts_leave_prepared_statements_alone(connection: Connection) -> None:
    """A script that runs often and one that alters something cost the pipeline no statement."""
    assert await connection.scalar("select 1", {}) == 1
    for _ in range(8):
        await connection.script("begin")
        await connection.script("rollback")
    await connection.script("create temporary table t (a int); alter table t add b int")
    await connection.script("alter table t add c int")
    assert await connection.scalar("select 1", {}) == 1
