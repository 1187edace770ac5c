"""Accounts: the shapes of names and addresses, and the two commands that decide."""

from datetime import UTC, datetime, timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.accounts.rules import AddUser, Disable, Enable, User, check, decide
from muster.errors import Invalid
from muster.names import check_line, check_name
from muster.outcomes import Changed, HintKind, Unchanged

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LIVE = User(id=7, name="ada", email="ada@example.test", created_at=NOW, disabled_at=None)
DISABLED = attrs.evolve(LIVE, disabled_at=NOW)
LATER = NOW + timedelta(hours=1)


def test_disable_and_enable_move_an_account() -> None:
    """Each command writes the time, one audit fact and the hint that doors go by."""
    shut = decide(LIVE, Disable(), LATER)
    assert isinstance(shut, Changed)
    assert shut.row == attrs.evolve(LIVE, disabled_at=LATER)
    assert [(fact.action, fact.subject) for fact in shut.facts] == [("user.disabled", "user:7")]
    assert [(hint.kind, hint.owner_id, hint.id) for hint in shut.hints] == [
        (HintKind.USER_CHANGED, 7, 7)
    ]
    opened = decide(DISABLED, Enable(), LATER)
    assert isinstance(opened, Changed)
    assert opened.row == LIVE
    assert [fact.action for fact in opened.facts] == ["user.enabled"]
    assert len(opened.hints) == 1


def test_a_repeated_command_changes_nothing() -> None:
    """Disabling twice keeps the first time; enabling a live account is nothing."""
    assert decide(DISABLED, Disable(), LATER) == Unchanged(row=DISABLED)
    assert decide(LIVE, Enable(), LATER) == Unchanged(row=LIVE)


@pytest.mark.parametrize("name", ["a", "a" * 40, "a-1", "ada-lovelace"])
def test_good_names(name: str) -> None:
    """A name is a small letter and up to 39 letters, digits and hyphens."""
    check_name(name, field="name")


@pytest.mark.parametrize(
    "name", ["", "a" * 41, "1a", "-a", "Ada", "a_b", "a b", "é", "a\n", "a\0", "a\u0660"]
)
@pytest.mark.rule(16)
def test_bad_names(name: str) -> None:
    """Any other name is refused with its field."""
    with pytest.raises(Invalid) as caught:
        check_name(name, field="name")
    assert caught.value.field == "name"


def test_the_edges_of_a_line() -> None:
    """A line has 1 to 80 characters, counted as code points, and shows something."""
    check_line("\U0001f600" * 80, field="label", characters_max=80)
    for text in (
        "",
        "   ",
        "x" * 81,
        "a\tb",
        "a\nb",
        "a\x7fb",
        "a\x85b",
        "a\0",
        "\ud800",
        "a\u2028",
    ):
        with pytest.raises(Invalid):
            check_line(text, field="label", characters_max=80)


@pytest.mark.parametrize(
    "email", ["ada", "@example.test", "ada@", "a da@example.test", "a@b\n", "a@" + "b" * 253]
)
def test_bad_addresses(email: str) -> None:
    """An address has something on both sides of its @, no space, at most 254 characters."""
    with pytest.raises(Invalid) as caught:
        check(AddUser(name="ada", email=email, password_hash="x"))
    assert caught.value.field == "email"


def test_a_good_address() -> None:
    """An ordinary address is taken as it is, and none at all."""
    check(AddUser(name="ada", email="ada@example.test", password_hash="x"))


@given(st.text())
def test_a_name_that_passes_is_ascii(text: str) -> None:
    """No text outside of a-z, 0-9 and hyphens passes as a name."""
    try:
        check_name(text, field="name")
    except Invalid:
        return
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
