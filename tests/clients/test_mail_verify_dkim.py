"""A sender proven by a DKIM signature, and every signature and key that proves nothing.

The server that is asked for keys is a real one on loopback; the signatures are made by the tests'
own signer, some also by the library's.
"""

from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import dkim
import pytest

from muster.clients.mail.verify import Proof, Verifier
from muster.clients.mail.verify.alignment import are_aligned, ascii_domain, organisational_domain
from tests.support.mail_court import KEY, KEY_NAME, MAIL, NOW, Court, open_court
from tests.support.signed_mail import (
    ed25519_key,
    rsa_key,
    rsa_public,
    sign_mail,
)


@pytest.fixture
async def court() -> AsyncIterator[Court]:
    """Yield a verifier whose DNS has one key of example.test."""
    async with open_court() as opened:
        yield opened


@pytest.mark.rule(49)
@pytest.mark.parametrize(
    "form", ["relaxed/relaxed", "relaxed/simple", "simple/relaxed", "simple/simple"]
)
async def test_an_aligned_signature_proves_the_sender(court: Court, form: str) -> None:
    """A signature of the From domain proves From, in each canonical form."""
    proof = await court.explain(sign_mail(MAIL, KEY, form=form))
    assert proof == Proof(
        verified=True, reason="A signature of example.test covers it.", address="ada@example.test"
    )


@pytest.mark.parametrize("form", ["relaxed/relaxed", "simple/simple"])
async def test_a_maildir_with_bare_line_feeds(court: Court, form: str) -> None:
    """A mail that was signed with CRLF and is stored with LF is proven all the same."""
    raw = sign_mail(MAIL, KEY, form=form).replace(b"\r\n", b"\n")
    assert (await court.explain(raw)).verified


@pytest.mark.parametrize("form", ["relaxed", "simple"])
async def test_the_library_signs_the_same(
    court: Court, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the library signs is proven too, so that our signer is no private language."""
    # It writes when it signed: by the court's clock, which has stood still since the tests began.
    monkeypatch.setattr(dkim, "time", SimpleNamespace(time=lambda: NOW))
    ways = (form.encode(), form.encode())
    made = dkim.sign(MAIL, b"k1", b"example.test", KEY.pem(), canonicalize=ways)
    assert (await court.explain(made + MAIL)).verified


@pytest.mark.parametrize("bits", [1024, 2048])
async def test_rsa_keys_of_these_lengths_prove(court: Court, bits: int) -> None:
    """RSA of 1,024 bits is what verifiers have to take, and what a long key needs two strings."""
    key = rsa_key(bits)
    court.dns.put("long._domainkey.example.test", key.record())
    assert (await court.explain(sign_mail(MAIL, key, s="long"))).verified


async def test_ed25519_proves(court: Court) -> None:
    """A signature by Ed25519 proves as well."""
    key = ed25519_key()
    court.dns.put("ed._domainkey.example.test", key.record())
    assert (await court.explain(sign_mail(MAIL, key, s="ed"))).verified


@pytest.mark.parametrize(
    ("change", "to"),
    [
        (b"Noon?", b"Noon!"),
        (b"Noon?\r\n", b"Noon?\r\nAnd pay.\r\n"),
        (b"Subject: Hi", b"Subject: Ho"),
        (b"Ada <ada@", b"Ada <bob@"),
        (b"d=example.test", b"d=sub.example.test"),
    ],
)
@pytest.mark.rule(50)
async def test_a_changed_mail_is_not_proven(court: Court, change: bytes, to: bytes) -> None:
    """One changed word in what was signed, and nothing is proven."""
    court.dns.put("k1._domainkey.sub.example.test", KEY.record())
    raw = sign_mail(MAIL, KEY)
    assert change in raw
    await court.refuse(raw.replace(change, to), "does not hold")


REFUSED_SIGNATURES: list[tuple[dict[str, Any], str]] = [
    ({"l": "5"}, "a part of the body"),
    ({"l": "100000"}, "a part of the body"),
    ({"a": "rsa-sha1"}, "proves nothing"),
    ({"a": "rsa-sha512"}, "proves nothing"),
    ({"a": "ed25519-sha256"}, "another kind"),
    ({"h": "to:subject:date"}, "does not cover From"),
    ({"h": "from:to:date"}, "does not cover Subject"),
    ({"x": str(NOW - 60)}, "expired"),
    ({"t": str(NOW + 3600)}, "future"),
    ({"t": str(NOW + 200), "x": str(NOW + 100)}, "before it was made"),
    ({"x": "soon"}, "a time that is none"),
    ({"v": "2"}, "another version"),
    ({"v": None}, "can't be read"),
    ({"d": None}, "can't be read"),
    ({"s": ""}, "can't be read"),
    ({"q": "http"}, "elsewhere than in DNS"),
    ({"c": "relaxed/relaxed/simple"}, "canonical"),
    ({"c": "nowsp"}, "canonical"),
    ({"i": "@other.test"}, "another domain (i=)"),
    ({"i": "@notexample.test"}, "another domain (i=)"),
    ({"s": "k1._domainkey.evil.test."}, "selector"),
    ({"s": "k1..x"}, "selector"),
    ({"bh": "!!!!"}, "can't be read"),
    ({"d": "other.test"}, "not one of example.test"),
    ({"d": "test"}, "not one of example.test"),
    ({"d": "127.0.0.1"}, "names no domain"),
    ({"d": "example.test\u3002evil.test"}, "names no domain"),
]


@pytest.mark.rule(50)
@pytest.mark.parametrize(("tags", "why"), REFUSED_SIGNATURES)
async def test_a_signature_in_doubt_proves_nothing(
    court: Court, tags: dict[str, Any], why: str
) -> None:
    """A signature with one wrong tag, right in everything else, proves nothing."""
    body_bytes = int(tags["l"] or 0) if "l" in tags else None
    await court.refuse(sign_mail(MAIL, KEY, body_bytes=body_bytes, **tags), why)


@pytest.mark.parametrize(
    "tags", [{"x": str(NOW + 3600)}, {"t": str(NOW - 60)}, {"t": str(NOW + 60)}]
)
async def test_a_signature_in_force_proves(court: Court, tags: dict[str, Any]) -> None:
    """A signature that has not expired, of a clock that is near ours, proves."""
    assert (await court.explain(sign_mail(MAIL, KEY, **tags))).verified


async def test_the_library_alone_would_take_them(court: Court) -> None:
    """The library takes l=, SHA-1, an hour past x= and a From that is not signed: we don't."""

    def answer(name: bytes, timeout: int = 5) -> bytes:
        return KEY.record()

    for raw in (
        sign_mail(MAIL, KEY, l="5", body_bytes=5),
        sign_mail(MAIL, KEY, a="rsa-sha1"),
        sign_mail(MAIL, KEY, x=str(NOW - 3600)),
        sign_mail(MAIL, KEY, h="to:subject"),
    ):
        assert dkim.verify(raw, dnsfunc=answer)
        assert not (await court.explain(raw)).verified


REFUSED_KEYS: list[tuple[Callable[[], bytes], str]] = [
    (lambda: KEY.record(p=""), "revoked"),
    (lambda: KEY.record(t="y"), "tested"),
    (lambda: KEY.record(t="s:y"), "tested"),
    (lambda: KEY.record(k="ed25519"), "another kind"),
    (lambda: KEY.record(k="dsa"), "another kind"),
    (lambda: KEY.record(h="sha1"), "SHA-256"),
    (lambda: KEY.record(s="tlsrpt"), "not for mail"),
    (lambda: KEY.record(s="other"), "not for mail"),
    (lambda: KEY.record(v="DKIM2"), "can't be read"),
    (lambda: KEY.record(p="not base64"), "can't be read"),
    (lambda: KEY.record(p="AAAA"), "can't be read"),
    (lambda: KEY.record(p=None), "can't be read"),
    (lambda: b"v=spf1 -all", "can't be read"),
    (lambda: b"\xff\xfe", "can't be read"),
    (lambda: KEY.record(n="x" * 9000), "can't be read"),
    (lambda: rsa_key(1024, 2).record(), "does not hold"),
    (lambda: rsa_public(2**8192 + 1, 65537).record(), "none that mail is signed with"),
    (lambda: rsa_public(2**1024 - 1, 1).record(), "none that mail is signed with"),
    (lambda: rsa_public(2**1024 - 1, 2**64 + 1).record(), "none that mail is signed with"),
]


@pytest.mark.rule(50)
@pytest.mark.parametrize(("record", "why"), REFUSED_KEYS)
async def test_a_key_in_doubt_proves_nothing(
    court: Court, record: Callable[[], bytes], why: str
) -> None:
    """A right signature proves nothing when its key's record takes that away."""
    court.dns.put(KEY_NAME, record())
    await court.refuse(sign_mail(MAIL, KEY), why)


@pytest.mark.parametrize("bits", [512, 768, 1023])
async def test_a_weak_key_proves_nothing(court: Court, bits: int) -> None:
    """An RSA key under 1,024 bits proves nothing, however right the signature."""
    weak = rsa_key(bits)
    court.dns.put(KEY_NAME, weak.record())
    await court.refuse(sign_mail(MAIL, weak), f"too weak: {bits} bits")


@pytest.mark.parametrize(
    "tags",
    [
        *({"k": None}, {"v": None}, {"s": "email"}, {"s": "x:email"}, {"h": "sha1:sha256"}),
        *({"t": "s"}, {"n": "hello", "t": "x"}),
    ],
)
async def test_a_key_with_these_tags_proves(court: Court, tags: dict[str, Any]) -> None:
    """What a key record may say beside its key takes nothing away."""
    court.dns.put(KEY_NAME, KEY.record(**tags))
    assert (await court.explain(sign_mail(MAIL, KEY))).verified


async def test_a_strict_key_wants_the_domain_itself(court: Court) -> None:
    """With t=s in the key an i= below d= proves nothing, and without it it proves."""
    raw = sign_mail(MAIL, KEY, i="ada@mail.example.test")
    assert (await court.explain(raw)).verified
    court.dns.put("strict._domainkey.example.test", KEY.record(t="s"))
    raw = sign_mail(MAIL, KEY, s="strict", i="ada@mail.example.test")
    await court.refuse(raw, "no subdomain")


@pytest.mark.rule(49)
@pytest.mark.parametrize(
    ("from_domain", "signer", "aligned"),
    [
        ("example.com", "example.com", True),
        ("EXAMPLE.com", "Example.COM", True),
        ("example.com", "mail.example.com", True),
        ("mail.example.com", "example.com", True),
        ("a.example.co.uk", "b.example.co.uk", True),
        ("example.com", "example.com.evil.net", False),
        ("example.com", "badexample.com", False),
        ("example.co.uk", "other.co.uk", False),
        ("example.co.uk", "co.uk", False),
        ("one.github.io", "two.github.io", False),
        ("one.github.io", "github.io", False),
        ("city.kawasaki.jp", "kawasaki.jp", False),
        ("xn--bcher-kva.com", "xn--bcher-kva.com", True),
        ("xn--bcher-kva.com", "bücher.com", True),
        ("xn--strae-oqa.com", "strasse.com", False),
    ],
)
async def test_alignment_is_by_organisation(
    court: Court, from_domain: str, signer: str, aligned: bool
) -> None:
    """A signer proves From only when both domains are of one organisation."""
    raw = MAIL.replace(b"ada@example.test", f"ada@{from_domain}".encode())
    encoded = ascii_domain(signer)
    court.dns.put(f"k1._domainkey.{encoded}", KEY.record())
    proof = await court.explain(sign_mail(raw, KEY, d=signer))
    assert proof.verified == aligned
    assert aligned or "not one of" in proof.reason


@pytest.mark.parametrize(
    "domain", ["co.uk", "github.io", "test", "localhost", "[127.0.0.1]", "1.2.3.4"]
)
async def test_a_public_suffix_belongs_to_nobody(court: Court, domain: str) -> None:
    """A From domain that no organisation can have is proven by nothing, not even by itself."""
    raw = MAIL.replace(b"ada@example.test", f"ada@{domain}".encode())
    court.dns.put(f"k1._domainkey.{domain}", KEY.record())
    proof = await court.explain(sign_mail(raw, KEY, d=domain))
    assert not proof.verified


def test_domains_are_compared_as_dns_has_them() -> None:
    """Domains are folded and put into ASCII; what does not come back as it was is none."""
    assert ascii_domain("Bücher.Example") == "xn--bcher-kva.example"
    assert ascii_domain("straße.example") is None
    assert ascii_domain("\uff45xample.test") is None
    assert ascii_domain("a..b") is None
    assert ascii_domain("exa_mple.test") is None
    assert ascii_domain("x" * 64 + ".test") is None
    assert ascii_domain("") is None
    assert organisational_domain("a.b.example.co.uk") == "example.co.uk"
    assert organisational_domain("co.uk") is None
    assert not are_aligned("co.uk", "co.uk")


async def test_two_records_are_no_key(court: Court) -> None:
    """Of two records at one name nobody knows which counts."""
    court.dns.put(KEY_NAME, KEY.record(), b"v=DKIM1; p=")
    await court.refuse(sign_mail(MAIL, KEY), "2 records")


async def test_one_good_signature_among_others_is_enough(court: Court) -> None:
    """A list's or provider's own signature and a broken one stand in nobody's way."""
    raw = sign_mail(MAIL, KEY)
    raw = sign_mail(raw, KEY, d="provider.test")
    raw = sign_mail(raw, rsa_key(1024, 2))
    assert (await court.explain(raw)).verified
    assert "k1._domainkey.provider.test" not in court.dns.asked


async def test_only_so_many_signatures_are_tried(court: Court) -> None:
    """Five aligned signatures are tried and no more, so that no mail buys more work."""
    raw = sign_mail(MAIL, KEY)
    for number in range(5):
        raw = sign_mail(raw, rsa_key(1024, 2), s=f"bad{number}")
    assert not (await court.explain(raw)).verified
    assert set(court.dns.asked) == {f"bad{number}._domainkey.example.test" for number in range(5)}


async def test_without_dns_no_signature_counts(court: Court) -> None:
    """A verifier with nothing set up proves nothing and asks nobody."""
    proof = await Verifier().explain(sign_mail(MAIL, KEY))
    assert not proof.verified
    assert "Nothing is set up" in proof.reason
    assert court.dns.asked == []


PLAIN = MAIL.partition(b"\r\n\r\n")[0] + b"\r\n\r\n> Please pay. <!--\r\nNever!\r\n"
PARTS = b"--real\r\n\r\nNever!\r\n> --fake\r\n--fake\r\n\r\nPlease pay.\r\n--fake--\r\n--real--\r\n"
MULTIPART = MAIL.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" + PARTS
BEFORE = MULTIPART.replace(b"--real", b"Before\r\n--real", 1)


@pytest.mark.rule(50)
@pytest.mark.parametrize(
    ("raw", "kind", "is_proven"),
    [
        (PLAIN, b"text/plain; charset=utf-8", True),
        (PLAIN, b"text/html", False),
        (PLAIN, b"application/pdf", False),
        (MULTIPART, b"multipart/mixed; boundary=real", True),
        (MULTIPART, b'multipart/alternative;\r\n boundary="real"', True),
        (MULTIPART, b"multipart/mixed; boundary=fake", False),
        (MULTIPART, b"multipart/mixed", False),
        (MULTIPART, b"text/plain; boundary=fake", True),
        (MULTIPART + b"after\r\n", b"multipart/mixed; boundary=real", False),
        (BEFORE, b"multipart/mixed; boundary=real", False),
    ],
)  # fmt: skip
async def test_an_unsigned_kind_hides_nothing(
    court: Court, raw: bytes, kind: bytes, is_proven: bool
) -> None:
    """A Content-Type that nobody signed proves a mail only where all of its body is seen."""
    typed = b"Content-Type: " + kind + b"\r\n"
    unsigned = typed + sign_mail(raw, KEY)
    assert (await court.explain(unsigned)).verified is is_proven
    if not is_proven:
        await court.refuse(unsigned, "could hide a part of the body")
    signed = sign_mail(typed + raw, KEY, signed=["content-type", "from", "subject"])
    assert (await court.explain(signed)).verified
