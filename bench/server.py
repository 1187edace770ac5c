"""A real `muster serve`, as a child with a folder of its own, and a second way to its database.

The second way is the command line's: `muster.pg.boot.open_store` on the same folder. Accounts are
made and drafts approved through it, by the rooms' own operations.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import trio

from bench.ports import free_port
from muster.outcomes import Hint
from muster.pg import boot
from muster.pg.database import Database
from muster.pg.embedded import Embedded
from muster.pg.listener import notify

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
POOL_SIZE = 4


@attrs.frozen(kw_only=True)
class Server:
    """A running server and its database. `pid` is the server's process.

    What `db` runs is told to the server by `tell` alone; `unsent` holds its hints until then.
    """

    port: int
    pid: int
    db: Database
    cluster: Embedded
    app_url: str = attrs.field(repr=False)
    unsent: list[Hint] = attrs.field(factory=list)

    @property
    def disk(self) -> Path:
        """The folder of the database: where an fsync costs what its commits cost."""
        return self.cluster.places.home

    async def tell(self) -> None:
        """Send the hints of what was run to the server, as a command does at its end."""
        hints = list(self.unsent)
        self.unsent.clear()
        await notify(self.db, hints)


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    """Start a server with a database of its own, and stop both at the end."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        # As root the database runs as another user, who has to get here.
        os.chmod(folder, 0o711)  # noqa: PTH101 - a path object here is taken for blocking work
        port, data_dir = free_port(), Path(folder) / "data"
        environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith("MUSTER_")},
            "MUSTER_BIND": f"127.0.0.1:{port}",
            "MUSTER_DATA_DIR": str(data_dir),
            "MUSTER_PLUGINS": "1",
            "MUSTER_LOG": "warning",
        }
        unsent: list[Hint] = []
        async with (
            child("muster", "serve", environment=environment) as (process, _),
            boot.open_store(
                database_url=None,
                database_app_url=None,
                data_dir=data_dir,
                publish=unsent.extend,
                pool_size=POOL_SIZE,
            ) as (db, facts),
        ):
            assert facts.cluster is not None
            yield Server(
                port=port,
                pid=process.pid,
                db=db,
                cluster=facts.cluster,
                app_url=facts.app_url,
                unsent=unsent,
            )


@asynccontextmanager
async def child(
    *words: str, environment: dict[str, str] | None = None
) -> AsyncIterator[tuple[trio.Process, dict[str, object]]]:
    """Run `python -m WORDS`, which says `{"event": "ready", …}` first; end it with the block."""
    async with trio.open_nursery() as nursery:
        process: trio.Process = await nursery.start(
            partial(
                trio.run_process,
                [sys.executable, "-m", *words],
                env=environment,
                stdout=subprocess.PIPE,
                check=False,
                deliver_cancel=_stop,
            )
        )
        event = await _await_ready(process)
        nursery.start_soon(_drain, process)
        yield process, event
        nursery.cancel_scope.cancel()


def raise_open_files() -> int:
    """Take as many open files as the system grants, for this process and its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


async def _stop(process: trio.Process) -> None:
    process.terminate()
    with trio.move_on_after(STOP_SECONDS_MAX):
        await process.wait()
        return
    process.kill()


async def _await_ready(process: trio.Process) -> dict[str, object]:
    assert process.stdout is not None
    line = b""
    with trio.fail_after(START_SECONDS_MAX):
        while not line.endswith(b"\n"):
            part = await process.stdout.receive_some()
            if not part:
                raise ConnectionError("the server ended before it was ready")
            line += part
    event: dict[str, object] = json.loads(line.splitlines()[0])
    assert event["event"] == "ready", event
    return event


async def _drain(process: trio.Process) -> None:
    assert process.stdout is not None
    async for _ in process.stdout:
        pass
