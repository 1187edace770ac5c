"""SIGTERM to the real server under load: everybody gets a proper end, and it comes in time."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import attrs
import pytest
import trio

from muster.messages.rules import State
from muster.pg.database import Database, open_database
from muster.pg.driver import Connection
from muster.principals import Owner
from tests.support.builders import get_message, new_agent, new_plugin
from tests.support.chaos import ServerChild, server_child
from tests.support.cluster import OwnDatabase, add_owner
from tests.support.program import program_on
from tests.support.server import ScriptedAgent
from tests.support.waiting import until
from tests.support.wire import RawClient

STOP_SECONDS = 5.0
DRAIN = "2s"
DRAIN_SECONDS = 2.0
ITS_SESSIONS = """
    select count(*) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""
BUSY_MACHINE_SECONDS = 4.0  # what a machine that runs other tests may add


@attrs.frozen(kw_only=True)
class Office:
    """A server with an owner, a plugin and a chief."""

    server: ServerChild
    db: Database
    owner: Owner
    plugin_token: str
    chief_token: str

    async def post(self, external_id: str) -> int:
        """Post a message; its id."""
        body = {"external_id": external_id, "body": "Lunch?"}
        async with self.server.client(self.plugin_token) as client:
            answer = await client.post("/plugin/v1/messages", json=body)
        assert answer.status_code == 202, answer.text
        message_id: int = answer.json()["id"]
        return message_id

    async def park(self, clients: Sequence[RawClient]) -> None:
        """Claim on each of these connections; every claim is in hand once this returns."""
        body = b'{"wait_seconds": 25}'
        for client in clients:
            assert await client.healthy()
            await client.send(
                b"POST /plugin/v1/drafts/claim HTTP/1.1\r\nHost: test\r\n"
                b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s"
                % (self.plugin_token.encode(), len(body), body)
            )
        for _ in range(2):
            assert await self.server.is_healthy()  # read by the same loop, after the claims

    async def state(self, message_id: int) -> State:
        """A message's state now."""
        return (await get_message(self.db, self.owner, message_id)).state


@asynccontextmanager
async def opened(database: OwnDatabase, folder: Path, **settings: str) -> AsyncIterator[Office]:
    """A running server on this database, and somebody to work with it."""
    program = program_on(database, folder)
    async with (
        server_child(program, folder, **({"MUSTER_DRAIN": DRAIN} | settings)) as server,
        open_database(database.app_url, publish=lambda _hints: None, pool_size=2) as db,
    ):
        owner = await add_owner(db)
        _, plugin_token = await new_plugin(db, owner)
        _, chief_token = await new_agent(db, owner)
        yield Office(
            server=server,
            db=db,
            owner=owner,
            plugin_token=plugin_token,
            chief_token=chief_token,
        )


async def connect(office: Office, stack: AsyncExitStack) -> RawClient:
    """A TCP connection that stays open until the end of the test."""
    client = RawClient(await trio.open_tcp_stream("127.0.0.1", office.server.port))
    stack.callback(client.leave)
    return client


async def hold_open(office: Office, stack: AsyncExitStack) -> None:
    """Connect clients of every kind that could keep a server from ending."""
    for _ in range(5):
        idle = await connect(office, stack)
        assert await idle.healthy()  # kept alive from here on, and idle
    silent = await connect(office, stack)
    await silent.send(b"POST /plugin/v1/messages HTTP/1.1\r\nHost: te")  # a head that never ends
    slow = await connect(office, stack)
    await slow.send(
        b"POST /plugin/v1/messages HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\n{"
    )
    deaf = await connect(office, stack)
    deaf.stream.setsockopt(6, 10, 1024)
    with trio.move_on_after(0.5):  # it sends requests and never reads an answer
        await deaf.send(b"GET /nothing HTTP/1.1\r\nHost: test\r\n\r\n" * 20_000)


@pytest.mark.rule(65)
async def test_a_stop_without_turns_is_over_in_time(
    own_database: OwnDatabase, tmp_path: Path
) -> None:
    """Parked claims answer 204 and the server ends 0, whoever stays connected, within 5 s."""
    async with AsyncExitStack() as stack, opened(own_database, tmp_path) as office:
        await hold_open(office, stack)
        async with ScriptedAgent(office.server.url, office.chief_token) as chief:
            await chief.next_frame("welcome")
            parked = [await connect(office, stack) for _ in range(20)]
            await office.park(parked)
            stopped = await office.server.stop()
            assert await chief.close_code() == 1001
        answers = [(await client.answer(b"POST")).status for client in parked]
    assert answers == [204] * 20
    assert stopped.code == 0
    assert [one["event"] for one in stopped.events] == ["ready", "setup", "draining", "stopped"]
    assert stopped.events[-1] == {"event": "stopped"}
    assert stopped.seconds < STOP_SECONDS + BUSY_MACHINE_SECONDS


@pytest.mark.rule(218)
async def test_a_running_turn_gets_the_drain_time_and_no_more(
    own_database: OwnDatabase, tmp_path: Path
) -> None:
    """A turn that never ends is given MUSTER_DRAIN, then told to stop and called unconfirmed."""
    async with AsyncExitStack() as stack, opened(own_database, tmp_path) as office:
        await hold_open(office, stack)
        async with ScriptedAgent(office.server.url, office.chief_token) as chief:
            await chief.next_frame("welcome")
            message_id = await office.post("m1")
            turn = await chief.next_frame("turn")
            began = trio.current_time()
            office.server.send(signal.SIGTERM)
            cancel = await chief.next_frame("cancel", DRAIN_SECONDS + BUSY_MACHINE_SECONDS)
            assert cancel["turn_id"] == turn["turn_id"]
            assert await chief.close_code() == 1001
            stopped = await office.server.stopped()
            took = trio.current_time() - began
        assert stopped.code == 0
        assert stopped.events[-1] == {"event": "stopped"}
        assert DRAIN_SECONDS <= took < DRAIN_SECONDS + 5 + BUSY_MACHINE_SECONDS
        assert await office.state(message_id) is State.UNCONFIRMED


@pytest.mark.rule(217)
async def test_a_turn_that_ends_within_the_drain_is_delivered(
    own_database: OwnDatabase, tmp_path: Path
) -> None:
    """While the server drains the turn's answer counts, no further one begins, and it ends."""
    async with opened(own_database, tmp_path, MUSTER_DRAIN="20s") as office:
        async with ScriptedAgent(office.server.url, office.chief_token) as chief:
            await chief.next_frame("welcome")
            first = await office.post("m1")
            turn = await chief.next_frame("turn")
            second = await office.post("m2")
            office.server.send(signal.SIGTERM)
            await office.server.until_event("draining")
            await chief.send("turn.done", turn_id=turn["turn_id"], text="")
            stopped = await office.server.stopped()
            assert await chief.close_code() == 1001
        assert (stopped.code, stopped.events[-1]) == (0, {"event": "stopped"})
        assert await office.state(first) is State.DELIVERED
        assert await office.state(second) is State.QUEUED


@pytest.mark.rule(218)
async def test_a_second_signal_cuts_the_drain_short(
    own_database: OwnDatabase, tmp_path: Path
) -> None:
    """Told twice, the server doesn't wait for a running turn, and still ends as it should."""
    async with opened(own_database, tmp_path, MUSTER_DRAIN="60s") as office:
        async with ScriptedAgent(office.server.url, office.chief_token) as chief:
            await chief.next_frame("welcome")
            message_id = await office.post("m1")
            await chief.next_frame("turn")
            office.server.send(signal.SIGTERM)
            await office.server.until_event("draining")
            stopped = await office.server.stop()
        assert (stopped.code, stopped.events[-1]) == (0, {"event": "stopped"})
        assert stopped.seconds < STOP_SECONDS + BUSY_MACHINE_SECONDS
        assert await office.state(message_id) is State.UNCONFIRMED


async def test_signals_at_any_moment_of_a_stop_end_it_well(
    own_database: OwnDatabase, tmp_path: Path
) -> None:
    """Whoever sends SIGTERM again and again gets an orderly end all the same."""
    async with AsyncExitStack() as stack, opened(own_database, tmp_path) as office:
        await hold_open(office, stack)
        office.server.send(signal.SIGTERM)
        process = office.server.process
        assert process is not None

        def ended() -> bool:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            return process.poll() is not None

        await until(ended, seconds=20)
        stopped = await office.server.stopped()
    assert (stopped.code, stopped.events[-1]) == (0, {"event": "stopped"})


async def test_a_signal_during_the_start_ends_it_well(
    own_database: OwnDatabase, tmp_path: Path
) -> None:
    """A server that is told to stop before it is ready ends as orderly as a ready one."""
    async with server_child(program_on(own_database, tmp_path), tmp_path) as server:
        await server.stop()
        database = await Connection.open(own_database.admin_url)

        async def nobody() -> bool:
            return bool(await database.scalar(ITS_SESSIONS, {}) == 0)

        try:
            # The sessions of its first life end behind its back.
            await until(nobody, seconds=60)
            await server.begin()
            # It has logged in to its database, and its tree and its doors are still to come.
            await until(lambda: database.scalar(ITS_SESSIONS, {}), seconds=60)
        finally:
            database.close()
        stopped = await server.stop()
    assert (stopped.code, stopped.events[-1:]) == (0, [{"event": "stopped"}])


async def test_a_stop_before_any_request(own_database: OwnDatabase, tmp_path: Path) -> None:
    """A server that nobody has asked anything ends at once."""
    async with server_child(program_on(own_database, tmp_path), tmp_path) as server:
        stopped = await server.stop()
    assert (stopped.code, stopped.events[-1]) == (0, {"event": "stopped"})
    assert stopped.seconds < STOP_SECONDS


@pytest.mark.parametrize("reader", ["never reads", "is gone"])
async def test_a_log_that_nobody_reads_keeps_no_server_from_ending(
    own_database: OwnDatabase, tmp_path: Path, reader: str
) -> None:
    """With stderr a full pipe, or one whose reader left, SIGTERM still ends the server with 0."""
    into, out_of = os.pipe()
    os.set_blocking(out_of, False)
    with suppress(BlockingIOError):
        while os.write(out_of, b"x" * 4096):
            pass
    os.set_blocking(out_of, True)
    program = program_on(own_database, tmp_path)
    settings = {"MUSTER_BIND": "127.0.0.1:0", "MUSTER_LOG": "info"}
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "muster", "serve"],
        env=program.environ | settings,
        stdout=subprocess.PIPE,
        stderr=out_of,
    )
    os.close(out_of)
    if reader == "is gone":
        os.close(into)
    try:
        assert process.stdout is not None
        lines = process.stdout
        said = b""
        with trio.fail_after(60):
            while b"\n" not in said:
                part = await lines.receive_some()
                assert part, "the server ended"
                said += part
        began = trio.current_time()
        process.terminate()
        with trio.fail_after(30):
            async for part in lines:
                said += part
            code = await process.wait()
        took = trio.current_time() - began
    finally:
        process.kill()
        if reader == "never reads":
            os.close(into)
        with trio.CancelScope(shield=True):
            await process.wait()
            await lines.aclose()
    assert (code, said.splitlines()[-1]) == (0, b'{"event": "stopped"}')
    assert took < STOP_SECONDS + BUSY_MACHINE_SECONDS


async def test_a_server_whose_events_nobody_reads_still_drains(
    own_database: OwnDatabase, tmp_path: Path
) -> None:
    """Whoever closes stdout after the ready line loses event lines, and nothing else."""
    async with AsyncExitStack() as stack, opened(own_database, tmp_path) as office:
        await office.server.stop()
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "muster", "serve"],
            env=dict(office.server.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert process.stdout is not None
            with trio.fail_after(60):
                assert b"ready" in await process.stdout.receive_some()
            await process.stdout.aclose()
            parked = await connect(office, stack)
            await office.park([parked])
            process.terminate()
            assert (await parked.answer(b"POST")).status == 204
            with trio.fail_after(20):
                assert await process.wait() == 0
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
