"""Where a storm takes place: an empty folder, a real server with its database, and the owners."""

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import attrs
import trio

from bench.chaos.approver import decide_forever
from bench.chaos.books import Books, read_books
from bench.chaos.children import Child, ServerChild, environment, muster
from bench.chaos.keeper import Keeper
from bench.chaos.ledger import Ledger, read_all
from bench.chaos.parties import Party
from bench.chaos.rows import LEFT, UNSENT, Rows, count, read_rows
from bench.ports import free_port
from muster.drafts.rules import LEASE, State
from muster.errors import Unavailable
from muster.node.sweeps import lapse_leases
from muster.outcomes import Hint
from muster.pg.boot import open_store
from muster.pg.database import Database
from muster.pg.embedded import Embedded

NUDGE_SECONDS = 15.0
NUDGES_MAX = 8
POLL_SECONDS = 0.5
STOP_SECONDS_MAX = 60.0
LAPSE_ROUNDS_MAX = 1000

Say = Callable[[str], None]
Nudge = Callable[[Party, int], Awaitable[None]]


@attrs.define(kw_only=True)
class Scene:
    """The server, and a database as the command line opens it; `hints` are those of `db`."""

    folder: Path
    say: Say
    server: ServerChild
    db: Database
    hints: list[Hint]
    cluster: Embedded
    ledger: Ledger
    keeper: Keeper = attrs.field(factory=Keeper)

    async def approve(self, parties: Iterable[Party], chance: random.Random) -> None:
        """Be all owners, until cancelled."""
        owners = [party.owner for party in parties]
        await decide_forever(self.db, self.hints, owners, self.ledger, chance)

    async def until_nothing_waits(self, parties: Sequence[Party], nudge: Nudge) -> None:
        """Wait until no message waits and no reply does; what is left after all is judged.

        Each owner is nudged once, by a new message: the next delivery settles what a killed server
        left `delivering`. Where something is left it is nudged again, with the next number.
        """
        for number in range(NUDGES_MAX):
            for party in parties:
                if number == 0 or await self._waits(party):
                    await nudge(party, number)
            with trio.move_on_after(NUDGE_SECONDS):
                while True:
                    if not any([await self._waits(party) for party in parties]):
                        return
                    await trio.sleep(POLL_SECONDS)

    async def _waits(self, party: Party) -> bool:
        try:
            return any([await count(self.db, party.owner, query) for query in (LEFT, UNSENT)])
        except Unavailable:
            return True

    def read_books(self) -> Books:
        """What all ledgers say now."""
        return read_books(read_all(self.folder.glob("*.ledger")))

    async def look(self) -> Books:
        """The same for who waits for something in them: after a pause, longer for large ledgers."""
        began = time.monotonic()
        books = self.read_books()
        await trio.sleep(max(POLL_SECONDS, 4 * (time.monotonic() - began)))
        return books

    async def read_rows(self, parties: Sequence[Party]) -> list[Rows]:
        """What the database says once two minutes passed.

        What a claim still holds without a result is unconfirmed then.
        """
        self.db.clock_offset = LEASE + timedelta(seconds=1)
        rows: list[Rows] = []
        for _ in range(LAPSE_ROUNDS_MAX):
            await lapse_leases(self.db)
            rows = [await read_rows(self.db, party.owner) for party in parties]
            drafts = [draft for each in rows for draft in each.drafts]
            if not any(draft.claimed and draft.state is State.APPROVED for draft in drafts):
                break
        return rows

    async def read_rows_now(self, parties: Sequence[Party]) -> list[Rows]:
        """The same while everything runs; Unavailable while the database comes back."""
        return [await read_rows(self.db, party.owner) for party in parties]

    async def stop_server(self) -> list[str]:
        """End the server as an administrator would; what was wrong with it, now and before."""
        self.server.send(signal.SIGTERM)
        events = self.server.events
        try:
            code: int | str = await self.server.wait(STOP_SECONDS_MAX)
        except trio.TooSlowError:
            code = f"nothing in {STOP_SECONDS_MAX:g} s"
        faults = (
            []
            if code == 0 and events()[-1]["event"] == "stopped"
            else [f"the server ended with {code}: {self.server.last_words()}"]
        )
        return faults + [
            f"the server: {line['path']} crashed: {line['error']}"
            for line in self.server.complaints()
            # An actor that finds the database gone may end with that, and is started again.
            if line["event"] == "crashed" and not line["error"].startswith(DATABASE_GONE)
        ]


DATABASE_GONE = ("Unavailable", "OutcomeUnknown")
"""How the error of a crash begins that a storm may leave in the supervision log."""


@asynccontextmanager
async def storm_folder() -> AsyncIterator[Path]:
    """A folder for a storm; nothing is left of it."""
    folder = Path(tempfile.mkdtemp(prefix="muster-chaos-"))
    try:
        # As root the database runs as another user, who has to get here.
        os.chmod(folder, 0o711)  # noqa: PTH101 - a path object here is taken for blocking work
        (folder / "state").mkdir()
        yield folder
    finally:
        shutil.rmtree(folder)


@asynccontextmanager
async def open_scene(say: Say) -> AsyncIterator[Scene]:
    """An empty muster that serves; everything is ended and removed at the end."""
    hints: list[Hint] = []
    # The database is opened before the server and left after it: whoever leaves last ends
    # PostgreSQL, and a server that is killed in the middle cannot.
    async with (
        storm_folder() as folder,
        open_store(
            database_url=None, database_app_url=None, data_dir=folder / "data",
            publish=hints.extend,
        ) as (db, facts),
        _serving(folder) as server,
    ):  # fmt: skip
        assert facts.cluster is not None
        with Ledger(folder / "owners.ledger") as ledger:
            yield Scene(
                folder=folder, say=say, server=server, db=db, hints=hints,
                cluster=facts.cluster, ledger=ledger,
            )  # fmt: skip


@asynccontextmanager
async def _serving(folder: Path) -> AsyncIterator[ServerChild]:
    """`muster serve` with its own PostgreSQL; it is killed at the end if it still runs."""
    port = free_port()
    settings = {
        "MUSTER_BIND": f"127.0.0.1:{port}",
        "MUSTER_DATA_DIR": str(folder / "data"),
        "MUSTER_PLUGINS": "1",
        "MUSTER_LOG": "warning",
    }
    server = ServerChild(
        command=muster("serve"), environ=environment(settings), folder=folder, name="server",
        port=port,
    )  # fmt: skip
    try:
        await server.start()
        yield server
    finally:
        await server.kill()


def read_turns(agents: Iterable[Child]) -> list[str]:
    """The ids of the turns that chiefs began, by what `muster agent run` printed."""
    return [
        event["turn_id"]
        for agent in agents
        for event in agent.all_events()
        if event["event"] == "turn.started"
    ]
