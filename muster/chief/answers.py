"""What an agent says in a turn: kept up to a limit, and passed on to open pages as it comes.

The text is the agent's and is never more than text to whoever shows it. NUL, which PostgreSQL
cannot store, becomes U+FFFD at once, so that pages and the database say the same.

Kept are the first ANSWER_BYTES_MAX bytes; the rest is counted. A `turn.done` mostly repeats the end
of what was said before, and is added where it does not.

Pages are told at most once in PACE_SECONDS a turn, and of what is kept alone: the rest of it waits,
and goes with the next piece or when the pause is over. A piece names the place at which it begins,
in code points, so that a page knows when it missed one. No page of the owner's open here: nothing
is passed on. A page that is served by another node sees the whole answer when the turn has ended.

Rejected: a row for each piece (a commit each, for text that stands in the turn's row a moment
later), and pieces among the events that are kept for pages that come back (they would push out the
changes that those need).
"""

from collections.abc import Callable
from typing import Final

import attrs
import trio

from muster.chief.turns import Heard

ANSWER_BYTES_MAX: Final = 64 * 1024
PACE_SECONDS: Final = 0.2

_NUL: Final = "\0"
_IN_ITS_PLACE: Final = "\ufffd"


@attrs.frozen(kw_only=True)
class Piece:
    """A part of a running turn's answer; `at` is its place in code points."""

    owner_id: int
    turn_id: int
    conversation_id: int
    at: int
    text: str


Tell = Callable[[Piece], bool]


def tell_nobody(_piece: Piece) -> bool:
    """Stands where no page is told of running turns."""
    return False


class Answer:
    """Hears one turn; it is the turn's Ear."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._room = ANSWER_BYTES_MAX
        self._left_out = 0

    def heard(self, text: str) -> None:
        """Keep what there is room for."""
        self._keep(text)

    def done(self, text: str) -> None:
        """Keep the last word, unless it was heard already."""
        before = self._text()
        last = text.replace(_NUL, _IN_ITS_PLACE).strip()
        if not self._left_out and not before.rstrip().endswith(last):
            breaks = len(before) - len(before.rstrip("\n"))
            self._keep("\n" * (2 - breaks if before else 0) + text)

    @property
    def whole(self) -> Heard:
        """What goes into the turn's row."""
        return Heard(text=self._text(), left_out=self._left_out)

    def _text(self) -> str:
        return "".join(self._pieces)

    def _keep(self, said: str) -> str:
        """Keep what there is room for; what that was."""
        text = said.replace(_NUL, _IN_ITS_PLACE)
        encoded = text.encode()
        if self._left_out:  # nothing stands where an earlier piece is missing
            self._left_out += len(encoded)
            return ""
        if len(encoded) > self._room:
            text = encoded[: self._room].decode(errors="ignore")
            self._left_out = len(encoded) - len(text.encode())
        self._room -= len(text.encode())
        self._pieces.append(text)
        return text


class LiveAnswer(Answer):
    """An answer that open pages are told of; `nursery` is of the actor that has the turn run."""

    def __init__(
        self,
        *,
        owner_id: int,
        turn_id: int,
        conversation_id: int,
        tell: Tell,
        nursery: trio.Nursery,
    ) -> None:
        super().__init__()
        self._owner_id = owner_id
        self._turn_id = turn_id
        self._conversation_id = conversation_id
        self._tell = tell
        self._nursery = nursery
        self._at = 0  # in code points, of what was not passed on yet
        self._held: list[str] = []
        self._pausing = False

    def heard(self, text: str) -> None:
        """Keep it, and tell of it now or when the pause is over."""
        self._held.append(self._keep(text))
        if not self._pausing and self._pass_on():
            self._pausing = True
            self._nursery.start_soon(self._pause)

    async def _pause(self) -> None:
        passing = True
        while passing:
            await trio.sleep(PACE_SECONDS)
            passing = self._pass_on()
        self._pausing = False

    def _pass_on(self) -> bool:
        """Tell of what is held; whether there was something, and somebody listened."""
        at, text = self._at, "".join(self._held)
        self._held.clear()
        self._at += len(text)
        return bool(text) and self._tell(
            Piece(
                owner_id=self._owner_id,
                turn_id=self._turn_id,
                conversation_id=self._conversation_id,
                at=at,
                text=text,
            )
        )
