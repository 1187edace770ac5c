"""DKIM signatures as they are written, and which of them could prove a From domain.

Judged before anything is asked of DNS (RFC 6376 sections 3.5 and 6.1, RFC 8301, RFC 8463). Stricter
than the standard where it leaves a choice, for in doubt nothing is proven (plugins:
"sender_verified"):
- `l=` is refused: it leaves the end of the body to whoever forwards the mail;
- From must be signed, and so must a Subject that is there, which is shown as the sender's;
- the signature must be of the From domain's organisation, and in force now, to the second.
- a Content-Type that is not signed must leave all of the body to be seen. Large senders do not sign
  it, so it is not asked for; but whoever passes a mail on could make HTML of a text, whose quotes
  may hold the beginning of a comment, or choose a boundary that stands in a quote.
"""

import base64
import re
from email.message import Message
from email.policy import compat32

import attrs
from dkim.util import InvalidTagValueList, parse_tag_value

from muster.clients.mail.parts import PARSER_FAULTS
from muster.clients.mail.verify.alignment import are_aligned, ascii_domain
from muster.clients.mail.verify.head import Head
from muster.clients.mail.verify.proof import Doubt

SIGNATURES_MAX = 5
"""How many aligned signatures of one mail are tried."""

LOOKED_AT_MAX = 50
SIGNATURE_BYTES_MAX = 4 * 1024
BLANKS_MAX = 72
"""A longer run of white space in a signature is refused: the library's patterns backtrack."""

FUTURE_SECONDS_MAX = 300
"""How far a signer's clock may be ahead of ours."""

ALGORITHMS = {"rsa-sha256": "rsa", "ed25519-sha256": "ed25519"}
CANONICAL = frozenset({"simple", "relaxed"})
NEEDED = ("v", "a", "b", "bh", "d", "h", "s")
TAG_NAME = re.compile(rb"[A-Za-z][A-Za-z0-9_]*")
LONG_BLANK = re.compile(rb"[ \t\r\n\v\f]{%d}" % (BLANKS_MAX + 1))
SELECTOR = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,200}[A-Za-z0-9])?")
SECONDS = re.compile(r"[0-9]{1,12}")


@attrs.frozen(kw_only=True)
class Signature:
    """A signature that could prove the From domain, `index`-th of the mail's from the top.

    `domain` is the signer's, in ASCII; `same_identity` says that i= names it and no subdomain.
    """

    index: int
    domain: str
    selector: str
    key_type: str
    body_is_relaxed: bool
    body_hash: bytes
    same_identity: bool

    @property
    def key_name(self) -> str:
        """Where DNS has the signer's key."""
        return f"{self.selector}._domainkey.{self.domain}."


def find_signatures(
    head: Head, *, domain: str, now: float
) -> tuple[tuple[Signature, ...], tuple[Doubt, ...]]:
    """The aligned signatures to try, at most 5, and why the others are none."""
    good: list[Signature] = []
    doubts: list[Doubt] = []
    for index, field in enumerate(head.named("dkim-signature")[:LOOKED_AT_MAX]):
        if len(good) == SIGNATURES_MAX:
            doubts.append(Doubt(reason=f"only {SIGNATURES_MAX} signatures are tried"))
            break
        read = _read(field.value, index=index, head=head, from_domain=domain, now=now)
        if isinstance(read, Signature):
            good.append(read)
        else:
            doubts.append(read)
    return tuple(good), tuple(doubts)


def read_tags(raw: bytes) -> dict[str, str] | None:
    """The tags of a signature or a key record; None when it is no list of tags."""
    try:
        tags = parse_tag_value(raw)
        if not all(map(TAG_NAME.fullmatch, tags)):
            return None
        return {name.decode("ascii"): value.decode("utf-8") for name, value in tags.items()}
    except (InvalidTagValueList, ValueError, LookupError):
        return None


def _read(raw: bytes, *, index: int, head: Head, from_domain: str, now: float) -> Signature | Doubt:
    if len(raw) > SIGNATURE_BYTES_MAX or LONG_BLANK.search(raw):
        return Doubt(reason="a signature is too long")
    tags = read_tags(raw.replace(b"\r\n", b""))
    if tags is None or not all(tags.get(name) for name in NEEDED):
        return Doubt(reason="a signature can't be read")
    domain = ascii_domain(tags["d"])
    if domain is None:
        return Doubt(reason="a signature names no domain")
    if not are_aligned(domain, from_domain):
        return Doubt(reason=f"the signature of {domain} is not one of {from_domain}")
    identity = ascii_domain(tags.get("i", f"@{domain}").rpartition("@")[2])
    doubt = (
        _doubt_of_form(tags, domain=domain, identity=identity)
        or _doubt_of_fields(tags, head=head)
        or _doubt_of_time(tags, now=now)
    )
    if doubt is not None:
        return Doubt(reason=f"the signature of {domain} {doubt}")
    return Signature(
        index=index,
        domain=domain,
        selector=tags["s"],
        key_type=ALGORITHMS[tags["a"]],
        body_hash=_from_base64(tags["bh"]) or b"",
        body_is_relaxed=tags.get("c", "").partition("/")[2] == "relaxed",
        same_identity=identity == domain,
    )


def _doubt_of_form(tags: dict[str, str], *, domain: str, identity: str | None) -> str | None:
    if tags["v"] != "1":
        return "has another version than 1"
    if tags["a"] not in ALGORITHMS:
        return f"has an algorithm that proves nothing ({tags['a'][:40]})"
    if "l" in tags:
        return "covers only a part of the body (l=)"
    if tags.get("q", "dns/txt") != "dns/txt":
        return "has its key elsewhere than in DNS"
    ways = tags.get("c", "simple/simple").split("/")
    if len(ways) > 2 or not CANONICAL.issuperset(ways):
        return "has no canonical form that is known"
    if not SELECTOR.fullmatch(tags["s"]) or ".." in tags["s"]:
        return "has a selector that is none"
    if not (_from_base64(tags["b"]) and _from_base64(tags["bh"])):
        return "can't be read"
    if identity is None or not (identity == domain or identity.endswith(f".{domain}")):
        return "speaks for another domain (i=)"
    return None


def _doubt_of_fields(tags: dict[str, str], *, head: Head) -> str | None:
    signed = {name.strip().lower() for name in tags["h"].split(":")}
    for name in ("from", "subject"):
        if head.named(name) and name not in signed:
            return f"does not cover {name.title()}"
    if "content-type" not in signed and not _shows_all(head):
        return "does not cover Content-Type, which could hide a part of the body"
    return None


def _shows_all(head: Head) -> bool:
    """Whether a reader of this Content-Type reads the body from its first line to its last."""
    kind = Message(policy=compat32)
    for field in head.named("content-type"):
        kind["content-type"] = field.unfolded().decode("ascii", "surrogateescape")
    try:
        media_type, boundary = kind.get_content_type(), kind.get_boundary()
        line = b"--" + (boundary or "").encode("ascii", "surrogateescape")
    except PARSER_FAULTS:
        return False
    if media_type == "text/plain":
        return True
    first = head.body.partition(b"\n")[0].rstrip(b" \t\r")
    last = head.body.rstrip(b" \t\r\n").rpartition(b"\n")[2]
    return (
        bool(boundary)
        and media_type.startswith("multipart/")
        and (first, last) == (line, line + b"--")
    )


def _doubt_of_time(tags: dict[str, str], *, now: float) -> str | None:
    times = {name: tags[name] for name in ("t", "x") if name in tags}
    if not all(map(SECONDS.fullmatch, times.values())):
        return "has a time that is none"
    if int(times.get("t", 0)) > now + FUTURE_SECONDS_MAX:
        return "is from the future (t=)"
    if "x" in times and int(times["x"]) <= now:
        return "has expired (x=)"
    if "x" in times and int(times["x"]) < int(times.get("t", 0)):
        return "expired before it was made (x=)"
    return None


def _from_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        return None
