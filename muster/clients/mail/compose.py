"""An approved reply as an RFC 5322 mail. Pure: the time is handed in.

Headers are written here and not by `email.policy.SMTP`, which folds a long Message-ID into an
encoded word that no other program reads as an id. Nothing that a sender wrote can end a header
line: subjects are one line without controls, addresses and ids were checked when they were read.

The Message-ID and the outbox's file name come from the draft alone (its id, its message, its
approval and its text), so a second sending of the same draft would be seen, and a draft of
another server that happens to have the same number is another mail.
"""

import hashlib
from datetime import datetime
from email.header import Header
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from muster.clients.mail.addresses import usable_address
from muster.clients.mail.charsets import clean_line
from muster.clients.mail.parse import ReplyFacts
from muster.clients.plugin import Draft

SUBJECT_CHARS_MAX = 400
LINE_CHARS_MAX = 76
CRLF = "\r\n"


def draft_key(draft: Draft) -> str:
    """The name of this draft's mail: `draft-17-` and 32 hex digits of everything it is."""
    told = (str(draft.draft_id), draft.message_external_id, draft.approved_at, draft.body)
    digest = hashlib.sha256("\0".join(told).encode("utf-8")).hexdigest()
    return f"draft-{draft.draft_id}-{digest[:32]}"


def message_id(draft: Draft, sender_address: str) -> str:
    """The reply's Message-ID, the same whenever it is asked for."""
    domain = sender_address.rpartition("@")[2].strip("[]").replace(":", "-")
    return f"<muster-{draft_key(draft)}@{domain}>"


def compose(draft: Draft, reply: ReplyFacts, *, sender_address: str, date: datetime) -> bytes:
    """The whole mail, CRLF lines, 7 bit but for addresses that are not ASCII (RFC 6532).

    ValueError when there is nobody to send to or an address can't stand in a header.
    """
    sender = usable_address(sender_address)
    if sender is None or not reply.to:
        raise ValueError("a reply needs an address to come from and one to go to")
    if any(usable_address(address) != address for address in reply.to):
        raise ValueError("an address of the reply can't stand in a header")
    lines = [
        f"From: {sender}",
        f"To: {(',' + CRLF + ' ').join(reply.to)}",
        _subject_header(reply.subject),
        f"Date: {format_datetime(date)}",
        f"Message-ID: {message_id(draft, sender)}",
    ]
    if reply.message_id is not None:
        references = list(dict.fromkeys((*reply.references, reply.message_id)))
        lines.append(f"In-Reply-To: {reply.message_id}")
        lines.append(f"References: {(CRLF + ' ').join(references)}")
    elif reply.references:
        lines.append(f"References: {(CRLF + ' ').join(reply.references)}")
    return (CRLF.join(lines) + CRLF).encode("utf-8") + _content(draft.body)


def _subject_header(subject: str) -> str:
    text = clean_line(subject)
    if text[:3].casefold() != "re:":
        text = f"Re: {text}".strip()
    if len(text) > SUBJECT_CHARS_MAX:
        text = text[: SUBJECT_CHARS_MAX - 1] + "…"
    # An ASCII line that fits is written as it is, unless a reader would decode it.
    if text.isascii() and len(text) <= LINE_CHARS_MAX and "=?" not in text:
        return f"Subject: {text}"
    header = Header(text, "utf-8", maxlinelen=LINE_CHARS_MAX, header_name="Subject")
    return f"Subject: {header.encode(linesep=CRLF)}"


def _content(text: str) -> bytes:
    """The content headers, the empty line and the text."""
    content = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
    content.set_content(text, charset="us-ascii" if text.isascii() else "utf-8")
    return content.as_bytes()
