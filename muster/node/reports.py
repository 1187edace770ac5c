"""The supervision log in the database, to be read after the process is gone."""

import json

import trio

from actors import Actor, Log, Report
from muster.errors import Unavailable
from muster.pg.database import Database, Transaction
from muster.pg.query import Query
from muster.principals import Node

KEPT_MAX = 100_000
PAUSE_SECONDS = 1.0

_ADD = Query("""
    insert into reports (node, at, path, event, reason, decision, data)
    select %(node)s, r.at, r.path, r.event, r.reason, r.decision, r.data
    from jsonb_to_recordset(%(reports)s::jsonb)
        as r (at timestamptz, path text, event text, reason text, decision text, data jsonb)
""")

_FORGET = Query("""
    delete from reports where id <= (select max(id) from reports) - %(kept)s
""")


class ReportsSink(Actor):
    """Writes the log's reports in batches. While the database is away the ring keeps the newest."""

    def __init__(self, log: Log, db: Database, *, node: str) -> None:
        super().__init__()
        self._log = log
        self._db = db
        self._node = node

    async def started(self) -> None:
        """Write what comes, for as long as the actor lives."""
        self.nursery.start_soon(self._follow)

    async def _follow(self) -> None:
        told = 0
        with self._log.subscribe() as subscription:
            while True:
                await self._write(await subscription.drain())
                if subscription.dropped > told:
                    lost, told = subscription.dropped - told, subscription.dropped
                    self.log.note(f"{lost} reports came too fast or while the database was away")

    async def _write(self, reports: list[Report]) -> None:
        # A commit whose answer was lost may write a batch twice, which a log can bear; a lost crash
        # report it cannot.
        batch = _storable([_row(report) for report in reports])

        async def add(tx: Transaction, _command: None) -> None:
            await tx.execute(_ADD, node=self._node, reports=batch)
            await tx.execute(_FORGET, kept=KEPT_MAX)

        while True:
            try:
                return await self._db.run(Node(), add, None)
            except Unavailable:
                await trio.sleep(PAUSE_SECONDS)


def _storable(rows: list[dict[str, object]]) -> str:
    """Encode for jsonb, which refuses NUL and halves of characters: reports quote hostile bytes."""
    encoded = json.dumps(rows, ensure_ascii=False).encode(errors="replace").decode()
    return encoded.replace("\\u0000", "\\ufffd")


def _row(report: Report) -> dict[str, object]:
    data: dict[str, object] = dict(report.fields)
    if report.error:
        data |= {"error": report.error, "traceback": list(report.traceback)}
    return {
        "at": report.at.isoformat(),
        "path": report.path,
        "event": report.event.value,
        "reason": report.reason,
        "decision": report.decision,
        "data": data,
    }
