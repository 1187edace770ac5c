"""What was typed into which pane, kept so that a kill at any point never pastes one send twice.

One SQLite file in the state folder for each server (write-ahead log, `synchronous=FULL`), so a step
that returned survives a power cut, and a torn last write is as if it had never been begun:

    begun --> ended (pasted | unconfirmed | not_begun) --> acknowledged
      ^                                     |
      +----------------------- offered anew +

`begun` is the intent: whoever finds one after a restart can't know how far the paste went. The
session's own record may prove it; without that it ends `unconfirmed`. Only what ended `not_begun`
may begin again, since then nothing reached the terminal: the server may offer the same send later.

What can race: an acknowledgement of an earlier `not_begun` with a later attempt. It names the
attempt, so it settles that one alone. Rejected: a file of lines of our own, which would need its
own answers to torn ends, to growth and to two processes; and forgetting a send once it is
acknowledged, since its number is what makes a second paste impossible. Its text is forgotten, and
its number is kept until 10,000 newer ones ended.
"""

import enum
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import attrs

from muster.clients.durable import DurableFile, open_durable

KEPT_COUNT = 10_000
READ_COUNT_MAX = 500
DETAIL_CHARACTERS_MAX = 500

SCHEMA = """
create table if not exists sends (
    send_id integer primary key,
    attempt integer not null,
    sha256 text not null,
    claude_session text not null,
    text text not null,
    state text not null check (state in ('begun', 'ended', 'acknowledged')),
    begun_at text not null,
    outcome text check (outcome in ('pasted', 'unconfirmed', 'not_begun')),
    detail text not null default '',
    check ((state = 'begun') = (outcome is null))
) strict;
create index if not exists sends_unsettled on sends (state, send_id)
    where state in ('begun', 'ended');
"""
BEGIN = """
insert into sends (send_id, attempt, sha256, claude_session, text, state, begun_at)
values (?, 1, ?, ?, ?, 'begun', ?)
on conflict (send_id) do update
set attempt = sends.attempt + 1, sha256 = excluded.sha256, text = excluded.text, state = 'begun',
    claude_session = excluded.claude_session, begun_at = excluded.begun_at, outcome = null,
    detail = ''
where sends.outcome = 'not_begun'
"""
END = """
update sends set state = 'ended', outcome = ?, detail = ?, text = ''
where send_id = ? and state = 'begun'
"""
ACKNOWLEDGE = """
update sends set state = 'acknowledged' where send_id = ? and attempt = ? and state = 'ended'
"""
FORGET = """
delete from sends where state = 'acknowledged' and send_id <= (
    select send_id from sends order by send_id desc limit 1 offset ?)
"""
COLUMNS = "send_id, attempt, sha256, claude_session, text, state, begun_at, outcome, detail"
FIND = f"select {COLUMNS} from sends where send_id = ?"  # noqa: S608 - a constant
IN_STATE = f"""
select {COLUMNS} from sends where state = ? order by send_id limit ?
"""  # noqa: S608 - a constant


class State(enum.Enum):
    """How far a send came; the value is what is stored."""

    BEGUN = "begun"
    ENDED = "ended"
    ACKNOWLEDGED = "acknowledged"


class Outcome(enum.Enum):
    """How a send ended; the value is what is stored and what the wire carries."""

    PASTED = "pasted"
    UNCONFIRMED = "unconfirmed"
    NOT_BEGUN = "not_begun"


@attrs.frozen(kw_only=True)
class Entry:
    """One send in the journal; its text is there while it is begun, and what was really typed."""

    send_id: int
    attempt: int
    sha256: str
    claude_session: str
    text: str
    state: State
    begun_at: datetime
    outcome: Outcome | None
    detail: str


class Journal:
    """The durable record of a host, from `open_journal`.

    Every method is one transaction in a worker thread, whole once it returned. A step that the
    journal's state forbids is a bug and raises AssertionError; DurableFileError when the file can't
    be used.
    """

    def __init__(self, file: DurableFile) -> None:
        self._file = file

    async def find(self, send_id: int) -> Entry | None:
        """What is known of a send, None when it never began here."""
        rows = await self._file.run(lambda db: db.execute(FIND, (send_id,)).fetchall())
        return _entry(rows[0]) if rows else None

    async def begin(
        self, send_id: int, claude_session: str, *, sha256: str, text: str, now: datetime
    ) -> None:
        """Write down that the paste of `text` begins, before its first byte."""
        values = (send_id, sha256, claude_session, text, now.isoformat())
        await self._step(BEGIN, values)

    async def end(self, send_id: int, outcome: Outcome, detail: str) -> Entry:
        """Write down how it ended; the text is dropped."""
        await self._step(END, (outcome.value, detail[:DETAIL_CHARACTERS_MAX], send_id))
        entry = await self.find(send_id)
        assert entry is not None, "what ended is kept"
        return entry

    async def acknowledge(self, send_id: int, attempt: int) -> None:
        """Write down that muster knows this attempt's end; another attempt is left as it is."""

        def work(db: sqlite3.Connection) -> None:
            db.execute(ACKNOWLEDGE, (send_id, attempt))
            db.execute(FORGET, (KEPT_COUNT,))

        await self._file.run(work)

    async def begun(self) -> Sequence[Entry]:
        """What an earlier process left begun, at most 500, oldest first."""
        return await self._entries(State.BEGUN)

    async def unacknowledged(self) -> Sequence[Entry]:
        """What ended and muster has not acknowledged, at most 500, oldest first."""
        return await self._entries(State.ENDED)

    async def _entries(self, state: State) -> Sequence[Entry]:
        values = (state.value, READ_COUNT_MAX)
        rows = await self._file.run(lambda db: db.execute(IN_STATE, values).fetchall())
        return [_entry(row) for row in rows]

    async def _step(self, statement: str, values: tuple[object, ...]) -> None:
        count = await self._file.run(lambda db: db.execute(statement, values).rowcount)
        assert count == 1, f"the journal forbids this step: {statement.strip()}"


@asynccontextmanager
async def open_journal(folder: Path, url: str) -> AsyncIterator[Journal]:
    """Hold the state folder and open the journal for the server at `url` in it.

    A send's number is unique within one server only. Raises StateFolderBusyError when another
    process holds the folder, OSError when it can't be used.
    """
    name = f"journal-{sha256(url.rstrip('/').encode()).hexdigest()[:12]}.sqlite3"
    async with open_durable(folder, name=name, schema=SCHEMA) as file:
        yield Journal(file)


def _entry(row: tuple[int, int, str, str, str, str, str, str | None, str]) -> Entry:
    send_id, attempt, digest, session, text, state, begun_at, outcome, detail = row
    return Entry(
        send_id=send_id,
        attempt=attempt,
        sha256=digest,
        claude_session=session,
        text=text,
        state=State(state),
        begun_at=datetime.fromisoformat(begun_at).astimezone(UTC),
        outcome=None if outcome is None else Outcome(outcome),
        detail=detail,
    )
