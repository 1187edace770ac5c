"""A raw mail to what muster takes and what a reply needs. Pure: no clock, no disk.

Never raises, whatever the bytes are, and always stays within the limits of the contract
(plugins: "an inbound message"); what breaks a limit is told in the body, not cut in silence.

Decided here:
- the id is the sha256 of the raw file, since a forged repeat of a Message-ID would swallow a mail;
- `received_at` is the time in the topmost Received line, which the own server wrote, else the
  Date, which the sender did;
- a mail that nobody can answer, for it names no address, counts as `no_reply`;
- `sender_verified` stays false: a From line proves nothing.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.message import Message as ParsedMail
from email.parser import BytesHeaderParser, BytesParser
from email.policy import compat32
from email.utils import parsedate_to_datetime

import attrs

from muster.clients.mail.addresses import FIELDS_MAX, Mailbox, fold_address, read_mailboxes
from muster.clients.mail.body import assemble
from muster.clients.mail.charsets import clean_line, clean_text, decode_header, decode_text
from muster.clients.mail.parts import PARSER_FAULTS, Parts, read_parts
from muster.clients.mail.quotes import trim_quotes
from muster.clients.plugin import Message

FIELD_CHARS_MAX = 200
THREAD_BYTES_MAX = 200
NOTED_CHARS_MAX = 1000
"""How much of a sender or subject that is too long stands in the body, in characters."""

HEADER_CHARS_MAX = 64 * 1024
NESTING_MARKS_MAX = 200
"""A mail with more `boundary=` and `message/rfc822` than this is read as plain text.

The parser needs time in proportion to depth times lines, and recurses.
"""

REFERENCES_MAX = 20
MESSAGE_ID = re.compile(r"<[\x21-\x3b\x3d\x3f-\x7e]{1,250}>")
ANGLED = re.compile(r"<[^<>]*>")
NO_REPLY_LOCAL = re.compile(
    r"(?:.*[-_.+])?(?:no[-_.]?reply|do[-_.]?not[-_.]?reply|mailer-daemon|postmaster)"
    r"(?:[-_.+0-9].*)?",
    re.IGNORECASE,
)

Headers = Mapping[str, Sequence[str]]


@attrs.frozen(kw_only=True)
class ReplyFacts:
    """What a reply needs to know of the mail that it answers.

    `to` and `own_address` are addresses that may stand in a header as they are; `message_id` and
    `references` are whole Message-IDs in ASCII, with their brackets.
    """

    to: tuple[str, ...]
    own_address: str | None
    subject: str
    message_id: str | None
    references: tuple[str, ...]


@attrs.frozen(kw_only=True)
class InboundMail:
    """One mail: the message for muster, and what answering it takes."""

    message: Message
    reply: ReplyFacts


def parse(
    raw: bytes, *, place: str, whole: str | None = None, without_quotes: bool = False
) -> InboundMail:
    """Read one raw mail. `place` says, for the person, where the mail lies.

    `whole` is the sha256 of the whole file in hex when `raw` is only its beginning. With
    `without_quotes` the quoted history at its end is left out, and the body says so.
    """
    mail, notes = _read(raw)
    headers = _headers(mail)
    sender, sender_note = _sender(headers)
    subject, subject_note = _subject(headers)
    reply = _reply_facts(headers)
    parts = _parts(mail, raw)
    place = clean_line(place.encode("utf-8", "replace").decode("utf-8"))[:1000]
    if whole is not None:
        notes.append(f"[Only the first {len(raw):,} bytes were read; the whole lies at {place}]")
    text = "\n\n".join(text.strip("\n") for text in parts.texts if text.strip())
    quotes_note = ""
    if without_quotes:
        text, quotes_note = trim_quotes(text, subject=reply.subject, place=place)
    # Where a reply goes stands before what a sender can make as long as the place for notes.
    ours = (_reply_note(headers, reply), sender_note, subject_note, quotes_note)
    notes += filter(None, ours)
    body = assemble(
        notes=[*notes, *dict.fromkeys(parts.notes)],
        text=text,
        attachments=parts.attachments,
        place=place,
    )
    message = Message(
        external_id=whole or hashlib.sha256(raw).hexdigest(),
        body=body,
        sender=sender,
        subject=subject,
        received_at=_received_at(headers),
        thread=_thread(headers),
        no_reply=not reply.to or _is_automatic(headers, reply),
    )
    return InboundMail(message=message, reply=reply)


def _read(raw: bytes) -> tuple[ParsedMail, list[str]]:
    """The parsed mail, and what the person should know about the reading."""
    lower = raw.lower()
    marks = lower.count(b"boundary=") + lower.count(b"message/rfc822")
    if marks <= NESTING_MARKS_MAX:
        try:
            return BytesParser(policy=compat32).parsebytes(raw), []
        except PARSER_FAULTS:
            pass
    note = "[This mail's parts could not be told apart; its text follows as it is written.]"
    try:
        mail = BytesHeaderParser(policy=compat32).parsebytes(raw)
    except PARSER_FAULTS:
        mail = ParsedMail(policy=compat32)
        mail.set_payload(raw.decode("ascii", "surrogateescape"))
    for name in ("content-type", "content-transfer-encoding", "content-disposition"):
        del mail[name]
    return mail, [note]


def _headers(mail: ParsedMail) -> Headers:
    headers: dict[str, list[str]] = {}
    for name, value in mail.raw_items():
        headers.setdefault(name.lower(), []).append(str(value)[:HEADER_CHARS_MAX])
    return headers


def _parts(mail: ParsedMail, raw: bytes) -> Parts:
    try:
        return read_parts(mail)
    except PARSER_FAULTS:
        note = "[This mail's parts could not be read; it follows as it is written.]"
        return Parts(texts=[clean_text(decode_text(raw, None)[0])], notes=[note])


def _first(headers: Headers, name: str) -> str:
    values = headers.get(name)
    return values[0] if values else ""


def _mailboxes(headers: Headers, *names: str) -> tuple[Mailbox, ...]:
    """The mailboxes of the first of these headers that names any."""
    for name in names:
        for value in headers.get(name, ())[:FIELDS_MAX]:
            if found := read_mailboxes(value):
                return found
    return ()


def _sender(headers: Headers) -> tuple[str | None, str]:
    """The sender for muster, and a line for the body when it could not be whole."""
    mailboxes = _mailboxes(headers, "from", "sender")
    if not mailboxes:
        text = decode_header(_first(headers, "from"))
        return (_fitted(text) or None), _too_long_note("sender", text)
    shown = mailboxes[0].shown()
    if len(shown) <= FIELD_CHARS_MAX:
        return shown, ""
    # The address is what counts, so it is the name that gives way.
    room = FIELD_CHARS_MAX - len(mailboxes[0].address) - len("… <>")
    short = f"{mailboxes[0].name[:room]}… <{mailboxes[0].address}>" if room > 0 else shown
    return _fitted(short), _too_long_note("sender", shown)


def _subject(headers: Headers) -> tuple[str | None, str]:
    text = decode_header(_first(headers, "subject"))
    return (_fitted(text) or None), _too_long_note("subject", text)


def _fitted(text: str) -> str:
    return text if len(text) <= FIELD_CHARS_MAX else text[: FIELD_CHARS_MAX - 1] + "…"


def _too_long_note(what: str, text: str) -> str:
    if len(text) <= FIELD_CHARS_MAX:
        return ""
    shown = text if len(text) <= NOTED_CHARS_MAX else text[:NOTED_CHARS_MAX] + "…"
    return f"[The {what} has {len(text):,} characters: {shown}]"


def _reply_facts(headers: Headers) -> ReplyFacts:
    to = _mailboxes(headers, "reply-to", "from", "sender")
    own = _mailboxes(headers, "delivered-to", "x-original-to", "envelope-to", "to")
    ids = MESSAGE_ID.findall(_first(headers, "references"))
    ids = ids or MESSAGE_ID.findall(_first(headers, "in-reply-to"))[:1]
    message_id = MESSAGE_ID.search(_first(headers, "message-id"))
    if len(ids) > REFERENCES_MAX:
        # The first names the thread, the last ones the place in it.
        ids = [ids[0], *ids[-(REFERENCES_MAX - 1) :]]
    # Of a From line that lists several, the first is who wrote (RFC 5322 section 3.6.2 aside).
    answered = to if _mailboxes(headers, "reply-to") else to[:1]
    return ReplyFacts(
        to=tuple(dict.fromkeys(mailbox.address for mailbox in answered))[:10],
        own_address=own[0].address if own else None,
        subject=decode_header(_first(headers, "subject")),
        message_id=message_id[0] if message_id else None,
        references=tuple(ids),
    )


def _reply_note(headers: Headers, reply: ReplyFacts) -> str:
    """A line that says where replies go, when that is not to the sender shown."""
    if not reply.to:
        return "[This mail names no address that a reply could go to.]"
    senders = {
        fold_address(mailbox.address) for mailbox in _mailboxes(headers, "from", "sender")[:1]
    }
    if {fold_address(address) for address in reply.to} <= senders:
        return ""
    return f"[A reply goes to {', '.join(reply.to)}, as the mail asks.]"


def _is_automatic(headers: Headers, reply: ReplyFacts) -> bool:
    """Whether the mail says that nobody reads answers to it (plugins: "no_reply")."""
    auto_submitted = _first(headers, "auto-submitted").partition(";")[0].strip().casefold()
    suppress = _first(headers, "x-auto-response-suppress").strip().casefold()
    return (
        auto_submitted not in ("", "no")
        or _first(headers, "precedence").strip().casefold() in ("bulk", "list", "junk")
        or "list-id" in headers
        or "list-unsubscribe" in headers
        or suppress not in ("", "none")
        or _first(headers, "return-path").strip() == "<>"
        or all(NO_REPLY_LOCAL.fullmatch(address.rpartition("@")[0]) for address in reply.to)
    )


def _received_at(headers: Headers) -> datetime | None:
    stamps = (_first(headers, "received").rpartition(";")[2], _first(headers, "date"))
    for stamp in stamps:
        moment = _moment(stamp)
        if moment is not None:
            return moment
    return None


def _moment(stamp: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(clean_line(stamp[:200]))
        if moment.tzinfo is None:
            # "-0000" means UTC of an unknown place (RFC 5322 section 3.3).
            moment = moment.replace(tzinfo=UTC)
        moment = moment.astimezone(UTC)
    except (*PARSER_FAULTS, OverflowError):
        return None
    # A year beyond these is a broken clock, and no time at all is better than a wrong one.
    return moment if 1970 <= moment.year < 2200 else None


def _thread(headers: Headers) -> str | None:
    """The thread's id: first of References, else In-Reply-To, else the mail's own id."""
    for name in ("references", "in-reply-to", "message-id"):
        value = clean_line(_first(headers, name).encode("utf-8", "replace").decode("utf-8"))
        if not value:
            continue
        angled = ANGLED.search(value)
        token = angled[0] if angled else value.split()[0]
        token_bytes = token.encode("utf-8")
        if len(token_bytes) <= THREAD_BYTES_MAX and not any(map(str.isspace, token)):
            return token
        return hashlib.sha256(token_bytes).hexdigest()
    return None
