"""The header of a raw mail, read so strictly that no two readers can see different mails in it.

A sender is proven by one reader (the signature's) and shown by another (the parser's). A header
that they would cut into lines differently lets one address be proven and another be shown, so
what could be cut in two ways is in doubt: bare carriage returns, lines that are no field, and
fields that may stand once and stand there twice.
"""

import re

import attrs

from muster.clients.mail.verify.proof import Doubt

HEAD_BYTES_MAX = 256 * 1024
FIELDS_MAX = 1000
FIELD_LINES_MAX = 1000
"""A library below copies a field once a line: this keeps that linear in practice."""

FIELD = re.compile(rb"([!-9;-~]{1,200}):(.*)", re.DOTALL)
BLANK_LINE = re.compile(rb"\n\r?\n")
ONCE = frozenset(
    {
        "from", "sender", "reply-to", "to", "cc", "subject", "date", "message-id", "in-reply-to",
        "references", "mime-version", "content-type", "content-transfer-encoding",
    }
)  # fmt: skip


@attrs.frozen(kw_only=True)
class Field:
    """One header field: its name in lower case, and its value with the folding as it came."""

    name: str
    value: bytes

    def unfolded(self) -> bytes:
        """The value on one line."""
        return self.value.replace(b"\r\n", b"").strip(b" \t")


@attrs.frozen(kw_only=True)
class Head:
    """The fields from the top, the header's bytes with CRLF ends, and the body as it came."""

    fields: tuple[Field, ...]
    head: bytes
    body: bytes

    def named(self, name: str) -> tuple[Field, ...]:
        """The fields of this name, from the top."""
        return tuple(field for field in self.fields if field.name == name)


def split_mail(raw: bytes) -> Head | Doubt:
    """Cut a raw mail with CRLF or LF ends into its fields and its body."""
    blank = BLANK_LINE.search(raw, 0, HEAD_BYTES_MAX + 4)
    end = blank.start() + 1 if blank else len(raw)
    if end > HEAD_BYTES_MAX:
        return Doubt(reason=f"the header is longer than {HEAD_BYTES_MAX:,} bytes")
    head = to_crlf(raw[:end]).removesuffix(b"\r\n")
    if b"\r" in head.replace(b"\r\n", b""):
        return Doubt(reason="the header has a bare carriage return")
    fields = _split_fields(head)
    if isinstance(fields, Doubt):
        return fields
    for name in ONCE:
        if sum(field.name == name for field in fields) > 1:
            return Doubt(reason=f"there is more than one {name.title()} field")
    return Head(fields=fields, head=head + b"\r\n", body=raw[blank.end() :] if blank else b"")


def to_crlf(raw: bytes) -> bytes:
    """The bytes as mail travels: a Maildir keeps LF where SMTP had CRLF."""
    return raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _split_fields(head: bytes) -> tuple[Field, ...] | Doubt:
    gathered: list[list[bytes]] = []
    for line in head.split(b"\r\n"):
        if line[:1] in (b" ", b"\t") and gathered:
            gathered[-1].append(line)
            if len(gathered[-1]) > FIELD_LINES_MAX:
                return Doubt(reason=f"a header field has more than {FIELD_LINES_MAX} lines")
        else:
            gathered.append([line])
    if len(gathered) > FIELDS_MAX:
        return Doubt(reason=f"the header has more than {FIELDS_MAX} fields")
    fields = []
    for lines in gathered:
        match = FIELD.fullmatch(b"\r\n".join(lines))
        if match is None:
            return Doubt(reason="the header has a line that is no field")
        fields.append(Field(name=match[1].decode("ascii").lower(), value=match[2]))
    return tuple(fields)
