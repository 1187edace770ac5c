"""A sender proven by the Authentication-Results of the own server, and the forged ones."""

import time

import pytest

from muster.clients.mail.verify import Verifier

FROM = "header.from=example.test"
VERIFIER = Verifier(authserv_ids=("mx.home.test", "mx2.home.test"))
MAIL = "From: Ada <ada@example.test>\r\nSubject: Hi\r\n\r\nNoon?\r\n"


def marked(*values: str) -> bytes:
    """The mail with these Authentication-Results, the first on top."""
    return (
        "".join(f"Authentication-Results: {value}\r\n" for value in (*values,)).encode()
        + MAIL.encode()
    )


PASSED = f"mx.home.test; dmarc=pass {FROM}"
# As a large provider writes it, folded.
LONG = (
    "mx.home.test;\r\n\tdkim=pass header.i=@example.test header.s=k1 header.b=AbC/9;\r\n"
    "\tspf=pass (mx.home.test: domain of x designates 192.0.2.1) smtp.mailfrom=x@a.test;\r\n"
    f"\tdmarc=pass (p=REJECT) {FROM}"
)


@pytest.mark.rule(49)
@pytest.mark.parametrize(
    "value",
    [
        PASSED,
        "MX.Home.Test; DMARC=PASS header.From=EXAMPLE.test",
        "mx2.home.test 1; dmarc=pass header.from=example.test",
        "mx.home.test; dmarc=pass (p=NONE sp=QUARANTINE dis=NONE) header.from=example.test",
        LONG,
        f'mx.home.test; spf=fail reason="x; dmarc=fail" smtp.mailfrom=x; dmarc=pass {FROM}',
        'mx.home.test; dmarc=pass header.from="example.test"',
        "mx.home.test (a (nested) comment); dmarc=pass header.from=example.test (c)",
        "mx.home.test; arc=fail; dmarc=pass policy.dmarc=none header.from=example.test",
    ],
)
async def test_a_dmarc_pass_of_the_own_server_proves(value: str) -> None:
    """DMARC passed for the From domain, says the topmost field, which is of a server we named."""
    proof = await VERIFIER.explain(marked(value, "evil.test; dmarc=fail header.from=example.test"))
    assert proof.verified, proof.reason
    assert proof.address == "ada@example.test"
    assert "DMARC passed for example.test" in proof.reason


@pytest.mark.rule(49, 50)
@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([], "no Authentication-Results"),
        (["evil.test; dmarc=pass header.from=example.test"], "not named"),
        (["evil.test; none", PASSED], "not named"),
        (["mx.home.test; none", PASSED], "does not say"),
        (["evil.mx.home.test; dmarc=pass header.from=example.test"], "not named"),
        (["mx.home.test.evil.test; dmarc=pass header.from=example.test"], "not named"),
        (["(mx.home.test) evil.test; dmarc=pass header.from=example.test"], "not named"),
        (["mx.home.test; dmarc=fail header.from=example.test", PASSED], "does not say"),
        (["mx.home.test; dmarc=bestguesspass header.from=example.test"], "does not say"),
        (["mx.home.test; dmarc=none header.from=example.test"], "does not say"),
        ([f"mx.home.test; dmarc=fail (dmarc=pass) {FROM}"], "does not say"),
        (["mx.home.test; spf=pass smtp.mailfrom=example.test"], "does not say"),
        (["mx.home.test; spf=pass header.from=example.test"], "does not say"),
        (["mx.home.test; dkim=pass header.d=example.test"], "does not say"),
        (["mx.home.test; arc=pass header.from=example.test"], "does not say"),
        (["mx.home.test; x-dmarc=pass header.from=example.test"], "does not say"),
        ([f"mx.home.test; spf=pass (; dmarc=pass {FROM}) smtp.mailfrom=a"], "does not say"),
        ([f'mx.home.test; spf=pass reason="; dmarc=pass {FROM}"'], "does not say"),
        ([f'mx.home.test; spf=fail smtp.mailfrom="a; dmarc=pass {FROM}"'], "does not say"),
        ([f"mx.home.test; dmarc=pass {FROM}; dmarc=fail {FROM}"], "does not say"),
        ([f"mx.home.test; dmarc=pass header.from=evil.test; dmarc=pass {FROM}"], "does not say"),
        (["mx.home.test; dmarc=pass header.from=evil.test"], "another domain"),
        (["mx.home.test; dmarc=pass header.from=mail.example.test"], "another domain"),
        (["mx.home.test; dmarc=pass smtp.from=example.test"], "another domain"),
        ([f"mx.home.test; dmarc=pass {FROM} header.from=evil.test"], "another domain"),
        ([f"mx.home.test; dmarc=pass header.from=evil.test {FROM}"], "another domain"),
        (["mx.home.test; dmarc=pass header.from=ada@example.test"], "another domain"),
        (["mx.home.test; dmarc=pass"], "another domain"),
        (["mx.home.test; dmarc=pass (header.from=example.test)"], "another domain"),
        ([f"mx.home.test; dmarc=pass action=none {FROM}"], "can't be read"),
        ([f'mx.home.test; spf=pass smtp.mailfrom=a"; dmarc=pass {FROM}'], "can't be read"),
        ([f"mx.home.test; dmarc=pass (header.from=x {FROM}"], "can't be read"),
        (["mx.home.test; dmarc=pass header.from=example.test)"], "can't be read"),
        (["mx.home.test; dmarc=pass header.from=example.test; "], "can't be read"),
        (["mx.home.test 2; dmarc=pass header.from=example.test"], "can't be read"),
        (["dmarc=pass header.from=example.test"], "can't be read"),
        (["; dmarc=pass header.from=example.test"], "can't be read"),
        ([""], "can't be read"),
        (["mx.home.test; dmarc=pass header.from=exämple.test"], "can't be read"),
        (["mx.home.test; dmarc=pass (" + "x" * 9000 + f") {FROM}"], "can't be read"),
        (["mx.home.test; dmarc=pass " + "(" * 4000 + ")" * 4000 + f" {FROM}"], "can't be read"),
    ],
)  # fmt: skip
async def test_other_results_prove_nothing(values: list[str], why: str) -> None:
    """Forged, lower, unreadable and other results leave the sender unproven, SPF and ARC too."""
    began = time.process_time()
    proof = await VERIFIER.explain(marked(*values))
    assert not proof.verified
    assert why in proof.reason
    assert time.process_time() - began < 3


@pytest.mark.rule(50)
async def test_results_of_nobody_named_prove_nothing() -> None:
    """Without a server in the settings no result counts."""
    assert not await Verifier()(marked(PASSED))
    assert not await Verifier(authserv_ids=("",))(marked(PASSED))


@pytest.mark.rule(50)
@pytest.mark.parametrize(
    "from_line",
    [
        "From: ada@example.test, bo@evil.test",
        "From: Team: ada@example.test;",
        'From: "boss@evil.test" <ada@example.test>',
        "From: ada@example.test\r\nFrom: bo@evil.test",
        "From: ada@example.test\r\nReply-To: bo@evil.test",
    ],
)
async def test_a_pass_does_not_help_a_sender_in_doubt(from_line: str) -> None:
    """What can't be one proven address is none, whatever the own server found."""
    raw = marked(PASSED).replace(b"From: Ada <ada@example.test>", from_line.encode())
    assert not await VERIFIER(raw)


@pytest.mark.parametrize("domain", ["co.uk", "github.io", "test"])
async def test_a_pass_of_a_public_suffix_proves_nothing(domain: str) -> None:
    """A From domain that belongs to nobody is not proven by the own server either."""
    raw = marked(f"mx.home.test; dmarc=pass header.from={domain}")
    assert not await VERIFIER(raw.replace(b"ada@example.test", f"ada@{domain}".encode()))
