"""Which mail asks for a fleet report, and what a malformed request is answered."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.fleet.requests import BadRequest, Request, encode, read_request

SINCE, UNTIL = "2026-01-01T08:00:00Z", "2026-01-02T08:00:00+01:00"


def request(**changes: object) -> dict[str, Any]:
    """A request that can be answered, with changes."""
    window = {"since": SINCE, "until": UNTIL, "zone": "Europe/Vienna"}
    return {
        "type": "fleet_report_request",
        "v": 1,
        "request_id": "r-1",
        "member": "ada",
        "window": window,
    } | changes


def window(**changes: object) -> dict[str, Any]:
    """The same, with another window."""
    return request(window=request()["window"] | changes)


@pytest.mark.rule(366, 367)
def test_a_request_is_read() -> None:
    """White space around the object is none; the member and unknown fields are passed over."""
    asked = read_request("\n " + json.dumps(request(member=7, more=[1])) + "\n")
    assert isinstance(asked, Request)
    assert asked.request_id == "r-1"
    assert asked.span.document == {"since": SINCE, "until": UNTIL, "zone": "Europe/Vienna"}
    assert (asked.span.until - asked.span.since).total_seconds() == 23 * 3600


@pytest.mark.rule(366, 368)
@pytest.mark.parametrize(
    "body",
    [
        "What did you do yesterday?",
        "",
        "null",
        "[]",
        json.dumps([request()]),
        json.dumps(request(type="fleet_report")),
        json.dumps(request(type=1)),
        json.dumps({"v": 1}),
        json.dumps(request()) + " Thanks!",
        "Hello, " + json.dumps(request()),
        json.dumps(request()) + json.dumps(request()),
        "```json\n" + json.dumps(request()) + "\n```",
        json.dumps(request(v=float("nan"))),
        "[" * 100_000,
    ],
)
def test_anything_else_is_an_ordinary_mail(body: str) -> None:
    """Prose, another type, and anything before or after the object."""
    assert read_request(body) is None


@pytest.mark.rule(367, 372)
@pytest.mark.parametrize(
    ("asked", "error", "echoed"),
    [
        (request(v=2), "Only version 1", "r-1"),
        (request(v="1"), "Only version 1", "r-1"),
        (request(v=True), "Only version 1", "r-1"),
        (request(request_id=7), "request_id must be", ""),
        (request(request_id=""), "request_id must be", ""),
        (request(request_id="x" * 65), "request_id must be", ""),
        (request(request_id="ü" * 33), "request_id must be", ""),
        (request(request_id="\ud800"), "request_id must be", ""),
        (request(window=None), "window must be an object", "r-1"),
        (window(zone="Middle/Earth"), "window.zone", "r-1"),
        (window(zone="../etc/passwd"), "window.zone", "r-1"),
        (window(since="yesterday"), "window.since", "r-1"),
        (window(since="2026-01-01"), "window.since", "r-1"),
        (window(since="2026-01-01T08:00:00"), "window.since", "r-1"),
        (window(since="2026-13-01T08:00:00Z"), "window.since", "r-1"),
        (window(until=1), "window.until", "r-1"),
        (window(until="0001-01-01T00:00:00+10:00"), "window.until", "r-1"),
        (window(until=SINCE), "The window is empty", "r-1"),
        (window(until="2025-01-01T08:00:00Z"), "The window is empty", "r-1"),
        (window(until="2026-01-05T08:00:00.000001Z"), "longer than 4 days", "r-1"),
    ],
)
def test_what_is_wrong_is_said(asked: dict[str, Any], error: str, echoed: str) -> None:
    """The reply is a report's with an error and no data; the id is echoed if it can be."""
    found = read_request(json.dumps(asked))
    assert isinstance(found, BadRequest)
    assert error in found.error
    assert json.loads(found.body) == {
        "type": "fleet_report",
        "v": 1,
        "request_id": echoed,
        "error": found.error,
    }


@pytest.mark.rule(367, 372)
def test_the_edges_of_a_request() -> None:
    """Four days, 64 bytes of an id, and nine digits of a second are taken."""
    edge = window(since="2026-01-01T08:00:00.123456789Z", until="2026-01-05t08:00:00.123456z")
    found = read_request(json.dumps(edge | {"request_id": "ü" * 32}))
    assert isinstance(found, Request)
    assert found.request_id == "ü" * 32


@pytest.mark.rule(372)
def test_a_member_that_is_named_twice_is_malformed() -> None:
    """Nobody could tell which of the two counts."""
    body = json.dumps(request())[:-1] + ', "request_id": "r-2"}'
    found = read_request(body)
    assert isinstance(found, BadRequest)
    assert "twice" in found.error


@pytest.mark.rule(370)
@given(st.dictionaries(st.text(), st.text()))
def test_a_reply_is_ascii(document: dict[str, str]) -> None:
    """Whatever it says, and a reader gets back what was written."""
    body = encode(document)
    assert body.isascii()
    assert json.loads(body) == document


@given(st.text() | st.builds(json.dumps, st.recursive(st.none() | st.text(), st.lists)))
def test_no_body_breaks_the_reader(body: str) -> None:
    """A body of any text is a request, a bad one, or none."""
    assert read_request(body) is None


@given(
    st.fixed_dictionaries(
        {"type": st.just("fleet_report_request")},
        optional={
            "v": st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.none(),
            "request_id": st.text() | st.integers(),
            "window": st.dictionaries(st.sampled_from(["since", "until", "zone"]), st.text())
            | st.none(),
        },
    )
)
def test_every_request_is_answered(asked: dict[str, object]) -> None:
    """An object of the type is never taken for an ordinary mail."""
    assert read_request(json.dumps(asked)) is not None
