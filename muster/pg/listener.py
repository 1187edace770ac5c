"""Hints between processes, over LISTEN and NOTIFY.

A pg_notify in each transaction breaks group commit (13,500 inserts/s fall to 3,300, measured), so
hints to other processes leave in one batch, in a transaction of their own, after the work is
committed. Payloads are ids alone, since row-level security does not cover them. A lost hint costs
time only: whoever listens re-reads on every start, and sweeps look at the rows.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from muster.errors import Unavailable
from muster.outcomes import Hint, HintKind
from muster.pg.database import Database
from muster.pg.driver import Connection, OperationalError
from muster.pg.query import Query
from muster.principals import System

CHANNEL = "muster_hints"
# PostgreSQL refuses a payload of 8000 bytes; a hint takes at most 80.
PAYLOAD_BYTES_MAX = 7900
HINTS_PER_PAYLOAD = 90

NOTIFY = Query(
    "select count(pg_notify('muster_hints', payload)) from unnest(%(payloads)s::text[]) as payload"
)


async def listen(
    app_url: str,
    handle: Callable[[Sequence[Hint]], None],
    resync: Callable[[], None],
) -> None:
    """Hear other processes' hints until the connection is lost, then raise Unavailable.

    `resync` is called once listening has begun: what was sent before that is found by re-reading.
    Its supervisor starts it again, which re-reads again.
    """
    try:
        connection = await Connection.open(app_url)
        try:
            heard = await connection.notifications(CHANNEL)
            resync()
            while True:
                hints = [hint for payload in await heard() for hint in unpack(payload)]
                if hints:
                    handle(hints)
        finally:
            connection.close()
    except OperationalError as error:
        raise Unavailable(f"The listener lost the database: {error}") from error


async def notify(db: Database, hints: Iterable[Hint]) -> None:
    """Send hints to every process that listens, in one transaction; equal hints once."""
    payloads = pack(hints)
    if payloads:
        async with db.transaction(System()) as tx:
            await tx.execute(NOTIFY, payloads=payloads)


def pack(hints: Iterable[Hint]) -> list[str]:
    """Write hints as few payloads, each below PAYLOAD_BYTES_MAX."""
    ids = list(dict.fromkeys((hint.kind.value, hint.owner_id, hint.id) for hint in hints))
    payloads = [
        json.dumps(ids[start : start + HINTS_PER_PAYLOAD], separators=(",", ":"))
        for start in range(0, len(ids), HINTS_PER_PAYLOAD)
    ]
    assert all(len(payload) <= PAYLOAD_BYTES_MAX for payload in payloads)
    return payloads


def unpack(payload: str) -> Iterator[Hint]:
    """Read a payload; what a newer muster or somebody else sent is skipped: hints may be lost."""
    try:
        entries = json.loads(payload)
    except ValueError:
        return
    for entry in entries if isinstance(entries, list) else ():
        match entry:
            case [str(kind), int(owner_id), int(about)] if kind in HintKind._value2member_map_:
                yield Hint(kind=HintKind(kind), owner_id=owner_id, id=about)
            case _:
                continue
