"""Mail as it comes, and worse: what muster gets of it."""

import hashlib
import time
from email.message import EmailMessage
from pathlib import Path

import pytest

from muster.clients.mail.body import BODY_BYTES_MAX, EMPTY_BODY
from muster.clients.mail.parse import InboundMail, parse

DEMO_MAIL = Path(__file__).parents[2] / "muster" / "clients" / "demo" / "mail"


def mail(head: str, body: str | bytes = "Hello\n") -> InboundMail:
    """Parse a mail that is written down in two pieces."""
    raw = body if isinstance(body, bytes) else body.encode("utf-8")
    return parse(head.strip("\n").encode("utf-8", "surrogateescape") + b"\n\n" + raw, place="here")


def test_a_plain_mail() -> None:
    """The fields of an ordinary mail arrive as a person would read them."""
    raw = (DEMO_MAIL / "01-plain.eml").read_bytes()
    message = parse(raw, place="in/new/1").message
    assert message.external_id == hashlib.sha256(raw).hexdigest()
    assert message.sender == "Grace Lindholm <grace@harbor.example.test>"
    assert message.subject == "Lunch on Thursday?"
    assert message.received_at is not None
    assert message.received_at.isoformat() == "2026-03-02T08:14:33+00:00"
    assert message.thread == "<20260302081421.7f1c@harbor.example.test>"
    assert message.body.startswith("Hi Ada,\n\nI am in town")
    assert not message.no_reply
    assert not message.sender_verified


def test_the_demo_mails_say_what_they_are() -> None:
    """Each mail that ships with the demo is read without loss, in its own script."""
    wanted = {
        "02-html-only": ("First seating   17:30", "Your table for six on 14 March", False),
        "03-attachment": ("[Attachment: invoice-2026-0117.pdf (application/pdf,", "Invoice", False),
        "04-quoted-printable": ("l'été dernier", "Pâques à la maison, tu viens ?", False),
        "05-japanese": ("横浜計測の佐藤です。", "見積書の納期について", False),
        "06-no-reply": ("on its way", "Your parcel", True),
        "07-unproven-sender": ("[A reply goes to j.weil.private@", "URGENT", False),
        "08-greek": ("Θα έρθω με χαρά.", "Εργαστήριο 18 Μαρτίου", False),
    }
    for name, (text, subject, no_reply) in wanted.items():
        message = parse((DEMO_MAIL / f"{name}.eml").read_bytes(), place="here").message
        assert text in message.body, name
        assert (message.subject or "").startswith(subject), name
        assert message.no_reply is no_reply, name
        assert "�" not in message.body, name


@pytest.mark.parametrize(
    "header",
    [
        "Auto-Submitted: auto-replied",
        "Precedence: Bulk",
        "Precedence: list",
        "List-Id: <a.example.test>",
        "List-Unsubscribe: <mailto:x@example.test>",
        "X-Auto-Response-Suppress: OOF, AutoReply",
        "Return-Path: <>",
        "Reply-To: no-reply@example.test",
        "Reply-To: Shop <orders-noreply+17@example.test>",
        "Reply-To: DoNotReply@example.test",
        "Reply-To: MAILER-DAEMON@example.test",
        "Reply-To: postmaster@example.test",
    ],
)
def test_headers_that_mean_no_reply(header: str) -> None:
    """The usual marks of mail that nobody reads answers to set no_reply."""
    assert mail(f"From: ada@example.test\n{header}").message.no_reply


@pytest.mark.parametrize(
    "header",
    [
        "Auto-Submitted: no",
        "Precedence: first-class",
        "X-Auto-Response-Suppress: None",
        "Return-Path: <ada@example.test>",
        "Reply-To: noreen@example.test",
        "Subject: no-reply",
    ],
)
def test_headers_that_do_not(header: str) -> None:
    """Headers that only look like those leave a mail answerable."""
    assert not mail(f"From: ada@example.test\n{header}").message.no_reply


def test_a_reply_to_makes_a_no_reply_sender_answerable() -> None:
    """A form that writes from noreply@ on behalf of somebody is answered where it says."""
    read = mail("From: noreply@shop.test\nReply-To: Bo <bo@example.test>")
    assert not read.message.no_reply
    assert read.reply.to == ("bo@example.test",)
    assert read.message.body.startswith("[A reply goes to bo@example.test, as the mail asks.]\n")


def test_no_sender_hides_where_a_reply_goes() -> None:
    """The longest sender and subject that are told leave the line about the reply's way whole."""
    name, subject = "🙂" * 980, "🙂" * 2000
    read = mail(f"From: {name} <ada@example.test>\nSubject: {subject}\nReply-To: bo@evil.test")
    assert read.reply.to == ("bo@evil.test",)
    assert read.message.body.startswith("[A reply goes to bo@evil.test, as the mail asks.]\n")


@pytest.mark.parametrize(
    ("sender", "reply_to"),
    [
        ("strasse@example.test", "straße@example.test"),
        ("kate@example.test", "\u212aate@example.test"),
    ],
)
def test_an_address_in_other_letters_is_another(sender: str, reply_to: str) -> None:
    """Only the case of ASCII letters makes no difference to who gets the reply."""
    told = mail(f"From: {sender}\nReply-To: {reply_to}").message.body
    assert told.startswith(f"[A reply goes to {reply_to}, as the mail asks.]")
    assert mail(f"From: {sender}\nReply-To: {sender.upper()}").message.body == "Hello"


@pytest.mark.parametrize("piece", ['"\\', "(\\", "(a\\", "<a", "((a)", ",a b", '"(\\'])
def test_hostile_address_headers_end(piece: str) -> None:
    """Quotes and comments without an end, in many long fields, are read in a moment."""
    field = f"Reply-To: {piece * (16_000 // len(piece))}"
    began = time.process_time()
    read = mail("\n".join([field] * 500 + ["From: ada@example.test"]))
    assert time.process_time() - began < 15
    assert read.message.sender == "ada@example.test"


@pytest.mark.parametrize(
    ("headers", "thread"),
    [
        ("References: <a@x> <b@x>\nIn-Reply-To: <b@x>\nMessage-ID: <c@x>", "<a@x>"),
        ("References:\n\t<a@x>\n <b@x>", "<a@x>"),
        ("In-Reply-To: <b@x>\nMessage-ID: <c@x>", "<b@x>"),
        ("Message-ID: <c@x>", "<c@x>"),
        ("Message-ID: odd", "odd"),
        ("Message-ID: <c d@x>", hashlib.sha256(b"<c d@x>").hexdigest()),
        (f"Message-ID: <{'c' * 200}@x>", hashlib.sha256(f"<{'c' * 200}@x>".encode()).hexdigest()),
        ("Subject: none", None),
    ],
)
def test_the_thread(headers: str, thread: str | None) -> None:
    """The thread is the first of References, else In-Reply-To, else the own id, else nothing."""
    assert mail(f"From: a@x.test\n{headers}").message.thread == thread


def test_long_fields_are_told_in_the_body() -> None:
    """A sender and a subject over 200 characters are shortened and stand whole in the body."""
    name, subject = "N" * 190, "S" * 300
    message = mail(f"From: {name} <ada@example.test>\nSubject: {subject}").message
    assert message.sender is not None
    assert message.subject is not None
    assert message.sender.endswith("… <ada@example.test>")
    assert len(message.sender) == len(message.subject) == 200
    assert f"[The sender has 209 characters: {name} <ada@example.test>]" in message.body
    assert f"[The subject has 300 characters: {subject}]" in message.body
    assert message.body.endswith("\n\nHello")


def test_fields_of_exactly_200_characters_are_left_alone() -> None:
    """200 characters are within the limit."""
    message = mail(f"From: a@example.test\nSubject: {'é' * 200}").message
    assert message.subject == "é" * 200
    assert message.body == "Hello"


@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_a_body_over_the_limit_says_so(letter: str) -> None:
    """A long mail opens with how long it is, how much follows and where the whole lies."""
    text = letter * 40_000
    body = parse(b"From: a@x.test\n\n" + text.encode(), place="in/cur/7").message.body
    size = len(text.encode())
    first, _, rest = body.partition("\n\n")
    kept = len(rest.encode())
    assert first == (
        f"[This mail's text is {size:,} bytes long; its first {kept:,} bytes follow; "
        "the whole mail lies at in/cur/7]"
    )
    assert BODY_BYTES_MAX - 40 < len(body.encode()) <= BODY_BYTES_MAX
    assert text.startswith(rest)


def test_a_body_at_the_limit_is_left_alone() -> None:
    """16 KiB are within the limit, one byte more is not."""
    assert mail("From: a@x.test", "x" * 16384).message.body == "x" * 16384
    assert mail("From: a@x.test", "x" * 16385).message.body.startswith("[This mail's text is 16,38")


def test_attachments_keep_their_place_after_a_long_text() -> None:
    """A text that is cut does not push the attachments out."""
    letter = EmailMessage()
    letter["From"] = "a@x.test"
    letter.set_content("long " * 8000)
    for number in range(25):
        letter.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename=f"{number}ä")
    body = parse(bytes(letter), place="here").message.body
    assert body.startswith("[This mail's text is 40,0")
    assert "[Attachment: 0ä (application/pdf, 4 bytes)]" in body
    assert body.endswith("[and 5 more attachments]")


@pytest.mark.parametrize("body", ["", " \n\t\n", "<html><img src=x></html>"])
def test_an_empty_body_gets_a_sentence(body: str) -> None:
    """A mail without words still has a body."""
    head = "From: a@x.test\nContent-Type: text/html" if "<" in body else "From: a@x.test"
    assert mail(head, body).message.body == EMPTY_BODY


@pytest.mark.parametrize(
    ("headers", "raw", "text"),
    [
        ("Content-Type: text/plain; charset=utf-8", "naïve".encode(), "naïve"),
        ("Content-Type: text/plain; charset=iso-8859-1", b"na\xefve \x93q\x94", "naïve “q”"),
        ("Content-Type: text/plain; charset=bogus", "naïve".encode(), "naïve"),
        ("Content-Type: text/plain; charset=zlib", b"plain", "plain"),
        ("Content-Type: text/plain; charset=undefined", b"plain", "plain"),
        ("Content-Type: text/plain; charset=punycode", b"plain", "plain"),
        ('Content-Type: text/plain; charset="\x00"', b"plain", "plain"),
        ("Content-Type: text/plain; charset*=x'y'%FF", b"plain", "plain"),
        ("Subject: none", "naïve".encode(), "naïve"),
        ("Subject: none", b"na\xefve", "naïve"),
        ("Content-Type: text/plain\nContent-Transfer-Encoding: base64", b"aGk=!!x", "hi"),
        ("Content-Type: text/plain\nContent-Transfer-Encoding: nonsense", b"plain", "plain"),
        ("Content-Type: multipart/mixed", b"no boundary", "no boundary"),
        ("Content-Type: multipart/mixed; boundary=x", b"no parts", "no parts"),
        ("Content-Type: ;;;", b"plain", "plain"),
        ("MIME-Version: 1.0", b"nul \x00 and \x1b[31m", "nul � and �[31m"),
    ],
)
def test_text_survives_what_a_sender_claims(headers: str, raw: bytes, text: str) -> None:
    """Whatever charset, encoding or structure is claimed, the words arrive."""
    assert text in mail(f"From: a@x.test\n{headers}", raw).message.body


def test_a_bad_charset_is_told() -> None:
    """What can't be read for certain is marked, and a line above says so."""
    body = mail("From: a@x.test\nContent-Type: text/plain; charset=utf-8", b"ab\xff").message.body
    assert body.startswith("[Some of this mail could not be read by its charset utf-8;")
    assert body.endswith("ab�")


@pytest.mark.parametrize(
    ("value", "subject"),
    [
        ("=?utf-8?B?zpHOss6zzr8=?=", "Αβγο"),
        ("=?utf-8?B?zpE?= =?utf-8?B?zrI=?=", "Αβ"),
        ("=?utf-8?Q?=CE?=\n =?utf-8?Q?=91?= end", "\u0391 end"),
        ("=?UTF-8*en?q?a_b?= =?iso-8859-1?q?=E9?=", "a bé"),
        ("=?bogus?q?=E9?=", "é"),
        ("=?utf-8?q?a=0AX-Injected:_1?=", "a X-Injected: 1"),
        ("=?utf-8?B?!?= kept", "kept"),
        ("folded\n\tline\n and more", "folded line and more"),
        ("raw \udcc3\udca9", "raw é"),
        ("raw \udce9", "raw é"),
        ("no \x00 control \x07", "no � control �"),
        ("=?not?closed", "=?not?closed"),
    ],
)
def test_subjects(value: str, subject: str) -> None:
    """Encoded words, folding and raw bytes come out as one readable line."""
    read = mail(f"From: a@x.test\nSubject: {value}").message
    assert (read.subject or "").endswith(subject)
    assert "\n" not in (read.subject or "")


def test_a_display_name_cannot_add_an_address() -> None:
    """An encoded name that spells another address is a name, and the reply goes to the real one."""
    read = mail("From: =?utf-8?q?boss=40corp.test=3E=2C?= <evil@x.test>")
    assert read.message.sender == "boss@corp.test>, <evil@x.test>"
    assert read.reply.to == ("evil@x.test",)


def test_a_mail_without_an_address_is_no_reply() -> None:
    """What names nobody to answer is marked, and says why."""
    message = parse(b"just words", place="here").message
    assert message.no_reply
    assert message.body.startswith("[This mail names no address that a reply could go to.]")
    assert message.sender is None


@pytest.mark.parametrize(
    "date", ["", "yesterday", "Mon, 99 Foo 2026", "Mon, 2 Mar 9999999 09:14:33 +0100", "1 Jan 1900"]
)
def test_no_date_is_no_time(date: str) -> None:
    """A date that is none is left out."""
    assert mail(f"From: a@x.test\nDate: {date}").message.received_at is None


def test_the_own_server_knows_when_it_came() -> None:
    """The topmost Received line counts before the sender's Date."""
    head = "Received: by mx; Mon, 2 Mar 2026 09:00:00 -0000\nFrom: a@x.test\nDate: 1 Jan 2020 00:00"
    received = mail(head).message.received_at
    assert received is not None
    assert received.isoformat() == "2026-03-02T09:00:00+00:00"


def nested(depth: int, kind: str) -> bytes:
    """A mail of `depth` parts in each other."""
    if kind == "message/rfc822":
        return b"Content-Type: message/rfc822\n\n" * depth + b"From: a@x.test\n\nthe core"
    opening = (f"Content-Type: {kind}; boundary=b{n}\n\n--b{n}\n" for n in range(depth))
    return b"From: a@x.test\n" + "".join(opening).encode() + b"\n\nthe core"


@pytest.mark.parametrize("kind", ["multipart/mixed", "multipart/alternative", "message/rfc822"])
@pytest.mark.parametrize("depth", [3, 60, 190, 5000])
def test_deep_nesting_ends(kind: str, depth: int) -> None:
    """Parts in parts in parts are read or named, whatever their number, and soon."""
    message = parse(nested(depth, kind), place="here").message
    assert 1 <= len(message.body.encode()) <= BODY_BYTES_MAX
    if depth == 3 and kind.startswith("multipart"):
        assert message.body == "the core"
    if depth > 40:
        told = ("nested parts", "told apart", "Attachment: a mail")
        assert any(words in message.body for words in told)


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 100_000 + "core",
        "<b><a>" * 5_000 + "core",
        "<" * 300_000 + "core",
        "<table><tr><td>" * 3_000 + "core",
        "<script>" + "x" * 1000 + "</script>core",
        "<style>" * 50_000 + "core",
        "<p>" + "word " * 500_000 + "core",
        "&#0;&#55296;&bogus;<p>core",
    ],
)
def test_hostile_html_ends(html: str) -> None:
    """HTML written to be slow or deep becomes text in bounded time."""
    message = mail("From: a@x.test\nContent-Type: text/html; charset=utf-8", html).message
    assert len(message.body.encode()) <= BODY_BYTES_MAX
    assert "core" in message.body or "text is" in message.body


def test_html_says_nothing_that_is_hidden() -> None:
    """Scripts, styles and the title are no text of a mail."""
    html = "<head><title>T</title><style>p{}</style></head><script>alert(1)</script><p>A&amp;B</p>"
    message = mail("From: a@x.test\nContent-Type: text/html", html).message
    assert message.body == "A&B"


def test_plain_is_preferred_to_html_unless_it_is_blank() -> None:
    """Of two alternatives the plain one is read, if it says anything."""
    for plain, body in (("words", "words"), (" \n", "rich")):
        letter = EmailMessage()
        letter["From"] = "a@x.test"
        letter.set_content(plain)
        letter.add_alternative("<p>rich</p>", subtype="html")
        assert parse(bytes(letter), place="here").message.body == body


def test_a_forwarded_mail_is_named() -> None:
    """A mail within a mail is named by its subject."""
    inner = EmailMessage()
    inner["Subject"] = "Old news"
    inner.set_content("inner words")
    letter = EmailMessage()
    letter["From"] = "a@x.test"
    letter.set_content("see below")
    letter.add_attachment(inner)
    body = parse(bytes(letter), place="here").message.body
    assert body.startswith("see below\n\n[Attachment: a mail, “Old news” (message/rfc822, ")


def test_a_beginning_says_that_it_is_one() -> None:
    """A mail too large to be read whole says so and keeps the id of the whole file."""
    message = parse(b"From: a@x.test\n\nbegin", place="in/new/9", whole="ab" * 32).message
    assert message.external_id == "ab" * 32
    assert message.body.startswith(
        "[Only the first 21 bytes were read; the whole lies at in/new/9]"
    )
