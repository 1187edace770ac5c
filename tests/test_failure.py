"""What is kept of why a turn failed, and how it is told."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.failure import (
    ERROR_CHARACTERS_MAX,
    Cause,
    Failure,
    bound_error,
    read_failure,
    tell_failure,
)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("the printer is on fire", "the printer is on fire"),
        ("  no\r\n\tink\x1b[2J\x00 left\x9b ", "no ink[2J left"),
        ("no \u202e<ink>", "no \u202e<ink>"),
        ("no \ud800ink", "no ink"),
        (" \n\x00\x1b", None),
        ("", None),
        ("é" * 500, "é" * 500),
    ],
)
def test_an_error_is_one_line_without_controls(said: str, kept: str | None) -> None:
    """Line breaks are blanks, controls and lone surrogates go, and what says nothing is none."""
    assert bound_error(said) == kept


def test_a_cut_is_said() -> None:
    """Of a longer one the beginning is kept, and how much of it is not."""
    kept = bound_error("x" * 501)
    assert kept is not None
    beginning, _, rest = kept.partition("…")
    assert rest == f" (cut: {501 - len(beginning)} more characters)"
    assert set(beginning) == {"x"}
    assert len(kept) <= ERROR_CHARACTERS_MAX


@given(st.text(max_size=700) | st.text(alphabet="a \n\x00\x7f", min_size=480, max_size=1200))
def test_whatever_an_agent_says_can_be_stored(said: str) -> None:
    """It has 1 to 500 characters, none of them a control, and kept again it is the same."""
    kept = bound_error(said)
    if kept is not None:
        assert 1 <= len(kept) <= ERROR_CHARACTERS_MAX
        assert not {"Cc", "Cs"} & {unicodedata.category(letter) for letter in kept}
        assert bound_error(kept) == kept


@pytest.mark.parametrize("cause", list(Cause))
@pytest.mark.parametrize("error", [None, "no ink"])
def test_a_failure_is_read_back_and_told(cause: Cause, error: str | None) -> None:
    """What is stored is what was seen, and its sentence quotes nothing that the agent said."""
    failure = Failure(cause=cause, error=error)
    assert read_failure({"cause": cause.value, "error": error}) == failure
    assert failure.document == {"cause": cause.value, "error": error}
    told = tell_failure(failure, "helper")
    assert told.endswith(".")
    assert "no ink" not in told
    assert failure.was_heard == (error is not None or cause in (Cause.REPORTED, Cause.BUSY))


def test_of_no_failure_nothing_is_read() -> None:
    """A turn without one has none."""
    assert read_failure(None) is None
