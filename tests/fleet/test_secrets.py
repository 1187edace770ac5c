"""What looks like a secret leaves in no report, and ordinary words do."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.drafts.screen import is_mixed, known_tokens, token_runs
from muster.fleet.secrets import REMOVED, cut

UUID = "550e8400-e29b-41d4-a716-446655440000"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
LONG = "Zm9vYmFyMTIzNDU2Nzg5MGFiY2RlZmdoaWprbG1ub3A"


@pytest.mark.rule(378)
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("use ghp_0123456789abcdefghij now", f"use {REMOVED} now"),
        ("use sk-abcdefghijklmnop1234", f"use {REMOVED}"),
        ("jwt eyJhbGciOiJI.eyJzdWIi.c2ln end", f"jwt {REMOVED} end"),
        (f"token {LONG}.", f"token {REMOVED}."),
        (f"mpl_{LONG}", REMOVED),
        (f"ghp_{COMMIT}", REMOVED),
        (f"{LONG} and {LONG}", f"{REMOVED} and {REMOVED}"),
        (f"{COMMIT}-{LONG}", REMOVED),
        ("-----BEGIN RSA PRIVATE KEY----- MIIEpAIBAAKC and on", REMOVED),
        ("\uff47\uff48\uff50\uff3f0123456789abcdefghij", REMOVED),
        ("ghp_0123\u200b456789ab\u2060cdefghij!", f"{REMOVED}!"),
        ("ghp_0123\ufe0f456789abcdefghij", REMOVED),
    ],
)
def test_a_secret_is_cut_out(text: str, left: str) -> None:
    """A known prefix to the end of its word, a long run, a key with all that follows."""
    found = cut(text)
    assert found.text == left
    assert found.removed == left.count(REMOVED)


@pytest.mark.rule(378)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "Mend the pump of node-7k, see #137 and v1.2.3",
        f"session {UUID} at commit {COMMIT}",
        f"worktree-{UUID}",
        "database_url on db.internal at 10.0.0.1, kubectl and wireguard",
        "Donaudampfschifffahrtsgesellschaftskapitän",
        "½ a cup é 在 🙂",
        "a" * 40,
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    """Infrastructure, hosts, session ids and commits are none of it; nothing is folded."""
    assert cut(text) == type(cut(text))(text=text, removed=0)


words = st.text(alphabet=string.ascii_letters + string.digits + " -_/=+.", max_size=60)


@pytest.mark.rule(378)
@given(
    words, st.sampled_from([f"ghp_{LONG}", f"xoxb-{LONG}", LONG, f"AKIA{COMMIT.upper()}"]), words
)
def test_no_secret_stays_whatever_stands_around_it(before: str, secret: str, after: str) -> None:
    """A word before and after it; the screen of replies finds no credential in what is left."""
    found = cut(f"{before} {secret} {after}")
    assert secret not in found.text
    assert found.removed == found.text.count(REMOVED) > 0
    for exempt in (UUID, COMMIT):
        assert exempt not in found.text
    assert not list(known_tokens(found.text))
    assert not [run[0] for run in token_runs(found.text) if is_mixed(run[0])]


@given(st.text())
def test_what_is_left_holds_no_secret(text: str) -> None:
    """A second look finds nothing more."""
    assert cut(cut(text).text).removed == 0
