"""The actor of one connected host; it lives in the task of the host's socket.

With the next epoch it settles, in the same transaction, what older sockets of the host had in hand:
offered pastes become unconfirmed.

What the host says is written down in the order in which it comes, each frame in a transaction of
its own, and acknowledged then. A database that is away ends the connection: the host says it all
again.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

import trio

from muster.connections.actor import ConnectionActor, Prove
from muster.mirror.frames import (
    Focus,
    HostFrame,
    PasteDone,
    ResumeDone,
    Screen,
    Windows,
    read_frame,
)
from muster.mirror.gateway import Link, Links, Shown
from muster.mirror.operations import sends, unconfirmed
from muster.mirror.operations.focus import note_focus
from muster.mirror.operations.hosts import accept_host, find_host_epoch, release_host
from muster.mirror.operations.resuming import NoteAnswer, note_answer
from muster.mirror.operations.windows import store_windows
from muster.mirror.resuming import Denied, Started
from muster.mirror.rules import (
    AcceptHost,
    NoteFocus,
    Pane,
    PaneState,
    ReleaseHost,
    StoreWindows,
    Window,
)
from muster.mirror.send_rules import Late, Recover
from muster.pg.database import Database, Transaction


class Look(Protocol):
    """Tells a session's actor to look at its queue again, also one that is not there if `start`.

    The others leave by themselves once no host shows their session.
    """

    def __call__(self, owner_id: int, mirrored_id: int, *, start: bool) -> None:
        """Never waits."""


async def _accept(tx: Transaction, command: AcceptHost) -> int:
    """Take the next epoch and settle what older ones had in hand."""
    host = await accept_host(tx, command)
    await unconfirmed.recover(tx, Recover(host_id=host.id, epoch=host.epoch))
    return host.epoch


async def _release(tx: Transaction, command: ReleaseHost) -> None:
    """Note the end of the socket; what it had in hand is unproven."""
    if await release_host(tx, command):
        await unconfirmed.recover(tx, Recover(host_id=command.host_id, epoch=command.epoch + 1))


class HostActor(ConnectionActor):
    """Keeps `link` listed among the node's while its connection is the host's current one."""

    def __init__(
        self, link: Link, *, db: Database, links: Links, node: str, prove: Prove, look: Look
    ) -> None:
        super().__init__(link, owner_id=link.host.owner_id, db=db, prove=prove)
        self._link = link
        self._links = links
        self._node = node
        self._look = look

    async def accept(self) -> int:
        """Take the next epoch, and settle what older sockets had in hand."""
        hello = self._link.hello
        accept = AcceptHost(
            host_id=self._link.host.host_id,
            node=self._node,
            machine=hello.host,
            interactive=hello.interactive,
            resume_spawn=hello.resume_spawn,
        )
        return await self.db.run(self.principal, _accept, accept)

    async def find_epoch(self) -> int | None:
        """The host's newest epoch; None once there is no such host."""
        return await self.db.run(self.principal, find_host_epoch, self._link.host.host_id)

    async def release(self) -> None:
        """Say in the host's row that it is gone, unless a newer connection is there."""
        release = ReleaseHost(host_id=self._link.host.host_id, epoch=self._link.epoch)
        await self.db.run(self.principal, _release, release)

    def enter(self) -> None:
        """Be found by whoever pastes."""
        self._links.enter(self._link)

    def leave(self) -> None:
        """Show nothing any more."""
        self._links.leave(self._link)
        # Whoever works on a queue of its sessions finds another host that shows it, or leaves.
        self._tell(shown.mirrored_id for shown in self._link.sessions.values())

    async def read(self) -> None:
        """Take the host's frames until the peer is gone, which raises an OSError.

        Raises BadFrame, and Unavailable when what a frame says could not be written down.
        """
        try:
            while True:
                frame = read_frame(await self._link.receive())
                if frame is not None and await self._take(frame):
                    await self._link.acknowledge(frame.seq)
        finally:
            self._link.close()

    async def _take(self, frame: HostFrame) -> bool:
        """Write down what a frame says; whether to acknowledge it here."""
        match frame:
            case Windows():
                await self._list(frame)
            case Focus():
                await self._focus(frame)
            case Screen():
                self._link.keep_screen(frame)
            case PasteDone():
                return not self._link.paste_done(frame) and await self._late(frame)
            case ResumeDone():
                await self._resumed(frame)
            case _:
                pass  # a second hello says nothing new
        return True

    async def _list(self, frame: Windows) -> None:
        link = self._link
        before = dict(link.sessions)
        link.show(frame, trio.current_time())
        command = StoreWindows(
            host_id=link.host.host_id, epoch=link.epoch, windows=_windows_of(frame)
        )
        ids = await self.db.run(self.principal, store_windows, command) or {}
        new = [mirrored_id for name, mirrored_id in ids.items() if name not in before]
        link.know(ids)
        # A queue that nobody works on is looked for once, when its session appears.
        waiting = await self.db.run(self.principal, sends.find_waiting, new) if new else []
        for mirrored_id in waiting:
            self._look(link.host.owner_id, mirrored_id, start=True)
        gone = [shown for name, shown in before.items() if name not in link.sessions]
        changed = [
            shown for name, shown in link.sessions.items() if _differs(shown, before.get(name))
        ]
        self._tell(shown.mirrored_id for shown in (*gone, *changed))

    def _tell(self, mirrored_ids: Iterable[int | None]) -> None:
        """Let those who work on the queues of these sessions look again."""
        for mirrored_id in mirrored_ids:
            if mirrored_id is not None:
                self._look(self._link.host.owner_id, mirrored_id, start=False)

    async def _focus(self, frame: Focus) -> None:
        command = NoteFocus(
            host_id=self._link.host.host_id,
            epoch=self._link.epoch,
            claude_session=frame.claude_session,
            title=frame.title,
            source=frame.source,
            cwd=frame.cwd,
            at=frame.at,
        )
        await self.db.run(self.principal, note_focus, command)

    async def _resumed(self, frame: ResumeDone) -> None:
        host_id = self._link.host.host_id
        answer = (
            Started(host_id=host_id, window=frame.window)
            if frame.outcome == "started"
            else Denied(host_id=host_id, why=frame.detail)
        )
        command = NoteAnswer(resume_id=frame.resume_id, answer=answer)
        await self.db.run(self.principal, note_answer, command)

    async def _late(self, frame: PasteDone) -> bool:
        """A paste of an older connection, told from the host's journal."""
        command = Late(
            host_id=self._link.host.host_id, send_id=frame.send_id, proven=frame.outcome == "pasted"
        )
        await self.db.run(self.principal, unconfirmed.settle_late, command)
        return True


def _differs(shown: Shown, before: Shown | None) -> bool:
    """Whether what a paste rests on is not what it was."""
    return before is None or (shown.state, shown.active) != (before.state, before.active)


def _seconds(since: datetime | None, now: datetime) -> float | None:
    return None if since is None else max(0.0, (now - since).total_seconds())


def _windows_of(frame: Windows) -> list[Window]:
    return [
        Window(
            tmux_window=window.window,
            title=window.title,
            label=window.label,
            panes=[
                Pane(
                    tmux_pane=pane.pane,
                    active=pane.active,
                    claude_session=pane.claude_session,
                    state=PaneState(pane.state),
                    idle_seconds=_seconds(pane.idle_since, frame.now),
                    cwd=pane.cwd,
                    repo=pane.repo,
                )
                for pane in window.panes
            ],
        )
        for window in frame.windows
    ]
