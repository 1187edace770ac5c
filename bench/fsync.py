"""`fsync`: what one small commit of the database costs, and beside it how fast the disk is now."""

import time

import trio

from bench.machine import BLOCK_BYTES, time_fsyncs
from bench.report import Outcome
from bench.rounds import Figures, Stopwatch, Variant, compare
from bench.scale import Scale
from bench.server import Server
from muster.pg.driver import Connection

_TABLE = "create table muster.bench_commits (at text)"
_COMMIT = "insert into muster.bench_commits values ('now')"


async def run(server: Server, scale: Scale) -> Outcome:
    """Measure both, in turn."""
    admin = await Connection.open(server.cluster.admin_url)
    try:
        await admin.script(_TABLE)

        async def write(watch: Stopwatch, _round: int) -> list[float]:
            with watch:
                return await trio.to_thread.run_sync(time_fsyncs, server.disk, scale.pick(1.0, 0.1))

        async def commit(watch: Stopwatch, _round: int) -> list[float]:
            times = []
            with watch:
                for _ in range(scale.pick(400, 40)):
                    began = time.perf_counter()
                    await admin.script(_COMMIT)
                    times.append(time.perf_counter() - began)
            return times

        rows: list[Figures] = await compare(
            [
                Variant(name="one row, one commit", clients=1, run=commit, pid=None),
                Variant(
                    name=f"{BLOCK_BYTES} B write and fsync",
                    clients=1,
                    run=write,
                    pid=None,
                    baseline=True,
                ),
            ],
            rounds=scale.rounds,
            cluster=server.cluster,
            folder=server.disk,
        )
    finally:
        await admin.script("drop table muster.bench_commits")
        admin.close()
    return Outcome(figures=rows)
