"""Real machines and a real server: tmux, the host program, sessions, the queue and the rows."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.mirror.operations.queue import list_queue, queue_text
from muster.mirror.operations.sessions import SessionView, find_session
from muster.mirror.send_rules import ListQueue, QueuedSend, QueueText
from muster.principals import Owner
from tests.support.claude_pane import ClaudePane
from tests.support.cluster import Cluster, SpiedDatabase, add_owner
from tests.support.mirror_host import new_host
from tests.support.mirror_machine import open_machine
from tests.support.server import Server, running_server
from tests.support.waiting import until

WILD = "tabs\tand\r\nlines \x1b[201~ wide 漢字 🎉 \x07 end\n" + "x" * 15_000
WITHOUT_CONTROLS = "tabs\tand\nlines [201~ wide 漢字 🎉  end\n" + "x" * 15_000


@pytest.fixture
async def server(cluster: Cluster, db: SpiedDatabase) -> AsyncIterator[Server]:
    """A server whose sessions are pasted into once they were idle for a second."""
    async with running_server(db, cluster.app_url, MUSTER_SEND_QUEUE_IDLE="1s") as running:
        yield running


async def until_known(
    server: Server, owner: Owner, claude: ClaudePane, state: str = "idle"
) -> SessionView:
    """Wait until the server shows the session in that state."""

    async def known() -> SessionView | None:
        async with server.node.db.transaction(owner) as tx:
            found = await find_session(tx, claude.session_id)
        return found if found is not None and found.state.value == state else None

    found = await until(known, 20)
    assert isinstance(found, SessionView)
    return found


async def ended(server: Server, owner: Owner, session: SessionView) -> list[QueuedSend]:
    """The texts of a session that are in nobody's hand any more."""
    listing = ListQueue(mirrored_id=session.id, stepup_window_seconds=3600, ended=True)
    return await server.node.db.run(owner, list_queue, listing)


async def test_texts_of_the_queue_arrive_at_two_machines(
    db: SpiedDatabase, owner: Owner, server: Server, tmp_path: Path
) -> None:
    """Four sessions on two machines get their own texts, byte for byte without the controls."""
    run = server.node.db.run
    boxes = [(name, (await new_host(db, owner, name))[1]) for name in ("box", "attic")]
    async with (
        open_machine(tmp_path / "box", url=server.url, token=boxes[0][1]) as box,
        open_machine(tmp_path / "attic", url=server.url, token=boxes[1][1]) as attic,
    ):
        claudes = [await each.tmux.claude() for each in (box, box, attic, attic)]
        for claude in claudes:
            await until_known(server, owner, claude)
        sessions = [await until_known(server, owner, claude) for claude in claudes]
        assert [each.host for each in sessions] == ["box", "box", "attic", "attic"]
        assert [each.name.rpartition(" · ")[2] for each in sessions] == ["box"] * 2 + ["attic"] * 2
        for number, session in enumerate(sessions):
            for text in (f"text {number}", WILD):
                queued = QueueText(mirrored_id=session.id, text=text, signed_in_at=None)
                await run(owner, queue_text, queued)
        for number, claude in enumerate(claudes):
            await claude.until("submitted", text=f"text {number}", seconds=30)
            claude.tell(do="stop")
        for claude in claudes:
            await claude.until("submitted", text=WITHOUT_CONTROLS, seconds=30)
            assert len(claude.seen("paste")) == 2

        async def all_proven() -> bool:
            texts = [one for each in sessions for one in await ended(server, owner, each)]
            return [one.state.value for one in texts] == ["pasted"] * 8

        await until(all_proven, 20)


async def test_a_machine_that_is_killed_never_types_twice(
    db: SpiedDatabase, owner: Owner, server: Server, tmp_path: Path
) -> None:
    """Killed while it waits for the proof, it tells it on its return, and nothing is repeated."""
    _, token = await new_host(db, owner)
    async with open_machine(tmp_path / "box", url=server.url, token=token) as box:
        claude = await box.tmux.claude()
        session = await until_known(server, owner, claude)
        queued = QueueText(mirrored_id=session.id, text="once", signed_in_at=None)
        await server.node.db.run(owner, queue_text, queued)
        await claude.until("submitted", text="once", seconds=30)
        await box.kill()
        box.start()

        async def proven() -> bool:
            return [one.state.value for one in await ended(server, owner, session)] == ["pasted"]

        await until(proven, 30)
        assert len(claude.seen("paste")) == 1


async def test_what_a_terminal_shows_is_looked_at(
    db: SpiedDatabase, owner: Owner, server: Server, tmp_path: Path
) -> None:
    """The screen of a session is told while it is looked at; somebody else's is not shown."""
    _, token = await new_host(db, owner)
    stranger = await add_owner(db)
    async with open_machine(tmp_path / "box", url=server.url, token=token) as box:
        claude = await box.tmux.claude()
        session = await until_known(server, owner, claude)
        look = server.node.links.look

        async def shows(text: str) -> bool:
            screen = await look(owner.owner_id, session.id)
            return screen is not None and text in screen.text

        await until(lambda: shows("* idle"), 10)
        claude.tell(do="prompt", text="go")
        await until(lambda: shows("* working"), 10)
        assert await look(stranger.owner_id, session.id) is None

    async def shows_nothing() -> bool:
        return await look(owner.owner_id, session.id) is None

    await until(shows_nothing, 10)
