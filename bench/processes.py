"""What a process has used, as /proc tells: CPU time, memory, and who its children are.

/proc/PID/stat counts CPU time in ticks of 10 ms, too coarse for a round with few operations, so
the threads' own /proc/PID/task/TID/schedstat is taken, in nanoseconds, where the kernel has it.
"""

import os
from pathlib import Path

import attrs

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@attrs.frozen(kw_only=True)
class Times:
    """CPU time in microseconds: a process's own, and that of children it has waited for."""

    own_us: int
    reaped_us: int


def parse_times(stat: str, *, ticks_per_second: int = TICKS_PER_SECOND) -> Times:
    """Read the text of /proc/PID/stat; the name in it may hold spaces and brackets."""
    fields = stat.rpartition(")")[2].split()
    user, system, reaped_user, reaped_system = (int(field) for field in fields[11:15])
    microseconds = 1_000_000 // ticks_per_second
    return Times(
        own_us=(user + system) * microseconds,
        reaped_us=(reaped_user + reaped_system) * microseconds,
    )


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


def parse_schedstat(text: str) -> int:
    """The CPU time in microseconds in the text of /proc/PID/task/TID/schedstat."""
    return int(text.split(maxsplit=1)[0]) // 1000


def cpu_us(pid: int) -> int:
    """The CPU time of a process in microseconds, its living threads together; 0 once it is gone."""
    try:
        threads = [entry.name for entry in (PROC / str(pid) / "task").iterdir()]
    except OSError:
        return 0
    told = [_read(pid, f"task/{thread}/schedstat") for thread in threads]
    if any(told):
        return sum(parse_schedstat(one) for one in told if one)
    stat = _read(pid, "stat")
    return 0 if stat is None else parse_times(stat).own_us


def family_cpu_us(pid: int) -> int:
    """The CPU time of a process, its living children and those that it has waited for."""
    stat = _read(pid, "stat")
    if stat is None:
        return 0
    reaped = parse_times(stat).reaped_us
    return reaped + cpu_us(pid) + sum(map(cpu_us, children_of(pid)))


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
