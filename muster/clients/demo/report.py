"""What became of each mail, told from what the command line shows. Pure but for reading files.

Times come from the audit log: what the database says, not what the demo saw.
"""

import email
import email.policy
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs

Document = Mapping[str, Any]

REPLYABLE = "replyable"
NO_REPLY = "no_reply"
UNVERIFIED = "unverified"
KINDS = frozenset({REPLYABLE, NO_REPLY, UNVERIFIED})

MESSAGE_STEPS = {"plugin.message.received": "posted", "plugin.delivered": "delivered"}
DRAFT_STEPS = {
    "plugin.draft.filed": "drafted",
    "plugin.draft.approved": "approved",
    "plugin.draft.claimed": "claimed",
    "plugin.draft.sent": "sent",
}
# Each step is measured from the one that makes it possible: a draft is filed during the turn.
SINCE = {
    "delivered": "posted",
    "drafted": "posted",
    "approved": "drafted",
    "claimed": "approved",
    "sent": "claimed",
}


@attrs.frozen(kw_only=True)
class Mail:
    """A mail of the demo: its file, the id that the plugin posts it under, and what should happen.

    A `replyable` one is answered, a `no_reply` one can't be, and on an `unverified` one, which
    asks for what only a proven sender might ask, nothing is done.
    """

    file: str
    kind: str
    external_id: str
    rfc_message_id: str


@attrs.frozen(kw_only=True)
class Reply:
    """A mail in the outbox, as a stranger's mail program reads it."""

    file: str
    message_id: str
    in_reply_to: str
    text: str
    faults: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Seen:
    """All that the command line and the outbox show at one moment."""

    messages: Sequence[Document]
    drafts: Sequence[Document]
    replies: Sequence[Reply]
    audit: Sequence[Document] = ()


def read_mail(path: Path, kind: str) -> Mail:
    """Take down what identifies a mail file."""
    raw = path.read_bytes()
    headers = email.message_from_bytes(raw, policy=email.policy.default)
    return Mail(
        file=path.name,
        kind=kind,
        external_id=hashlib.sha256(raw).hexdigest(),
        rfc_message_id=str(headers.get("Message-ID", "")).strip(),
    )


def read_reply(path: Path) -> Reply:
    """Read an outbox file strictly: every fault of RFC 5322 that Python's parser knows is kept."""
    raw = path.read_bytes()
    mail = email.message_from_bytes(raw, policy=email.policy.SMTP)
    faults = [type(defect).__name__ for defect in mail.defects]
    faults += [f"no {name}" for name in ("From", "To", "Date", "Message-ID") if not mail[name]]
    for name, value in mail.items():
        faults += [f"{name}: {type(defect).__name__}" for defect in getattr(value, "defects", ())]
    if any(len(line) > 998 for line in raw.split(b"\r\n")) or b"\n" in raw.replace(b"\r\n", b""):
        faults.append("lines not as RFC 5322 wants them")
    body = mail.get_body(("plain",))
    return Reply(
        file=path.name,
        message_id=str(mail.get("Message-ID", "")).strip(),
        in_reply_to=str(mail.get("In-Reply-To", "")).strip(),
        text="" if body is None else body.get_content().replace("\r\n", "\n"),
        faults=tuple(faults),
    )


def of_mail(mail: Mail, seen: Seen) -> dict[str, Any]:
    """What became of one mail; `problems` is empty when it ended as its kind should."""
    message = _only(seen.messages, "external_id", mail.external_id)
    if message is None:
        told = {"file": mail.file, "external_id": mail.external_id, "kind": mail.kind}
        return told | {"message_id": None, "ok": False, "problems": ["it was not posted"]}
    drafts = [draft for draft in seen.drafts if draft["message_id"] == message["message_id"]]
    draft = max(drafts, key=lambda each: int(each["draft_id"]), default=None)
    replies = [each for each in seen.replies if each.in_reply_to == mail.rfc_message_id]
    problems = list(_problems(mail, message, drafts, replies))
    return {
        "file": mail.file,
        "external_id": mail.external_id,
        "kind": mail.kind,
        "message_id": message["message_id"],
        "state": message["state"],
        "draft": None
        if draft is None
        else {"draft_id": draft["draft_id"], "state": draft["state"]},
        "outbox_file": replies[0].file if replies else None,
        "in_reply_to_ok": bool(replies) if mail.kind == REPLYABLE else None,
        "seconds": _seconds(message, draft, seen.audit),
        "ok": not problems,
        "problems": problems,
    }


def is_settled(mail: Mail, seen: Seen) -> bool:
    """Whether nothing more will happen to a mail by itself, well or not."""
    message = _only(seen.messages, "external_id", mail.external_id)
    if message is None or message["state"] in {"queued", "delivering"}:
        return False
    drafts = [draft for draft in seen.drafts if draft["message_id"] == message["message_id"]]
    return all(draft["state"] not in {"pending", "approved"} for draft in drafts)


def _problems(
    mail: Mail, message: Document, drafts: Sequence[Document], replies: Sequence[Reply]
) -> Iterable[str]:
    if message["state"] != "delivered":
        yield f"the message is {message['state']}"
    if message["no_reply"] is not (mail.kind == NO_REPLY):
        yield f"the message is marked no_reply: {message['no_reply']}"
    if mail.kind != REPLYABLE:
        if drafts:
            yield "a reply was drafted"
        if replies:
            yield "a reply was sent"
        return
    if [draft["state"] for draft in drafts] != ["sent"]:
        yield f"its drafts are {[draft['state'] for draft in drafts]} and not just one, sent"
    if len(replies) != 1:
        yield f"the outbox holds {len(replies)} replies to it"
        return
    reply = replies[0]
    yield from (f"the reply has a fault: {fault}" for fault in reply.faults)
    if drafts and reply.text.rstrip("\n") != str(drafts[0]["body"]).rstrip("\n"):
        yield "the reply is not the text that was approved"
    if drafts and reply.message_id != drafts[0]["external_ref"]:
        yield "the reply is not the one that was reported"


def _seconds(message: Document, draft: Document | None, audit: Sequence[Document]) -> Document:
    at: dict[str, datetime] = {}
    subjects = {f"message:{message['message_id']}": MESSAGE_STEPS}
    if draft is not None:
        subjects[f"draft:{draft['draft_id']}"] = DRAFT_STEPS
    for row in audit:
        step = subjects.get(row["subject"], {}).get(row["action"])
        if step is not None:
            at[step] = datetime.fromisoformat(row["at"])
    return {
        f"{since}_to_{step}": round((at[step] - at[since]).total_seconds(), 3)
        for step, since in SINCE.items()
        if step in at and since in at
    }


def _only(documents: Iterable[Document], name: str, value: object) -> Document | None:
    return next((each for each in documents if each[name] == value), None)
