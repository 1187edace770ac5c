"""The pure rules of messages: the fields, the allowance, the reason of a settle."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muster.errors import Invalid, TooMany
from muster.messages.posts import check, check_allowance
from muster.messages.rules import Post, check_reason

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
SECOND = timedelta(seconds=1)
POST = Post(external_id="msg-1", body="hello")
WIDE = "\U0001f600"  # 4 bytes, 1 character

GOOD: list[dict[str, Any]] = [
    {"external_id": "x"},
    {"external_id": "x" * 200},
    {"external_id": WIDE * 50},
    {"external_id": "<a.b+c@example.test>"},
    {"body": "x"},
    {"body": "x" * 16384},
    {"body": WIDE * 4096},
    {"body": " \n\t\x01"},
    {"sender": "", "subject": ""},
    {"sender": WIDE * 200, "subject": WIDE * 200},
    {"sender": "with space\nand line"},
    {"thread": "t" * 200},
    {"received_at": NOW},
    {"received_at": datetime(1, 1, 1, tzinfo=UTC)},
    {"received_at": NOW.astimezone(timezone(timedelta(hours=-11)))},
]
BAD: list[tuple[str, Any]] = [
    ("external_id", ""),
    ("external_id", "x" * 201),
    ("external_id", WIDE * 50 + "x"),
    *(("external_id", f"a{space}b") for space in " \t\n\r\x0b\x0c\x85\xa0\u1680\u2003\u2028\u3000"),
    *(("external_id", f"a{control}b") for control in "\0\x01\x1c\x1f\x7f\x80\x9f"),
    ("external_id", "\ud800"),
    ("body", ""),
    ("body", "x" * 16385),
    ("body", WIDE * 4096 + "x"),
    ("body", "a\0b"),
    ("body", "\udfff"),
    ("sender", "x" * 201),
    ("sender", "\0"),
    ("sender", "\ud800"),
    ("subject", "x" * 201),
    ("subject", "\0"),
    ("thread", ""),
    ("thread", "t" * 201),
    ("thread", "a b"),
    ("thread", "a\u2029b"),
    ("received_at", NOW.replace(tzinfo=None)),
    ("received_at", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
    ("received_at", datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2)))),
]


@pytest.mark.rule(23, 25, 26, 27, 28, 31)
@pytest.mark.parametrize("fields", GOOD)
def test_fields_at_their_edge_pass(fields: dict[str, Any]) -> None:
    """What just keeps a field's rule is taken."""
    check(attrs.evolve(POST, **fields))


@pytest.mark.rule(23, 25, 26, 27, 28, 31, 36, 44)
@pytest.mark.parametrize(("field", "value"), BAD)
def test_fields_past_their_edge_are_refused(field: str, value: Any) -> None:
    """What just breaks a field's rule is refused by the field's name, and never cut."""
    with pytest.raises(Invalid) as refusal:
        check(attrs.evolve(POST, **{field: value}))
    assert refusal.value.field == field


@given(st.text(max_size=60))
def test_identifiers_have_no_spaces_or_controls(text: str) -> None:
    """An id passes just when it has 1 to 200 bytes, no white space and no control."""
    fits = 1 <= len(text.encode()) <= 200
    clean = not any(c.isspace() or ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in text)
    try:
        check(attrs.evolve(POST, external_id=text))
    except Invalid:
        assert not (fits and clean)
    else:
        assert fits
        assert clean


@pytest.mark.rule(37, 38, 39)
@given(
    undelivered=st.integers(0, 200),
    age=st.none() | st.timedeltas(timedelta(seconds=-5), timedelta(hours=2)),
)
@example(undelivered=0, age=timedelta(hours=1))
@example(undelivered=0, age=timedelta(minutes=59))
def test_allowance(undelivered: int, age: timedelta | None) -> None:
    """Both limits hold, and after the seconds that a full hour names, not before, it is open."""
    at = None if age is None else NOW - age
    try:
        check_allowance(undelivered, at, NOW)
    except TooMany as full:
        wait = full.retry_after_seconds
        if undelivered == 200:
            assert wait >= 60
        else:
            assert at is not None
            check_allowance(undelivered, at, NOW + wait * SECOND)
            with pytest.raises(TooMany):
                check_allowance(undelivered, at, NOW + (wait - 1) * SECOND)
    else:
        assert undelivered < 200
        assert at is None or at + timedelta(hours=1) <= NOW


@pytest.mark.rule(295)
@pytest.mark.parametrize("reason", ["", " \n", "x" * 2001, "a\0b", "\ud800"])
def test_a_reason_that_cannot_be_kept_is_refused(reason: str) -> None:
    """A reason is 1 to 2,000 characters that say something; it is never cut."""
    check_reason("é" * 2000)
    with pytest.raises(Invalid) as refusal:
        check_reason(reason)
    assert refusal.value.field == "reason"
