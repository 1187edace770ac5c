"""Which texts speak of the same thing: terms, identifiers, both thresholds, and the word lists."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.mirror.matching import (
    IDENTIFIERS_MAX,
    Title,
    commonest,
    count_any,
    count_shared,
    english,
    match,
    read_message,
    read_terms,
)

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def title(text: str, *, whose: int = 1, minutes_ago: int = 0) -> Title:
    """A focus title of a mirrored session."""
    at = NOON - timedelta(minutes=minutes_ago)
    return Title(whose=("mirror", whose), title=text, at=at)


def shared(subject: str, body: str, focus: str) -> int:
    """How many terms a message shares with a title, by the rule."""
    return count_shared(read_message(subject, body), read_terms(focus))


@pytest.mark.rule(283)
@pytest.mark.parametrize(
    ("text", "identifiers"),
    [
        ("node-7k is down", ["node-7k"]),
        ("the h2o crate", ["h2o"]),
        ("#137", ["#137"]),
        ("see PR 137, PR-137, pr #137 and acme/app#137.", ["#137"]),
        ("137 people, a bare number", []),
        ("#137 and PR-138", ["#137", "#138"]),
        ("Version v1.2.3 of it", ["v1.2.3"]),
        ("V1.2.3-rc1!", ["v1.2.3-rc1"]),
        ("match_history and matchHistory", ["match_history", "matchhistory"]),
        ("in src/hints.go:", ["hints.go"]),
        ("muster-mirror", ["muster-mirror"]),
        ("a follow-up after the sign-up by e-mail", []),
        ("noon.Thanks, e.g. at example.com", []),
        ("ab 2nd at 10am, a 24-hour wait since 2026-01-02T10:00:00Z", []),
        ("GitHub and YouTube and PostgreSQL", []),
        ("the node's 'hints.go'", ["hints.go"]),
        ("在node7k上", ["node7k"]),
        ("x" * 40 + "7" * 40, []),
    ],
)
def test_what_names_something(text: str, identifiers: list[str]) -> None:
    """Each form of the reference is an identifier, and what only looks like one is none."""
    assert list(read_terms(text).identifiers) == identifiers


@pytest.mark.rule(284)
def test_an_identifier_counts_once() -> None:
    """However often it is named, and never again as the words that it is made of."""
    terms = read_terms("Retry match_history: MATCH_HISTORY, and match_history again")
    assert terms.identifiers == ("match_history",)
    assert terms.words == {"retry", "again"} - commonest()
    assert shared("", "match_history", "match_history") == 0


@pytest.mark.rule(284)
def test_the_first_twenty_identifiers_of_a_message_count() -> None:
    """The twenty-first names nothing; of a title all count."""
    body = " ".join(f"node-{number}k" for number in range(IDENTIFIERS_MAX + 1))
    assert len(read_message(None, body).identifiers) == IDENTIFIERS_MAX == 20
    assert shared("deploy", body, "deploy node-19k") == 2
    assert shared("deploy", body, "deploy node-20k") == 0
    assert shared("deploy node-20k", body, "deploy node-20k") == 2  # the subject is read first
    assert len(read_terms(body).identifiers) == 21


@pytest.mark.rule(282, 285)
@pytest.mark.parametrize(
    ("body", "focus", "count"),
    [
        ("The deploy of node-7k failed", "Deploy node-7k", 2),
        ("node-7k and PR 137", "Look at #137 on NODE-7K", 2),
        ("node-7k", "Deploy node-7k", 0),  # one term alone
        ("An update on next week's review", "Review the update of next week", 0),
        ("The deploy of node-8k failed", "Deploy node-7k", 0),
        ("nothing of it", "", 0),
    ],
)
def test_two_terms_are_shared_with_an_identifier_among_them(
    body: str, focus: str, count: int
) -> None:
    """Both thresholds hold; common words alone match nothing."""
    assert shared("", body, focus) == count


@pytest.mark.rule(285)
def test_words_are_long_and_not_the_commonest() -> None:
    """A word has three characters, is casefolded, and a contraction or a number is none."""
    terms = read_terms("The STRASSE Straße isn't up to Ada's 2026 deploy; follow-up")
    assert terms.words == {"strasse", "ada", "deploy", "follow"}


@pytest.mark.rule(286)
def test_three_sessions_with_three_titles_each_match_at_most() -> None:
    """Those that share most come first, then those with the newest title; titles newest first."""
    message = read_message("node-7k", "deploy rollback of match_history")
    titles = [
        title(f"deploy node-7k, part {number}", whose=whose, minutes_ago=10 * whose + number)
        for whose in range(1, 6)
        for number in range(5)
    ]
    titles.append(title("rollback and deploy of node-7k", whose=9, minutes_ago=300))
    found = match(message, reversed(titles))
    assert [one.whose[1] for one in found] == [9, 1, 2]
    assert [len(one.titles) for one in found] == [1, 3, 3]
    assert [one.title[-1] for one in found[1].titles] == ["0", "1", "2"]
    assert match(read_message("lunch", "at noon?"), titles) == []


@given(st.text(), st.text(), st.text())
def test_no_text_matches_without_an_identifier(subject: str, body: str, focus: str) -> None:
    """Whatever is written, two terms are shared and one of them names something."""
    message, terms = read_message(subject, body), read_terms(focus)
    count = count_shared(message, terms)
    named = set(message.identifiers) & set(terms.identifiers)
    assert count == 0 or (count >= 2 and named)
    assert count == len(named) + len(message.words & terms.words) or count == 0
    assert len(message.identifiers) <= 20


NAMES = st.sampled_from(
    ["node-7k", "NODE-7K's", "#137", "PR 0137", "pr-137", "match_history", "deploy",
     "Stra\u00dfe-x9", "STRASSE-X9", "hints.go", "v1.2.3", "pump", "\u5728node7k\u4e0a", "1137",
     "(#137)"]
)  # fmt: skip


@given(st.lists(NAMES, max_size=5), st.lists(NAMES, max_size=5))
def test_no_title_is_passed_over_unread(said: list[str], focus: list[str]) -> None:
    """A title matches exactly when it shares enough, however both spell what they share."""
    message, one = read_message(None, " ".join(said)), title(" ".join(focus))
    terms = read_terms(one.title)
    assert bool(match(message, [one])) is bool(count_shared(message, terms))
    shared = set(message.identifiers) & set(terms.identifiers) | message.words & terms.words
    assert count_any(message, one.title) == len(shared)


def test_the_word_lists_ship_with_their_licence() -> None:
    """Beside the lists stands where they come from, and they are as long as is said."""
    import muster.mirror  # noqa: PLC0415

    folder = Path(muster.mirror.__path__[0]) / "word_lists"
    source = (folder / "SOURCE.md").read_text(encoding="utf-8")
    for named in ("symspellpy 6.10.1", "MIT License", "Creative Commons Attribution 3.0", "SCOWL"):
        assert named in source
    assert len(commonest()) == 200
    assert len(english()) == 20_000
    assert commonest() < english()
    assert all(re.fullmatch("[a-z]+", word) for word in english())
