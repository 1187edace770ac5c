"""The file that a client remembers in: who may read it, and what becomes of a disk that is full."""

import os
import sqlite3
from pathlib import Path

import attrs
import pytest

from muster.clients.durable import DurableFile, DurableFileError, open_durable
from muster.clients.plugin import Draft, Journal, Sent, State
from tests.support.running_plugin import Upstream, plugin_on
from tests.support.scripted_server import scripted_server

SCHEMA = "create table if not exists notes (text text not null) strict;"
PAGE_BYTES = 4096


async def write(file: DurableFile, text: str) -> None:
    """Write one note."""
    await file.run(lambda db: db.execute("insert into notes values (?)", (text,)))


def fill(db: sqlite3.Connection) -> None:
    """Leave the file no page more than it has: SQLite then says what it says of a full disk."""
    (count,) = db.execute("pragma page_count").fetchone()
    db.execute(f"pragma max_page_count = {count}")


async def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    """The file and those beside it are their user's alone, in an open folder with an open umask."""
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    before = os.umask(0)
    try:
        async with open_durable(folder, name="notes.sqlite3", schema=SCHEMA) as file:
            await write(file, "private")
            modes = {each.name: each.stat().st_mode & 0o777 for each in os.scandir(folder)}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(
        ("lock", "notes.sqlite3", "notes.sqlite3-wal", "notes.sqlite3-shm"), 0o600
    )


async def test_a_full_disk_is_told_and_outlived(tmp_path: Path) -> None:
    """What does not fit is told as an OSError that names the file, and the next note is kept."""
    async with open_durable(tmp_path, name="notes.sqlite3", schema=SCHEMA) as file:
        await file.run(fill)
        with pytest.raises(DurableFileError, match=r"notes.sqlite3 cannot be used: .* is full"):
            await write(file, "long " * PAGE_BYTES)
        await write(file, "short")
        assert await file.run(lambda db: db.execute("select text from notes").fetchall()) == [
            ("short",)
        ]


async def test_a_commit_that_fails_leaves_no_transaction_open(tmp_path: Path) -> None:
    """After a commit that could not be made the next transaction can begin."""
    schema = f"""{SCHEMA}
    create table if not exists replies (
        reply integer primary key, answers integer references replies deferrable initially deferred
    ) strict;"""
    async with open_durable(tmp_path, name="notes.sqlite3", schema=schema) as file:
        file._connection.execute("pragma foreign_keys = on")
        with pytest.raises(DurableFileError):
            await file.run(lambda db: db.execute("insert into replies values (1, 7)"))
        await write(file, "next")


async def test_a_file_of_another_kind_is_told(tmp_path: Path) -> None:
    """A file that is no such file is told, and neither read nor written over."""
    (tmp_path / "notes.sqlite3").write_text("Dear diary, " * 1000)
    with pytest.raises(DurableFileError, match="cannot be used: file is not a database"):
        async with open_durable(tmp_path, name="notes.sqlite3", schema=SCHEMA):
            raise AssertionError
    assert (tmp_path / "notes.sqlite3").read_text().startswith("Dear diary")


@attrs.define(kw_only=True)
class Filling(Upstream):
    """A sink whose sending goes well, and leaves the journal no room to write that down."""

    journal: Journal

    async def send(self, draft: Draft) -> Sent:
        """Send it, and fill the journal."""
        await self.journal.run(fill)
        return await Upstream.send(self, draft)


@pytest.mark.rule(98)
async def test_a_plugin_ends_on_a_full_disk_and_sends_nothing_twice(tmp_path: Path) -> None:
    """A journal that is full after a sending ends the plugin plainly, and it is not sent again."""
    async with scripted_server() as server:
        server.approve(7)
        async with plugin_on(tmp_path, server) as plugin:
            plugin.sink = Filling(journal=plugin.journal, detail="x" * PAGE_BYTES)
            with pytest.raises(DurableFileError, match="is full"):
                await plugin.run()
            assert len(plugin.sink.sent) == 1
        async with plugin_on(tmp_path, server) as again:
            await again.run_once()
            assert again.sink.sent == []
            assert await again.state(7) is State.UNKNOWN
    assert server.results == {}
