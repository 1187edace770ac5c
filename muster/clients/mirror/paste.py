"""One text into one pane, from the frame to its end (the package's page has the semantics).

    lock -> buffer -> journal: begun -> last look -> paste -> gap -> Enter -> proof -> journal
    `---------------- not_begun ----------------'    `-- unconfirmed --'      pasted | unconfirmed

What can race, and what is done about it:

- The session leaves idle between the server's decision and the paste. The last look reads the
  screen, then what the hooks left by now; then tmux itself compares process, cursor and the second
  of the window's newest output in the step that pastes. A session that leaves idle shows it at once
  and calls its hook some tens of milliseconds later, so what is left is the time of its first
  output. What hits that gap is a prompt that waits behind the session's work: proven once the
  session takes it, else `unconfirmed`. (In a window where another pane prints all the time there is
  no such second: there the gap is the few milliseconds between two calls of tmux.)
- A permission prompt opens between the paste and Enter, which would answer it, or the session loses
  its terminal to an editor or a shell. So Enter waits until the screen shows the paste and holds
  still, which no such prompt does, or for longer than a hook takes; then the hooks are asked once
  more, and tmux presses it only if the cursor is where it was. Else it stays away: `unconfirmed`.
- This program is stopped. From `begun` to Enter it is not cancelled, each step being bounded; in
  the wait for proof it leaves `begun`, and `recover` finds the proof after the next start.

Rejected: a second Enter when no proof comes (it could answer anything by then), and clearing the
input line first (Ctrl-C or Escape may end what the session does).
"""

import enum
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import attrs
import trio

from muster.clients.durable import DurableFileError
from muster.clients.mirror.journal import Entry, Journal, Outcome
from muster.clients.mirror.locks import hold_pane
from muster.clients.mirror.model import Place, Proof, Sessions, State
from muster.clients.mirror.screens import shows_paste
from muster.clients.mirror.stillness import Stillness, digest_of
from muster.clients.mirror.tmux import Pane, Tmux, TmuxAbsentError, TmuxError
from muster.clients.mirror.watch import utc_now

TEXT_BYTES_MAX = 96 * 1024
FIRST_LOOK_SECONDS = 0.1
GAP_BYTES_A_SECOND = 128 * 1024
"""The gap before Enter grows with the text: a terminal program takes its time to read it."""

GAP_SECONDS = 0.2
"""So long a screen that shows the paste has to hold still before Enter."""

SETTLE_SECONDS = 3.0
"""After so long the hooks decide, whatever the screen shows."""

PROOF_SECONDS_MAX = 3600.0
RECOVERY_SECONDS = 3.0


class Reason(enum.Enum):
    """Why nothing was typed; the value begins the detail of the answer."""

    BUSY = "busy"
    MOVED = "moved"
    GONE = "gone"
    LOCKED = "locked"
    READ_ONLY = "read_only"
    TOO_LONG = "too_long"
    DAMAGED = "damaged"
    UNRECORDED = "unrecorded"


@attrs.frozen(kw_only=True)
class Order:
    """What the server asks to be typed, where, and into which session."""

    send_id: int
    window: str
    pane: str
    claude_session: str
    text: str
    sha256: str
    proof_seconds: float


@attrs.frozen(kw_only=True)
class Done:
    """How a send ended; `attempt` is the journal's, None for what never got into it."""

    send_id: int
    outcome: Outcome
    detail: str
    attempt: int | None = None


class RefusedError(Exception):
    """Nothing was typed, and why: a reason and a sentence."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(f"{reason.value}: {sentence}")


def cleaned(text: str) -> str:
    """What of the text reaches a terminal: lines end in a newline, and other controls are gone.

    Of C0, C1 and DEL newline and tab are kept. A pasted `ESC[201~` would end the bracketed paste,
    and the rest would be typed.
    """
    unified = text.replace("\r\n", "\n")
    return "".join(c for c in unified if c in "\n\t" or not _is_control(c))


def _is_control(character: str) -> bool:
    return character < " " or "\x7f" <= character <= "\x9f"


@attrs.define(kw_only=True, eq=False)
class Paster:
    """Types into panes of one tmux server, each send once.

    `locks` is the folder of the panes' locks; without `interactive` nothing is ever typed.
    """

    tmux: Tmux
    sessions: Sessions
    stillness: Stillness
    journal: Journal
    locks: Path
    interactive: bool
    now: Callable[[], datetime] = utc_now

    async def paste(self, order: Order) -> Done:
        """Step 7: type the text of `order` and prove it.

        Answers from the journal what is known there.
        One call at a time for each send. Cancelled before anything was typed, it leaves nothing;
        after that, a journal entry for `recover`. Raises DurableFileError when an end can't be
        written, which leaves the same.
        """
        known = await self.journal.find(order.send_id)
        if known is not None and known.outcome is not Outcome.NOT_BEGUN:
            return await self._known(known, order)
        try:
            return await self._paste(order)
        except RefusedError as refusal:
            return Done(send_id=order.send_id, outcome=Outcome.NOT_BEGUN, detail=str(refusal))

    async def recover(self, entry: Entry) -> Done:
        """End what an earlier life left begun: by the session's own record, else unconfirmed."""
        proof = self.sessions.proven(entry.claude_session, entry.text, entry.begun_at)
        if await _comes(proof, RECOVERY_SECONDS):
            return await self._end(entry.send_id, Outcome.PASTED, "")
        return await self._end(
            entry.send_id,
            Outcome.UNCONFIRMED,
            "The host program ended in the middle of this paste, and the session does not show it.",
        )

    async def _known(self, known: Entry, order: Order) -> Done:
        if known.sha256 != order.sha256:
            sentence = "another text had this number before, so this one is not typed."
            detail = f"{Reason.DAMAGED.value}: {sentence}"
            return Done(send_id=order.send_id, outcome=Outcome.NOT_BEGUN, detail=detail)
        return await self.recover(known) if known.outcome is None else done(known)

    async def _paste(self, order: Order) -> Done:
        text = self._readable(order)
        with ExitStack() as stack:
            place = (await self._look(order))[0].place
            self._lock(stack, place)
            buffer = f"muster-{order.send_id}"
            try:
                await self.tmux.load(buffer, text)
            except TmuxError as error:
                raise RefusedError(Reason.GONE, f"tmux: {error}") from error
            begun_at = self.now()
            typed: RefusedError | str = ""
            with trio.CancelScope(shield=True):
                await self._begin(order, text, begun_at)
                typed = await self._type(order, buffer, text)
                if isinstance(typed, RefusedError):
                    await self.tmux.unload(buffer)
            if isinstance(typed, RefusedError):
                return await self._end(order.send_id, Outcome.NOT_BEGUN, str(typed))
            return await self._prove(order, text, begun_at, typed)

    def _lock(self, stack: ExitStack, place: Place) -> None:
        try:
            held = stack.enter_context(hold_pane(self.locks, place))
        except OSError as error:
            sentence = f"the pane's lock can't be made: {error.strerror}."
            raise RefusedError(Reason.UNRECORDED, sentence) from error
        if not held:
            raise RefusedError(Reason.LOCKED, "somebody else types into this pane.")

    def _readable(self, order: Order) -> str:
        if not self.interactive:
            raise RefusedError(Reason.READ_ONLY, "this host was started without --interactive.")
        sent = order.text.encode("utf-8", "surrogatepass")
        if hashlib.sha256(sent).hexdigest() != order.sha256:
            raise RefusedError(Reason.DAMAGED, "the text is not the one that was approved.")
        if len(sent) > TEXT_BYTES_MAX:
            raise RefusedError(Reason.TOO_LONG, f"the text has more than {TEXT_BYTES_MAX} bytes.")
        text = cleaned(order.text)
        if not text.strip():
            raise RefusedError(Reason.DAMAGED, "the text has nothing that can be typed.")
        return text

    async def _begin(self, order: Order, text: str, begun_at: datetime) -> None:
        try:
            await self.journal.begin(
                order.send_id, order.claude_session, sha256=order.sha256, text=text, now=begun_at
            )
        except DurableFileError as error:
            raise RefusedError(Reason.UNRECORDED, f"it can't be written down: {error}") from error

    async def _look(self, order: Order) -> tuple[Pane, str]:
        """The pane and its screen, if all is as the order has it; raises RefusedError."""
        try:
            pane, screen = await self.tmux.look_at(order.pane)
            await self.sessions.catch_up()
        except TmuxAbsentError as error:
            raise RefusedError(Reason.GONE, f"the pane is gone: {error}.") from error
        except TmuxError as error:
            raise RefusedError(Reason.BUSY, f"tmux: {error}.") from error
        session = self.sessions.state_of(pane.place)
        if session is None or session.claude_session != order.claude_session:
            raise RefusedError(Reason.MOVED, "the pane shows another session, or none.")
        if pane.window != order.window:
            raise RefusedError(Reason.MOVED, "the pane is in another window by now.")
        if session.state is not State.IDLE:
            raise RefusedError(Reason.BUSY, f"the session is {session.state.value}.")
        if not pane.typable:
            raise RefusedError(Reason.BUSY, "keys do not reach the session: somebody scrolls.")
        return pane, screen

    async def _last_look(self, order: Order) -> tuple[Pane, str]:
        """The pane and its screen, if that held still; raises RefusedError."""
        pane, screen = await self._look(order)
        held = self.stillness.of(pane.place)
        if held is None or held.still_since(self.now()) is None:
            raise RefusedError(Reason.BUSY, "the pane did not hold still.")
        if held.digest != digest_of(screen) or held.look.mark != pane.look.mark:
            raise RefusedError(Reason.BUSY, "the pane's screen just changed.")
        return pane, screen

    async def _type(self, order: Order, buffer: str, text: str) -> RefusedError | str:
        """Paste and press Enter: what refused it, else what went wrong on the way, or nothing."""
        try:
            pane, screen = await self._last_look(order)
            silent = self.stillness.stands(pane)
            if not await self.tmux.paste(buffer, pane, silent=silent):
                return RefusedError(Reason.BUSY, "the pane changed in the moment of the paste.")
        except RefusedError as refusal:
            return refusal
        except TmuxAbsentError as error:
            return RefusedError(Reason.GONE, f"the pane is gone: {error}.")
        except TmuxError as error:
            return f"It is not known whether tmux pasted it ({error}); Enter was not pressed."
        try:
            return await self._press_enter(order, pane, screen, text)
        except TmuxError as error:
            return f"It was pasted, but Enter may not have been pressed ({error})."

    async def _press_enter(self, order: Order, pane: Pane, before: str, text: str) -> str:
        """Press Enter once the screen shows the paste and holds still; why not, else nothing.

        A permission prompt is on the screen before its hook is heard, and hides the prompt line. So
        tmux itself sees to it that the screen is the one that was judged, and where no sign of the
        paste is there (screens.py), hooks are given their time. A screen that moves all that time
        is a session at work, which queues what is entered, or a person who types, whose text Enter
        would send off.
        """
        last, rest = before, FIRST_LOOK_SECONDS + len(text.encode()) / GAP_BYTES_A_SECOND
        deadline = trio.current_time() + rest + SETTLE_SECONDS
        while True:
            await trio.sleep(rest)
            look, screen = await self.tmux.look_at(pane.place.pane)
            late = trio.current_time() >= deadline
            moves = screen != last
            settled = not moves and shows_paste(text, before=before, after=screen)
            if settled or late:
                if (trouble := await self._keeps_enter_away(order, look, moves=moves)) is not None:
                    return trouble
                if await self.tmux.enter(look, settled=settled):
                    return ""
                if late:
                    return "The pane changed in the moment of Enter, so it was not pressed."
            last, rest = screen, GAP_SECONDS

    async def _keeps_enter_away(self, order: Order, pane: Pane, *, moves: bool) -> str | None:
        await self.sessions.catch_up()
        session = self.sessions.state_of(pane.place)
        if session is None or session.claude_session != order.claude_session:
            return "The session ended right after the paste, so Enter was not pressed."
        if session.state is State.WAITING:
            return "A permission prompt opened right after the paste, so Enter was not pressed."
        if session.state is State.UNKNOWN:
            return "The session lost its terminal right after the paste, so Enter was not pressed."
        if not pane.typable:
            return "Somebody scrolled in the pane right after the paste, so Enter was not pressed."
        if moves and session.state is State.IDLE:
            return "Somebody typed behind the paste, so Enter was not pressed."
        return None

    async def _prove(self, order: Order, text: str, begun_at: datetime, trouble: str) -> Done:
        proof = self.sessions.proven(order.claude_session, text, begun_at)
        if await _comes(proof, min(order.proof_seconds, PROOF_SECONDS_MAX)):
            return await self._end(order.send_id, Outcome.PASTED, "")
        told = trouble or f"The session did not show it within {order.proof_seconds:g} s."
        return await self._end(order.send_id, Outcome.UNCONFIRMED, told)

    async def _end(self, send_id: int, outcome: Outcome, detail: str) -> Done:
        with trio.CancelScope(shield=True):
            entry = await self.journal.end(send_id, outcome, detail)
        return done(entry)


async def _comes(proof: Awaitable[Proof], seconds: float) -> bool:
    with trio.move_on_after(seconds) as limit:
        await proof
    return not limit.cancelled_caught


def done(entry: Entry) -> Done:
    """The answer that the journal holds for a send that ended."""
    assert entry.outcome is not None, "what is begun has no answer yet"
    return Done(
        send_id=entry.send_id,
        outcome=entry.outcome,
        detail=entry.detail,
        attempt=entry.attempt,
    )
