"""The journal's file: what it promises, beyond a killed process."""

from pathlib import Path

import pytest

from muster.clients.plugin import open_journal


@pytest.mark.rule(98)
async def test_every_step_reaches_the_disk_before_the_next(tmp_path: Path) -> None:
    """Each commit is synced, as no test that kills a process could notice: a power cut would."""
    async with open_journal(tmp_path) as journal:
        mode = await journal.run(lambda db: db.execute("pragma journal_mode").fetchone())
        synced = await journal.run(lambda db: db.execute("pragma synchronous").fetchone())
    assert (mode, synced) == (("wal",), (2,))  # 2 is FULL
