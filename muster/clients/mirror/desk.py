"""What the server asked of this host, being done: pastes, resumes, looks at screens.

Each is a task of the program's own nursery, not of the connection: a paste goes on while the
connection is lost, and its end is said on the next one. A request that is asked twice is done once.
"""

from collections.abc import Callable
from functools import partial

import attrs
import trio

from muster.clients.mirror import frames
from muster.clients.mirror.journal import Entry, Journal, Outcome
from muster.clients.mirror.model import Lines, Resumed, Resumes
from muster.clients.mirror.model import Outcome as ResumeOutcome
from muster.clients.mirror.outbox import Outbox
from muster.clients.mirror.paste import Done, Order, Paster, Reason, done
from muster.clients.mirror.tmux import Tmux, TmuxError
from muster.clients.mirror.watch import utc_now

PASTES_MAX = 100
RESUMES_MAX = 4
SCREENS_MAX = 20
SCREEN_SECONDS = 0.5
"""A watched pane is shown at most twice a second, and only when it changed."""


@attrs.define(kw_only=True, eq=False)
class Desk:
    """Takes what the server asks; answers go into the outbox. `resumes` None refuses them all."""

    nursery: trio.Nursery
    tmux: Tmux
    journal: Journal
    outbox: Outbox
    paster: Paster
    resumes: Resumes | None
    look_now: Callable[[], None]
    lines: Lines
    _pasting: set[int] = attrs.field(factory=set)
    _resuming: set[int] = attrs.field(factory=set)
    _watched: dict[str, float] = attrs.field(factory=dict)
    _screens: dict[str, str] = attrs.field(factory=dict)  # what was told of them
    _watching: trio.Event = attrs.field(factory=trio.Event)

    async def take_up(self) -> None:
        """Take up what an earlier life left: ends that were not acknowledged, pastes half done."""
        for entry in await self.journal.unacknowledged():
            self._say_done(done(entry))
        for entry in await self.journal.begun():
            self._pasting.add(entry.send_id)
            self.nursery.start_soon(self._recover, entry)

    def paste(self, order: Order) -> None:
        """Type a text, once; what is in hand already is left to end."""
        if order.send_id in self._pasting:
            return
        if len(self._pasting) >= PASTES_MAX:
            detail = f"{Reason.BUSY.value}: this host has {PASTES_MAX} pastes in hand."
            self._say_done(Done(send_id=order.send_id, outcome=Outcome.NOT_BEGUN, detail=detail))
            return
        self._pasting.add(order.send_id)
        self.nursery.start_soon(self._paste, order)

    def resume(self, resume_id: int, claude_session: str) -> None:
        """Start an ended session anew, once; what is in hand already is left to end."""
        if resume_id in self._resuming:
            return
        if self.resumes is None:
            self._say_resumed(resume_id, _refused("This host does not offer resumes."))
            return
        if len(self._resuming) >= RESUMES_MAX:
            self._say_resumed(resume_id, _refused("This host has enough resumes in hand."))
            return
        self._resuming.add(resume_id)
        self.nursery.start_soon(self._resume, self.resumes, resume_id, claude_session)

    def watch(self, pane: str, seconds: float) -> None:
        """Show this pane for so long; 0 ends it. The oldest look makes room for a new one."""
        self._watched.pop(pane, None)
        if seconds > 0:
            self._watched[pane] = trio.current_time() + seconds
            while len(self._watched) > SCREENS_MAX:
                del self._watched[next(iter(self._watched))]
            self._watching.set()

    def end_looks(self) -> None:
        """Watch nothing: a new connection has seen no screen yet, and asks by itself."""
        self._watched.clear()
        self._screens.clear()

    async def show_screens(self) -> None:
        """Put what watched panes show into the outbox, until cancelled."""
        while True:
            if not self._watched:
                self._screens.clear()
                self._watching = trio.Event()
                await self._watching.wait()
            now = trio.current_time()
            self._watched = {pane: end for pane, end in self._watched.items() if end > now}
            for pane in tuple(self._watched):
                await self._show(pane)
            await trio.sleep_until(now + SCREEN_SECONDS)

    async def _show(self, pane: str) -> None:
        try:
            text = (await self.tmux.capture([pane])).get(pane, "")
        except TmuxError:
            self._watched.pop(pane, None)
            return
        if self._screens.get(pane) != text:
            self._screens[pane] = text
            said = frames.screen(pane, text, utc_now().isoformat())
            self.outbox.put(("screen", pane), said, lasting=False)

    async def _paste(self, order: Order) -> None:
        ended = await self.paster.paste(order)
        self._pasting.discard(order.send_id)
        self._say_done(ended)
        self.look_now()

    async def _recover(self, entry: Entry) -> None:
        ended = await self.paster.recover(entry)
        self._pasting.discard(entry.send_id)
        self._say_done(ended)

    def _say_done(self, ended: Done) -> None:
        self.lines("paste", send_id=ended.send_id, outcome=ended.outcome.value, detail=ended.detail)
        settle: Callable[[], None] | None = None
        if ended.attempt is not None:
            settle = partial(
                self.nursery.start_soon, self.journal.acknowledge, ended.send_id, ended.attempt
            )
        key = ("paste", ended.send_id)
        self.outbox.put(key, frames.paste_done(ended), acknowledged=settle)

    async def _resume(self, resumes: Resumes, resume_id: int, claude_session: str) -> None:
        resumed = await resumes.resume(claude_session)
        self._resuming.discard(resume_id)
        self._say_resumed(resume_id, resumed)
        self.look_now()

    def _say_resumed(self, resume_id: int, resumed: Resumed) -> None:
        self.lines(
            "resume", resume_id=resume_id, outcome=resumed.outcome.value, detail=resumed.detail
        )
        self.outbox.put(("resume", resume_id), frames.resume_done(resume_id, resumed))


def _refused(sentence: str) -> Resumed:
    return Resumed(outcome=ResumeOutcome.REFUSED, detail=sentence)
