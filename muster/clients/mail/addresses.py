"""Mailboxes in a header, read the same way on every Python and in linear time.

Rejected: `email.utils.getaddresses`, which between 3.11 and 3.13 changed what it makes of broken
lists, and recurses on nested comments. Addresses are taken from the header *before* its encoded
words are decoded, so that a display name can't add a mailbox.
"""

import re
from collections.abc import Iterator

import attrs

from muster.clients.mail.charsets import decode_header, raw_text

HEADER_CHARS_MAX = 16 * 1024
"""How much of one address header is read, in characters."""

MAILBOXES_MAX = 50
ADDRESS_CHARS_MAX = 254

LOCAL = re.compile(r"[^\s@<>()\[\],;:\\\"\x00-\x20\x7f-\x9f\ud800-\udfff]{1,64}")
FIELDS_MAX = 10
"""How many fields of one name are read for addresses; there should be one."""

# A comment's length is bounded, since each bracket without an end looks for it anew.
UNQUOTED = r'\((?:[^()\\]|\\.|\([^()]*\)){0,200}\)|<[^<>]*>|[^"(<,;:]+|[,;:"(<]'
TOKEN = re.compile(rf'"(?:[^"\\]|\\.)*"|{UNQUOTED}', re.DOTALL)
TOKEN_AFTER_OPEN_QUOTE = re.compile(UNQUOTED, re.DOTALL)
DOMAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*|\[[A-Za-z0-9.:]+\]")


@attrs.frozen(kw_only=True)
class Mailbox:
    """A display name, decoded and possibly empty, and an address that mail can be sent to."""

    name: str
    address: str

    def shown(self) -> str:
        """As a person reads it: `Ada <ada@example.test>`, or the address alone."""
        return f"{self.name} <{self.address}>" if self.name else self.address


def read_mailboxes(value: str) -> tuple[Mailbox, ...]:
    """The mailboxes of a raw address header, at most 50; what is none is skipped."""
    found = []
    for name, address in _chunks(raw_text(value[:HEADER_CHARS_MAX])):
        usable = usable_address(address)
        if usable is not None:
            found.append(Mailbox(name=decode_header(name), address=usable))
        if len(found) == MAILBOXES_MAX:
            break
    return tuple(found)


def usable_address(text: str) -> str | None:
    """`text` as an address that can stand in a header, None when it can't.

    A domain outside ASCII is put into its ASCII form; a local part may be any Unicode but has no
    white space, no control and no quoting.
    """
    local, at, domain = text.strip().rpartition("@")
    if not at or not LOCAL.fullmatch(local) or len(domain) > ADDRESS_CHARS_MAX:
        return None
    if not domain.isascii():
        try:
            domain = domain.encode("idna").decode("ascii")
        except ValueError:
            return None
    domain = domain.removesuffix(".")
    if not DOMAIN.fullmatch(domain) or len(local) + len(domain) >= ADDRESS_CHARS_MAX:
        return None
    return f"{local}@{domain}"


def fold_address(address: str) -> str:
    """What two addresses that differ in nothing but the case of ASCII letters have in common.

    Elsewhere another case may be another person: ß folds to ss, and the Kelvin sign to k.
    """
    return "".join(each.lower() if each.isascii() else each for each in address)


def _chunks(value: str) -> list[tuple[str, str]]:
    """(name, address) for each entry of a list, by one pass over its tokens."""
    chunks: list[tuple[str, str]] = []
    words: list[str] = []
    comments: list[str] = []
    angle: str | None = None
    # The comma that ends the last entry is ours.
    for token in _tokens(value + ","):
        match token[0]:
            case "," | ";":
                chunks.append(_entry(words, comments, angle))
                words, comments, angle = [], [], None
            case ":" if angle is None:
                # What stood before is the name of a group.
                words = []
            case '"' if len(token) > 1:
                words.append(re.sub(r"\\(.)", r"\1", token[1:-1]))
            case "(" if len(token) > 1:
                comments.append(token[1:-1])
            case "<" if len(token) > 1:
                angle = token[1:-1]
            case _:
                words.append(token)
    return chunks


def _tokens(value: str) -> Iterator[str]:
    pattern, position = TOKEN, 0
    while found := pattern.match(value, position):
        position = found.end()
        if found[0] == '"':
            # It has no end, so none of the quotes behind it has one: they need not look for it.
            pattern = TOKEN_AFTER_OPEN_QUOTE
        yield found[0]


def _entry(words: list[str], comments: list[str], angle: str | None) -> tuple[str, str]:
    name = "".join(words).strip()
    if angle is not None:
        # A route before the address (`<@relay:ada@example.test>`) is obsolete and ignored.
        return name, angle.rpartition(":")[2]
    return " ".join(comments).strip(), name
