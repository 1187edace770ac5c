"""What /proc says of a process is read as it is written there."""

import os
import subprocess
import sys
import threading
import time

from bench.processes import (
    children_of,
    cpu_us,
    family_cpu_us,
    memory_kibibytes,
    parse_kibibytes,
    parse_parent,
    parse_reaped_us,
)

STAT = (
    "4711 (a (odd) name) S 42 4711 4711 0 -1 4194304 900 100 0 0 150 50 30 20 20 0 3 0 900 1 2"
)


def test_times_are_read_behind_any_name() -> None:
    """Ticks become microseconds, and brackets and spaces in the name shift nothing."""
    assert parse_reaped_us(STAT, ticks_per_second=100) == 500_000
    assert parse_reaped_us(STAT, ticks_per_second=1000) == 50_000
    assert parse_parent(STAT) == 42


def test_memory_is_found_by_its_name() -> None:
    """`Pss` is not `Pss_Anon`, and what is not there is None."""
    text = "Rss:     900 kB\nPss_Anon:   5 kB\nPss:             123 kB\n"
    assert parse_kibibytes(text, "Pss") == 123
    assert parse_kibibytes(text, "VmRSS") is None


def test_work_counts() -> None:
    """A process that computes has used CPU time afterwards."""
    before = cpu_us(os.getpid())
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert cpu_us(os.getpid()) - before >= 40_000
    assert memory_kibibytes(os.getpid())[0] > 1000


def test_threads_that_ended_count() -> None:
    """What a thread used stays with its process."""

    def work() -> None:
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass

    before = cpu_us(os.getpid())
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert cpu_us(os.getpid()) - before >= 40_000


def test_children_count_in_the_family() -> None:
    """A living child's time is the family's, and a child that ended is still counted."""
    work = "import time, sys\nwhile time.process_time() < 0.1: pass\nprint(flush=True)\ninput()"
    before = family_cpu_us(os.getpid())
    child = subprocess.Popen(
        [sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child:
        child.stdout.readline()
        assert child.pid in children_of(os.getpid())
        living = family_cpu_us(os.getpid()) - before
        child.stdin.close()
    assert living >= 90_000
    assert child.pid not in children_of(os.getpid())
    assert family_cpu_us(os.getpid()) - before >= 80_000


def test_a_process_that_is_gone_used_nothing() -> None:
    """No error for a process that ended meanwhile: backends come and go."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    assert cpu_us(child.pid) == family_cpu_us(child.pid) == 0
