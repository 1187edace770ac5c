"""Which single From address of a mail can be proven at all.

A proof holds for a domain and is told as an address, so there must be one address, read the same
way by everybody: exactly one From field, with exactly one mailbox in a plain form. No group, no
comment beside an address in brackets, nothing outside ASCII in the local part, and no display
name that passes for another's (lookalike.py).

Decided here, for the mark lets an answer to this sender leave unseen (plugins: "sender_verified"):
- a Reply-To that names another address sends that answer elsewhere: in doubt;
- a Sender that names another address says that somebody else sent the mail: in doubt;
- a sender that muster could not be shown whole, 200 characters, is in doubt.
What is returned is what the parser makes of the same field, so that the address which is proven
and the one that is posted can't differ.
"""

import re
from collections.abc import Mapping, Sequence
from email.parser import BytesHeaderParser
from email.policy import compat32

import attrs

from muster.clients.mail.addresses import Mailbox, fold_address, read_mailboxes
from muster.clients.mail.parse import FIELD_CHARS_MAX
from muster.clients.mail.verify.alignment import ascii_domain, organisational_domain
from muster.clients.mail.verify.head import Head, split_mail
from muster.clients.mail.verify.lookalike import name_doubt
from muster.clients.mail.verify.proof import Doubt

FROM_CHARS_MAX = 1000
ADDRESS = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[^\s<>()\[\],;:@\\\"]{1,253}"
PLAIN = re.compile(rf"(?P<bare>{ADDRESS})(?:[ \t]*\((?P<comment>[^()\\]*)\))?")
NAMED = re.compile(
    rf'(?:"(?:[^"\\]|\\.)*"|[^"<>()\[\],;:@\\]){{0,{FROM_CHARS_MAX}}}<(?P<angled>{ADDRESS})>'
)


@attrs.frozen(kw_only=True)
class Provable:
    """A mail whose From could be proven: the mailbox as it is shown, its domain, the header.

    `domain` is in ASCII and lower case.
    """

    mailbox: Mailbox
    domain: str
    head: Head


def find_provable(raw: bytes) -> Provable | Doubt:
    """The one address that a proof could be about; pure, and linear in the header's length."""
    head = split_mail(raw)
    if isinstance(head, Doubt):
        return head
    values = _parsed_values(head)
    if values is None:
        return Doubt(reason="the header can be read in two ways")
    mailbox = _one_mailbox(values.get("from", []))
    if isinstance(mailbox, Doubt):
        return mailbox
    domain = ascii_domain(mailbox.address.rpartition("@")[2])
    if domain is None or organisational_domain(domain) is None:
        return Doubt(reason="the From domain is none that an organisation can have")
    if len(mailbox.shown()) > FIELD_CHARS_MAX:
        return Doubt(reason="the sender is too long to be shown whole")
    doubt = name_doubt(mailbox.name, address=mailbox.address, domain=domain)
    doubt = doubt or _other_address(values, mailbox.address)
    if doubt is not None:
        return Doubt(reason=doubt)
    return Provable(mailbox=mailbox, domain=domain, head=head)


def _other_address(values: Mapping[str, Sequence[str]], address: str) -> str | None:
    """Why somebody else than From may have sent the mail or get its answer."""
    for name, title in (("reply-to", "Reply-To"), ("sender", "Sender")):
        if not all(_names_only(value, address) for value in values.get(name, ())):
            return f"{title} names another address than From"
    return None


def _parsed_values(head: Head) -> dict[str, list[str]] | None:
    """The fields as the parser of the message reads them; None when it sees other ones."""
    parsed = BytesHeaderParser(policy=compat32).parsebytes(head.head + b"\r\n")
    values: dict[str, list[str]] = {}
    names = []
    for name, value in parsed.raw_items():
        names.append(name.lower())
        values.setdefault(name.lower(), []).append(str(value))
    return values if names == [field.name for field in head.fields] else None


def _one_mailbox(values: Sequence[str]) -> Mailbox | Doubt:
    """The mailbox of the one From value in a plain form, as the parser reads it."""
    if len(values) != 1:
        return Doubt(reason="there is no From field")
    value = values[0]
    if len(value) > FROM_CHARS_MAX:
        return Doubt(reason="the From field is too long")
    line = value.replace("\r\n", "").strip(" \t")
    match = PLAIN.fullmatch(line) or NAMED.fullmatch(line)
    if match is None:
        return Doubt(reason="From is not one address in a plain form")
    written = match.groupdict().get("bare") or match.groupdict().get("angled") or ""
    read = read_mailboxes(value)
    if len(read) != 1 or not read[0].address.isascii():
        return Doubt(reason="From does not name one address")
    local, _, domain = written.rpartition("@")
    if read[0].address.rpartition("@")[0] != local or not _same_domain(read[0].address, domain):
        return Doubt(reason="the From field can be read in two ways")
    return read[0]


def _same_domain(address: str, domain: str) -> bool:
    """Whether the address read has the domain written, which may be raw bytes beyond ASCII."""
    text = domain.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    encoded = ascii_domain(text)
    return encoded is not None and encoded == ascii_domain(address.rpartition("@")[2])


def _names_only(value: str, address: str) -> bool:
    """Whether an address field names this address and no other."""
    named = {mailbox.address for mailbox in read_mailboxes(value)}
    return {fold_address(one) for one in named} == {fold_address(address)}
