"""What a client did and was answered, in a file of its own that survives every kill.

One JSON line an event, appended with one write and synced before the client goes on. A kill leaves
at worst a torn last line, of something that did not happen yet; the next life begins a new line.

Times are of CLOCK_MONOTONIC, which all processes of a machine share.
"""

import enum
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec


class What(enum.Enum):
    """What happened. For a post: INTENT, then POSTED; for a reply: CLAIMED and what follows it."""

    INTENT = "intent"  # is about to post `external_id`
    INJECTED = "injected"  # a mail that the IMAP server took
    POSTED = "posted"  # was answered 202 (`status`) or 200 with the message's `id`
    CLAIMED = "claimed"  # a claim was answered with `draft_id`
    LOST_CLAIM = "lost_claim"  # a claim that may have been served was not answered
    SENDING = "sending"  # is about to send it
    SENT = "sent"  # this line is the sending itself
    FAILED = "failed"  # it was certainly not sent
    UNSURE = "unsure"  # the plugin cannot know
    KEPT = "kept"  # it was sent, and the plugin will not say so
    RESULT = "result"  # the report of it was answered (`status`)
    APPROVED = "approved"  # the owner let `draft_id` go
    REJECTED = "rejected"  # the owner said no
    LIFE = "life"  # a process begins
    DEATH = "death"  # it is about to kill itself, at the moment that `detail` names
    ODD = "odd"  # an answer that there should not be


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event; `by` is a plugin, or a program."""

    what: What
    by: str
    at: float = 0.0
    external_id: str = ""
    id: int = 0
    draft_id: int = 0
    status: int = 0
    detail: str = ""


class Ledger:
    """A ledger to append to; `by` of its lines is given with each."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")

    def __enter__(self) -> Self:
        """Keep it open."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        os.close(self._file)

    def write(
        self,
        what: What,
        by: str,
        *,
        external_id: str = "",
        id: int = 0,  # noqa: A002 - the word of the wire
        draft_id: int = 0,
        status: int = 0,
        detail: str = "",
    ) -> None:
        """Write a line, whole and durable once this returns. It blocks: that is its purpose."""
        line = Line(
            what=what, by=by, at=time.monotonic(), external_id=external_id, id=id,
            draft_id=draft_id, status=status, detail=detail[:500],
        )  # fmt: skip
        whole = msgspec.json.encode(line) + b"\n"
        written = os.write(self._file, whole)
        assert written == len(whole), "the disk is full"
        os.fdatasync(self._file)


def read(path: Path) -> Iterator[Line]:
    """The lines of a ledger that may still be written to; a torn one is left out."""
    if not path.exists():
        return
    for raw in path.read_bytes().split(b"\n"):
        try:
            yield msgspec.json.decode(raw, type=Line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue


def read_all(paths: Iterable[Path]) -> list[Line]:
    """The lines of all ledgers, in the order of time."""
    return sorted((line for path in paths for line in read(path)), key=lambda line: line.at)
