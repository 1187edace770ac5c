"""Which session of the `claude` program goes on with which conversation.

The program keeps what was said in a session; here stands only the session's id. Each turn that
resumes a session forks it, and the fork is remembered once the turn is complete: so a turn that
failed or was cancelled leaves no trace in the conversation, as with the other backends.
"""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs

from muster.clients.durable import DurableFile, open_durable

FILE_NAME = "claude-sessions.sqlite3"
TURNS_MAX = 50
LABELS_MAX = 200

SCHEMA = """
create table if not exists sessions (
    label text primary key,
    session_id text not null,
    turns integer not null,
    used integer not null
) strict;
"""
FIND = "select session_id from sessions where label = ? and turns < ?"
KEEP = """
insert into sessions (label, session_id, turns, used)
values (?, ?, ?, (select coalesce(max(used), 0) + 1 from sessions))
on conflict (label) do update set
    session_id = excluded.session_id,
    turns = case when ? then sessions.turns + 1 else 1 end,
    used = excluded.used
"""
FORGET = "delete from sessions where label = ?"
FORGET_OLDEST = """
delete from sessions where label in (
    select label from sessions order by used desc limit -1 offset ?
)
"""


@attrs.frozen(kw_only=True)
class ClaudeSessions:
    """The memory in one state folder, from `open_claude_sessions`; each call is a transaction.

    A session has at most `turns_max` turns, a folder at most `labels_max` conversations.
    """

    file: DurableFile
    turns_max: int = TURNS_MAX
    labels_max: int = LABELS_MAX

    async def find(self, label: str) -> str | None:
        """The session to resume; None for a new conversation and for a session that is full."""

        def find(db: sqlite3.Connection) -> str | None:
            row = db.execute(FIND, (label, self.turns_max)).fetchone()
            return None if row is None else str(row[0])

        return await self.file.run(find)

    async def keep(self, label: str, session_id: str, *, resumed: bool) -> None:
        """Remember the session of a turn that is complete."""

        def keep(db: sqlite3.Connection) -> None:
            db.execute(KEEP, (label, session_id, 1, resumed))
            db.execute(FORGET_OLDEST, (self.labels_max,))

        await self.file.run(keep)

    async def forget(self, label: str) -> None:
        """Begin this conversation anew with its next turn."""
        await self.file.run(lambda db: db.execute(FORGET, (label,)))


@asynccontextmanager
async def open_claude_sessions(folder: Path) -> AsyncIterator[ClaudeSessions]:
    """Hold the state folder and open its sessions.

    Raises StateFolderBusyError when another process holds the folder, OSError when it can't be
    made.
    """
    async with open_durable(folder, name=FILE_NAME, schema=SCHEMA) as file:
        yield ClaudeSessions(file=file)
