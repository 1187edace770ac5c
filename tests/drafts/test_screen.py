"""What a reply may not contain, and that ordinary text may go."""

import time

import pytest
import unicodedata2
from hypothesis import given
from hypothesis import strategies as st

from muster.drafts.screen import BLANKS, UNSHOWABLE, Finding, fold, screen
from muster.ids import CredentialKind, new_token

DENIED = frozenset({"acme", "Project Straße", "node-7", "蓝鸟", "ромашка"})


def look(text: str) -> Finding | None:
    """Fold and screen, as a filing does."""
    return screen(fold(text), DENIED)


ORDINARY = [
    "Thanks, noon works.",
    "e.g. this, i.e. that, z.B. jenes, a.m. and p.m., U.S.",
    "v1.2.3 and 3.11, 1.2.3 or 4.2.1.",
    "Done at noon.Thanks",
    "See report.pdf, notes.txt and photo.jpeg.",
    "At 10:30, or 10:30:45.",
    "é, naïve café, São Paulo, straße",
    "\U0001f600 \u2764\ufe0f \U0001f44d\U0001f3fd",
    "line one\nline two\ttabbed",
    "12.50 EUR until 30.11.2026, +49 30 1234567",
    "日本語のテキスト。はい。次",
    "Привет. Как дела? \u0645\u0631\u062d\u0628\u0627",
    "Donaudampfschifffahrtsgesellschaftskapitän",
    "x" * 80 + " " + "-" * 80 + " " + "=" * 80 + " " + "1" * 40,
    "docs/reference/quarterly-report-final-version",
    "std::vector add::best foo::bar :: x",
    "sk-learn and ask-me-about-this, npm_config, mst_x",
    "Our acmes and anode-75.",
    "and/or, #137, PR-137, @ada, C:\\temp",
    "256.1.2.3 and 1.2.3.4.5",
    "我们用v1.2.3。AI是未来。IT部门10:30开会",
    "\u2122\ufe0f \u2139\ufe0f 1\ufe0f\u20e3 \u00a9\ufe0f",
    "ns::add, Re:added::b, x:12:34:56, ромашками",
    "...and so on... a..b a.-b",
    "",
]
REFUSED = [
    ("x\u200by", "character", 1),
    ("a\r\nb", "character", 1),
    ("a\x00", "character", 1),
    ("\x1b[31m", "character", 0),
    ("\x85", "character", 0),
    ("a\u2028b", "character", 1),
    ("a\u2029b", "character", 1),
    ("\u202eabc", "character", 0),
    ("\ue000", "character", 0),
    ("\u0378", "character", 0),
    ("\U000e0041", "character", 0),
    ("\U0001f468\u200d\U0001f469", "character", 1),
    *((blank, "character", 0) for blank in sorted(BLANKS)),
    ("At 10.0.0.1.", "ip_address", 3),
    ("http://192.168.0.1:80/", "ip_address", 7),
    ("\uff11\uff10.0.0.1", "ip_address", 0),
    ("[2001:db8::1]:443", "ip_address", 1),
    ("see fe80::1%eth0", "ip_address", 4),
    ("fe80::1.", "ip_address", 0),
    ("::1", "ip_address", 0),
    ("::ffff:1.2.3.4", "ip_address", 7),
    ("1:2:3:4:5:6:7:8", "ip_address", 0),
    ("Write to ada@example.com", "host_name", 13),
    ("https://www.example.co.uk/x?y=z", "host_name", 8),
    ("EXAMPLE.COM", "host_name", 0),
    ("\u201cexample.com\u201d", "host_name", 1),
    ("example.com-hosted", "host_name", 0),
    ("on example.com.Thanks", "host_name", 3),
    ("example.com.", "host_name", 0),
    ("example\uff0ecom", "host_name", 0),
    ("example\u3002com", "host_name", 0),
    ("книга.рф", "host_name", 0),
    ("x.xn--p1ai", "host_name", 0),
    ("उदाहरण.भारत", "host_name", 0),
    ("name.web.za", "host_name", 0),
    ("a_b.example.org", "host_name", 0),
    ("db.internal", "host_name", 0),
    ("printer.local!", "host_name", 0),
    ("box.lan", "host_name", 0),
    ("nas.home.arpa", "host_name", 0),
    ("on localhost:8420", "host_name", 3),
    ("LocalHost", "host_name", 0),
    (".".join(["a"] * 200) + ".com", "host_name", 0),
    ("-----BEGIN RSA PRIVATE KEY-----", "credential", 0),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----", "credential", 0),
    ("key: AKIAIOSFODNN7EXAMPLE", "credential", 5),
    ("ghp_" + "x" * 36, "credential", 0),
    ("github_pat_" + "A1" * 12, "credential", 0),
    ("sk-ant-" + "x" * 12, "credential", 0),
    ("sk_live_" + "x" * 12, "credential", 0),
    ("xoxb-1234567890-abc", "credential", 0),
    ("AIza" + "x" * 35, "credential", 0),
    ("eyJhbGciOiJIUzI1NiJ9.x", "credential", 0),
    ("a1" * 16, "credential", 0),
    ("aB" * 16, "credential", 0),
    ("0123456789abcdef" * 2, "credential", 0),
    ("Use kubectl get", "infrastructure_word", 4),
    ("KUBECONFIG", "infrastructure_word", 0),
    ("cat /etc/passwd", "infrastructure_word", 4),
    ("the ACME.", "deny_word", 4),
    ("acme_x", "deny_word", 0),
    ("ﬁne: project strasse", "deny_word", 6),
    ("ß PROJECT STRASSE", "deny_word", 2),
    ("on node-7.", "deny_word", 3),
    # Where nobody writes a space.
    ("\u670d\u52a1\u566810.0.0.1\u6b63\u5e38", "ip_address", 3),
    ("\u5730\u5740fe80::1\u3067\u3059", "ip_address", 2),
    ("\u8bbf\u95eeexample.com\u4e86\u89e3", "host_name", 2),
    ("\u5728localhost\u4e0a", "host_name", 1),
    ("\u4ee4\u724cmpl_abcdefgh", "credential", 2),
    ("\u8054\u7cfbacme\u516c\u53f8", "deny_word", 2),
    ("联系蓝鸟公司", "deny_word", 2),
    ("Наша Ромашка.", "deny_word", 5),
    ("project \n strasse", "deny_word", 0),
    # A word with a colon before an address, a sentence that goes on behind one.
    ("[IPv6:2001:db8::1]", "ip_address", 6),
    ("ip:fe80::1.Thanks", "ip_address", 3),
    # Marks that show as nothing.
    ("at 10.0.0\ufe0f.1", "ip_address", 3),
    ("\ufe0fexample.co\u034fm", "host_name", 1),
    ("a1" * 15 + "\U000e0100" + "b2" * 4, "credential", 0),
    ("kube\u180bctl", "infrastructure_word", 0),
    ("ac\ufe0eme", "deny_word", 0),
]


@pytest.mark.rule(254)
@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_passes(text: str) -> None:
    """What people write passes."""
    assert look(text) is None


@pytest.mark.rule(254)
@pytest.mark.parametrize(("text", "rule", "offset"), REFUSED)
def test_refused(text: str, rule: str, offset: int) -> None:
    """What must not leave is found, with the rule's name and the place."""
    finding = look(text)
    assert finding is not None
    assert (finding.rule, finding.offset) == (rule, offset)
    assert rule in finding.sentence
    assert str(offset) in finding.sentence


@pytest.mark.rule(254)
@pytest.mark.parametrize("length", [31, 32])
def test_token_runs_count_from_32(length: int) -> None:
    """A run of mixed class is a credential from 32 characters on."""
    assert (look("a1" * 15 + "b" * (length - 30)) is not None) == (length >= 32)


@pytest.mark.rule(254)
@pytest.mark.parametrize("kind", list(CredentialKind))
def test_own_tokens(kind: CredentialKind) -> None:
    """A token of muster's own is a credential, a short piece of one too."""
    text = new_token(kind).text
    for piece in (text, text[:12]):
        finding = look(f"it is {piece}")
        assert finding is not None
        assert (finding.rule, finding.offset) == ("credential", 6)


@given(st.text())
def test_folded_once_is_folded(text: str) -> None:
    """Folding twice is folding once, so what is screened is what is kept."""
    assert fold(fold(text)) == fold(text)


@given(st.text())
def test_no_unshowable_character_passes(text: str) -> None:
    """What passes has no character that could not be shown."""
    folded = fold(text)
    if screen(folded, frozenset()) is None:
        assert not any(unicodedata2.category(c) in UNSHOWABLE and c not in "\n\t" for c in folded)
        assert BLANKS.isdisjoint(folded)


@given(
    st.text(alphabet="abc xyz,;!?\n", max_size=40),
    st.sampled_from([("10.1.2.3", "ip_address"), ("db.example.com", "host_name")]),
    st.text(alphabet="abc xyz,;!?\n", max_size=40),
)
def test_found_wherever_it_stands(before: str, secret: tuple[str, str], after: str) -> None:
    """An address or a host between other words is found at its place."""
    text, rule = secret
    finding = screen(f"{before} {text} {after}", frozenset())
    assert finding is not None
    assert (finding.rule, finding.offset) == (rule, len(before) + 1)


@given(st.text(alphabet="abcdefg ,;!?\n\u00e9\u4e00\U0001f600", max_size=200))
def test_prose_passes(text: str) -> None:
    """Letters, punctuation, accents and emoji pass."""
    assert screen(fold(text), frozenset({"node-7"})) is None


@pytest.mark.parametrize(
    "piece",
    [
        *("x", "a.", "a:", "1.", "1.2.3.", "eyJ-", "-----BEGIN ", "aA", "mpl_", "a-", "x.."),
        *("::", "/+", "g:1:", "了a.", "\ufe0f1."),
    ],
)
def test_no_text_takes_long(piece: str) -> None:
    """The worst texts of 16 KiB are judged in a fraction of a second: no pattern backtracks."""
    text = piece * (16384 // len(piece))
    began = time.process_time()
    look(text)
    assert time.process_time() - began < 0.5
