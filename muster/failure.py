"""Why a turn did not come to its end: what muster saw of it, and what the agent said.

It is written down beside the turn for a person to read, and decides nothing: whatever the reason,
a turn that was begun and is not proven done is `unconfirmed`, and never repeated by itself
(plugins: "At most once"). `error` is the agent's word alone, and may quote what came from outside:
whoever shows it marks it as such.
"""

import enum
import unicodedata
from collections.abc import Mapping
from typing import Final, assert_never

import attrs

ERROR_CHARACTERS_MAX: Final = 500
# What no line on a terminal and no text in PostgreSQL should hold: controls and lone surrogates.
_STRIPPED: Final = frozenset({"Cc", "Cs"})


class Cause(enum.Enum):
    """What muster saw of a turn's end."""

    REPORTED = "reported"  # the agent said that it failed
    BUSY = "busy"  # the agent said that it was busy, after it had begun
    DEADLINE = "deadline"  # the time for it was over
    LOST = "lost"  # the connection ended, or the text was not written whole
    STOPPED = "stopped"  # muster was stopped in the middle of it
    UNRECORDED = "unrecorded"  # muster was cut off before it wrote down how the turn ended


@attrs.frozen(kw_only=True)
class Failure:
    """Why a turn failed; `error` is what the agent said of it, at most 500 characters."""

    cause: Cause = attrs.field(converter=Cause)
    error: str | None = None

    @property
    def was_heard(self) -> bool:
        """Whether the agent had the turn: it answered."""
        return self.error is not None or self.cause in (Cause.REPORTED, Cause.BUSY)

    @property
    def document(self) -> dict[str, object]:
        """What is written down of it, and shown to programs."""
        return {"cause": self.cause.value, "error": self.error}


def bound_error(text: str) -> str | None:
    """What is kept of an agent's error: one line without controls, and a cut is said.

    None for one that says nothing.
    """
    kept = (each for each in text if each.isspace() or unicodedata.category(each) not in _STRIPPED)
    clean = " ".join("".join(kept).split())
    if len(clean) > ERROR_CHARACTERS_MAX:
        # The note is the longer the more is cut, so it is measured with all of it.
        room = ERROR_CHARACTERS_MAX - len(_cut(len(clean)))
        clean = clean[:room] + _cut(len(clean) - room)
    return clean or None


def read_failure(stored: Mapping[str, str | None] | None) -> Failure | None:
    """A failure as it is stored; None for none."""
    if stored is None:
        return None
    cause = stored["cause"]
    assert cause is not None
    return Failure(cause=Cause(cause), error=stored["error"])


def tell_failure(failure: Failure, agent: str) -> str:
    """What muster saw of the end of the agent's turn, as a sentence; `agent` is its name."""
    match failure.cause:
        case Cause.REPORTED:
            return f"{agent} said that its turn failed."
        case Cause.BUSY:
            return f"{agent} said that it was busy, after it had begun."
        case Cause.DEADLINE:
            return "The time for the turn was over before it was done."
        case Cause.LOST:
            return f"The connection to {agent} ended in the middle of the turn."
        case Cause.STOPPED:
            return "muster was stopped in the middle of the turn."
        case Cause.UNRECORDED:
            return "muster was cut off before the turn's end was written down."
        case _:
            assert_never(failure.cause)


def _cut(left_out: int) -> str:
    return f"… (cut: {left_out:,} more characters)"
