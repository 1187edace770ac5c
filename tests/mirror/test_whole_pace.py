"""How soon a text is typed into a session that fell idle, on real machines, by its own clock."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio

from muster.mirror.operations.queue import queue_text
from muster.mirror.send_rules import QueueText
from muster.principals import Owner
from tests.mirror.test_whole_machines import until_known
from tests.support.claude_pane import ClaudePane
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.mirror_host import new_host
from tests.support.mirror_machine import open_machine
from tests.support.server import Server, running_server

pytestmark = pytest.mark.long

IDLE_SECONDS = 1.0
TEXTS = 50  # for each of four sessions
LATE_SECONDS_MAX = 1.0  # p99


@pytest.fixture
async def server(cluster: Cluster, db: SpiedDatabase) -> AsyncIterator[Server]:
    """A server whose sessions are pasted into once they were idle for a second."""
    async with running_server(db, cluster.app_url, MUSTER_SEND_QUEUE_IDLE="1s") as running:
        yield running


async def type_all(server: Server, owner: Owner, claude: ClaudePane) -> None:
    """Queue a text while the session works, end its turn, wait for the text; again and again."""
    session = await until_known(server, owner, claude)
    claude.tell(do="prompt", text="begin")
    await claude.until("submitted", text="begin")
    for number in range(TEXTS):
        text = f"{claude.session_id} {number}"
        queued = QueueText(mirrored_id=session.id, text=text, signed_in_at=None)
        await server.node.db.run(owner, queue_text, queued)
        claude.tell(do="stop")
        await claude.until("submitted", text=text, seconds=30)


def lateness(claude: ClaudePane) -> list[float]:
    """For each text, the seconds from the threshold to its first byte."""
    idle_at = 0.0
    late = []
    for line in claude.ledger:
        if line["what"] == "state" and line["to"] == "idle":
            idle_at = line["mono"]
        elif line["what"] == "paste_began":
            assert line["state"] == "idle"
            late.append(line["mono"] - idle_at - IDLE_SECONDS)
    return late


async def test_a_text_is_typed_soon_after_the_session_fell_idle(
    db: SpiedDatabase, owner: Owner, server: Server, tmp_path: Path
) -> None:
    """Of 200 texts for four sessions on two machines, 99% begin within a second, and none early."""
    async with AsyncExitStack() as machines:
        claudes = []
        for name in ("box", "attic"):
            _, token = await new_host(db, owner, name)
            machine = open_machine(tmp_path / name, url=server.url, token=token)
            tmux = (await machines.enter_async_context(machine)).tmux
            claudes += [await tmux.claude() for _ in range(2)]
        async with trio.open_nursery() as typing:
            for claude in claudes:
                typing.start_soon(type_all, server, owner, claude)
        late = sorted(seconds for claude in claudes for seconds in lateness(claude))
    assert len(late) == TEXTS * len(claudes)
    nearly_last = late[len(late) * 99 // 100]
    assert late[0] >= 0, late[0]
    assert nearly_last <= LATE_SECONDS_MAX, late[-5:]
