"""Where a page may lead on to: whatever is asked for, a path of ours."""

from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.pages.own_paths import own_path

PUBLIC = "https://muster.example.test"


@pytest.mark.parametrize(
    "path", ["/", "/attention?tab=drafts", "/messages/17", "/a%20b?x=%2F%2Fevil.test", "/?next=//x"]
)
def test_our_own_paths_stay(path: str) -> None:
    """A path with a query is led to as it is."""
    assert own_path(path) == path


@pytest.mark.parametrize(
    "text",
    [
        *("", "attention", "//evil.test", "///evil.test", "/\\evil.test", "\\/evil.test"),
        *("https://evil.test", "javascript:alert(1)", "/\t/evil.test", "/\n/evil.test", " /x"),
        *("/é", "/x#y", "/" + "a" * 2001),
    ],
)
def test_what_is_no_path_of_ours(text: str) -> None:
    """Anything else leads to the first page."""
    assert own_path(text) == "/"
    assert own_path(text, "/settings") == "/settings"


_URLISH = st.text(alphabet="/\\.:@?#%\t\n\r ehtpsvil-j", max_size=12)


@given(_URLISH | st.text(max_size=30))
def test_no_text_leads_to_another_site(text: str) -> None:
    """A browser that follows what comes out stays at this muster."""
    led = urlsplit(urljoin(f"{PUBLIC}/sign-in", own_path(text)))
    assert (led.scheme, led.netloc) == ("https", "muster.example.test")
