"""The journal's file: what it promises, beyond a killed process."""

import sqlite3
from pathlib import Path

import pytest

from muster.clients.plugin import Draft, Result, State, open_journal

# As the first version made it, with a draft in each state.
FIRST_FILE = """
create table drafts (
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
create index drafts_unsettled on drafts (state, draft_id)
    where state in ('claimed', 'sending', 'done');
insert into drafts (draft_id, message_external_id, body, approved_at, state, claimed_at, ok)
values (1, 'm1', 'b', 't', 'claimed', 5, null), (2, 'm2', 'b', 't', 'sending', 5, null),
    (3, 'm3', 'b', 't', 'done', 5, 1), (4, 'm4', '', 't', 'reported', 5, 0),
    (5, 'm5', 'b', 't', 'unknown', 5, null);
"""


@pytest.mark.rule(98)
async def test_every_step_reaches_the_disk_before_the_next(tmp_path: Path) -> None:
    """Each commit is synced, as no test that kills a process could notice: a power cut would."""
    async with open_journal(tmp_path) as journal:
        mode = await journal.run(lambda db: db.execute("pragma journal_mode").fetchone())
        synced = await journal.run(lambda db: db.execute("pragma synchronous").fetchone())
    assert (mode, synced) == (("wal",), (2,))  # 2 is FULL


async def test_a_journal_of_the_first_version_opens(tmp_path: Path) -> None:
    """A file that an older muster made is read as it is, and every step goes on in it."""
    made = sqlite3.connect(tmp_path / "journal.sqlite3")
    made.executescript(FIRST_FILE)
    made.close()
    async with open_journal(tmp_path) as journal:
        entries = [await journal.find(number) for number in range(1, 6)]
        assert [entry.state for entry in entries if entry] == list(State)[:5]
        await journal.record_not_sent(2)
        await journal.record_sending(2)
        await journal.record_done(2, Result(ok=True, external_ref="r", detail="d"))
        assert [entry.draft.draft_id for entry in await journal.unreported()] == [2, 3]


@pytest.mark.rule(99)
async def test_only_a_sending_that_began_is_taken_back(tmp_path: Path) -> None:
    """A draft whose sending is over, or never began, can't become one that was not sent."""
    draft = Draft(draft_id=1, message_external_id="m", body="b", approved_at="t")
    async with open_journal(tmp_path) as journal:
        await journal.record_claimed(draft, claimed_at=0)
        with pytest.raises(AssertionError):
            await journal.record_not_sent(1)
        await journal.record_sending(1)
        await journal.record_not_sent(1)
        await journal.record_sending(1)
        await journal.record_unknown(1, "lost")
        with pytest.raises(AssertionError):
            await journal.record_not_sent(1)
        entry = await journal.find(1)
        assert entry is not None
        assert entry.state is State.UNKNOWN
