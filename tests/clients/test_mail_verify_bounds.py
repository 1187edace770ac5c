"""DNS that fails, is slow or long, and mail that is made to be slow: a verdict within bounds."""

import time
from collections.abc import AsyncIterator

import attrs
import pytest

from muster.clients.mail.verify.dkim_proof import canonical_body
from tests.support.dns_server import Trouble
from tests.support.mail_court import KEY, KEY_NAME, MAIL, Court, open_court
from tests.support.signed_mail import canonical, sign_mail


@pytest.fixture
async def court() -> AsyncIterator[Court]:
    """Yield a verifier whose DNS has one key of example.test."""
    async with open_court() as opened:
        yield opened


@pytest.mark.parametrize(
    ("trouble", "why"),
    [(Trouble.FAILING, "every server failed"), (Trouble.EMPTY, "0 records"), (None, "0 records")],
)
async def test_no_answer_is_not_proven(court: Court, trouble: Trouble | None, why: str) -> None:
    """A server that fails, and a name without a key, leave the sender unproven."""
    court.dns.records.clear()
    if trouble is not None:
        court.dns.troubles[KEY_NAME] = trouble
    await court.refuse(sign_mail(MAIL, KEY), why)


async def test_a_silent_server_is_waited_for_within_bounds(court: Court) -> None:
    """All of a mail's lookups together take no longer than they may, and prove nothing."""
    court.dns.troubles[KEY_NAME] = Trouble.SILENT
    verifier = attrs.evolve(court.verifier, dns_seconds_max=0.5)
    began = time.monotonic()
    proof = await verifier.explain(sign_mail(MAIL, KEY))
    assert not proof.verified
    assert "in time" in proof.reason
    assert time.monotonic() - began < 8


async def test_a_silent_name_does_not_starve_another(court: Court) -> None:
    """A key that never comes does not keep another signature from proving."""
    court.dns.troubles["slow._domainkey.example.test"] = Trouble.SILENT
    raw = sign_mail(sign_mail(MAIL, KEY), KEY, s="slow")
    verifier = attrs.evolve(court.verifier, dns_seconds_max=2)
    assert await verifier(raw)


async def test_a_truncated_answer_is_asked_for_by_tcp(court: Court) -> None:
    """An answer too long for a packet comes by TCP."""
    court.dns.only_tcp.add(KEY_NAME)
    assert (await court.explain(sign_mail(MAIL, KEY))).verified
    assert court.dns.asked_by_tcp == [KEY_NAME]


async def test_a_key_by_another_name(court: Court) -> None:
    """A key that is only pointed to by the signer's name is found."""
    court.dns.put("hosted.provider.test", KEY.record())
    court.dns.aliases["k2._domainkey.example.test"] = "hosted.provider.test"
    assert (await court.explain(sign_mail(MAIL, KEY, s="k2"))).verified


@pytest.mark.parametrize(
    "body",
    [b" " * 2_000_000, b" \t" * 500_000 + b"x", b"\r\n" * 500_000, b"\n" * 1_000_000 + b"x",
     b"a \r\n" * 300_000, b"\r" * 1_000_000, b"=" * 2_000_000],
)  # fmt: skip
async def test_a_body_made_to_be_slow_is_not(court: Court, body: bytes) -> None:
    """White space and line ends by the million are canonicalised in linear time."""
    head = MAIL.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    signature = sign_mail(MAIL, KEY).removesuffix(MAIL)
    began = time.process_time()
    await court.refuse(signature + head + body, "does not hold")
    assert time.process_time() - began < 8


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\r\n",
        b"\r\n\r\n",
        b"x",
        b"x \t\r\n \r\n",
        b" x\r\n",
        b"x\r\n\ty  z\r\n\r\n",
        b"x\r\n \r\n\r\ny",
        b"x" + b" " * 7 + b"\t \ty" + b"\t" * 5 + b"\r\n",
    ],
)
def test_canonical_bodies(body: bytes) -> None:
    """Bodies are canonicalised as RFC 6376 says, and once more changes nothing."""
    ended = body + b"\r\n" if body and not body.endswith(b"\r\n") else body
    for way in ("relaxed", "simple"):
        made = canonical_body(body, relaxed=way == "relaxed")
        assert made == canonical(ended, way)
        assert canonical_body(made, relaxed=way == "relaxed") == made


def test_a_bare_return_at_the_end_is_text() -> None:
    """Only whole line ends vanish from a body's end."""
    assert canonical_body(b"x\r\n\r\r\n\r\n", relaxed=False) == b"x\r\n\r\r\n"
    assert canonical_body(b"x\r\r\n\r\n", relaxed=False) == b"x\r\r\n"


async def test_a_signature_made_to_be_slow_is_refused(court: Court) -> None:
    """A signature with a long run of white space is not handed to patterns that backtrack."""
    raw = sign_mail(MAIL, KEY)
    slow = raw.replace(b"\tb=", b"\tb=" + b" " * 2000, 1)
    assert slow != raw
    began = time.process_time()
    await court.refuse(slow, "too long")
    await court.refuse(raw.replace(b"v=1;", b"v=1; z=" + b"x" * 5000 + b";"), "too long")
    assert time.process_time() - began < 5
