"""What a plugin did with each draft, kept so that a kill at any point never sends one twice.

One SQLite file in the state folder, write-ahead log with `synchronous=FULL`: a commit that
returned survives a power cut. Each step is committed before the next one begins:

    claimed <--> sending --> done --> reported
       |            |
       |            +--> unknown     the process died in mid-send and nothing proves the sending
       +--> done                     known not to have been sent: the lease was over

`sending` is the intent. Whoever finds a draft in it after a restart can't know how far the
sending went, so it is never sent again: the plugin proves that it was (`was_sent`), or it stays
unknown and muster's lease makes it unconfirmed. A draft that is `claimed` was certainly not sent:
either nobody began to, or the sink knew that it had not (SendLaterError) and the way back from
`sending` was written down. So the same sending may begin again, after a kill too.

What can race: nothing. One process holds the folder, one thread at a time the connection, and
each step names the state it comes from. Rejected: deleting what was reported, since the id is
what makes a second sending impossible; only its text is dropped.
"""

import enum
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import attrs

from muster.clients.durable import DurableFile, open_durable
from muster.clients.plugin.wire import Draft, Result, fit_result

R = TypeVar("R")

FILE_NAME = "journal.sqlite3"
READ_COUNT_MAX = 100
"""How many drafts one read of the journal returns at most."""

SCHEMA = """
create table if not exists drafts (
    draft_id integer primary key,
    message_external_id text not null,
    body text not null,
    approved_at text not null,
    state text not null check (state in ('claimed', 'sending', 'done', 'reported', 'unknown')),
    claimed_at real not null,
    ok integer,
    external_ref text not null default '',
    detail text not null default '',
    answer text not null default ''
) strict;
create index if not exists drafts_unsettled on drafts (state, draft_id)
    where state in ('claimed', 'sending', 'done');
"""

INSERT = """
insert into drafts (draft_id, message_external_id, body, approved_at, state, claimed_at)
values (?, ?, ?, ?, 'claimed', ?) on conflict (draft_id) do nothing
"""
BEGIN_SENDING = "update drafts set state = 'sending' where draft_id = ? and state = 'claimed'"
TAKE_BACK = "update drafts set state = 'claimed' where draft_id = ? and state = 'sending'"
FINISH = """
update drafts set state = 'done', ok = ?, external_ref = ?, detail = ?
where draft_id = ? and state in ('claimed', 'sending')
"""
LOSE_TRACK = """
update drafts set state = 'unknown', detail = ? where draft_id = ? and state = 'sending'
"""
SETTLE = """
update drafts set state = 'reported', answer = ?, body = ''
where draft_id = ? and state = 'done'
"""
COLUMNS = """draft_id, message_external_id, body, approved_at, state, claimed_at, ok,
external_ref, detail, answer"""
FIND = f"select {COLUMNS} from drafts where draft_id = ?"  # noqa: S608 - a constant
BEGUN = f"""
select {COLUMNS} from drafts where state in ('claimed', 'sending') order by draft_id limit ?
"""  # noqa: S608 - a constant
DONE = f"""
select {COLUMNS} from drafts where state = 'done' order by draft_id limit ?
"""  # noqa: S608 - a constant


class State(enum.Enum):
    """How far a draft came; the value is what is stored."""

    CLAIMED = "claimed"
    SENDING = "sending"
    DONE = "done"
    REPORTED = "reported"
    UNKNOWN = "unknown"


@attrs.frozen(kw_only=True)
class Entry:
    """One draft in the journal.

    `claimed_at` is in seconds since 1970; `result` is there from `done` on; `answer` is what
    muster made of the report. The text of a reported draft is gone.
    """

    draft: Draft
    state: State
    claimed_at: float
    result: Result | None
    answer: str


class Journal:
    """The durable record of a plugin, from `open_journal`.

    Every method is one transaction in a worker thread, whole once it returned. A step that the
    journal's state forbids is a bug and raises AssertionError.
    """

    def __init__(self, file: DurableFile) -> None:
        self._file = file

    async def run(self, work: Callable[[sqlite3.Connection], R]) -> R:
        """Run `work` in one transaction of this file; a plugin keeps its cursor so.

        `work` runs in a thread and must not commit. It can't be cancelled once it began.
        """
        return await self._file.run(work)

    async def record_claimed(self, draft: Draft, *, claimed_at: float) -> bool:
        """Write a draft down before anything else; False when its id is known already."""
        row = (
            draft.draft_id, draft.message_external_id, draft.body, draft.approved_at, claimed_at
        )  # fmt: skip
        return await self.run(lambda db: db.execute(INSERT, row).rowcount == 1)

    async def record_sending(self, draft_id: int) -> None:
        """Write down that the sending begins; only `record_not_sent` allows another one."""
        await self._step(BEGIN_SENDING, (draft_id,))

    async def record_not_sent(self, draft_id: int) -> None:
        """Write down that the sending which began is known not to have happened."""
        await self._step(TAKE_BACK, (draft_id,))

    async def record_done(self, draft_id: int, result: Result) -> None:
        """Write down what became of the draft, fitted to the contract's limits."""
        fitted = fit_result(result)
        await self._step(FINISH, (int(fitted.ok), fitted.external_ref, fitted.detail, draft_id))

    async def record_unknown(self, draft_id: int, detail: str) -> None:
        """Write down that nobody can know whether the draft was sent."""
        await self._step(LOSE_TRACK, (fit_result(Result(ok=False, detail=detail)).detail, draft_id))

    async def record_reported(self, draft_id: int, answer: str) -> None:
        """Write down muster's final answer to the report; the draft's text is dropped."""
        await self._step(SETTLE, (answer[:200], draft_id))

    async def find(self, draft_id: int) -> Entry | None:
        """The journal's entry for a draft, None when it was never claimed here."""
        rows = await self.run(lambda db: db.execute(FIND, (draft_id,)).fetchall())
        return _entry(rows[0]) if rows else None

    async def begun(self) -> Sequence[Entry]:
        """What an earlier process left claimed or sending, at most 100, oldest first."""
        return await self._entries(BEGUN)

    async def unreported(self) -> Sequence[Entry]:
        """Drafts with a result that muster has not answered yet, at most 100, oldest first."""
        return await self._entries(DONE)

    async def _step(self, statement: str, values: tuple[object, ...]) -> None:
        count = await self.run(lambda db: db.execute(statement, values).rowcount)
        assert count == 1, f"the journal forbids this step: {statement.strip()}"

    async def _entries(self, statement: str) -> Sequence[Entry]:
        rows = await self.run(lambda db: db.execute(statement, (READ_COUNT_MAX,)).fetchall())
        return [_entry(row) for row in rows]


@asynccontextmanager
async def open_journal(folder: Path) -> AsyncIterator[Journal]:
    """Hold the state folder and open its journal.

    Raises StateFolderBusyError when another process holds the folder.
    """
    async with open_durable(folder, name=FILE_NAME, schema=SCHEMA) as file:
        yield Journal(file)


def _entry(row: tuple[int, str, str, str, str, float, int | None, str, str, str]) -> Entry:
    draft_id, message_external_id, body, approved_at, state, claimed_at, ok, *texts = row
    external_ref, detail, answer = texts
    draft = Draft(
        draft_id=draft_id,
        message_external_id=message_external_id,
        body=body,
        approved_at=approved_at,
    )
    result = None
    if ok is not None:
        result = Result(ok=bool(ok), external_ref=external_ref, detail=detail)
    return Entry(
        draft=draft, state=State(state), claimed_at=claimed_at, result=result, answer=answer
    )
