"""What the demo says became of each mail, and when it calls that well."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from muster.clients.agent import script
from muster.clients.demo import report, stage
from muster.clients.demo.report import Mail, Reply, Seen

MAIL = Mail(file="a.eml", kind="replyable", external_id="e1", rfc_message_id="<a@x.test>")
MESSAGE = {"message_id": 4, "external_id": "e1", "state": "delivered", "no_reply": False}
DRAFT = {
    "draft_id": 7,
    "message_id": 4,
    "state": "sent",
    "body": "Thanks,\nAda\n",
    "external_ref": "<r@x.test>",
}
REPLY = Reply(
    file="draft-7",
    message_id="<r@x.test>",
    in_reply_to="<a@x.test>",
    text="Thanks,\nAda\n",
    faults=(),
)
AUDIT = [
    {"subject": subject, "action": action, "at": f"2026-01-01T00:00:{second}Z"}
    for subject, action, second in [
        ("draft:7", "plugin.draft.sent", "09.500000"),
        ("draft:7", "plugin.draft.claimed", "09"),
        ("draft:7", "plugin.draft.approved", "07"),
        ("draft:7", "plugin.draft.filed", "04"),
        ("message:4", "plugin.delivered", "05"),
        ("message:4", "plugin.message.received", "03"),
        ("message:5", "plugin.message.received", "01"),
        ("draft:4", "plugin.draft.filed", "02"),
    ]
]
SEEN = Seen(messages=[MESSAGE], drafts=[DRAFT], replies=[REPLY], audit=AUDIT)
SILENT = attrs.evolve(SEEN, drafts=[], replies=[])


def test_a_mail_that_was_answered_is_well() -> None:
    """A replyable mail is told with its message, its draft, its reply and every step's time."""
    assert report.of_mail(MAIL, SEEN) == {
        "file": "a.eml",
        "external_id": "e1",
        "kind": "replyable",
        "message_id": 4,
        "state": "delivered",
        "draft": {"draft_id": 7, "state": "sent"},
        "outbox_file": "draft-7",
        "in_reply_to_ok": True,
        "seconds": {
            "posted_to_delivered": 2.0,
            "posted_to_drafted": 1.0,
            "drafted_to_approved": 3.0,
            "approved_to_claimed": 2.0,
            "claimed_to_sent": 0.5,
        },
        "ok": True,
        "problems": [],
    }


@pytest.mark.parametrize("kind", ["no_reply", "unverified"])
def test_a_mail_that_was_rightly_left_alone_is_well(kind: str) -> None:
    """A mail that nobody may or should answer is well without a draft and a reply."""
    mail = attrs.evolve(MAIL, kind=kind)
    seen = attrs.evolve(SILENT, messages=[MESSAGE | {"no_reply": kind == "no_reply"}])
    told = report.of_mail(mail, seen)
    assert (told["ok"], told["draft"], told["in_reply_to_ok"]) == (True, None, None)
    assert told["seconds"] == {"posted_to_delivered": 2.0}


@pytest.mark.parametrize(
    ("mail", "seen", "told"),
    [
        (MAIL, attrs.evolve(SEEN, messages=[]), "it was not posted"),
        (MAIL, attrs.evolve(SEEN, messages=[MESSAGE | {"state": "unconfirmed"}]), "unconfirmed"),
        (MAIL, attrs.evolve(SEEN, messages=[MESSAGE | {"no_reply": True}]), "no_reply: True"),
        (MAIL, SILENT, "its drafts are []"),
        (MAIL, attrs.evolve(SEEN, drafts=[DRAFT | {"state": "failed"}]), "['failed']"),
        (MAIL, attrs.evolve(SEEN, drafts=[DRAFT, DRAFT | {"draft_id": 6}]), "['sent', 'sent']"),
        (MAIL, attrs.evolve(SEEN, replies=[]), "holds 0 replies"),
        (MAIL, attrs.evolve(SEEN, replies=[REPLY, REPLY]), "holds 2 replies"),
        (MAIL, attrs.evolve(SEEN, replies=[attrs.evolve(REPLY, text="No")]), "not the text"),
        (MAIL, attrs.evolve(SEEN, replies=[attrs.evolve(REPLY, message_id="<b>")]), "not the one"),
        (MAIL, attrs.evolve(SEEN, replies=[attrs.evolve(REPLY, faults=("no Date",))]), "no Date"),
        (attrs.evolve(MAIL, kind="unverified"), SEEN, "a reply was drafted"),
        (attrs.evolve(MAIL, kind="unverified"), SEEN, "a reply was sent"),
        (attrs.evolve(MAIL, kind="no_reply"), SILENT, "no_reply: False"),
    ],
)
def test_a_mail_that_ended_otherwise_is_not_well(mail: Mail, seen: Seen, told: str) -> None:
    """Each other ending is a problem with its own words."""
    outcome = report.of_mail(mail, seen)
    assert outcome["ok"] is False
    assert any(told in problem for problem in outcome["problems"])


@pytest.mark.parametrize(
    ("message", "draft", "settled"),
    [
        (None, None, False),
        ("queued", None, False),
        ("delivering", "pending", False),
        ("delivered", None, True),
        ("delivered", "pending", False),
        ("delivered", "approved", False),
        ("delivered", "sent", True),
        ("delivered", "unconfirmed", True),
        ("unconfirmed", None, True),
    ],
)
def test_a_mail_is_settled_when_nothing_more_comes(
    message: str | None, draft: str | None, settled: bool
) -> None:
    """Waiting goes on exactly as long as something can still happen by itself."""
    seen = Seen(
        messages=[] if message is None else [MESSAGE | {"state": message}],
        drafts=[] if draft is None else [DRAFT | {"state": draft}],
        replies=[],
    )
    assert report.is_settled(MAIL, seen) is settled


GOOD = (
    b"From: a@x.test\r\nTo: b@x.test\r\nDate: Mon, 02 Mar 2026 10:00:00 +0000\r\n"
    b"Message-ID: <r@x.test>\r\nIn-Reply-To: <a@x.test>\r\nMIME-Version: 1.0\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\n\r\nThanks\r\n"
)


@pytest.mark.parametrize(
    ("change", "faulty"),
    [
        (lambda raw: raw, False),
        (lambda raw: raw.replace(b"Date:", b"X-Date:"), True),
        (lambda raw: raw.replace(b"\r\n", b"\n"), True),
        (lambda raw: raw + b"x" * 1000, True),
        (lambda raw: raw.replace(b"To: b@x.test", b"To: b@@"), True),
        (lambda raw: raw.replace(b"<r@x.test>", b""), True),
        (lambda raw: raw.replace(b"text/plain;", b"multipart/mixed;"), True),
        (lambda raw: b"hello\r\n" + raw, True),
    ],
)
def test_a_reply_is_read_strictly(
    tmp_path: Path, change: Callable[[bytes], bytes], faulty: bool
) -> None:
    """A reply that another program could stumble over has faults; a clean one has none."""
    path = tmp_path / "reply"
    path.write_bytes(change(GOOD))
    reply = report.read_reply(path)
    assert bool(reply.faults) is faulty
    if not faulty:
        assert (reply.in_reply_to, reply.text) == ("<a@x.test>", "Thanks\n")


def test_the_shipped_mails_are_the_ones_that_are_judged(tmp_path: Path) -> None:
    """Every shipped mail has a kind and lands in the inbox unchanged, with an id to be found by."""
    laid_out = stage.set_out(tmp_path)
    shipped = {each.name: each.read_bytes() for each in (stage.shipped() / "mail").iterdir()}
    assert set(shipped) == {mail.file for mail in laid_out.mails}
    assert {mail.kind for mail in laid_out.mails} == report.KINDS
    for mail in laid_out.mails:
        raw = (laid_out.inbox / "new" / mail.file).read_bytes()
        assert raw == shipped[mail.file]
        assert mail.external_id == hashlib.sha256(raw).hexdigest()
        assert mail.rfc_message_id.startswith("<")


def test_the_shipped_rules_are_a_script(tmp_path: Path) -> None:
    """The rules that ship load, and leave what cannot be answered alone first of all."""
    rules: Any = script.load(stage.set_out(tmp_path).script).rules
    assert rules[0].marks == {"no_reply": True}
    assert isinstance(rules[0].action, script.Nothing)
    assert rules[1].marks == {"verified": False}
    assert isinstance(rules[1].action, script.Nothing)
