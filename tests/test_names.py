"""The one spelling of a tag, and what can be made of any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import Invalid
from muster.names import RESERVED_NAMESPACES, namespace_of, normalise_tag, slug


@pytest.mark.parametrize(
    ("written", "tag"),
    [
        ("inbox", "inbox"),
        ("  In Box\t", "in-box"),
        ("build_key", "build-key"),
        ("a  b", "a--b"),
        ("Gate:Now", "gate:now"),
        ("\uff27\uff21\uff34\uff25\uff1anow", "gate:now"),
        ("\ufb01x", "fix"),
        ("stra\u00dfe", "strasse"),
        ("a" * 64, "a" * 64),
        ("9./:-z", "9./:-z"),
    ],
)
def test_a_tag_has_one_spelling(written: str, tag: str) -> None:
    """Capitals, blanks, underscores and compatibility forms of a tag are one tag."""
    assert normalise_tag(written) == tag


@pytest.mark.parametrize(
    "written",
    ["", " ", "-a", ":a", "a" * 65, "a,b", "a#b", "\u0430bc", "a\0", "caf\u00e9", "\ud800"],
)
def test_what_is_no_tag_is_refused(written: str) -> None:
    """No other alphabet, no other sign, nothing too long, and a letter or digit first."""
    with pytest.raises(Invalid):
        normalise_tag(written)


@given(st.text(max_size=80))
def test_a_normal_tag_is_its_own_spelling(written: str) -> None:
    """Whatever is a tag at all is folded at once and for good."""
    try:
        tag = normalise_tag(written)
    except Invalid:
        return
    assert normalise_tag(tag) == tag
    assert tag.isascii()
    assert len(tag) <= 64


@given(st.sampled_from(sorted(RESERVED_NAMESPACES)), st.data())
def test_no_spelling_hides_a_namespace(namespace: str, data: st.DataObject) -> None:
    """A reserved namespace is seen through capitals and full-width letters."""
    wide = {letter: chr(ord(letter) + 0xFEE0) for letter in "abcdefghijklmnopqrstuvwxyz:"}
    letters = [
        data.draw(st.sampled_from([letter, letter.upper(), wide.get(letter, letter)]))
        for letter in f"{namespace}:x"
    ]
    assert namespace_of(normalise_tag("".join(letters))) == namespace


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("needs owner ok", "needs-owner-ok"),
        ("", ""),
        ("\u043d\u0435\u0442", ""),
        ("--A!!b--", "a-b"),
    ],
)
def test_a_slug_is_made_of_any_text(text: str, made: str) -> None:
    """What a tag cannot hold becomes single hyphens, none of them at an end."""
    assert slug(text, characters_max=20) == made


@given(st.text(max_size=200))
def test_a_slug_fits_behind_a_namespace(text: str) -> None:
    """Whatever the text, its slug is the rest of a normal tag, or nothing."""
    made = slug(text, characters_max=59)
    assert not made or normalise_tag(f"gate:{made}") == f"gate:{made}"
