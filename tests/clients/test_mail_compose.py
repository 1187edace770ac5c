"""Replies as RFC 5322 mails: what they answer, and what nobody can put into them."""

import email
import email.policy
from datetime import UTC, datetime

import attrs
import pytest

from muster.clients.mail.compose import compose, draft_key, message_id
from muster.clients.mail.parse import ReplyFacts
from muster.clients.plugin import Draft

NOW = datetime(2026, 3, 1, 10, 30, tzinfo=UTC)
DRAFT = Draft(
    draft_id=17, message_external_id="ab" * 32, body="Noon works.", approved_at="2026-03-01T10:00Z"
)
REPLY = ReplyFacts(
    to=("grace@harbor.test",),
    own_address="ada@home.test",
    subject="Lunch?",
    message_id="<m2@harbor.test>",
    references=("<m1@harbor.test>",),
)


def test_a_reply_to_the_letter() -> None:
    """A short reply is exactly these lines."""
    raw = compose(DRAFT, REPLY, sender_address="ada@home.test", date=NOW)
    assert raw.decode("ascii").split("\r\n") == [
        "From: ada@home.test",
        "To: grace@harbor.test",
        "Subject: Re: Lunch?",
        "Date: Sun, 01 Mar 2026 10:30:00 +0000",
        f"Message-ID: <muster-{draft_key(DRAFT)}@home.test>",
        "In-Reply-To: <m2@harbor.test>",
        "References: <m1@harbor.test>",
        " <m2@harbor.test>",
        'Content-Type: text/plain; charset="us-ascii"',
        "Content-Transfer-Encoding: 7bit",
        "MIME-Version: 1.0",
        "",
        "Noon works.",
        "",
    ]


@pytest.mark.parametrize(
    ("subject", "answered"),
    [
        ("Re: Lunch?", "Re: Lunch?"),
        ("RE: Lunch?", "RE: Lunch?"),
        ("", "Re:"),
        ("Reform", "Re: Reform"),
        ("Πότε; " * 40, "Re: " + ("Πότε; " * 40).strip()),
        ("x " * 400, "Re: " + ("x " * 400)[:395] + "…"),
        ("=?utf-8?q?x?=", "Re: =?utf-8?q?x?="),
    ],
)
def test_the_subject(subject: str, answered: str) -> None:
    """The subject is the mail's with one Re:, encoded and folded where it must be."""
    reply = attrs.evolve(REPLY, subject=subject)
    raw = compose(DRAFT, reply, sender_address="ada@home.test", date=NOW)
    read = email.message_from_bytes(raw, policy=email.policy.default)
    assert read["Subject"].strip() == answered
    assert all(len(line) <= 78 for line in raw.partition(b"\r\n\r\n")[0].split(b"\r\n")[2:4])


def test_a_subject_cannot_add_a_header() -> None:
    """Line breaks in a subject end no header line."""
    reply = attrs.evolve(REPLY, subject="Hi\r\nBcc: eve@x.test\r\n\r\nbody")
    read = email.message_from_bytes(compose(DRAFT, reply, sender_address="a@x.test", date=NOW))
    assert read["Bcc"] is None
    assert read["Subject"] == "Re: Hi Bcc: eve@x.test body"


@pytest.mark.parametrize("to", ["a@x.test\r\nBcc: eve@x.test", "a@x.test, eve@x.test", "<a@x>", ""])
def test_an_address_that_is_none_is_refused(to: str) -> None:
    """Nothing but one plain address can stand where an address does."""
    with pytest.raises(ValueError, match="address"):
        compose(DRAFT, attrs.evolve(REPLY, to=(to,)), sender_address="a@x.test", date=NOW)
    with pytest.raises(ValueError, match="address"):
        compose(DRAFT, REPLY, sender_address=to, date=NOW)


def test_a_reply_needs_somebody() -> None:
    """A mail that names nobody can't be answered."""
    with pytest.raises(ValueError, match="address"):
        compose(DRAFT, attrs.evolve(REPLY, to=()), sender_address="a@x.test", date=NOW)


def test_an_address_outside_ascii_is_kept() -> None:
    """A local part in another script goes out as RFC 6532 has it."""
    reply = attrs.evolve(REPLY, to=("πέτρος@x.test",))
    raw = compose(DRAFT, reply, sender_address="ada@home.test", date=NOW)
    assert "\r\nTo: πέτρος@x.test\r\n".encode() in raw


@pytest.mark.parametrize(
    "body", ["Ça va ? 😀", "一二三" * 400, "x" * 5000, ".\nFrom me\n--\n", "é\n\n"]
)
def test_any_text_survives(body: str) -> None:
    """The approved text is the mail's text, in short lines of 7 bit."""
    draft = attrs.evolve(DRAFT, body=body)
    raw = compose(draft, REPLY, sender_address="ada@home.test", date=NOW)
    assert raw.isascii()
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    read = email.message_from_bytes(raw, policy=email.policy.default)
    assert isinstance(read, email.message.EmailMessage)
    assert read.get_content().replace("\r\n", "\n").rstrip("\n") == body.rstrip("\n")


def test_the_id_is_the_drafts_own() -> None:
    """The same draft has the same Message-ID, and no other draft has it."""
    same = message_id(attrs.evolve(DRAFT), "ada@home.test")
    assert same == message_id(DRAFT, "ada@home.test")
    others = [
        attrs.evolve(DRAFT, draft_id=18),
        attrs.evolve(DRAFT, body="One works."),
        attrs.evolve(DRAFT, approved_at="2026-03-02T10:00Z"),
        attrs.evolve(DRAFT, message_external_id="cd" * 32),
    ]
    assert len({same, *(message_id(other, "ada@home.test") for other in others)}) == 5
