"""Reports: the ring, its readers, and lines of JSON."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import pytest
import trio

from actors import Actor, ActorCrashed, ChildSpec, Event, Log, SupervisorSpec, open_tree
from actors import write_json_lines as write
from actors.exits import describe

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def fill(log: Log, count: int) -> None:
    """Put numbered notes."""
    for number in range(count):
        log.report("root/a", Event.NOTE, reason=str(number))


async def test_the_ring_keeps_the_newest_and_counts_the_rest() -> None:
    """A log of three that took five shows the last three and says that two are gone."""
    log = Log(size=3)
    with log.subscribe(size=2) as subscription:
        fill(log, 5)
        assert [report.reason for report in log.recent()] == ["2", "3", "4"]
        assert log.dropped == 2
        assert [report.reason for report in await subscription.drain()] == ["3", "4"]
        assert subscription.dropped == 3
        assert subscription.drain_nowait() == []
    fill(log, 1)
    assert subscription.drain_nowait() == []


async def test_a_cancelled_drain_takes_nothing() -> None:
    """A reader that is cancelled while it waits finds the reports at its next drain."""
    log = Log()
    with log.subscribe() as subscription:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(subscription.drain)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            fill(log, 1)
        assert [report.reason for report in await subscription.drain()] == ["0"]


def test_a_report_is_one_line_of_json() -> None:
    """An error becomes its type and message on one line and a list of traceback lines."""
    log = Log(clock=lambda: NOON)
    with pytest.raises(ValueError, match="two") as caught:
        raise ValueError("two\nlines")
    log.report("root/a", Event.CRASHED, reason="r", decision="d", error=caught.value)
    line = log.recent()[0].as_json()
    assert "\n" not in line
    shown = json.loads(line)
    assert shown["error"] == "ValueError: two lines"
    assert shown["traceback"][0] == "Traceback (most recent call last):"
    assert all("\n" not in part for part in shown.pop("traceback"))
    assert shown == {
        "at": "2026-01-01T12:00:00+00:00",
        "path": "root/a",
        "event": "crashed",
        "reason": "r",
        "decision": "d",
        "error": "ValueError: two lines",
    }


def test_a_group_is_described_by_what_is_in_it() -> None:
    """Errors that crashed together are all named on the one line, which has an end."""
    group = ExceptionGroup("g", [ValueError("a"), ExceptionGroup("h", [KeyError("b")])])
    assert describe(group) == (
        "ExceptionGroup: 2 errors: ValueError: a; ExceptionGroup: 1 errors: KeyError: 'b'"
    )
    assert describe(ValueError()) == "ValueError"
    assert len(describe(ValueError("x" * 9999))) == 500


async def test_a_stream_whose_reader_has_left_ends_nobody() -> None:
    """What the stream refuses is dropped, and writing goes on once it takes lines again."""

    class Leaky(io.StringIO):
        refusing = True

        def write(self, text: str) -> int:
            if self.refusing:
                raise BrokenPipeError
            return super().write(text)

    log, stream = Log(), Leaky()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(write, log, stream)
        await trio.testing.wait_all_tasks_blocked()
        fill(log, 3)
        await trio.testing.wait_all_tasks_blocked(0.05)
        stream.refusing = False
        log.report("root/a", Event.NOTE, reason="heard")
        nursery.cancel_scope.cancel()
    lines = [json.loads(line)["reason"] for line in stream.getvalue().splitlines()]
    assert lines[-1] == "heard"
    assert len(lines) <= 3


async def test_the_sink_writes_what_happened_to_the_last_line() -> None:
    """Each report is a line, and those of the tree's own end are written after a cancel."""

    class Noting(Actor):
        async def handle(self, message: object) -> None:
            self.log.note("got it", message=message, count=2)
            if message == "crash":
                raise ValueError("on request")

    log = Log()
    stream = io.StringIO()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(write, log, stream)
        await trio.testing.wait_all_tasks_blocked()
        root = SupervisorSpec(name="root", children=[ChildSpec(name="a", start=Noting)])
        async with open_tree(root, log) as tree:
            await tree.address("root/a").ask("m", deadline_seconds=1)
            try:
                await tree.address("root/a").ask("crash", deadline_seconds=1)
            except ActorCrashed:
                await tree.address("root/a").ask("m", deadline_seconds=5)
        nursery.cancel_scope.cancel()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["path"], line["event"]) for line in lines] == [
        (report.path, report.event.value) for report in log.recent()
    ]
    assert lines[2]["fields"] == {"message": "m", "count": "2"}
    assert lines[-1]["reason"] == "stopped"
