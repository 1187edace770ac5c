"""The hosts that are connected to this node: what each shows now, and what is asked of it.

A Link is one socket of a host. Its memory is a cache of the newest `windows` frame: what is stored
may be older by one frame, and what a paste rests on is looked at again by the host itself.

A paste is answered by a frame of its own, and whoever asked waits here for it. Once the socket is
gone nothing is answered any more: whoever waits gets None, and what became of it is unproven. The
answer is acknowledged by whoever asked, once it is written down. The answer to a resume is written
down as it comes, for nobody waits for it (muster.mirror.resuming).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

import attrs
import trio

from muster.connections.rules import BadFrame
from muster.mirror.frames import Hello, PasteDone, Screen, Windows, read_frame
from muster.mirror.rules import PaneState
from muster.principals import MirrorHost

WATCH_SECONDS = 10  # a screen is told for so long after each look
SCREENS_MAX = 20  # of one host; the one that was asked for longest ago makes room

Frame = Mapping[str, object]


class Peer(Protocol):
    """A connected socket, as the web floor gives it."""

    async def receive_frame(self) -> Frame:
        """Wait for the next frame; raises an OSError once the peer is gone."""

    async def send_frame(self, frame: Frame) -> None:
        """Write one frame within the floor's deadline, or raise an OSError."""


@attrs.frozen(kw_only=True)
class Shown:
    """A session in a pane of a connected host. `idle_at`: since when, on Trio's clock."""

    claude_session: str
    mirrored_id: int | None  # None until its row is written
    window: str
    title: str
    label: str | None
    pane: str
    active: bool
    state: PaneState
    idle_at: float | None
    cwd: str | None
    repo: str | None

    def idle_seconds(self, now: float) -> float | None:
        """How long the session has been idle; None while it is not."""
        return None if self.idle_at is None else max(0.0, now - self.idle_at)


@attrs.frozen(kw_only=True)
class PasteOrder:
    """A text for a pane; `proof_seconds` is how long its host looks for a proof."""

    send_id: int
    window: str
    pane: str
    claude_session: str
    text: str
    sha256: str
    proof_seconds: float


def read_hello(frame: Frame) -> Hello:
    """The frame that a host begins with. Raises BadFrame when it is another."""
    hello = read_frame(frame)
    if not isinstance(hello, Hello):
        raise BadFrame("the first frame is hello")
    return hello


class Link:
    """One connection of a host."""

    def __init__(self, *, host: MirrorHost, hello: Hello, peer: Peer) -> None:
        self.host = host
        self.hello = hello
        self.epoch = 0  # of the connection, once it was accepted
        self.superseded = False  # a newer connection of the host is about to take its place
        self.closed = False
        self.listed = False  # it told its windows
        self.sessions: dict[str, Shown] = {}  # the active pane's, where several show one
        self.panes: dict[str, Shown] = {}
        self.screens: dict[str, Screen | None] = {}  # that were asked for; None until told
        self._peer = peer
        self._over = trio.Event()
        self._pastes: dict[int, _Answer] = {}

    def show(self, frame: Windows, received_at: float) -> None:
        """Take the host's list in the place of the one before; ids of known sessions stay."""
        known = {name: shown.mirrored_id for name, shown in self.sessions.items()}
        self.panes = {}
        self.sessions = {}
        for window in frame.windows:
            for pane in window.panes:
                if pane.claude_session is None:
                    continue
                shown = Shown(
                    claude_session=pane.claude_session,
                    mirrored_id=known.get(pane.claude_session),
                    window=window.window,
                    title=window.title,
                    label=window.label,
                    pane=pane.pane,
                    active=pane.active,
                    state=PaneState(pane.state),
                    idle_at=_idle_at(pane.idle_since, frame.now, received_at),
                    cwd=pane.cwd,
                    repo=pane.repo,
                )
                self.panes[pane.pane] = shown
                before = self.sessions.get(pane.claude_session)
                if before is None or (shown.active and not before.active):
                    self.sessions[pane.claude_session] = shown
        self.screens = {name: one for name, one in self.screens.items() if name in self.panes}

    def know(self, ids: Mapping[str, int]) -> None:
        """The rows of the sessions that are shown; from now on the list is whole."""
        self.listed = True
        for shown in (self.sessions, self.panes):
            for name, one in shown.items():
                shown[name] = attrs.evolve(one, mirrored_id=ids.get(one.claude_session))

    async def paste(self, order: PasteOrder) -> PasteDone | None:
        """Have a text pasted, and wait for what became of it; None once nobody can tell.

        Raises an OSError when the order was never written.
        """
        answer = self._pastes[order.send_id] = _Answer()
        try:
            await self.send({"type": "paste", **attrs.asdict(order)})
            await self._answered(answer)
        finally:
            del self._pastes[order.send_id]
        return answer.frame

    async def resume(self, resume_id: int, claude_session: str) -> None:
        """Have an ended session resumed, or be told why not, by a frame. Raises an OSError."""
        frame = {"resume_id": resume_id, "claude_session": claude_session}
        await self.send({"type": "resume", **frame})

    async def watch(self, pane: str, seconds: int) -> None:
        """Have a pane's screen told at each change, for so long. Raises an OSError."""
        self.screens[pane] = self.screens.pop(pane, None)
        while len(self.screens) > SCREENS_MAX:
            del self.screens[next(iter(self.screens))]
        await self.send({"type": "watch", "pane": pane, "seconds": seconds})

    def keep_screen(self, screen: Screen) -> None:
        """Keep what a pane shows; nothing of a pane that nobody asked for."""
        if screen.pane in self.screens:
            self.screens[screen.pane] = screen

    async def acknowledge(self, seq: int) -> None:
        """What that frame said is written down; the host need not say it again."""
        await self.send({"type": "ack", "seq": seq})

    async def send(self, frame: Frame) -> None:
        """Write a frame; raises an OSError once the peer is gone."""
        if self.closed:
            raise BrokenPipeError("the host is not connected any more")
        await self._peer.send_frame(frame)

    async def receive(self) -> Frame:
        """Wait for the host's next frame; raises an OSError once the peer is gone."""
        return await self._peer.receive_frame()

    def paste_done(self, frame: PasteDone) -> bool:
        """Tell whoever waits for this paste; whether anybody does."""
        answer = self._pastes.get(frame.send_id)
        if answer is None:
            return False
        answer.frame = frame
        answer.come.set()
        return True

    def close(self) -> None:
        """Ask nothing of the host any more; what is not answered stays so."""
        self.closed = True
        self._over.set()

    async def _answered(self, answer: "_Answer") -> None:
        async def ends_with_the_link() -> None:
            await self._over.wait()
            answer.come.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ends_with_the_link)
            await answer.come.wait()
            nursery.cancel_scope.cancel()


@attrs.define(eq=False)
class _Answer:
    frame: PasteDone | None = None
    come: trio.Event = attrs.field(factory=trio.Event)


def _idle_at(since: datetime | None, now: datetime, received_at: float) -> float | None:
    return None if since is None else received_at - max(0.0, (now - since).total_seconds())


def _suits(found: tuple[Link, Shown]) -> tuple[bool, bool, bool]:
    """How well a pane of several that show one session suits a paste."""
    link, shown = found
    return shown.active, link.hello.interactive, shown.state is PaneState.IDLE


class Links:
    """The hosts that are connected to this node; a newer connection takes an older one's place."""

    def __init__(self) -> None:
        self._by_host: dict[int, Link] = {}
        self._hosts_of: dict[int, set[int]] = {}

    def find(self, host_id: int) -> Link | None:
        """The host's connection here, if it has one."""
        return self._by_host.get(host_id)

    def of_owner(self, owner_id: int) -> list[Link]:
        """The owner's hosts that are connected here."""
        return [self._by_host[host_id] for host_id in sorted(self._hosts_of.get(owner_id, ()))]

    def all(self) -> list[Link]:
        """Every host that is connected here."""
        return list(self._by_host.values())

    def find_session(self, owner_id: int, mirrored_id: int) -> tuple[Link, Shown] | None:
        """Where the owner's session is shown here; of several, where a paste may be, first."""
        found = [
            (link, shown)
            for link in self.of_owner(owner_id)
            for shown in link.sessions.values()
            if shown.mirrored_id == mirrored_id
        ]
        return max(found, key=_suits, default=None)

    async def look(self, owner_id: int, mirrored_id: int) -> Screen | None:
        """What the terminal of the owner's session shows, as its host told last.

        None until it told, and where no host of this node shows the session. The host tells it at
        each change for WATCH_SECONDS more, and then no longer: so looks are repeated.
        """
        found = self.find_session(owner_id, mirrored_id)
        if found is None:
            return None
        link, shown = found
        try:
            await link.watch(shown.pane, WATCH_SECONDS)
        except OSError:
            return None
        return link.screens.get(shown.pane)

    def enter(self, link: Link) -> None:
        """Put `link` in the place of any older connection of its host."""
        self._by_host[link.host.host_id] = link
        self._hosts_of.setdefault(link.host.owner_id, set()).add(link.host.host_id)

    def leave(self, link: Link) -> None:
        """Take `link` out, unless a newer one took its place already."""
        host = link.host
        if self._by_host.get(host.host_id) is not link:
            return
        del self._by_host[host.host_id]
        hosts = self._hosts_of[host.owner_id]
        hosts.remove(host.host_id)
        if not hosts:
            del self._hosts_of[host.owner_id]
