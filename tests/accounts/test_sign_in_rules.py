"""Signing in, what needs no database: windows, addresses, names, ways in, fresh sign-ins."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.accounts.operations.sessions import Visitor, is_stale
from muster.accounts.operations.stepup import is_fresh
from muster.accounts.rules.attempts import WINDOW, account_key, address_key, wait_seconds
from muster.accounts.rules.signing import (
    PASSKEYS_MAX,
    Ways,
    check_one_less,
    check_one_more,
    check_passkey_name,
    check_time_zone,
    time_zones,
)
from muster.errors import Invalid, Refused

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def visitor(*, signed_in: timedelta = timedelta(0), seen: timedelta = timedelta(0)) -> Visitor:
    """Somebody whose sign-in and last visit lie so far back."""
    return Visitor(
        session_id=1,
        owner_id=1,
        name="ada",
        time_zone="UTC",
        signed_in_at=NOW - signed_in,
        last_seen_at=NOW - seen,
        looked_at=NOW,
    )


@pytest.mark.parametrize(
    ("back", "wait"),
    [
        (None, 0),
        (timedelta(0), 900),
        (timedelta(microseconds=1), 900),
        (SECOND, 899),
        (WINDOW - SECOND, 1),
        (WINDOW - timedelta(microseconds=1), 1),
        (WINDOW, 0),
        (WINDOW + SECOND, 0),
        (-SECOND, 901),
    ],
)
def test_how_long_to_wait(back: timedelta | None, wait: int) -> None:
    """Until the failure that is one too many has left the window, in whole seconds."""
    assert wait_seconds(None if back is None else NOW - back, NOW) == wait


@given(st.timedeltas(min_value=timedelta(0), max_value=2 * WINDOW))
def test_obeying_the_wait_works(back: timedelta) -> None:
    """Whoever comes back after the wait need not wait again."""
    pivot = NOW - back
    assert wait_seconds(pivot, NOW + timedelta(seconds=wait_seconds(pivot, NOW))) == 0


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("x" * 100, "x" * 64),
    ],
)
def test_what_counts_as_one_address(address: str, key: str) -> None:
    """An IPv6 network counts as one address, for one customer has all of it."""
    assert address_key(address) == key


@given(st.text(max_size=300))
def test_any_name_is_counted(name: str) -> None:
    """Whatever is typed as a name has a digest, and its length is the digest's own."""
    assert len(account_key(name)) == 32


@pytest.mark.parametrize(
    ("ways", "allowed"),
    [
        (Ways(passkeys=1, has_password=False), False),
        (Ways(passkeys=1, has_password=True), True),
        (Ways(passkeys=2, has_password=False), True),
        (Ways(passkeys=0, has_password=False), False),
    ],
)
def test_the_last_way(ways: Ways, *, allowed: bool) -> None:
    """The last way in stays."""
    if allowed:
        check_one_less(ways)
        return
    with pytest.raises(Refused):
        check_one_less(ways)


def test_passkeys_have_a_limit() -> None:
    """There are so many passkeys and no more."""
    check_one_more(Ways(passkeys=PASSKEYS_MAX - 1, has_password=False))
    with pytest.raises(Refused):
        check_one_more(Ways(passkeys=PASSKEYS_MAX, has_password=True))


@pytest.mark.parametrize("name", ["", "   ", "a\nb", "x" * 81])
def test_names_of_passkeys(name: str) -> None:
    """A passkey's name is a line that shows something."""
    check_passkey_name("Ada's laptop")
    with pytest.raises(Invalid):
        check_passkey_name(name)


def test_time_zones() -> None:
    """A zone is one that this machine knows, by its place; UTC always."""
    assert time_zones()[0] == "UTC"
    check_time_zone("UTC")
    check_time_zone("Europe/Berlin")
    for name in ("", "Europe/Atlantis", "../etc/passwd", "CET-1"):
        with pytest.raises(Invalid):
            check_time_zone(name)


@pytest.mark.rule(262)
@pytest.mark.parametrize(
    ("age", "fresh"),
    [
        (timedelta(0), True),
        (timedelta(hours=12) - SECOND, True),
        (timedelta(hours=12), False),
        (timedelta(days=3), False),
    ],
)
def test_a_sign_in_is_fresh_for_the_window(age: timedelta, *, fresh: bool) -> None:
    """A sign-in is fresh until the window is over."""
    assert is_fresh(visitor(signed_in=age), NOW, 12 * 60 * 60) is fresh


@pytest.mark.parametrize(("age", "stale"), [(59 * SECOND, False), (60 * SECOND, True)])
def test_last_seen_is_written_each_minute(age: timedelta, *, stale: bool) -> None:
    """It is time to write last seen after a minute."""
    assert is_stale(visitor(seen=age)) is stale
