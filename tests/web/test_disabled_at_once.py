"""A disabled account stops at once: its pages, streams, tokens, parked claims and agents."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
import trio

from muster.accounts.operations import disable_user
from muster.accounts.operations.sessions import end_session, sign_out_everywhere
from muster.accounts.rules import Disable
from muster.credentials.operations.personal import add_personal
from muster.credentials.rules import AddPersonal
from tests.support.desk import Desk, OpenDesk
from tests.support.visitor import Visiting, sign_in
from tests.support.waiting import until

AT_ONCE_SECONDS = 5.0


class Stream:
    """A browser's open stream of events."""

    def __init__(self) -> None:
        self.ended = trio.Event()
        self.opened = trio.Event()

    async def read(self, visiting: Visiting) -> None:
        """Read to the end."""
        async with visiting.client.stream("GET", "/live") as answer:
            assert answer.status_code == 200
            async for _ in answer.aiter_lines():
                self.opened.set()
        self.ended.set()

    async def ends(self) -> None:
        """Wait for the end, which must come at once."""
        with trio.fail_after(AT_ONCE_SECONDS):
            await self.ended.wait()


@asynccontextmanager
async def streaming(*visitors: Visiting) -> AsyncIterator[list[Stream]]:
    """An open stream for each of these."""
    streams = [Stream() for _ in visitors]
    async with trio.open_nursery() as nursery:
        for stream, visiting in zip(streams, visitors, strict=True):
            nursery.start_soon(stream.read, visiting)
        for stream in streams:
            with trio.fail_after(AT_ONCE_SECONDS):
                await stream.opened.wait()
        yield streams
        nursery.cancel_scope.cancel()


@pytest.mark.rule(21)
async def test_a_disabled_account_stops_at_once(desk: OpenDesk) -> None:
    """Whatever an account has open or holds is over in a moment, and opens nothing any more."""
    async with desk() as at:
        own = await at.db.run(at.owner, add_personal, AddPersonal(name="laptop"))
        visiting = await sign_in(at.server, at.owner)
        claims: list[httpx2.Response] = []
        async with (
            visiting.client,
            at.agent() as chief,
            streaming(visiting) as (stream,),
            trio.open_nursery() as parking,
        ):
            await chief.next_frame("welcome")
            parking.start_soon(_claim, at, claims)
            await until(lambda: _is_parked(at))
            await at.server.node.db.run(at.owner, disable_user, Disable())
            await stream.ends()
            assert await chief.close_code(AT_ONCE_SECONDS) == 4401
            with trio.fail_after(AT_ONCE_SECONDS):
                await until(lambda: _has(claims))
            assert claims[0].status_code == 401
            assert (await visiting.get("/settings")).status_code == 303
            assert (await visiting.get("/live")).status_code == 401
            assert (await at.claim()).status_code == 401
            async with at.server.client(own[1]) as client:
                assert (await client.get("/api/tasks")).status_code == 401


async def _claim(at: Desk, claims: list[httpx2.Response]) -> None:
    claims.append(await at.claim(25))


async def _is_parked(at: Desk) -> bool:
    return bool(at.server.node.waiters.plugin_ids())


async def _has(claims: list[httpx2.Response]) -> bool:
    return bool(claims)


async def test_signing_out_everywhere_ends_all_streams(desk: OpenDesk) -> None:
    """Every open page of the owner's is told at once, and of nobody else's."""
    async with desk() as at:
        here, there = await sign_in(at.server, at.owner), await sign_in(at.server, at.owner)
        async with here.client, there.client, streaming(here, there) as streams:
            await at.server.node.db.run(at.owner, sign_out_everywhere, None)
            for stream in streams:
                await stream.ends()
            assert (await here.get("/settings")).status_code == 303


async def test_ending_a_session_ends_its_stream_alone(desk: OpenDesk) -> None:
    """The stream of a session that ended is over; another session's goes on."""
    async with desk() as at:
        here, there = await sign_in(at.server, at.owner), await sign_in(at.server, at.owner)
        async with here.client, there.client, streaming(here, there) as (first, second):
            await at.server.node.db.run(at.owner, end_session, here.session.session_id)
            await first.ends()
            assert not second.ended.is_set()
            assert (await there.get("/settings")).status_code == 200
