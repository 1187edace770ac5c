"""What a process has used: CPU time, memory, and who its children are.

/proc/PID/stat counts CPU time in ticks of 10 ms, too coarse for a round with few operations, and
the threads' own figures go with the threads. The process's own clock has nanoseconds, and all that
threads ever used.
"""

import os
import time
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def parse_reaped_us(stat: str, *, ticks_per_second: int = TICKS_PER_SECOND) -> int:
    """The CPU time of the children that a process has waited for, by its /proc/PID/stat.

    The name in that text may hold spaces and brackets.
    """
    reaped_user, reaped_system = stat.rpartition(")")[2].split()[13:15]
    return (int(reaped_user) + int(reaped_system)) * (1_000_000 // ticks_per_second)


def parse_kibibytes(text: str, name: str) -> int | None:
    """The value of `name` in /proc/PID/status or smaps_rollup, in KiB; None where it is not."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0])
    return None


def parse_parent(stat: str) -> int:
    """The parent's id in the text of /proc/PID/stat."""
    return int(stat.rpartition(")")[2].split()[1])


def cpu_us(pid: int) -> int:
    """The CPU time of a process in microseconds, all its threads together; 0 once it is gone."""
    try:
        return time.clock_gettime_ns(_clock_of(pid)) // 1000
    except OSError:
        return 0


def _clock_of(pid: int) -> int:
    """The clock of a process's CPU time, as clock_getcpuclockid(3) makes it on Linux."""
    return (~pid << 3) | 2


def family_cpu_us(pid: int) -> int:
    """The CPU time of a process, its living children and those that it has waited for."""
    stat = _read(pid, "stat")
    if stat is None:
        return 0
    return parse_reaped_us(stat) + cpu_us(pid) + sum(map(cpu_us, children_of(pid)))


def children_of(pid: int) -> list[int]:
    """The living children of a process."""
    told = _read(pid, f"task/{pid}/children")
    if told is not None:
        return [int(child) for child in told.split()]
    numbers = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
    stats = {number: _read(number, "stat") for number in numbers}
    return [number for number, stat in stats.items() if stat and parse_parent(stat) == pid]


def memory_kibibytes(pid: int) -> tuple[int, str]:
    """What a process holds, and how that was told: PSS, or RSS where PSS may not be read."""
    rollup = _read(pid, "smaps_rollup")
    pss = None if rollup is None else parse_kibibytes(rollup, "Pss")
    if pss is not None:
        return pss, "PSS"
    rss = parse_kibibytes(_read(pid, "status") or "", "VmRSS")
    assert rss is not None, f"process {pid} is gone"
    return rss, "RSS"


def _read(pid: int, name: str) -> str | None:
    try:
        return (PROC / str(pid) / name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
