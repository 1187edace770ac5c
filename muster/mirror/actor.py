"""The actor of one connected host; it lives in the task of the host's socket.

started() takes the next epoch, and settles in the same transaction what older sockets of the host
had in hand: offered pastes become unconfirmed. The older socket is closed as superseded: on this
node by being replaced, on another by the hint that the new epoch sends there.

What the host says is written down in the order in which it comes, each frame in a transaction of
its own, and acknowledged then. A database that is away ends the connection: the host says it all
again.
"""

import enum
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import Protocol

import attrs
import trio

from actors import Actor
from muster.errors import Unauthorized, Unavailable
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
from muster.principals import Muster

DOUBT_SECONDS = 1.0  # until a database that was away is asked again

Prove = Callable[[], Awaitable[object]]  # raises Unauthorized once the credential is no good


class Look(Protocol):
    """Tells a session's actor to look at its queue again, also one that is not there if `start`.

    The others leave by themselves once no host shows their session.
    """

    def __call__(self, owner_id: int, mirrored_id: int, *, start: bool) -> None:
        """Never waits."""


class Farewell(enum.Enum):
    """Why muster ends a host's connection."""

    SHUTDOWN = "shutdown"
    SUPERSEDED = "superseded"
    UNAUTHORIZED = "unauthorized"


@attrs.frozen(kw_only=True)
class Doubt:
    """The host, its credential or its account changed: prove again that the connection holds."""


async def _accept(tx: Transaction, command: AcceptHost) -> int:
    """Take the next epoch and settle what older ones had in hand."""
    host = await accept_host(tx, command)
    await unconfirmed.recover(tx, Recover(host_id=host.id, epoch=host.epoch))
    return host.epoch


async def _release(tx: Transaction, command: ReleaseHost) -> None:
    """Note the end of the socket; what it had in hand is unproven."""
    if await release_host(tx, command):
        await unconfirmed.recover(tx, Recover(host_id=command.host_id, epoch=command.epoch + 1))


class HostActor(Actor):
    """Keeps `link` listed among the node's while its connection is the host's current one."""

    def __init__(
        self, link: Link, *, db: Database, links: Links, node: str, prove: Prove, look: Look
    ) -> None:
        super().__init__()
        self.farewell = Farewell.SHUTDOWN
        self._link = link
        self._db = db
        self._links = links
        self._node = node
        self._prove = prove
        self._look = look
        self._principal = Muster(owner_id=link.host.owner_id)

    async def started(self) -> None:
        """Take the next epoch and be found by whoever pastes."""
        hello = self._link.hello
        accept = AcceptHost(
            host_id=self._link.host.host_id,
            node=self._node,
            machine=hello.host,
            interactive=hello.interactive,
            resume_spawn=hello.resume_spawn,
        )
        self._link.epoch = await self._db.run(self._principal, _accept, accept)
        self._links.enter(self._link)

    async def handle(self, message: object) -> None:
        """End the connection once it no longer holds; a database that is away proves nothing."""
        assert isinstance(message, Doubt), message
        try:
            await self._prove()
            epoch = await self._db.run(self._principal, find_host_epoch, self._link.host.host_id)
        except Unauthorized:
            self._end(Farewell.UNAUTHORIZED)
            return
        except Unavailable as away:
            self.log.note(f"the connection is still in doubt: {away.sentence}")
            self.timers.after(DOUBT_SECONDS, message, key="doubt")
            return
        if epoch is None:
            self._end(Farewell.UNAUTHORIZED)
        elif epoch != self._link.epoch:
            self._end(Farewell.SUPERSEDED)

    async def stopping(self) -> None:
        """Show nothing any more; say so in the host's row, unless a newer connection is there."""
        self._link.close()
        self._links.leave(self._link)
        # Whoever works on a queue of its sessions finds another host that shows it, or leaves.
        self._tell(shown.mirrored_id for shown in self._link.sessions.values())
        if self._link.superseded:
            self.farewell = Farewell.SUPERSEDED
        release = ReleaseHost(host_id=self._link.host.host_id, epoch=self._link.epoch)
        try:
            await self._db.run(self._principal, _release, release)
        except Unavailable:
            return  # The row goes on naming this connection until the next one is accepted.

    def _end(self, farewell: Farewell) -> None:
        self.farewell = farewell
        self._link.close()
        self.finish()

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
        ids = await self._db.run(self._principal, store_windows, command) or {}
        new = [mirrored_id for name, mirrored_id in ids.items() if name not in before]
        link.know(ids)
        # A queue that nobody works on is looked for once, when its session appears.
        waiting = await self._db.run(self._principal, sends.find_waiting, new) if new else []
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
        await self._db.run(self._principal, note_focus, command)

    async def _resumed(self, frame: ResumeDone) -> None:
        host_id = self._link.host.host_id
        answer = (
            Started(host_id=host_id, window=frame.window)
            if frame.outcome == "started"
            else Denied(host_id=host_id, why=frame.detail)
        )
        command = NoteAnswer(resume_id=frame.resume_id, answer=answer)
        await self._db.run(self._principal, note_answer, command)

    async def _late(self, frame: PasteDone) -> bool:
        """A paste of an older connection, told from the host's journal."""
        command = Late(
            host_id=self._link.host.host_id, send_id=frame.send_id, proven=frame.outcome == "pasted"
        )
        await self._db.run(self._principal, unconfirmed.settle_late, command)
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
