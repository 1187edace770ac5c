"""The actor of a mirrored session in whose queue a text waits: it pastes when it is idle.

It is started by a hint that a text was queued, on the node that holds the host's socket, and
leaves once the queue is empty. What the session does is read from the host's link, in memory; the
database is asked only when a text is due. One paste at a time runs in the actor's nursery;
stopping the actor cancels the wait for it, and what was offered is then settled as unconfirmed by
the end of the socket.

Looks come from hints, from each change of the session's state, and from a timer that is set for the
moment at which the session will have been idle for long enough.
"""

import hashlib
from collections.abc import Callable

import attrs
import trio

from actors import Actor
from muster.errors import Unavailable
from muster.mirror.frames import PasteDone
from muster.mirror.gateway import Link, PasteOrder, Shown
from muster.mirror.operations import pasting
from muster.mirror.rules import PaneState
from muster.mirror.send_rules import OFFERED_FOR, Send
from muster.pg.database import Database, Transaction
from muster.principals import Muster

PROOF_SECONDS = 20.0
ANSWER_SECONDS = OFFERED_FOR.total_seconds()  # then a host that is silent is waited for no longer
AWAY_SECONDS = 1.0  # until a database that was away is asked again
BUSY_SECONDS = 1.0  # until a host that turned a paste away is offered it again; then twice as long
BUSY_SECONDS_MAX = 30.0
SETTLE_SECONDS = 5.0

FindSession = Callable[[], tuple[Link, Shown] | None]


@attrs.frozen(kw_only=True)
class Look:
    """The queue, or what the session does, is not what it was."""


@attrs.frozen(kw_only=True)
class SessionSettings:
    """When to paste, and whether (not once the node drains)."""

    idle_seconds: float
    stepup_window_seconds: int
    may_begin: Callable[[], bool]


class SessionActor(Actor):
    """Pastes the queue of one session, oldest first, one at a time."""

    def __init__(
        self,
        owner_id: int,
        mirrored_id: int,
        *,
        db: Database,
        find: FindSession,
        settings: SessionSettings,
    ) -> None:
        super().__init__()
        self._principal = Muster(owner_id=owner_id)
        self._mirrored_id = mirrored_id
        self._db = db
        self._find = find
        self._settings = settings
        self._pasting = False
        self._turned_away = 0  # in a row

    async def started(self) -> None:
        """Look at once: what the actor before this one was told is not told again."""
        self.timers.after(0.0, Look(), key="due")

    async def handle(self, message: object) -> None:
        """Begin the next paste if it is due, else set the timer for when it will be."""
        assert isinstance(message, Look), message
        if self._pasting or not self._settings.may_begin():
            return
        found = self._find()
        if found is None:
            self.leave_if_idle()  # a host that shows it again begins anew
            return
        link, shown = found
        if shown.state is not PaneState.IDLE or not shown.active or not link.hello.interactive:
            return  # the next change of its state is told
        wait = self._settings.idle_seconds - (shown.idle_seconds(trio.current_time()) or 0.0)
        if wait > 0:
            self.timers.after(wait, message, key="due")
            return
        await self._begin(link, shown)

    async def _begin(self, link: Link, shown: Shown) -> None:
        try:
            offered = await self._offer(link)
        except Unavailable:
            self.timers.after(AWAY_SECONDS, Look(), key="due")
            return
        if offered is None:
            self.leave_if_idle()
            return
        order = PasteOrder(
            send_id=offered.id,
            window=shown.window,
            pane=shown.pane,
            claude_session=shown.claude_session,
            text=offered.text,
            sha256=hashlib.sha256(offered.text.encode()).hexdigest(),
            proof_seconds=PROOF_SECONDS,
        )
        self._pasting = True
        self.nursery.start_soon(self._paste, link, order)

    async def _offer(self, link: Link) -> Send | None:
        """Take the next text out of the queue for the host; one that is not handed out goes back.

        Cut off after the commit, or without its answer, nothing of the text was written to anybody.
        """
        command = pasting.Offer(
            mirrored_id=self._mirrored_id,
            host_id=link.host.host_id,
            epoch=link.epoch,
            stepup_window_seconds=self._settings.stepup_window_seconds,
        )
        offered: Send | None = None

        async def offer(tx: Transaction, command: pasting.Offer) -> Send | None:
            nonlocal offered
            offered = await pasting.offer(tx, command)
            return offered

        try:
            return await self._db.run(self._principal, offer, command)
        except BaseException:
            if offered is not None:
                with trio.move_on_after(SETTLE_SECONDS, shield=True):
                    await self._settle(link, offered.id, "not_begun")
            raise

    async def _paste(self, link: Link, order: PasteOrder) -> None:
        done: PasteDone | None = None
        never = link.closed  # then nothing of the order is written
        try:
            with trio.move_on_after(ANSWER_SECONDS):
                done = None if never else await link.paste(order)
        except OSError:
            pass  # how much of the order was written is unknown
        finally:
            unproven: pasting.Outcome = "not_begun" if never else "unconfirmed"
            with trio.move_on_after(SETTLE_SECONDS, shield=True):
                if done is None:
                    await self._settle(link, order.send_id, unproven)
                else:
                    await self._settle(link, order.send_id, done.outcome, done.detail)
                    await _acknowledge(link, done)
            self._pasting = False
        busy = done is not None and done.outcome == "not_begun"
        self._turned_away = self._turned_away + 1 if busy else 0
        wait = min(BUSY_SECONDS * 2 ** (self._turned_away - 1), BUSY_SECONDS_MAX) if busy else 0.0
        self.timers.after(wait, Look(), key="due")

    async def _settle(
        self, link: Link, send_id: int, outcome: pasting.Outcome, detail: str = ""
    ) -> None:
        """Write down what became of a text; repeated, it changes nothing."""
        command = pasting.Settle(
            send_id=send_id,
            host_id=link.host.host_id,
            epoch=link.epoch,
            outcome=outcome,
            detail=detail,
        )
        while True:
            try:
                await self._db.run(self._principal, pasting.settle, command)
            except Unavailable:
                await trio.sleep(AWAY_SECONDS / 5)
            else:
                return


async def _acknowledge(link: Link, done: PasteDone) -> None:
    try:
        await link.acknowledge(done.seq)
    except OSError:
        return  # the host says it again on its next connection
