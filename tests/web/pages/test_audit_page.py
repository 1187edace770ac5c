"""/audit: rows chosen, paged backwards and exported."""

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from muster.accounts.operations import log
from muster.accounts.operations.log import LookUp, look_up
from muster.outcomes import Fact
from muster.principals import Owner
from tests.support.builders import read_now
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.owner_desk import OpenOwnerDesk, OwnerDesk, text_of


async def record(db: SpiedDatabase, owner: Owner, *facts: Fact) -> None:
    """Rows of the owner's own."""
    async with db.transaction(owner) as tx:
        await tx.record(*facts)


def done(number: int, action: str = "plugin.retried", **data: object) -> Fact:
    """A fact about message `number`."""
    return Fact(action=action, subject=f"message:{number}", data=data)


def rows_of(page: str) -> list[str]:
    """What the table says, row by row, newest first, without the times."""
    rows = re.findall(r"<tr data-item>(.*?)</tr>", page, re.DOTALL)
    return [re.sub(r"^\d+ \w+ \d{4} [\d:]+ ", "", text_of(row)) for row in rows]


async def only(at: OwnerDesk, query: str) -> list[str]:
    """The subjects that a choice leaves."""
    return [row.split()[3] for row in rows_of(await at.page(f"/audit?{query}"))]


async def test_rows_are_shown_newest_first(owner_desk: OpenOwnerDesk) -> None:
    """A row tells when, who, by which door, what, to what and its data; its subject is a link."""
    async with owner_desk() as at:
        await record(at.db, at.owner, done(7, retry=1, reason="a\u202eb<i>"), done(8))
        page = await at.page("/audit?action=plugin.retried")
        assert rows_of(page) == [
            "owner cli plugin.retried message:8",
            "owner cli plugin.retried message:7 retry 1 reason a\\u{202e}b<i>",
        ]
        assert '<a href="/messages/7" data-open>message:7</a>' in page


async def test_rows_are_chosen(owner_desk: OpenOwnerDesk, db: SpiedDatabase) -> None:
    """Action and actor choose by their beginning, a subject exactly, times by the owner's day."""
    async with owner_desk() as at:
        await record(db, at.owner, done(1), done(2, "plugin.delivered"), done(10))
        assert await only(at, "action=plugin.retried") == ["message:10", "message:1"]
        assert await only(at, "subject=message:1") == ["message:1"]
        assert await only(at, "subject=message&actor=owner") == [
            "message:10", "message:2", "message:1",
        ]  # fmt: skip
        assert await only(at, "actor=chief&subject=message:1") == []
        assert await only(at, "subject=message:1&action=plugin.delivered") == []
        now = await read_now(db)
        before = (now - timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M")
        after = (now + timedelta(minutes=2)).strftime("%Y-%m-%dT%H:%M")
        assert len(await only(at, f"subject=message&since={before}&until={after}")) == 3
        assert await only(at, f"subject=message&since={after}") == []
        assert await only(at, f"subject=message&until={before}") == []
        assert await only(at, f"subject=message:1&until={before}") == []
        assert (await at.visiting.get("/audit?since=yesterday")).status_code == 400
        assert "There is no such row" in await at.page("/audit?action=nothing")


async def test_rows_are_paged_backwards(owner_desk: OpenOwnerDesk) -> None:
    """A page holds a hundred rows, and the link to the older ones keeps the choice."""
    async with owner_desk() as at:
        await record(at.db, at.owner, *(done(number) for number in range(1, 102)))
        first = await at.page("/audit?action=plugin.retried")
        (older,) = re.findall(r'rel="next" href="([^"]+)"', first)
        second = await at.page(older.replace("&amp;", "&"))
        assert rows_of(first)[0].endswith("message:101")
        assert len(rows_of(first)) == 100
        assert [row.split()[3] for row in rows_of(second)] == ["message:1"]
        assert 'rel="next"' not in second


async def test_a_long_log_is_walked_in_steps(
    db: SpiedDatabase, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that finds little ends after its walk and says where to look on; times skip rows."""
    monkeypatch.setattr(log, "LOOKED_MAX", 10)
    monkeypatch.setattr(log, "SLACK", timedelta(0))
    await record(db, owner, done(1, "rare"))
    start = await read_now(db)
    for hour in range(1, 4):
        db.clock_offset = timedelta(hours=hour)
        await record(db, owner, *(done(number) for number in range(8)))
    looks, before, found = 0, None, []
    while looks == 0 or before is not None:
        looked = await db.run(owner, look_up, LookUp(action="rare", before_id=before))
        found += looked.rows
        looks, before = looks + 1, looked.older_than
    assert (looks, [row.subject for row in found]) == (3, ["message:1"])
    early = await db.run(owner, look_up, LookUp(until=start + timedelta(minutes=90), limit=100))
    assert [row.subject for row in early.rows] == [f"message:{n}" for n in (*range(7, -1, -1), 1)]
    assert early.older_than is None
    late = await db.run(owner, look_up, LookUp(since=start + timedelta(minutes=170), limit=100))
    assert (len(late.rows), late.older_than) == (8, None)
    none = await db.run(owner, look_up, LookUp(until=start - timedelta(days=1)))
    assert (none.rows, none.older_than) == ([], None)


async def test_the_ends_of_time_choose_all_rows(
    owner_desk: OpenOwnerDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the year 1 until the year 9999 there are all rows, however long the log is."""
    monkeypatch.setattr(log, "LOOKED_MAX", 3)
    async with owner_desk() as at:
        await record(at.db, at.owner, *(done(number) for number in range(5)))
        for ends in (
            "since=0001-01-01T00:00",
            "until=9999-12-31T23:59:59",
            "since=0001-01-01T00:00&until=9999-12-31T23:59:59",
        ):
            assert len(await only(at, f"{ends}&subject=message:4")) == 1
            assert await only(at, ends) == ["message:4", "message:3", "message:2"]


async def test_rows_are_exported_whole(owner_desk: OpenOwnerDesk) -> None:
    """JSONL and CSV hold the chosen rows of all pages, newest first, as files to keep."""
    async with owner_desk() as at:
        await record(at.db, at.owner, *(done(n, odd="é\u2028\n=1") for n in range(1, 502)))
        lines = await at.visiting.get("/audit/export.jsonl?action=plugin.retried")
        assert lines.headers["content-type"] == "application/x-ndjson"
        assert 'filename="audit.jsonl"' in lines.headers["content-disposition"]
        assert lines.text.isascii()
        rows = [json.loads(line) for line in lines.text.splitlines()]
        assert [row["subject"] for row in rows] == [f"message:{n}" for n in range(501, 0, -1)]
        assert rows[0]["data"] == {"odd": "é\u2028\n=1"}
        assert datetime.fromisoformat(rows[0]["at"]).tzinfo == UTC
        table = await at.visiting.get("/audit/export.csv?action=plugin.retried")
        assert table.headers["content-type"] == "text/csv; charset=utf-8"
        cells = list(csv.DictReader(io.StringIO(table.text, newline="")))
        assert [cell["subject"] for cell in cells] == [row["subject"] for row in rows]
        assert json.loads(cells[0]["data"]) == rows[0]["data"]


async def test_a_spreadsheet_computes_no_cell(owner_desk: OpenOwnerDesk) -> None:
    """A cell of the CSV that begins as a formula does begins with a quote."""
    async with owner_desk() as at:
        for mark in "=+-@\t\r":
            fact = Fact(action=f"{mark}cmd()", subject="plugin:1")
            await record(at.db, at.owner, fact)
        table = await at.visiting.get("/audit/export.csv?subject=plugin:1")
        cells = list(csv.DictReader(io.StringIO(table.text, newline="")))
        assert sorted(cell["action"] for cell in cells if cell["action"].startswith("'")) == sorted(
            f"'{mark}cmd()" for mark in "=+-@\t\r"
        )


async def test_the_log_is_its_owners(owner_desk: OpenOwnerDesk, db: SpiedDatabase) -> None:
    """Nobody sees, chooses or exports another owner's rows; a guest is led to sign-in."""
    async with owner_desk() as at:
        await record(db, await add_owner(db), done(999_999))
        for path in (
            "/audit",
            "/audit?subject=message:999999",
            "/audit/export.jsonl",
            "/audit/export.csv",
        ):
            assert "message:999999<" not in await at.page(path)
        del at.visiting.client.headers["Cookie"]
        for path in ("/audit", "/audit/export.jsonl", "/audit/export.csv"):
            answer = await at.visiting.get(path)
            assert answer.headers["location"].startswith("/sign-in")
