"""What passkeys belong to, and answers that are none: no database is needed to refuse them."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.accounts.passkeys import Site, check_creation, credential_id_of, site_of
from muster.errors import Invalid, Unauthorized

PUBLIC_URL = "https://muster.example.test"


@pytest.mark.parametrize(
    ("url", "host", "origin"),
    [
        ("http://localhost:8420", "localhost", "http://localhost:8420"),
        ("https://Muster.Example.test", "muster.example.test", "https://muster.example.test"),
        ("https://a.test:443", "a.test", "https://a.test"),
        ("http://a.test:80", "a.test", "http://a.test"),
        ("https://a.test:8443", "a.test", "https://a.test:8443"),
    ],
)
def test_the_site_of_a_public_url(url: str, host: str, origin: str) -> None:
    """The host stands without its port, the origin as browsers spell it."""
    assert site_of(url) == Site(host=host, origin=origin)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
_FIELDS = ("id", "rawId", "type", "response")
_INNER = ("clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.text(max_size=50)
    | _JSON.map(json.dumps)
    | st.fixed_dictionaries(
        {}, optional=dict.fromkeys(_FIELDS, _JSON) | {
            "id": st.just("AAAA"),
            "rawId": st.just("AAAA"),
            "type": st.just("public-key"),
            "response": st.dictionaries(st.sampled_from(_INNER), _JSON | st.just("AAAA")),
        }
    ).map(json.dumps)
)
def test_what_is_no_answer_is_refused(text: str) -> None:
    """Whatever a browser sends is an answer or a refusal, and never an error of ours."""
    with pytest.raises((Invalid, Unauthorized)):
        check_creation(site_of(PUBLIC_URL), challenge=b"x" * 32, answer=text)
    try:
        assert isinstance(credential_id_of(text), bytes)
    except (Invalid, Unauthorized):
        return
