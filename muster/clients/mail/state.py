"""The mail plugin's own tables, in the SDK's journal file.

`mail_files` is the cursor: a file is in it once muster answered 2xx, or refused the mail for
good. It is a set and not a position, because a Maildir has no order that time respects. `mails`
keeps what a reply needs, so that a reply can be sent when the mail itself is long deleted.
"""

import enum
import sqlite3
from collections.abc import Iterable, Sequence

import msgspec

from muster.clients.mail.maildir import MailFile
from muster.clients.mail.parse import ReplyFacts
from muster.clients.plugin import Journal

SCHEMA = """
create table if not exists mail_files (
    key text primary key,
    size_bytes integer not null,
    changed_ns integer not null,
    external_id text not null,
    state text not null check (state in ('posted', 'refused')),
    reason text not null default ''
) strict
"""
SCHEMA_OF_MAILS = """
create table if not exists mails (external_id text primary key, reply text not null) strict
"""
IS_SETTLED = "select 1 from mail_files where key = ? and size_bytes = ? and changed_ns = ?"
SETTLE = """
insert into mail_files (key, size_bytes, changed_ns, external_id, state, reason)
values (?, ?, ?, ?, ?, ?)
on conflict (key) do update set size_bytes = excluded.size_bytes,
    changed_ns = excluded.changed_ns, external_id = excluded.external_id,
    state = excluded.state, reason = excluded.reason
"""
KEEP_REPLY = """
insert into mails (external_id, reply) values (?, ?) on conflict (external_id) do nothing
"""
FIND_REPLY = "select reply from mails where external_id = ?"


class FileState(enum.Enum):
    """What became of a mail file; the value is what is stored."""

    POSTED = "posted"
    REFUSED = "refused"


class MailState:
    """What the mail plugin remembers; each method is one durable transaction."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def prepare(self) -> None:
        """Make the tables that are missing."""

        def work(db: sqlite3.Connection) -> None:
            db.execute(SCHEMA)
            db.execute(SCHEMA_OF_MAILS)

        await self._journal.run(work)

    async def unsettled(self, files: Iterable[MailFile], *, count_max: int) -> Sequence[MailFile]:
        """The first `count_max` of `files` that are neither posted nor refused as they are now.

        `files` is walked in the journal's thread, so it may be a lazy listing of a folder.
        """

        def work(db: sqlite3.Connection) -> list[MailFile]:
            found: list[MailFile] = []
            for file in files:
                values = (file.key, file.size_bytes, file.changed_ns)
                if db.execute(IS_SETTLED, values).fetchone() is None:
                    found.append(file)
                    if len(found) == count_max:
                        break
            return found

        return await self._journal.run(work)

    async def keep_reply_facts(self, external_id: str, reply: ReplyFacts) -> None:
        """Keep what a reply to this mail needs; before the post, since a claim may follow it."""
        encoded = msgspec.json.encode(reply).decode("utf-8")
        await self._journal.run(lambda db: db.execute(KEEP_REPLY, (external_id, encoded)))

    async def find_reply_facts(self, external_id: str) -> ReplyFacts | None:
        """What a reply to this mail needs, None when this folder never saw the mail."""
        row = await self._journal.run(lambda db: db.execute(FIND_REPLY, (external_id,)).fetchone())
        return None if row is None else msgspec.json.decode(row[0], type=ReplyFacts)

    async def settle(
        self, file: MailFile, external_id: str, state: FileState, *, reason: str = ""
    ) -> None:
        """Remember that this file, as it is now, needs no more posting."""
        values = (
            file.key, file.size_bytes, file.changed_ns, external_id, state.value, reason
        )  # fmt: skip
        await self._journal.run(lambda db: db.execute(SETTLE, values))
