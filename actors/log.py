"""What happened in the tree, as data: one `Report` an event, put by a call that never blocks.

The log and each subscription are rings: when nobody drains them they keep the newest and count
what they dropped. When the database is what failed, its sink stops draining, and the last reports
before and after the failure are still here. Rejected: the logging module, whose handlers may block
the loop and whose records are sentences.
"""

from __future__ import annotations

import contextlib
import enum
import json
import traceback
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping
from datetime import UTC, datetime
from typing import TextIO

import attrs
import trio

from actors.exits import describe

LAST_WORDS_SECONDS = 1.0


class Event(enum.Enum):
    """What a report is about."""

    STARTED = "started"  # started() returned for the first time
    RESTARTED = "restarted"  # started() returned again
    EXITED = "exited"  # ended without an error
    CRASHED = "crashed"  # ended by an error; `decision` says what the supervisor does
    GAVE_UP = "gave-up"  # a supervisor ended because its children crashed too often
    MAILBOX_FULL = "mailbox-full"  # once each time it fills, not once a refusal
    SLOW_HANDLER = "slow-handler"  # one message took longer than slow_seconds
    NOTE = "note"  # written by an actor itself


@attrs.frozen(kw_only=True)
class Report:
    """One event. Every field but `at` is text, so that a sink needs no knowledge to write it.

    `error` is one line, `Type: message`; `traceback` has one entry a frame or line.
    """

    path: str
    event: Event
    reason: str
    decision: str = ""
    at: datetime
    error: str = ""
    traceback: tuple[str, ...] = ()
    fields: Mapping[str, str] = attrs.field(factory=dict)

    def as_json(self) -> str:
        """One line of JSON without a line break at its end; empty fields are left out."""
        shown = {
            "at": self.at.isoformat(),
            "path": self.path,
            "event": self.event.value,
            "reason": self.reason,
            "decision": self.decision,
            "error": self.error,
            "traceback": list(self.traceback),
            "fields": dict(self.fields),
        }
        return json.dumps({name: value for name, value in shown.items() if value})


def _utc_now() -> datetime:
    return datetime.now(UTC)


class _Ring:
    """The newest `size` reports and a count of those that fell out undrained."""

    def __init__(self, size: int) -> None:
        assert size > 0
        self.reports: deque[Report] = deque(maxlen=size)
        self.dropped = 0

    def put(self, report: Report) -> None:
        if len(self.reports) == self.reports.maxlen:
            self.dropped += 1
        self.reports.append(report)


class Subscription:
    """A ring of one reader; `dropped` counts what it was too slow for."""

    def __init__(self, size: int) -> None:
        self._ring = _Ring(size)
        self._lot = trio.lowlevel.ParkingLot()

    @property
    def dropped(self) -> int:
        """How many reports this reader has lost in all."""
        return self._ring.dropped

    def put(self, report: Report) -> None:
        """Add a report and wake the reader."""
        self._ring.put(report)
        self._lot.unpark_all()

    def drain_nowait(self) -> list[Report]:
        """Take all that wait, oldest first; maybe none."""
        taken = list(self._ring.reports)
        self._ring.reports.clear()
        return taken

    async def drain(self) -> list[Report]:
        """Wait for at least one report, then take all. A cancel takes none."""
        await trio.lowlevel.checkpoint()
        while not self._ring.reports:
            await self._lot.park()
        return self.drain_nowait()


class Log:
    """The reports of one tree: the newest `size` of them, and whoever subscribed.

    `clock` gives the time written into each report.
    """

    def __init__(self, *, size: int = 1000, clock: Callable[[], datetime] = _utc_now) -> None:
        self._ring = _Ring(size)
        self._clock = clock
        self._subscriptions: list[Subscription] = []

    @property
    def dropped(self) -> int:
        """How many reports have fallen out of the log's own ring."""
        return self._ring.dropped

    def recent(self) -> list[Report]:
        """What the ring holds, oldest first; taking a look removes nothing."""
        return list(self._ring.reports)

    def put(self, report: Report) -> None:
        """Add a report. Never blocks and never raises."""
        self._ring.put(report)
        for subscription in self._subscriptions:
            subscription.put(report)

    def report(
        self,
        path: str,
        event: Event,
        *,
        reason: str,
        decision: str = "",
        error: BaseException | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> None:
        """Put a report that is made here, with the time of now."""
        lines: list[str] = []
        if error is not None:
            for part in traceback.format_exception(error):
                lines.extend(part.rstrip("\n").split("\n"))
        self.put(
            Report(
                path=path,
                event=event,
                reason=reason,
                decision=decision,
                at=self._clock(),
                error="" if error is None else describe(error),
                traceback=tuple(lines),
                fields=fields or {},
            ),
        )

    @contextlib.contextmanager
    def subscribe(self, *, size: int = 1000) -> Iterator[Subscription]:
        """A ring of one's own for the length of the block, from now on."""
        subscription = Subscription(size)
        self._subscriptions.append(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.remove(subscription)


@attrs.frozen
class ActorLog:
    """The log as one actor sees it: its path is filled in."""

    path: str
    _log: Log

    def note(
        self, reason: str, *, error: BaseException | None = None, **fields: object
    ) -> None:
        """Report something of one's own. Never blocks."""
        text = {name: str(value) for name, value in fields.items()}
        self._log.report(self.path, Event.NOTE, reason=reason, error=error, fields=text)


async def write_json_lines(
    log: Log, stream: TextIO, events: Container[Event] = frozenset(Event)
) -> None:
    """Write each report of `events` to `stream` as a line of JSON; once cancelled, the rest too.

    Writing happens in a thread, because a full pipe would hold the loop; reports that come
    meanwhile wait in a ring. What the stream refuses (its reader has left) is dropped. A reader
    that stops in mid-line holds nobody either: at the end it has LAST_WORDS_SECONDS. Run it around
    the tree, not in it, to see the tree's own end.
    """
    with log.subscribe() as subscription:
        told = 0
        # A cancel may come after the drain and before the thread: what no thread took stays here.
        lines: deque[str] = deque()
        try:
            while True:
                lines.extend(_lines(await subscription.drain(), events))
                if subscription.dropped > told:
                    lines.append(json.dumps({"event": "dropped", "count": subscription.dropped}))
                    told = subscription.dropped
                await trio.to_thread.run_sync(_write, stream, lines, abandon_on_cancel=True)
        finally:
            lines.extend(_lines(subscription.drain_nowait(), events))
            with trio.move_on_after(LAST_WORDS_SECONDS, shield=True):
                await trio.to_thread.run_sync(_write, stream, lines, abandon_on_cancel=True)


def _lines(reports: list[Report], events: Container[Event]) -> list[str]:
    return [report.as_json() for report in reports if report.event in events]


def _write(stream: TextIO, lines: deque[str]) -> None:
    try:
        # An abandoned thread may take from the same queue: ask for a line instead of counting them.
        with contextlib.suppress(IndexError):
            while True:
                stream.write(lines.popleft() + "\n")
        stream.flush()
    except OSError:
        # Its reader has left or its disk is full: no reason to end whoever is being reported on.
        lines.clear()
