"""The parts of a mail: which of them are its text, and what the others are called.

Of alternatives the plain one is read when it says anything, else the last that does, HTML as
text. Everything that is not read is named, so that nothing vanishes without a trace.
"""

from collections.abc import Sequence
from email.message import Message

import attrs

from muster.clients.mail.charsets import clean_line, clean_text, decode_header, decode_text
from muster.clients.mail.html_text import HTML_CHARS_MAX, html_to_text

PARSER_FAULTS = (LookupError, ValueError, TypeError, AttributeError, AssertionError, RecursionError)
"""What the standard library's mail parser raises on mail that is broken enough."""

DEPTH_MAX = 40
PARTS_MAX = 400
NAME_CHARS_MAX = 120


@attrs.frozen(kw_only=True)
class Attachment:
    """A part that is only named: its file name or what stands for one, type and size in bytes."""

    name: str
    media_type: str
    size_bytes: int | None

    def shown(self) -> str:
        """One line for the person who reads the message."""
        size = "size unknown" if self.size_bytes is None else f"{self.size_bytes:,} bytes"
        return f"[Attachment: {self.name} ({self.media_type}, {size})]"


@attrs.define
class Parts:
    """What was found so far: texts in order, attachments, and lines about what went wrong."""

    texts: list[str] = attrs.field(factory=list)
    attachments: list[Attachment] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    is_html: bool = False
    count: int = 0

    def says_something(self) -> bool:
        """Whether any of the texts is more than blank."""
        return any(text.strip() for text in self.texts)


def read_parts(message: Message) -> Parts:
    """Walk a parsed mail, at most 40 levels and 400 parts of it; the rest is named."""
    parts = Parts()
    _collect(message, parts, depth=0)
    if not parts.says_something() and message.is_multipart() and message.preamble:
        # A multipart without parts often has its words where the preamble is.
        parts.texts.append(_text_of(message.preamble.encode("utf-8", "surrogateescape"), None))
    return parts


def _collect(part: Message, parts: Parts, *, depth: int) -> None:
    parts.count += 1
    media_type = _media_type(part)
    payload = _children(part)
    if depth > DEPTH_MAX or parts.count > PARTS_MAX:
        if parts.count <= PARTS_MAX + 1:
            parts.notes.append("[This mail has more nested parts than are read here.]")
        return
    if payload is None:
        _collect_leaf(part, parts, media_type)
    elif media_type.startswith("message/"):
        parts.attachments.append(_forwarded(part, payload, media_type))
    elif media_type == "multipart/alternative":
        _collect_best(payload, parts, depth=depth)
    else:
        for child in payload:
            _collect(child, parts, depth=depth + 1)


def _collect_best(children: Sequence[Message], parts: Parts, *, depth: int) -> None:
    best: Parts | None = None
    unread: list[str] = []
    for child in children:
        one = Parts(count=parts.count)
        _collect(child, one, depth=depth + 1)
        parts.count = one.count
        parts.attachments.extend(one.attachments)
        unread.extend(one.notes)
        if one.says_something() and (best is None or best.is_html):
            best = one
    if best is None:
        parts.notes.extend(unread)
    else:
        parts.texts.extend(best.texts)
        parts.notes.extend(best.notes)
        parts.is_html = parts.is_html or best.is_html


def _collect_leaf(part: Message, parts: Parts, media_type: str) -> None:
    raw = _payload_bytes(part)
    name = _file_name(part)
    is_text = media_type in ("text/plain", "text/html") or media_type.startswith("multipart/")
    if not is_text or name or _is_attachment(part):
        parts.attachments.append(
            Attachment(name=name or "no name", media_type=media_type, size_bytes=len(raw))
        )
        return
    label = _charset(part)
    text, certain = decode_text(raw, label)
    if not certain and raw.strip():
        named = f"by its charset {clean_line(label)[:60]}" if label else "for certain"
        parts.notes.append(f"[Some of this mail could not be read {named}; � marks what is lost.]")
    if media_type == "text/html":
        text, whole = html_to_text(text)
        parts.is_html = True
        if not whole:
            parts.notes.append(f"[Only the first {HTML_CHARS_MAX:,} characters of HTML were read.]")
    parts.texts.append(clean_text(text))


def _children(part: Message) -> Sequence[Message] | None:
    payload = part.get_payload()
    if not isinstance(payload, list):
        return None
    return [child for child in payload if isinstance(child, Message)]


def _text_of(raw: bytes, label: str | None) -> str:
    return clean_text(decode_text(raw, label)[0])


def _forwarded(part: Message, payload: Sequence[Message], media_type: str) -> Attachment:
    subject = ""
    for name, value in payload[0].raw_items() if payload else ():
        if name.lower() == "subject":
            subject = _short(decode_header(value[:1000]))
            break
    name = _file_name(part) or (f"a mail, “{subject}”" if subject else "a mail")
    try:
        size = len(part.as_bytes())
    except PARSER_FAULTS:
        size = None
    return Attachment(name=name, media_type=media_type, size_bytes=size)


def _payload_bytes(part: Message) -> bytes:
    try:
        raw = part.get_payload(decode=True)
    except PARSER_FAULTS:
        raw = None
    if isinstance(raw, bytes):
        return raw
    payload = part.get_payload()
    return payload.encode("utf-8", "surrogateescape") if isinstance(payload, str) else b""


def _media_type(part: Message) -> str:
    try:
        return clean_line(part.get_content_type())[:80]
    except PARSER_FAULTS:
        return "text/plain"


def _charset(part: Message) -> str | None:
    try:
        return part.get_content_charset()
    except PARSER_FAULTS:
        return None


def _is_attachment(part: Message) -> bool:
    try:
        return part.get_content_disposition() == "attachment"
    except PARSER_FAULTS:
        return False


def _file_name(part: Message) -> str:
    try:
        name = part.get_filename()
    except PARSER_FAULTS:
        return ""
    return _short(decode_header(name[:1000])) if name else ""


def _short(text: str) -> str:
    return text if len(text) <= NAME_CHARS_MAX else text[: NAME_CHARS_MAX - 1] + "…"
