"""Which mails of a folder are new, and what is remembered of it."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import attrs
import pytest

from muster.clients.mail.imap import OpenFolder
from muster.clients.mail.imap_state import Cursor, ImapState, Kept, is_wanted, resume
from muster.clients.mail.settings import EVERYTHING, FromImap, Login, MailServer, Security
from muster.clients.plugin import open_journal

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
FOUND = OpenFolder(uid_validity=7, uid_next=101, count=40)
SEEN = Cursor(uid_validity=7, position=100, started_at=1000, since_at=1000)


def started(newest: datetime | None) -> datetime:
    """The start that is remembered of a folder whose newest mail has this date."""
    cursor = resume(None, FOUND, since=None, newest=newest, now=NOW)
    assert (cursor.uid_validity, cursor.position) == (7, 100)
    assert cursor.since_at == cursor.started_at
    return datetime.fromtimestamp(cursor.started_at, UTC)


def test_the_start_is_the_servers_word() -> None:
    """A first sight starts below UIDNEXT and a day below the newest date, not at our clock."""
    assert started(NOW - 9 * DAY) == NOW - 10 * DAY


def test_a_date_in_the_future_hides_nothing() -> None:
    """A mail dated years ahead does not make those of today look old."""
    assert started(NOW + 3650 * DAY) == NOW - DAY


def test_an_empty_folder_starts_at_our_clock() -> None:
    """Where no mail tells the server's time, a day below our own is the start."""
    assert started(None) == NOW - DAY


def test_a_known_folder_goes_on() -> None:
    """The start of a known folder is not found again, whatever lies in it and what time it is."""
    assert resume(SEEN, FOUND, since=None, newest=NOW, now=NOW + 99 * DAY) == SEEN


def test_other_uids_are_read_from_the_beginning() -> None:
    """After a UIDVALIDITY change the position is 0 and the start remains."""
    anew = attrs.evolve(FOUND, uid_validity=8)
    cursor = resume(SEEN, anew, since=None, newest=NOW, now=NOW)
    assert cursor == attrs.evolve(SEEN, uid_validity=8, position=0)


def test_an_earlier_since_reads_anew_and_a_later_one_does_not() -> None:
    """Asked for more, a folder is read from its beginning; asked for less, it goes on."""
    more = resume(SEEN, FOUND, since=EVERYTHING, newest=None, now=NOW)
    assert (more.position, more.since_at, more.started_at) == (0, 0, 1000)
    gone_on = attrs.evolve(more, position=100)
    less = resume(gone_on, FOUND, since=None, newest=None, now=NOW)
    assert (less.position, less.since_at) == (100, 1000)
    assert resume(less, FOUND, since=EVERYTHING, newest=None, now=NOW).position == 0


def test_a_day_begins_where_it_begins_first() -> None:
    """Since a date means that day in any time zone."""
    cursor = resume(None, FOUND, since=date(2026, 2, 1), newest=NOW, now=NOW)
    assert cursor.position == 0
    assert is_wanted(datetime(2026, 1, 31, 10, tzinfo=UTC), cursor)
    assert not is_wanted(datetime(2026, 1, 31, 9, 59, tzinfo=UTC), cursor)
    assert is_wanted(None, cursor)


async def test_the_position_and_what_is_aside(tmp_path: Path) -> None:
    """A position only moves on, of its own UIDs alone; what was aside ends with them."""
    async with open_journal(tmp_path) as journal:
        state = ImapState(journal, "ada@home.test")
        await state.prepare()
        assert await state.find("INBOX") is None
        await state.begin("INBOX", SEEN)
        await state.keep("INBOX", 7, 101, Kept.ASIDE, external_id="", reason="no")
        await state.keep("INBOX", 7, 102, Kept.ASIDE, external_id="", reason="no")
        await state.keep("INBOX", 7, 103, Kept.REFUSED, external_id="x", reason="bad")
        await state.settle("INBOX", 7, 102)
        await state.settle("INBOX", 6, 999)
        assert await state.find("INBOX") == attrs.evolve(SEEN, position=103)
        assert await state.aside("INBOX", 7) == [101]
        other = ImapState(journal, "bo@home.test")
        assert await other.find("INBOX") is None
        assert await other.aside("INBOX", 7) == []
    async with open_journal(tmp_path) as journal:
        state = ImapState(journal, "ada@home.test")
        await state.prepare()
        assert await state.aside("INBOX", 7) == [101]
        await state.begin("INBOX", attrs.evolve(SEEN, uid_validity=8, position=0))
        assert await state.aside("INBOX", 7) == []


SERVER = MailServer(
    host="127.0.0.1", port=1, security=Security.NONE, login=Login(user="ada", password="x")
)


@pytest.mark.parametrize(
    "wrong",
    [
        {"server": attrs.evolve(SERVER, login=None)},
        {"folders": ()},
        {"folders": ("",)},
        {"folders": ("INBOX", "inbox")},
        {"folders": tuple(map(str, range(101)))},
        {"poll_seconds": 0.5},
        {"poll_seconds": 1681.0},
    ],
)
def test_settings_that_can_not_be(wrong: dict[str, object]) -> None:
    """An account without login, folders or a sensible poll is an error where it is written."""
    with pytest.raises(ValueError, match=r"."):
        FromImap(**({"server": SERVER} | wrong))  # type: ignore[arg-type]
