"""Which From address can be proven at all, whatever signs the mail.

Every mail here has a signature of its From domain that holds, unless a test says otherwise.
"""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.clients.mail.maildir import RawMail
from muster.clients.mail.parse import parse
from muster.clients.mail.reading import Reading
from muster.clients.mail.verify import Proof, Verifier
from muster.clients.mail.verify.proof import Doubt
from muster.clients.mail.verify.sender import find_provable
from tests.support.dns_server import DnsServer, dns_server
from tests.support.signed_mail import rsa_key, sign_mail

KEY = rsa_key(1024)
REST = b"To: bo@home.test\r\nSubject: Hi\r\nMessage-ID: <m1@example.test>\r\n\r\nNoon?\r\n"


def mail(from_line: str | bytes, *more: str) -> bytes:
    """A mail with this From value, folded as it is given, and more fields."""
    value = from_line if isinstance(from_line, bytes) else from_line.encode()
    extra = b"".join(line.encode() + b"\r\n" for line in more)
    return b"From: " + value + b"\r\n" + extra + REST


@pytest.fixture
async def dns() -> AsyncIterator[DnsServer]:
    """Yield a DNS with one key of example.test."""
    async with dns_server() as server:
        server.put("k1._domainkey.example.test", KEY.record())
        yield server


async def explain(dns: DnsServer, raw: bytes) -> Proof:
    """What is said of the mail, signed."""
    return await Verifier(resolver=dns.resolver()).explain(
        sign_mail(raw, KEY, signed=["from"], h="from:subject")
    )


PROVABLE = [
    "ada@example.test",
    "<ada@example.test>",
    "ada@example.test (Ada Lovelace)",
    "Ada <ada@example.test>",
    '"Lovelace, Ada" <ada@example.test>',
    "Ada\r\n <ada@example.test>",
    "=?utf-8?q?Ad=C3=A1?= <ada@example.test>",
    "=?utf-8?b?0JDQtNCw?= <ada@example.test>",
    "Adá Ğ <ada@example.test>",
    "山田 太郎 <ada@example.test>",
    '"ada@example.test" <ada@example.test>',
    '"ADA@Example.test" <ada@example.test>',
    "Example.test News <ada@example.test>",
    "mail.example.test <ada@example.test>",
    "Dr. A. Lovelace Jr. <ada@example.test>",
    "Ada <ada@EXAMPLE.test>",
    "Ada <ada@mail.example.test>",
    "Ж.Иванов <ada@example.test>",
    "Ada 😀 <ada@example.test>",
]


@pytest.mark.rule(49)
@pytest.mark.parametrize("from_line", PROVABLE)
async def test_a_plain_sender_is_proven_and_shown_as_proven(dns: DnsServer, from_line: str) -> None:
    """One mailbox in a plain form is proven, and what muster gets as sender is that mailbox."""
    raw = mail(from_line)
    proof = await explain(dns, raw)
    assert proof.verified, proof.reason
    sender = parse(raw, place="here").message.sender
    assert sender is not None
    assert sender == proof.address or sender.endswith(f" <{proof.address}>")


REFUSED = [
    ("", "not one address"),
    ("Ada", "not one address"),
    ("ada@", "not one address"),
    ("@example.test", "not one address"),
    ("ada@example.test, bo@example.test", "not one address"),
    ("Ada <ada@example.test>, Bo <bo@evil.test>", "not one address"),
    ("Bo <bo@evil.test>, Ada <ada@example.test>", "not one address"),
    ("Team: ada@example.test;", "not one address"),
    ("Team: Ada <ada@example.test>, Bo <bo@example.test>;", "not one address"),
    ("undisclosed-recipients:;", "not one address"),
    ("<bo@evil.test> <ada@example.test>", "not one address"),
    ("Ada <ada@example.test> <bo@evil.test>", "not one address"),
    ("Ada <@relay.test:ada@example.test>", "not one address"),
    ("Ada <ada@example.test> (bo@evil.test)", "not one address"),
    ("Ada (boss) <ada@example.test>", "not one address"),
    ("bo@evil.test <ada@example.test>", "not one address"),
    ('"ada"@example.test', "not one address"),
    ("ada@example.test;", "not one address"),
    ("Ada <ada@example.test", "not one address"),
    ("Ada <ada @example.test>", "not one address"),
    ("Ada <ada@exa\r\n mple.test>", "not one address"),
    ("Ada <ada@example.test\x00>", "From"),
    ("Ada <\u0430da@example.test>", "not one address"),
    ("Ada <ada@[127.0.0.1]>", "not one address"),
    ("Ada <ada@localhost>", "no"),
    ('"boss@evil.test" <ada@example.test>', "looks like an address"),
    ("=?utf-8?q?boss=40evil=2Etest?= <ada@example.test>", "looks like an address"),
    ("=?utf-8?b?Ym9zc0BldmlsLnRlc3Q=?= <ada@example.test>", "looks like an address"),
    ("=?utf-8?q?bo?= =?utf-8?q?ss=40evil?= <ada@example.test>", "looks like an address"),
    ('"=?utf-8?q?boss=40evil=2Etest?=" <ada@example.test>', "looks like an address"),
    ("ada@example.test (boss@evil.test)", "looks like an address"),
    ("boss\uff20evil.test <ada@example.test>", "looks like an address"),
    ("boss\ufe6bevil.test <ada@example.test>", "looks like an address"),
    ("boss\u24d0evil <ada@example.test>", "looks like an address"),
    ('"xada@example.test" <ada@example.test>', "looks like an address"),
    ('"ada@example.test.evil.test" <ada@example.test>', "looks like an address"),
    ("Boss evil.com <ada@example.test>", "another domain"),
    ("Evil.Co.Uk <ada@example.test>", "another domain"),
    ("Boss [evil.com] <ada@example.test>", "not one address"),
    ("Boss at home.lan <ada@example.test>", "another domain"),
    ("example.test.evil.com <ada@example.test>", "another domain"),
    ("evil\u3002com <ada@example.test>", "another domain"),
    ("evil\u2024com <ada@example.test>", "another domain"),
    ("\uff45vil.\uff43om <ada@example.test>", "another domain"),
    ("раурал.сом <ada@example.test>", "another domain"),
    ("=?utf-8?q?pa=D1=83pal=2Ecom?= <ada@example.test>", "another domain"),
    ("P\u0430ypal <ada@example.test>", "several alphabets"),
    ("\u0391da <ada@example.test>", "several alphabets"),
    ("=?utf-8?q?Boss_=3Cboss=3E?= <ada@example.test>", "angle brackets"),
    ('"Boss <boss>" <ada@example.test>', "angle brackets"),
    ("Boss \u2039boss\u203a <ada@example.test>", "angle brackets"),
    ("Boss \uff1cboss\uff1e <ada@example.test>", "angle brackets"),
    ("Ada\u202e <ada@example.test>", "nobody sees"),
    ("Ad\u200ba <ada@example.test>", "nobody sees"),
    ("Ada\u3164 <ada@example.test>", "nobody sees"),
    ("=?utf-8?q?Ad=00a?= <ada@example.test>", "could not be decoded"),
    ("=?utf-8?q?Ad=FFa?= =?ascii?b?/w==?= =?x?b?a?= <ada@example.test>", "could not be decoded"),
    ("A" * 250 + " <ada@example.test>", "too long"),
    ("A" * 2000 + " <ada@example.test>", "too long"),
]


@pytest.mark.rule(50)
@pytest.mark.parametrize(("from_line", "why"), REFUSED)
async def test_a_sender_in_doubt_is_not_proven(dns: DnsServer, from_line: str, why: str) -> None:
    """Several mailboxes, groups, unreadable forms and names that pass for others prove nothing."""
    proof = await explain(dns, mail(from_line))
    assert not proof.verified
    assert why in proof.reason


@pytest.mark.rule(50)
@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"From: Bo <bo@evil.test>\r\n" + mail("ada@example.test"), "more than one From"),
        (mail("ada@example.test", "From: Bo <bo@evil.test>"), "more than one From"),
        (mail("ada@example.test", "FROM: ada@example.test"), "more than one From"),
        (mail("ada@example.test", "Subject: Ho"), "more than one Subject"),
        (mail("ada@example.test", "To: a@b.test", "to: c@d.test"), "more than one To"),
        (mail("ada@example.test", "Reply-To: bo@evil.test"), "Reply-To"),
        (mail("ada@example.test", "Reply-To: ada@example.test, bo@evil.test"), "Reply-To"),
        (mail("ada@example.test", "Reply-To: Team:;"), "Reply-To"),
        (mail("kda@example.test", "Reply-To: \u212ada@example.test"), "Reply-To"),
        (mail("ada@example.test", "Sender: bo@evil.test"), "Sender"),
        (mail("ada@example.test", "Sender: bo@example.test"), "Sender"),
        (mail("ada@example.test", "X: a\rFrom: bo@evil.test"), "bare carriage return"),
        (b"X: a\rFrom: bo@evil.test\r\n" + mail("ada@example.test"), "bare carriage return"),
        (mail("ada@example.test", "From : bo@evil.test"), "no field"),
        (mail("ada@example.test", "no field at all"), "no field"),
        (b"From bo@evil.test Mon\r\n" + mail("ada@example.test"), "no field"),
        (b" folded\r\n" + mail("ada@example.test"), "no field"),
        (b"\r\n" + mail("ada@example.test"), "no field"),
        (b"", "no field"),
        (REST, "no From field"),
        (mail("ada@example.test", *("X: y" for _ in range(1000))), "more than 1000 fields"),
        (mail("ada@example.test", "X: y" + "\r\n y" * 1000), "more than 1000 lines"),
        (mail("ada@example.test", "X: " + "y" * 300_000), "longer than"),
    ],
)  # fmt: skip
async def test_a_header_in_doubt_proves_nothing(dns: DnsServer, raw: bytes, why: str) -> None:
    """What two readers could read in two ways, or sends an answer elsewhere, proves nothing."""
    signature = sign_mail(mail("ada@example.test"), KEY).partition(b"From:")[0]
    for one in (raw, signature + raw, raw.replace(b"\r\n", b"\n")):
        proof = await Verifier(resolver=dns.resolver()).explain(one)
        assert not proof.verified
        assert why in proof.reason or (one.startswith(b"DKIM") and raw[:1] in (b"", b" ", b"\r"))


@pytest.mark.parametrize(
    "more",
    [
        "Reply-To: Ada <ada@example.test>",
        "Reply-To: ADA@example.test",
        "Sender: <ada@example.test>",
    ],
)
async def test_fields_that_name_the_sender_again(dns: DnsServer, more: str) -> None:
    """A Reply-To or Sender that names the From address changes nothing."""
    assert (await explain(dns, mail("Ada <ada@example.test>", more))).verified


@pytest.mark.rule(49)
async def test_the_mark_is_read_with_the_mail(dns: DnsServer) -> None:
    """Reading sets sender_verified exactly for the mail that is proven."""
    reading = Reading(verify=Verifier(resolver=dns.resolver()))
    signed = sign_mail(mail("Ada <ada@example.test>"), KEY)
    for raw, expected in ((signed, True), (mail("Ada <ada@example.test>"), False)):
        read = await reading.read(
            RawMail(beginning=raw, size_bytes=len(raw), sha256="0" * 64), place="here"
        )
        assert read.message.sender == "Ada <ada@example.test>"
        assert read.message.sender_verified is expected
    cut = RawMail(beginning=signed, size_bytes=len(signed) + 1, sha256="0" * 64)
    assert not (await reading.read(cut, place="here")).message.sender_verified


SHARDS = st.sampled_from(
    [
        "ada@example.test", "<ada@example.test>", "Ada", "<", ">", "@", ",", ";", ":", '"', "(",
        ")", "\\", "=?utf-8?q?a=40b?=", "=?utf-8?q?=3C?=", "\r\n ", "\n\t", "\r", "\x00", "é",
        "[", "]", " ",
        "\r\nFrom: bo@evil.test", "\nSender: bo@evil.test", "evil.com", "\u202e",
    ]
)  # fmt: skip


@given(
    before=st.lists(SHARDS | st.text(max_size=4), max_size=6).map("".join),
    after=st.lists(SHARDS, max_size=3).map("".join),
)
@settings(max_examples=400)
def test_what_is_proven_is_what_is_shown(before: str, after: str) -> None:
    """Whatever a From line is made of, an address that could be proven is the one posted."""
    raw = mail(f"{before}<ada@example.test>{after}".encode("utf-8", "surrogatepass"))
    for one in (raw, raw.replace(b"\r\n", b"\n")):
        found = find_provable(one)
        if not isinstance(found, Doubt):
            read = parse(one, place="here")
            assert read.message.sender == found.mailbox.shown()
            assert found.mailbox.address == "ada@example.test"
            assert all(address.lower() == "ada@example.test" for address in read.reply.to)
