"""What an agent remembers of its turns, a conversation a label, in the runner's state folder.

A turn is kept whole or not at all (`transcript.is_whole`), and what is dropped is dropped by whole
turns, oldest first, so no request to a model can ever hold a tool call without its result. A label
has at most `turns_max` turns and `bytes_max` bytes of JSON; a folder has at most `labels_max`
labels, and the ones that were kept in least recently leave.

SQLite was chosen over a file a label: bounds over all labels and a commit that survives a power cut
are one statement each. Rejected: a provider's own JSON (a change of the model would lose every
conversation), and summaries of what is dropped (another model call, that could fail by itself).
"""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import msgspec

from muster.clients.agent.transcript import Entry, decode, encode, is_whole
from muster.clients.durable import DurableFile, open_durable

FILE_NAME = "conversations.sqlite3"

SCHEMA = """
create table if not exists conversations (
    label text primary key,
    title text not null,
    used integer not null
) strict;
create unique index if not exists conversations_used on conversations (used);
create table if not exists turns (
    turn integer primary key,
    label text not null references conversations (label),
    entries blob not null
) strict;
create index if not exists turns_label on turns (label, turn);
"""

USE = """
insert into conversations (label, title, used)
values (?, ?, (select coalesce(max(used), 0) + 1 from conversations))
on conflict (label) do update set title = excluded.title, used = excluded.used
"""
ADD = "insert into turns (label, entries) values (?, ?)"
SIZES = "select turn, length(entries) from turns where label = ? order by turn desc"
FORGET_BEFORE = "delete from turns where label = ? and turn < ?"
FORGET = "delete from turns where label = ?"
READ = "select entries from turns where label = ? order by turn"
OVER = "select label from conversations order by used desc limit -1 offset ?"
FORGET_LABEL = "delete from conversations where label = ?"


@attrs.frozen(kw_only=True)
class Bounds:
    """How much is remembered: turns and bytes of a conversation, and conversations."""

    turns_max: int = 50
    bytes_max: int = 256 * 1024
    labels_max: int = 200


@attrs.frozen(kw_only=True)
class Conversations:
    """The memory in one state folder, from `open_conversations`; each call is one transaction."""

    file: DurableFile
    bounds: Bounds = Bounds()

    async def recall(self, label: str) -> list[tuple[Entry, ...]]:
        """The turns kept of a conversation, oldest first."""
        rows = await self.file.run(lambda db: db.execute(READ, (label,)).fetchall())
        turns: list[tuple[Entry, ...]] = []
        for (raw,) in rows:
            try:
                turns.append(decode(raw))
            except msgspec.DecodeError:
                # Of another version: what stands before it would not be understood without it.
                turns.clear()
        return turns

    async def keep(self, label: str, entries: Sequence[Entry], *, title: str = "") -> bool:
        """Remember a turn; False when it alone is over the bounds and was not kept."""
        assert is_whole(entries), "a tool call without its result would spoil every later request"
        raw = encode(entries)
        if len(raw) > self.bounds.bytes_max:
            return False

        def keep(db: sqlite3.Connection) -> None:
            db.execute(USE, (label, title))
            db.execute(ADD, (label, raw))
            self._drop_oldest(db, label, turns_max=self.bounds.turns_max)
            for (over,) in db.execute(OVER, (self.bounds.labels_max,)).fetchall():
                db.execute(FORGET, (over,))
                db.execute(FORGET_LABEL, (over,))

        await self.file.run(keep)
        return True

    async def shorten(self, label: str, *, turns_max: int) -> None:
        """Forget all but the newest `turns_max` turns of a conversation."""
        await self.file.run(lambda db: self._drop_oldest(db, label, turns_max=turns_max))

    def _drop_oldest(self, db: sqlite3.Connection, label: str, *, turns_max: int) -> None:
        size, first_kept = 0, None
        for count, (turn, length) in enumerate(db.execute(SIZES, (label,)).fetchall(), start=1):
            size += length
            if count > turns_max or size > self.bounds.bytes_max:
                break
            first_kept = turn
        if first_kept is None:
            db.execute(FORGET, (label,))
        else:
            db.execute(FORGET_BEFORE, (label, first_kept))


@asynccontextmanager
async def open_conversations(
    folder: Path, *, bounds: Bounds = Bounds()
) -> AsyncIterator[Conversations]:
    """Hold the state folder and open its conversations.

    Raises StateFolderBusyError when another process holds the folder, OSError when it can't be
    made.
    """
    async with open_durable(folder, name=FILE_NAME, schema=SCHEMA) as file:
        yield Conversations(file=file, bounds=bounds)
