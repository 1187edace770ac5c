"""What the figures stand on: the machine, the settings of PostgreSQL, and how fast its disk is now.

The disk's fsync rate and the neighbours of a virtual machine vary from minute to minute, so a probe
stands beside every round: two figures are to be compared only where their probes are alike.
"""

import itertools
import os
import platform
import sys
import time
from pathlib import Path

import attrs
import trio

from muster.pg.driver import IMPLEMENTATION, Connection

BLOCK_BYTES = 8192
_BLOCKS = 64
SETTINGS = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "wal_sync_method",
    "full_page_writes",
    "shared_buffers",
    "commit_delay",
    "max_connections",
    "jit",
)


def time_fsyncs(folder: Path, seconds: float) -> list[float]:
    """The seconds of 8 KiB writes, each with its fsync, one after the other, in this folder.

    Overwrites a small file that was written before, as the write-ahead log mostly does.
    """
    block = os.urandom(BLOCK_BYTES)
    path = folder / f"muster-bench-probe-{os.getpid()}"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        for number in range(_BLOCKS):
            os.pwrite(file, block, number * BLOCK_BYTES)
        os.fsync(file)
        moments = [time.perf_counter()]
        while moments[-1] - moments[0] < seconds:
            os.pwrite(file, block, len(moments) % _BLOCKS * BLOCK_BYTES)
            os.fsync(file)
            moments.append(time.perf_counter())
        return [after - before for before, after in itertools.pairwise(moments)]
    finally:
        os.close(file)
        path.unlink()


async def fsyncs_per_second(folder: Path, seconds: float) -> float:
    """The probe, in a thread: connections are answered meanwhile."""
    times = await trio.to_thread.run_sync(time_fsyncs, folder, seconds)
    return len(times) / sum(times)


@attrs.frozen(kw_only=True)
class Machine:
    """The facts at the head of the output."""

    system: str
    cpus: int
    python: str
    driver: str
    load_average: float  # over the last minute, when the run began
    open_files_max: int
    postgres: dict[str, str]

    def as_lines(self) -> list[str]:
        """The facts for people."""
        settings = ", ".join(f"{name} {value}" for name, value in self.postgres.items())
        process = (
            f"{self.system}, {self.cpus} CPUs, Python {self.python}, psycopg {self.driver},"
            f" {self.open_files_max} open files, load average {self.load_average:.2f}"
        )
        return [
            process,
            f"PostgreSQL: {settings}",
            "Everything runs on these CPUs together: server, PostgreSQL and the client.",
        ]


async def look_at_machine(admin_url: str, open_files_max: int) -> Machine:
    """Ask the system and the database."""
    admin = await Connection.open(admin_url)
    try:
        postgres = {
            name: str(await admin.scalar("select current_setting(%(name)s)", {"name": name}))
            for name in SETTINGS
        }
    finally:
        admin.close()
    return Machine(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpus=len(os.sched_getaffinity(0)),
        python=sys.version.split()[0],
        driver=IMPLEMENTATION,
        load_average=os.getloadavg()[0],
        open_files_max=open_files_max,
        postgres=postgres,
    )
