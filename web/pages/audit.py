"""`/audit`: who did what, by which door; chosen, paged backwards, and exported.

An export is written page by page as it is read, newest row first, and ends after EXPORT_ROWS_MAX
rows. A CSV cell that a spreadsheet would take for a formula is written with a quote before it.
"""

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC
from typing import Final
from urllib.parse import urlencode

import attrs
from quart import Blueprint, Response
from quart.typing import ResponseReturnValue

from muster.accounts.operations.log import AuditRow, LookUp, look_up
from web.pages.reading import find_id, read_time, read_word
from web.pages.visits import Visit, show, signed_in
from web.pages.words import zone

AUDIT = Blueprint("audit", __name__)
PAGE_ROWS: Final = 100
EXPORT_PAGE_ROWS: Final = 500
EXPORT_ROWS_MAX: Final = 100_000
COLUMNS: Final = ("id", "at", "actor", "via", "action", "subject", "data")
CHOICES: Final = ("action", "subject", "actor", "since", "until")
_FORMULA: Final = tuple("=+-@\t\r")


@signed_in(AUDIT, "GET", "/audit")
async def audit(visit: Visit) -> ResponseReturnValue:
    """A page of the log, newest first."""
    found = await visit.node.db.run(visit.owner, look_up, _read(visit.args, PAGE_ROWS))
    chosen = {name: visit.args[name] for name in CHOICES if visit.args.get(name)}
    return await show(
        "audit.html",
        found=found,
        chosen=chosen,
        query=urlencode(chosen),
        before=find_id(visit.args.get("before")),
    )


@signed_in(AUDIT, "GET", "/audit/export.jsonl")
async def export_jsonl(visit: Visit) -> ResponseReturnValue:
    """The chosen rows, one JSON object a line."""
    command = _read(visit.args, EXPORT_PAGE_ROWS)
    return _download(_pages(visit, command, write_jsonl), "application/x-ndjson", "audit.jsonl")


@signed_in(AUDIT, "GET", "/audit/export.csv")
async def export_csv(visit: Visit) -> ResponseReturnValue:
    """The chosen rows as a table for a spreadsheet."""
    command = _read(visit.args, EXPORT_PAGE_ROWS)
    return _download(_pages(visit, command, write_csv), "text/csv; charset=utf-8", "audit.csv")


def _read(args: Mapping[str, str], limit: int) -> LookUp:
    return LookUp(
        action=read_word(args, "action") or "",
        subject=read_word(args, "subject") or "",
        actor=read_word(args, "actor") or "",
        since=read_time(args, "since", zone()),
        until=read_time(args, "until", zone()),
        before_id=find_id(args.get("before")),
        limit=limit,
    )


def _download(pages: AsyncIterator[bytes], kind: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Type": kind}
    return Response(pages, headers=headers)


Write = Callable[[Sequence[AuditRow]], str]


async def _pages(visit: Visit, command: LookUp, write: Write) -> AsyncIterator[bytes]:
    """The text of one page after the other; no transaction is open between two."""
    if write is write_csv:
        yield (",".join(COLUMNS) + "\r\n").encode()
    left = EXPORT_ROWS_MAX
    while left > 0:
        command = attrs.evolve(command, limit=min(EXPORT_PAGE_ROWS, left))
        found = await visit.node.db.run(visit.owner, look_up, command)
        left -= len(found.rows)
        yield write(found.rows).encode()
        if found.older_than is None:
            return
        command = attrs.evolve(command, before_id=found.older_than)


def write_jsonl(rows: Sequence[AuditRow]) -> str:
    """One JSON object a line, in ASCII."""
    return "".join(json.dumps(dict(zip(COLUMNS, _values(row), strict=True))) + "\n" for row in rows)


def write_csv(rows: Sequence[AuditRow]) -> str:
    """One line a row (RFC 4180); no cell begins as a formula does."""
    table = io.StringIO()
    writer = csv.writer(table)
    for row in rows:
        *plain, data = _values(row)
        writer.writerow([*map(harmless, map(str, plain)), harmless(json.dumps(data))])
    return table.getvalue()


def harmless(cell: str) -> str:
    """A cell that no spreadsheet computes."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _values(row: AuditRow) -> tuple[object, ...]:
    at = row.at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return row.id, at, row.actor, row.via, row.action, row.subject, dict(row.data)
