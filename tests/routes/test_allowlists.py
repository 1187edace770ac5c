"""Whose mail muster may act on by itself: the grammar of the entries, and what each matches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.allowlists import ENTRIES_MAX, Allowlist, is_agent_mail
from muster.config import Config, ConfigError

KELVIN = "\u212a"  # it is lower-cased to a plain k

MATCHES = [
    ("7:mail:ada@example.test", "ada@example.test"),
    ("7:mail:ada@example.test", "Ada <ada@example.test>"),
    ("7:mail:ada@example.test", "ADA@Example.TEST"),
    ("7:mail:ADA@Example.TEST", "ada@example.test"),
    ("7:mail:*@example.test", "bob@EXAMPLE.test"),
    ("7:mail:ada/helper", "ada/helper"),
    ("7:mail:ada/*", "ada/helper"),
    ("7:mail:ada/*", "ada/h2"),
    ("7:mail:0-a/ab", "0-a/ab"),
    (f"7:mail:{'a' * 39}/{'b' * 32}", f"{'a' * 39}/{'b' * 32}"),
    ("8:mail:bob@example.test, 7:mail:ada@example.test", "ada@example.test"),
]
MATCHES_NOT = [
    ("7:mail:ada@example.test", "bob@example.test"),
    ("7:mail:ada@example.test", "ada@example.test.evil.test"),
    ("7:mail:ada@example.test", "ada@example.test <eve@evil.test>"),
    ("7:mail:ada@example.test", "<eve@evil.test> <ada@example.test>"),
    ("7:mail:ada@example.test", "ada@example.test,eve@evil.test"),
    ("7:mail:ada@example.test", " ada@example.test"),
    ("7:mail:ada@example.test", "ada@example.test\n"),
    ("7:mail:ada@example.test", None),
    ("7:mail:ada@example.test", ""),
    ("7:mail:mark@example.test", f"mar{KELVIN}@example.test"),
    ("7:mail:*@kite.test", f"ada@{KELVIN}ite.test"),
    ("7:mail:*@example.test", "ada@sub.example.test"),
    ("7:mail:*@example.test", "ada@notexample.test"),
    ("7:mail:x/*", "x-y/ho"),
    ("7:mail:x/helper", "x/helpers"),
    ("7:mail:ada/helper", "Ada/helper"),
    ("7:mail:ada/helper", "ada/Helper"),
    ("7:mail:ada/*", "ada/h"),
    ("7:mail:ada/*", "ada/2h"),
    ("7:mail:ada/*", f"ada/{'b' * 33}"),
    ("7:mail:ada/*", "ada/*"),
    ("8:mail:ada@example.test", "ada@example.test"),
    ("7:post:ada@example.test", "ada@example.test"),
    ("7:mail:ada*@example.test", "adam@example.test"),
]
WRONG = [
    "ada@example.test",
    "mail:ada@example.test",
    "0:mail:ada@example.test",
    "ada:mail:ada@example.test",
    "\u0667:mail:ada@example.test",
    "7::ada@example.test",
    "7:Mail:ada@example.test",
    "7:mail:",
    "7:mail:*",
    "7:mail:ada",
    "7:mail:*@",
    "7:mail:@example.test",
    "7:mail:Ada <ada@example.test>",
    f"7:mail:mar{KELVIN}@example.test",
    f"7:mail:*@{KELVIN}ite.test",
    "7:mail:Ada/helper",
    "7:mail:ada/Helper",
    "7:mail:ada/h",
    "7:mail:ada/2h",
    "7:mail:-ada/helper",
    "7:mail:*/helper",
    "7:mail:ada/he*",
    f"7:mail:{'a' * 40}/helper",
    f"7:mail:ada/{'b' * 33}",
    "7:mail:ada/helper/more",
]


@pytest.mark.rule(327, 328)
@pytest.mark.parametrize(("entries", "sender"), MATCHES)
def test_an_entry_matches_its_senders(entries: str, sender: str) -> None:
    """An address, a domain, an agent or all agents of an owner, of one plugin of one user."""
    assert Allowlist.parse(entries).allows(7, "mail", sender)


@pytest.mark.rule(51, 327, 328)
@pytest.mark.parametrize(("entries", "sender"), MATCHES_NOT)
def test_an_entry_matches_nobody_else(entries: str, sender: str | None) -> None:
    """Look-alikes, two addresses at once, other plugins and other users are no match."""
    assert not Allowlist.parse(entries).allows(7, "mail", sender)


@pytest.mark.rule(329)
def test_mail_and_agent_mail_are_two_kinds() -> None:
    """An entry of one kind matches no sender of the other, whatever its letters are."""
    mail = Allowlist.parse("7:mail:ada/helper@example.test,7:mail:*@ada")
    assert mail.allows(7, "mail", "ada/helper@example.test")
    assert not mail.allows(7, "mail", "ada/helper")
    agents = Allowlist.parse("7:mail:ada/helper,7:mail:ada/*")
    for sender in ("ada/helper@example.test", "ada/x@ada", "Ada <ada/helper>"):
        assert not agents.allows(7, "mail", sender)


@pytest.mark.rule(328)
@pytest.mark.parametrize("entry", WRONG)
@pytest.mark.parametrize("name", ["MUSTER_ROUTE_RELAY_ALLOW", "MUSTER_MAIL_RESUME_ALLOW"])
def test_the_server_does_not_start_with_a_wrong_entry(name: str, entry: str) -> None:
    """The fault names the setting and the entry, among good ones too."""
    with pytest.raises(ConfigError) as caught:
        Config.from_environ({name: f"7:mail:ada@example.test,{entry}"})
    (fault,) = caught.value.faults
    assert name in fault
    assert repr(entry) in fault


@pytest.mark.rule(327)
def test_a_list_is_printed_as_it_is_read() -> None:
    """`muster config show` prints what, set again, is the same list; an empty one allows nobody."""
    listed = Allowlist.parse(" 7:mail:ada/* ,7:mail:ADA@example.test,,")
    assert str(listed) == "7:mail:ada/*,7:mail:ada@example.test"
    assert Allowlist.parse(str(listed)) == listed
    assert Allowlist.parse("") == Allowlist()
    assert not Allowlist().allows(7, "mail", "ada@example.test")


def test_a_list_has_an_end() -> None:
    """A thousand entries, and not one more."""
    entries = [f"{number}:mail:ada/*" for number in range(1, ENTRIES_MAX + 2)]
    assert len(Allowlist.parse(",".join(entries[:-1])).entries) == ENTRIES_MAX
    with pytest.raises(ValueError, match="1000"):
        Allowlist.parse(",".join(entries))


@pytest.mark.rule(328)
@given(st.text(alphabet=f"aAkK{KELVIN}\u0131@.*/<> -1", max_size=12))
def test_nothing_beyond_ascii_is_ever_matched(sender: str) -> None:
    """Whatever is matched is ASCII, and an agent's address stands as it is."""
    everything = Allowlist.parse("7:mail:*@a.k,7:mail:*@k,7:mail:a/*,7:mail:k/*,7:mail:*@a")
    if everything.allows(7, "mail", sender):
        assert sender.isascii()
        assert is_agent_mail(sender) or "@" in sender
