"""What reaches a terminal: text from outside cannot move the cursor or hide anything."""

import json
import re
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from muster.commands.output import age, local, print_json, print_quoted, print_table, shown, utc

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@given(st.text())
def test_a_shown_line_is_harmless(text: str) -> None:
    """Whatever the text, what is shown is one line of letters that show."""
    assert shown(text).isprintable()


def test_how_a_line_is_shown() -> None:
    """Letters stay, other spaces become one, the rest shows as its escape."""
    assert shown("Grüße, 世界 \U0001f600") == "Grüße, 世界 \U0001f600"
    assert shown("a\u00a0b\tc") == "a b c"
    assert shown("a\x1b[2Jb\r\nc") == r"a\x1b[2Jb\r\nc"
    assert shown("a\u202eb\u200d\x9b") == r"a\u202eb\u200d\x9b"
    assert shown(None) == "-"


def test_no_line_gets_out_of_its_quote(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line of a quoted text stands behind its bar, whatever breaks the text has."""
    print_quoted("one\ntwo\r\nthree\rfour\u2028five\x85six\tseven\n")
    lines = capsys.readouterr().out.split("\n")
    assert lines == [
        "  | one",
        "  | two",
        r"  | three\rfour\u2028five\x85six    seven",
        "  | ",
        "",
    ]


def test_a_table_reads_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """Brackets and colons of outside text are letters, not styles, links or pictures."""
    print_table(("A",), [("[red]x[/red] :smile: \x1b]8;;http://x\x1b\\y",)], empty="none")
    out = capsys.readouterr().out
    assert "[red]x[/red] :smile: " in out
    assert "\x1b" not in out


def test_an_empty_table_is_talk(capsys: pytest.CaptureFixture[str]) -> None:
    """With nothing to list, stdout stays empty."""
    print_table(("A",), [], empty="There is none.")
    assert capsys.readouterr() == ("", "There is none.\n")


ROWS = [
    ("1", "3 h", "pending", "UNVERIFIED " + "Ada " * 60, "Noon works. " * 20),
    ("1000000", "59 min", "unconfirmed", "世界" * 100, "x" * 500),
]


@pytest.mark.parametrize("width", [80, 200])
def test_a_row_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """Long cells are cut with an ellipsis, short ones stay, and no line has blanks at its end."""
    monkeypatch.setattr("muster.commands.output._WIDTH_WITHOUT_TERMINAL", width)
    print_table(("ID", "Age", "State", "To", "Reply"), ROWS, empty="none")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(cell_len, lines)) <= width
    assert [line for line in lines if line != line.rstrip()] == []
    rows = [line for line in lines if "…" in line]
    assert len(rows) == len(ROWS)
    for row, line in zip(ROWS, rows, strict=True):
        assert line.split("  ")[0].strip() == row[0]
        assert row[1] in line
        assert row[2] in line
        assert line.count("…") == 2


AUDIT = ("ID", "When", "Who", "Via", "What", "To what", "Data")
AUDITED = ("100", "2026-01-31 12:00", "plugin:lines", "plugin", "plugin.draft.approved", "draft:3")


@pytest.mark.parametrize(
    ("width", "left_out"), [(200, set()), (90, {"Data"}), (80, {"Data", "Via"}), (60, {"When"})]
)
def test_spare_columns_go_before_the_rest_is_cut(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    left_out: set[str],
) -> None:
    """Where there is no room, a spare column goes whole, and who did what to what stays whole."""
    monkeypatch.setattr("muster.commands.output._WIDTH_WITHOUT_TERMINAL", width)
    row = (*AUDITED, "{" + "x" * 50 + "}")
    print_table(AUDIT, [row], empty="none", spare=("Data", "Via", "When"))
    out = capsys.readouterr().out
    assert max(map(cell_len, out.splitlines())) <= width
    gone = {name for name in ("Data", "Via", "When") if name not in out}
    assert left_out <= gone
    assert all(row[AUDIT.index(name)] in out for name in ("ID", "Who", "What", "To what"))


MESSAGES = ("ID", "Age", "Plugin", "Sender", "Subject", "State")
SENDERS = ("Bo", "ada@example.test", "a" * 24, "UNVERIFIED " + "a" * 40, "世界" * 10)


@pytest.mark.parametrize("width", [40, 60, 80, 100])
@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("subject", ["Lunch", "x" * 20, "x" * 200])
def test_a_state_is_never_cut(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    sender: str,
    subject: str,
) -> None:
    """However narrow the terminal, a message that is delivering does not look like a delivered."""
    monkeypatch.setattr("muster.commands.output._WIDTH_WITHOUT_TERMINAL", width)
    rows = [
        ("100000", "59 min", "mail", sender, subject, state)
        for state in ("delivering for 59 min", "delivered")
    ]
    print_table(MESSAGES, rows, empty="none", spare=("Plugin", "Subject", "Age", "Sender"))
    lines = [line for line in capsys.readouterr().out.splitlines() if "100000" in line]
    assert [line.endswith(row[-1]) for row, line in zip(rows, lines, strict=True)] == [True, True]
    assert max(map(cell_len, lines)) <= width


def test_a_whole_table_cuts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Where a cell must be read whole it takes as many lines as it needs."""
    print_table(("ID", "Meaning"), [("1", "x" * 500)], empty="none", whole=True)
    out = capsys.readouterr().out
    assert (out.count("x"), out.count("…")) == (500, 0)


def test_json_is_ascii_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A JSON document holds no letter that a terminal might act on."""
    print_json([{"a": "é\x9b\u202e\n"}])
    out = capsys.readouterr().out
    assert out.isascii()
    assert out.count("\n") == 1
    assert json.loads(out) == [{"a": "é\x9b\u202e\n"}]


def test_times_for_programs_are_utc() -> None:
    """A time is RFC 3339 with a Z, wherever it was given."""
    east = timezone(timedelta(hours=2))
    assert utc(datetime(2026, 1, 2, 5, 4, 5, 6, tzinfo=east)) == "2026-01-02T03:04:05.000006Z"
    assert utc(NOW) == "2026-01-02T03:04:05Z"
    assert utc(None) is None


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("at", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
def test_the_ends_of_time_are_shown(
    monkeypatch: pytest.MonkeyPatch, zone: str, at: datetime
) -> None:
    """A plugin may say that a message came in the year 1, or 9999, wherever it is read."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert re.fullmatch(r"\d{1,4}-\d\d-\d\d \d\d:\d\d", local(at))
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(-5, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (7200, "2 h"), (86400, "1 d")],
)
def test_an_age_has_one_unit(seconds: int, told: str) -> None:
    """An age is told in the largest unit that it fills."""
    assert age(NOW, NOW + timedelta(seconds=seconds)) == told
