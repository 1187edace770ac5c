"""`mailbox`: tells, asks and restarts a second of actors, beside bare memory channels and tasks.

All of it runs in this process, so "server" is the CPU time of this one. The beside of a tell is a
memory channel of the same size, of an ask a channel and a channel for the answer, of a restart a
task that is started anew when it raised.
"""

import functools
import time
from collections.abc import Awaitable, Callable

import trio

from actors import (
    Actor,
    Address,
    ChildSpec,
    Intensity,
    Log,
    MailboxFull,
    SupervisorSpec,
    open_tree,
)
from bench.report import Outcome
from bench.rounds import Stopwatch, Variant, compare
from bench.scale import Scale
from bench.server import Server

SIZE = 256
ASK_SECONDS_MAX = 10.0
_STOP = object()

Work = Callable[[int, Stopwatch, int], Awaitable[list[float]]]


class Sink(Actor):
    """Counts what it is told, and says when it has seen all of it."""

    def __init__(self, expected: int, over: trio.Event) -> None:
        super().__init__()
        self._left = expected
        self._over = over

    async def handle(self, message: object) -> object:
        """Count, and answer with the message."""
        self._left -= 1
        if self._left == 0:
            self._over.set()
        return message


class Failing(Actor):
    """Crashes at every message; `up` is told of each start."""

    def __init__(self, up: Callable[[], None]) -> None:
        super().__init__()
        self._up = up

    async def started(self) -> None:
        """Say so."""
        self._up()

    async def handle(self, message: object) -> object:
        """Crash."""
        raise RuntimeError(message)


async def run(server: Server, scale: Scale) -> Outcome:
    """Measure the three and what stands beside them."""
    messages, restarts = scale.pick(50_000, 500), scale.pick(2000, 20)
    pairs: list[tuple[str, Work, int, str, Work]] = [
        ("tell", _tell, messages, "memory channel", _send),
        ("ask", _ask, messages // 2, "memory channel there and back", _send_and_wait),
        ("restart", _restart, restarts, "task started anew", _start_anew),
    ]
    variants = []
    for name, work, count, beside, baseline in pairs:
        variants += [
            Variant(name=name, clients=1, run=functools.partial(work, count), pid=None),
            Variant(
                name=beside,
                clients=1,
                run=functools.partial(baseline, count),
                pid=None,
                baseline=True,
            ),
        ]
    rows = await compare(variants, rounds=scale.rounds, cluster=None, folder=server.disk)
    return Outcome(
        figures=rows,
        notes=[
            "no database takes part; latencies of a tell, and of the channel beside it, are means"
        ],
    )


async def _tell(count: int, watch: Stopwatch, _round: int) -> list[float]:
    over = trio.Event()
    spec = ChildSpec(name="sink", start=lambda: Sink(count, over), mailbox_size=SIZE)
    async with open_tree(SupervisorSpec(name="root", children=[spec]), Log()) as tree:
        sink = tree.address("root/sink")
        with watch:
            for number in range(count):
                await _tell_one(sink, number)
            await over.wait()
    return _means(watch, count)


async def _tell_one(sink: Address, number: int) -> None:
    while True:
        try:
            return sink.tell(number)
        except MailboxFull:
            # A sender that outruns its reader has to wait; telling itself never does.
            await trio.lowlevel.checkpoint()


async def _send(count: int, watch: Stopwatch, _round: int) -> list[float]:
    send, receive = trio.open_memory_channel[object](SIZE)

    async def take() -> None:
        async for message in receive:
            if message is _STOP:
                return

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        with watch:
            for number in range(count):
                try:
                    send.send_nowait(number)
                except trio.WouldBlock:
                    await send.send(number)
            await send.send(_STOP)
            while receive.statistics().current_buffer_used:
                await trio.lowlevel.checkpoint()
    return _means(watch, count)


async def _ask(count: int, watch: Stopwatch, _round: int) -> list[float]:
    times: list[float] = []
    spec = ChildSpec(name="sink", start=lambda: Sink(0, trio.Event()), mailbox_size=SIZE)
    async with open_tree(SupervisorSpec(name="root", children=[spec]), Log()) as tree:
        sink = tree.address("root/sink")
        with watch:
            for number in range(count):
                began = time.perf_counter()
                answer = await sink.ask(number, deadline_seconds=ASK_SECONDS_MAX)
                times.append(time.perf_counter() - began)
                assert answer == number
    return times


async def _send_and_wait(count: int, watch: Stopwatch, _round: int) -> list[float]:
    ask, asked = trio.open_memory_channel[object](SIZE)
    answer, answered = trio.open_memory_channel[object](SIZE)
    times: list[float] = []

    async def serve() -> None:
        async for message in asked:
            await answer.send(message)

    async with trio.open_nursery() as nursery, ask:
        nursery.start_soon(serve)
        with watch:
            for number in range(count):
                began = time.perf_counter()
                with trio.fail_after(ASK_SECONDS_MAX):
                    await ask.send(number)
                    assert await answered.receive() == number
                times.append(time.perf_counter() - began)
    return times


async def _restart(count: int, watch: Stopwatch, _round: int) -> list[float]:
    up = trio.Event()

    def note() -> None:
        up.set()

    at_once = Intensity(restarts=count + 1, window_seconds=60, backoff_first_seconds=0)
    spec = ChildSpec(name="failing", start=lambda: Failing(note))
    tree_spec = SupervisorSpec(name="root", intensity=at_once, children=[spec])
    times: list[float] = []
    async with open_tree(tree_spec, Log()) as tree:
        failing = tree.address("root/failing")
        with watch:
            for number in range(count):
                up = trio.Event()
                began = time.perf_counter()
                failing.tell(number)
                await up.wait()
                times.append(time.perf_counter() - began)
    return times


async def _start_anew(count: int, watch: Stopwatch, _round: int) -> list[float]:
    up = trio.Event()
    crash, crashes = trio.open_memory_channel[object](SIZE)
    times: list[float] = []

    async def failing() -> None:
        up.set()
        raise RuntimeError(await crashes.receive())

    async def keep() -> None:
        while True:
            try:
                async with trio.open_nursery() as own:
                    own.start_soon(failing)
            except* RuntimeError:
                pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep)
        await up.wait()
        with watch:
            for number in range(count):
                up = trio.Event()
                began = time.perf_counter()
                await crash.send(number)
                await up.wait()
                times.append(time.perf_counter() - began)
        nursery.cancel_scope.cancel()
    return times


def _means(watch: Stopwatch, count: int) -> list[float]:
    assert watch.spent is not None
    return [watch.spent.seconds / count] * count
