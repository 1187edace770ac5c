"""Mail as it is out there: CPython's own test messages, and the kinds that people are sent.

Each goes through the real plugin to a muster, with every part of reading switched on: none is
lost, none breaks a limit, none crashes the parser, the verifier or the trimming of quotes.
"""

import importlib.util
import tempfile
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.clients.mail.parse import InboundMail, parse
from muster.clients.mail.reading import Reading
from muster.clients.mail.verify import Verifier
from muster.clients.mail.verify.head import to_crlf
from muster.clients.mail.verify.proof import Doubt
from muster.clients.mail.verify.sender import find_provable
from tests.clients.test_mail_properties import broken_mail
from tests.support.dns_server import dns_server
from tests.support.mail_post import post_all
from tests.support.signed_mail import rsa_key, sign_mail

FROM_CPYTHON = 45
PROVABLE_OF_CPYTHON = 10
"""How many messages an interpreter that ships its tests has at least, and with a plain From."""


def reading(verifier: Verifier) -> Reading:
    """Everything that reading can do."""
    return Reading(verify=verifier, trim_quotes=True)


def cpython_files() -> list[Path]:
    """The data of CPython's tests for `email`, pictures and sounds too."""
    spec = importlib.util.find_spec("test.test_email") if importlib.util.find_spec("test") else None
    if spec is None or spec.origin is None:
        pytest.skip("this interpreter does not ship its tests (Debian: libpython3-testsuite)")
    return sorted(path for path in (Path(spec.origin).parent / "data").iterdir() if path.is_file())


async def test_no_message_of_cpython_is_lost(tmp_path: Path) -> None:
    """Each message of CPython's tests is posted once, within the contract and unproven.

    So are the files beside them that are no mail at all.
    """
    mails = list(dict.fromkeys(path.read_bytes() for path in cpython_files()))
    async with dns_server() as dns:
        verifier = Verifier(authserv_ids=("mx.home.test",), resolver=dns.resolver())
        messages = await post_all(mails, tmp_path, reading(verifier))
    assert len(messages) == len(mails) >= FROM_CPYTHON
    assert not any(message.get("sender_verified") for message in messages.values())


SAYS = [
    ("msg_01.txt", "John X. Doe <bbb@ddd.com>", "Hi,\n\nDo you like this message?\n\n-Me"),
    (
        "msg_07.txt",
        "Barry <barry@digicool.com>",
        "[Attachment: dingusfish.gif (image/gif, 3,512 bytes)]",
    ),
    ("msg_33.txt", "Anne Person <aperson@example.com>", "part 1\n\npart 2"),
    ("msg_45.txt", "foo@bar.baz", "This is the signed contents.\n\n[Attachment: signature.asc"),
]


@pytest.mark.parametrize(("name", "sender", "words"), SAYS)
def test_messages_of_cpython_say_what_they_say(name: str, sender: str, words: str) -> None:
    """A few messages of CPython's tests are read as a person would read them."""
    raw = next(path for path in cpython_files() if path.name == name).read_bytes()
    read = parse(raw, place="here").message
    assert read.sender == sender
    assert words in read.body


@pytest.mark.parametrize("form", ["relaxed/relaxed", "simple/simple"])
async def test_signed_messages_of_cpython_are_proven(form: str) -> None:
    """Whatever shape a message has: signed by its From domain and stored with LF, it is proven."""
    key = rsa_key(1024)
    count = 0
    async with dns_server() as dns:
        verifier = Verifier(resolver=dns.resolver())
        for path in cpython_files():
            raw = to_crlf(path.read_bytes())
            found = find_provable(raw)
            if isinstance(found, Doubt):
                continue
            dns.put(f"k1._domainkey.{found.domain}", key.record())
            signed = sign_mail(
                raw, key, form=form, d=found.domain, h="from:subject:date:to:content-type"
            )
            for one in (signed, signed.replace(b"\r\n", b"\n")):
                proof = await verifier.explain(one)
                assert proof.verified, (path.name, proof.reason)
            count += 1
    assert count >= PROVABLE_OF_CPYTHON


@pytest.mark.rule(49, 50)
async def test_muster_is_told_of_the_proven_sender_alone(tmp_path: Path) -> None:
    """Of a mail, its signed copy and a signed copy with a forged Reply-To one is marked."""
    plain = to_crlf(alternative())
    signed = sign_mail(plain, rsa_key(1024), h="from:subject")
    forged = b"Reply-To: eve@evil.test\r\n" + signed
    async with dns_server() as dns:
        dns.put("k1._domainkey.example.test", rsa_key(1024).record())
        verifier = Verifier(resolver=dns.resolver())
        messages = await post_all([plain, signed, forged], tmp_path, reading(verifier))
    assert [one["sender"] for one in messages.values()] == ["Ada <ada@example.test>"] * 3
    marks = [one.get("sender_verified", False) for one in messages.values()]
    assert marks == [False, True, False]


@given(mails=st.lists(broken_mail(), min_size=40, max_size=60, unique=True))
@settings(
    max_examples=3,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)
async def test_no_broken_mail_is_lost(mails: list[bytes]) -> None:
    """A hundred and more mails that are put together wrongly are each posted once."""
    async with dns_server() as dns:
        verifier = Verifier(authserv_ids=("mx.home.test",), resolver=dns.resolver())
        with tempfile.TemporaryDirectory() as folder:
            await post_all(mails, Path(folder), reading(verifier))


def letter(**headers: str) -> EmailMessage:
    """A letter to Bo with these headers."""
    made = EmailMessage()
    fields = {"From": "Ada <ada@example.test>", "To": "bo@home.test", "Subject": "Noon"}
    for name, value in (fields | headers).items():
        made[name.replace("_", "-")] = value
    return made


def alternative() -> bytes:
    """As most mail programs write: plain text and the same as HTML."""
    made = letter()
    made.set_content("Noon is fine.\n")
    made.add_alternative("<p>Noon is <b>fine</b>.</p>", subtype="html")
    return made.as_bytes()


def html_only() -> bytes:
    """A newsletter."""
    made = letter()
    made.set_content(
        "<html><head><style>p{}</style></head><body><p>Noon is fine.<script>x()</script></p>"
        '<img src="http://track.test/1"></body></html>',
        subtype="html",
    )
    return made.as_bytes()


def invitation() -> bytes:
    """A calendar's invitation: text, HTML and the event, and the event once more as a file."""
    event = b"BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nEND:VCALENDAR\r\n"
    made = letter(Subject="Invitation: noon")
    made.set_content("You are invited: noon is fine.\n")
    made.add_alternative("<p>You are invited</p>", subtype="html")
    made.add_alternative(event.decode(), subtype="calendar", params={"method": "REQUEST"})
    made.add_attachment(event, maintype="application", subtype="ics", filename="invite.ics")
    return made.as_bytes()


def forwarded() -> bytes:
    """Another mail as an attachment."""
    inner = letter(From="Cy <cy@else.test>", Subject="The inner one")
    inner.set_content("Pay me.\n")
    made = letter()
    made.set_content("Noon is fine. See what Cy wrote.\n")
    made.add_attachment(inner)
    return made.as_bytes()


def windows() -> bytes:
    """Windows' quotation marks and euro under the name of Latin-1, as it often is."""
    head = b"From: Ada <ada@example.test>\r\nContent-Type: text/plain; charset=iso-8859-1\r\n"
    return (
        head + b"Content-Transfer-Encoding: 8bit\r\n\r\nNoon is fine \x96 \x8050 \x93each\x94.\r\n"
    )


def japanese() -> bytes:
    """ISO-2022-JP in subject and text."""
    text = "正午で結構です。Noon is fine."
    head = (
        b"From: Ada <ada@example.test>\r\nSubject: =?ISO-2022-JP?B?GyRCQDU4YRsoQg==?=\r\n"
        b"Content-Type: text/plain; charset=ISO-2022-JP\r\nContent-Transfer-Encoding: 7bit\r\n\r\n"
    )
    return head + text.encode("iso-2022-jp")


def nested() -> bytes:
    """Parts in parts in parts, as a list's archive wraps them."""
    inner = "Content-Type: text/plain\r\n\r\nNoon is fine.\r\n"
    for depth in range(20):
        border = f"b{depth}"
        inner = (
            f'Content-Type: multipart/mixed; boundary="{border}"\r\n\r\n--{border}\r\n{inner}'
            f"\r\n--{border}--\r\n"
        )
    return ("From: Ada <ada@example.test>\r\n" + inner).encode()


def huge_headers() -> bytes:
    """Hundreds of Received and a References of 60 KiB."""
    received = "Received: from a by b; Mon, 2 Mar 2026 10:00:00 +0000\r\n" * 300
    ids = "\r\n ".join(f"<{number}@example.test>" for number in range(3000))
    head = f"From: Ada <ada@example.test>\r\nReferences: {ids}\r\n{received}X: {'x' * 300_000}\r\n"
    return f"{head}\r\nNoon is fine.\r\n".encode()


def no_charset() -> bytes:
    """8-bit text, also in the header, without a word about its charset."""
    return "From: Ada <ada@example.test>\nSubject: Café\n\nNoon is fine at the café.\n".encode()


def long_reply() -> bytes:
    """A short answer over a history of 100 KiB."""
    made = letter(Subject="Re: Noon")
    made.set_content(
        "Noon is fine.\n\nOn Mon, 2 Mar 2026 at 10:00, Bo <bo@home.test> wrote:\n"
        + "> and so on and on and on\n" * 4000
    )
    return made.as_bytes()


KINDS = [
    (alternative, []),
    (html_only, []),
    (invitation, ["invite.ics", "text/calendar"]),
    (forwarded, ["[Attachment: a mail, “The inner one” (message/rfc822"]),
    (windows, ["Noon is fine \u2013 €50 “each”."]),
    (japanese, ["正午で結構です。"]),
    (nested, []),
    (huge_headers, []),
    (no_charset, ["café"]),
    (long_reply, ["[4,001 lines of quoted history"]),
]


@pytest.mark.parametrize(("kind", "also"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
async def test_the_kinds_of_mail_that_people_get(
    tmp_path: Path, kind: Callable[[], bytes], also: list[str]
) -> None:
    """Each kind arrives with its words, and nothing that it carries vanishes without a trace."""
    raw = kind()
    stored = list((await post_all([raw], tmp_path, reading(Verifier()))).values())
    assert len(stored) == 1
    assert stored[0]["sender"] == "Ada <ada@example.test>"
    for words in ("oon is fine", *also):
        assert words in stored[0]["body"]
    for bad in ("x()", "track.test", "<b>", "Pay me", "BEGIN:"):
        assert bad not in stored[0]["body"]


def test_subjects_of_other_charsets() -> None:
    """A subject in ISO-2022-JP or raw UTF-8 is read."""
    read: list[InboundMail] = [parse(one(), place="here") for one in (japanese, no_charset)]
    assert [one.message.subject for one in read] == ["正午", "Café"]
