"""Claims that wait at the server, in great number, and what the server does meanwhile."""

import json
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import attrs
import trio

from bench.client import Connection
from bench.people import Plug
from bench.processes import cpu_us
from bench.server import Server

WAIT_SECONDS = 25
AGAIN_SECONDS = 0.5
QUIET_SHARE = 0.1  # of a CPU
QUIET_SECONDS_MAX = 60.0
_SAMPLE_SECONDS = 0.3
_CLAIM = "/plugin/v1/drafts/claim"


@attrs.define
class Parking:
    """The parked claims; each begins anew when it was answered."""

    claims_begun: int = 0
    refused: int = 0
    taken: list[tuple[Plug, int]] = attrs.field(factory=list)
    _answered_at: dict[int, float] = attrs.field(factory=dict)
    _bells: dict[int, trio.Event] = attrs.field(factory=dict)

    async def answered_at(self, draft_id: int) -> float:
        """Wait until a claim was answered with this draft; when that was."""
        bell = self._bells.setdefault(draft_id, trio.Event())
        with trio.fail_after(WAIT_SECONDS):
            await bell.wait()
        return self._answered_at.pop(draft_id)

    async def hold(
        self, connection: Connection, choose: Callable[[], Plug], waits: Iterator[int]
    ) -> None:
        """Claim for as long as there are waits, one after the other; `choose` says for whom."""
        for wait_seconds in waits:
            plug = choose()
            self.claims_begun += 1
            body = {"wait_seconds": wait_seconds}
            answer = await connection.ask("POST", _CLAIM, token=plug.token, body=body)
            if answer.status == 200:
                draft_id = json.loads(answer.body)["draft_id"]
                self._answered_at[draft_id] = time.perf_counter()
                self._bells.setdefault(draft_id, trio.Event()).set()
                self.taken.append((plug, draft_id))
            elif answer.status == 503:
                # Too much came at once: a plugin comes again, and the figures say how often.
                self.refused += 1
                await trio.sleep(AGAIN_SECONDS)
            else:
                assert answer.status == 204, answer

    async def report_all(self, port: int) -> None:
        """Say of every reply that was claimed that it was sent."""
        async with Connection.open(port) as connection:
            while self.taken:
                plug, draft_id = self.taken.pop()
                path = f"/plugin/v1/drafts/{draft_id}/result"
                answer = await connection.ask("POST", path, token=plug.token, body={"ok": True})
                assert answer.status == 200, answer


@asynccontextmanager
async def parked(
    server: Server, choices: Sequence[Callable[[], Plug]], *, spread: bool
) -> AsyncIterator[Parking]:
    """Keep one claim parked for each of `choices`, which say of which plugin, for the block.

    With `spread` their first waits differ, so that they do not all end and begin in one moment.
    """
    parking = Parking()
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        for choose in choices:
            connection = await stack.enter_async_context(Connection.open(server.port))
            nursery.start_soon(parking.hold, connection, choose, _waits(spread=spread))
        await until_quiet(server)
        yield parking
        nursery.cancel_scope.cancel()


async def until_quiet(server: Server) -> None:
    """Wait until the server has done what it was asked: it takes under 10% of a CPU."""
    with trio.fail_after(QUIET_SECONDS_MAX):
        share = 1.0
        while share > QUIET_SHARE:
            before = cpu_us(server.pid)
            await trio.sleep(_SAMPLE_SECONDS)
            share = (cpu_us(server.pid) - before) / 1e6 / _SAMPLE_SECONDS


def _waits(*, spread: bool) -> Iterator[int]:
    if spread:
        yield random.randint(WAIT_SECONDS // 5, WAIT_SECONDS)
    while True:
        yield WAIT_SECONDS
