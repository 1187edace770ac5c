"""How the stand-in of Claude Code reads its terminal: keys, text and bracketed pastes."""

import re
import time
from typing import Any, Protocol

PASTE_BEGINS, PASTE_ENDS = b"\x1b[200~", b"\x1b[201~"
KEYS = {b"\r": "enter", b"\x7f": "backspace", b"\x03": "ctrl-c", b"\x04": "ctrl-d"}
ESCAPE_SECONDS = 0.05


class Takes(Protocol):
    """Whoever is told what was typed."""

    def note(self, what: str, **members: Any) -> None:
        """Something began."""

    def key(self, name: str) -> None:
        """A key that is no text."""

    def put_in(self, text: str, *, what: str) -> None:
        """Text, `what` is typed or paste."""


class Keys:
    """Reads the terminal's bytes as keys, text and pastes."""

    def __init__(self, session: Takes) -> None:
        self.session = session
        self.waiting_since: float | None = None
        self._bytes = b""
        self._pasted: bytearray | None = None

    def feed(self, data: bytes) -> None:
        """Take what one read gave."""
        self._bytes += data
        swallows_enter = False
        while self._bytes:
            if self._pasted is not None:
                if not self._paste():
                    break
                swallows_enter = True
            elif self._bytes.startswith(PASTE_BEGINS):
                self.session.note("paste_began")
                self._bytes = self._bytes[len(PASTE_BEGINS) :]
                self._pasted = bytearray()
            elif PASTE_BEGINS.startswith(self._bytes):
                break
            else:
                self._typed(swallows_enter=swallows_enter)
                swallows_enter = False
        self.waiting_since = time.monotonic() if self._bytes == b"\x1b" else None

    def give_up_waiting(self) -> None:
        """An escape that nothing followed is the key."""
        if self._bytes == b"\x1b":
            self._bytes, self.waiting_since = b"", None
            self.session.key("escape")

    def _paste(self) -> bool:
        assert self._pasted is not None
        self._pasted += self._bytes
        text, ended, rest = bytes(self._pasted).partition(PASTE_ENDS)
        self._bytes = rest
        if not ended:
            return False
        self._pasted = None
        self.session.put_in(text.decode(errors="surrogateescape"), what="paste")
        return True

    def _typed(self, *, swallows_enter: bool) -> None:
        first, self._bytes = self._bytes[:1], self._bytes[1:]
        if first == b"\r" and swallows_enter:
            self.session.put_in("\n", what="typed")
        elif first in KEYS:
            self.session.key(KEYS[first])
        elif first == b"\x1b":
            sequence = re.match(rb"\[[0-9;?]*[ -/]*[@-~]|O.|.", self._bytes, re.DOTALL)
            end = sequence.end() if sequence else 0
            self.session.note("key", name=repr(first + self._bytes[:end]))
            self._bytes = self._bytes[end:]
        else:
            text = re.match(rb"[^\x00-\x08\x0b-\x1f\x7f]*", self._bytes)
            end = text.end() if text else 0
            typed = first + self._bytes[:end]
            self._bytes = self._bytes[end:]
            self.session.put_in(typed.decode(errors="surrogateescape"), what="typed")
