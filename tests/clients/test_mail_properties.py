"""Any bytes at all: parsing never raises, and muster's limits hold."""

import email
import email.policy
import unicodedata
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import getaddresses

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.clients.mail.addresses import usable_address
from muster.clients.mail.compose import compose, message_id
from muster.clients.mail.parse import InboundMail, ReplyFacts, parse
from muster.clients.mail.verify import Verifier
from muster.clients.mail.verify.proof import Doubt
from muster.clients.plugin import Draft

NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)
HEADER_NAMES = st.sampled_from(
    [
        "From", "Reply-To", "To", "Subject", "Date", "Received", "Message-ID", "References",
        "In-Reply-To", "Content-Type", "Content-Transfer-Encoding", "Content-Disposition",
        "MIME-Version", "Return-Path", "Precedence", "Delivered-To", "Sender",
    ]
)  # fmt: skip
SHARDS = st.sampled_from(
    [
        "=?utf-8?q?", "=?", "?=", "=?b?B?AA", "<", ">", "@", ",", ";", ":", '"', "(", ")", "\\",
        "\r\n ", "\n\t", "\x00", "multipart/mixed", "text/html", "message/rfc822", "boundary=x",
        "name*0*=", "filename*=utf-8''%", "charset=", "base64", "quoted-printable", "x-uuencode",
        "a@b.test", "é", "\udcff", "[", "]", "+9999", "1 Jan", "99999999999999999999",
    ]
)  # fmt: skip
VALUES = st.lists(SHARDS | st.text(max_size=8), max_size=8).map("".join)
BODIES = st.lists(
    st.sampled_from(["--x\r\n", "--x--\n", "\n", "<p>", "</p>", "begin 666 x\n", "=3D", "AAAA"])
    | st.text(max_size=20),
    max_size=12,
).map("".join)


@st.composite
def broken_mail(draw: st.DrawFn) -> bytes:
    """Bytes that look like mail and are put together wrongly."""
    headers = draw(st.lists(st.tuples(HEADER_NAMES, VALUES), max_size=8))
    head = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return (head + "\r\n" + draw(BODIES)).encode("utf-8", "replace")


def check_limits(read: InboundMail) -> None:
    """The contract's rules for every field (plugins: "an inbound message")."""
    message = read.message
    assert 1 <= len(message.body.encode("utf-8")) <= 16 * 1024
    assert len(message.external_id) == 64
    for text in (message.sender, message.subject):
        assert text is None or (1 <= len(text) <= 200 and not controls(text))
    if message.thread is not None:
        assert 1 <= len(message.thread.encode("utf-8")) <= 200
        assert not any(character.isspace() for character in message.thread)
        assert not controls(message.thread)
    assert not controls(message.body.replace("\n", "").replace("\t", ""))
    assert message.received_at is None or message.received_at.tzinfo is not None
    assert message.no_reply or read.reply.to
    assert not message.sender_verified
    message.encode()
    for address in (*read.reply.to, read.reply.own_address):
        assert address is None or usable_address(address) == address


def controls(text: str) -> list[str]:
    """The characters of `text` that no field may have."""
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cs")]


@given(raw=st.binary(max_size=2000))
def test_any_bytes_are_a_message(raw: bytes) -> None:
    """Whatever bytes a file has, they become a message within the contract."""
    check_limits(parse(raw, place="here"))


@given(raw=broken_mail())
@settings(max_examples=300)
def test_any_broken_mail_is_a_message(raw: bytes) -> None:
    """Headers and parts in any disorder become a message within the contract."""
    check_limits(parse(raw, place="here"))


TAGS = st.dictionaries(
    st.sampled_from([*"vabcdhiklnpqstx", "bh"]),
    st.sampled_from(
        [
            "1", "DKIM1", "rsa-sha256", "ed25519-sha256", "rsa", "ed25519", "AAAA", "", "!", "=",
            "relaxed/relaxed", "simple", "a.test", "from", "from:subject", "@a.test", "*", "y", "s",
            "99999999999999999999", "-1", "MAA=", "MAMCAQM=", "MAcCAgD/AgED", "k1", "A" * 44,
        ]
    )
    | st.text(max_size=8),
)  # fmt: skip
TAG_LISTS = TAGS.map(lambda tags: "; ".join(f"{name}={value}" for name, value in tags.items()))
GOOD = {"v": "1", "a": "rsa-sha256", "b": "AAAA", "bh": "AAAA", "d": "a.test", "h": "from"}
SIGNATURES = TAG_LISTS | TAGS.map(
    lambda tags: "; ".join(f"{name}={value}" for name, value in (tags | GOOD | {"s": "k"}).items())
)
RESULTS = st.lists(
    st.sampled_from(
        ["mx.test", ";", "dmarc=pass", "dmarc", "=", "pass", "header.from=a.test", "(", ")", '"',
         "\\", " ", "none", "reason=", "header.", "/1", "@", "1"]
    )
    | st.text(max_size=3),
    max_size=12,
).map("".join)  # fmt: skip


@attrs.frozen(kw_only=True)
class AnyAnswer:
    """A DNS that answers one thing."""

    answer: tuple[bytes, ...]

    async def find_txt(self, name: str) -> tuple[bytes, ...] | Doubt:
        """Answer it."""
        assert name.endswith(".")
        return self.answer


@given(
    broken=broken_mail(),
    signatures=st.lists(SIGNATURES, max_size=3),
    results=st.lists(RESULTS, max_size=2),
    answer=st.lists(TAG_LISTS.map(lambda text: text.encode("utf-8", "replace")), max_size=2),
    plain=st.booleans(),
)
@settings(max_examples=300, deadline=None)
async def test_any_mail_is_judged(
    broken: bytes, signatures: list[str], results: list[str], answer: list[bytes], plain: bool
) -> None:
    """Whatever a mail, its signatures, its results and DNS say, there is a verdict: not proven."""
    fields = [f"DKIM-Signature: {one}\r\n" for one in signatures]
    fields += [f"Authentication-Results: {one}\r\n" for one in results]
    head = "".join(fields).encode("utf-8", "replace")
    verifier = Verifier(authserv_ids=("mx.test",), resolver=AnyAnswer(answer=tuple(answer)))
    raw = head + (b"From: Ada <ada@a.test>\r\n\r\nHi\r\n" if plain else broken)
    proof = await verifier.explain(raw)
    assert proof.reason.endswith(".")
    assert not proof.verified or "DMARC passed for a.test" in proof.reason


@given(raw=broken_mail())
def test_trimming_loses_no_message(raw: bytes) -> None:
    """With quotes left out any mail is a message within the contract, under the same id."""
    trimmed = parse(raw, place="here", without_quotes=True)
    check_limits(trimmed)
    assert trimmed.message.external_id == parse(raw, place="here").message.external_id


@given(raw=broken_mail(), place=st.text(max_size=3000), size=st.integers(0, 30_000))
def test_a_long_one_too(raw: bytes, place: str, size: int) -> None:
    """Length and place change nothing about that."""
    check_limits(parse(raw + b"\xc3\xa9" * size, place=place))


@given(raw=broken_mail(), body=st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1))
def test_any_mail_can_be_answered_or_says_not(raw: bytes, body: str) -> None:
    """A reply to any answerable mail is a valid mail to exactly its addresses."""
    read = parse(raw, place="here")
    if read.reply.to:
        check_reply(read.reply, body)


def check_reply(reply: ReplyFacts, body: str) -> EmailMessage:
    """Compose a reply and read it back by the standard library's strict parser."""
    draft = Draft(draft_id=17, message_external_id="m", body=body, approved_at="t")
    raw = compose(draft, reply, sender_address="ada@home.test", date=NOW)
    head, _, _ = raw.partition(b"\r\n\r\n")
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    assert b"\n" not in raw.replace(b"\r\n", b"")
    names = [line.split(b":")[0] for line in head.split(b"\r\n") if line[:1] not in b" \t"]
    assert len(names) == len(set(names)), names
    read = email.message_from_bytes(raw, policy=email.policy.default)
    assert isinstance(read, EmailMessage)
    assert not read.defects
    raw_headers = email.message_from_bytes(raw)
    addressed = [address for _, address in getaddresses([str(raw_headers["To"])])]
    if all(address.isascii() for address in reply.to):
        assert addressed == list(reply.to)
    assert raw_headers["Message-ID"] == message_id(draft, "ada@home.test")
    assert raw_headers["In-Reply-To"] == reply.message_id
    assert read.get_content().replace("\r\n", "\n").removesuffix("\n") == body.removesuffix("\n")
    return read


SUBJECTS = st.text(max_size=600)
IDS = st.from_regex(r"<[!-;=?-~]{1,250}>", fullmatch=True)


@given(
    subject=SUBJECTS,
    own_id=IDS,
    references=st.lists(IDS, max_size=20),
    body=st.text(
        st.characters(exclude_categories=("Cs", "Cc"), include_characters="\n\t"), min_size=1
    ),
)
def test_a_reply_reads_back(subject: str, own_id: str, references: list[str], body: str) -> None:
    """A reply's headers and text are what was put in, for any subject, ids and text."""
    reply = ReplyFacts(
        to=("bo@example.test", "cy@example.test"),
        own_address=None,
        subject=subject,
        message_id=own_id,
        references=tuple(references),
    )
    check_reply(reply, body)
