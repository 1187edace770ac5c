"""The proof by a signature: the arithmetic is dkimpy's, everything around it is decided here.

What we do not leave to the library: which signatures and keys count (signatures.py, keys.py), DNS,
and the body. The body is brought into its canonical form before, in linear time: the library's
own pattern for white space is quadratic, and its parser holds each line of a mail as an object.
A canonical body stays as it is when the library canonicalises it again.
"""

import re
from collections.abc import Sequence

import dkim
from dkim.asn1 import ASN1FormatError
from dkim.crypto import DigestTooLargeError, UnparsableKeyError

from muster.clients.mail.parts import PARSER_FAULTS
from muster.clients.mail.verify.head import Head, to_crlf
from muster.clients.mail.verify.keys import read_key
from muster.clients.mail.verify.proof import Doubt
from muster.clients.mail.verify.signatures import Signature

DKIM_FAULTS = (
    dkim.DKIMException, ASN1FormatError, DigestTooLargeError, UnparsableKeyError, ArithmeticError,
    *PARSER_FAULTS,
)  # fmt: skip
"""What the library raises on mail and keys that are broken enough."""

Keys = Sequence[tuple[Signature, tuple[bytes, ...] | Doubt]]


def prove_by_signature(head: Head, keys: Keys) -> str | Doubt:
    """The domain whose signature holds, or why none does; `keys` are what DNS said of each."""
    doubts: list[str] = []
    bodies: dict[bool, bytes] = {}
    for signature, records in keys:
        key = records if isinstance(records, Doubt) else read_key(records, signature)
        if isinstance(key, Doubt):
            doubts.append(key.reason)
            continue
        relaxed = signature.body_is_relaxed
        if relaxed not in bodies:
            bodies[relaxed] = canonical_body(head.body, relaxed=relaxed)
        if _holds(head.head, bodies[relaxed], signature, key):
            return signature.domain
        doubts.append(f"the signature of {signature.domain} does not hold")
    return Doubt(reason="; ".join(doubts) or "it has no signature of the From domain")


def canonical_body(body: bytes, *, relaxed: bool) -> bytes:
    """The body as it is hashed (RFC 6376 section 3.4), in one pass over it."""
    lines = to_crlf(body)
    if lines and not lines.endswith(b"\r\n"):
        lines += b"\r\n"
    if relaxed:
        lines = re.sub(rb"[ \t]+", b" ", lines).replace(b" \r\n", b"\r\n")
    # Blank lines at the end are none. A bare return is text: the ends begin after the last one.
    text = lines.rstrip(b"\r\n")
    bare = lines.rfind(b"\r\r", len(text))
    text = lines[: bare + 1] if bare >= 0 else text
    return text + b"\r\n" if text or not relaxed else b""


def _holds(head: bytes, body: bytes, signature: Signature, key: bytes) -> bool:
    def answer(_name: bytes, timeout: int = 5) -> bytes:  # noqa: ARG001 - the library passes it
        return key

    try:
        verifier = dkim.DKIM(head + b"\r\n", minkey=1024)
        verifier.body = body
        return verifier.verify(idx=signature.index, dnsfunc=answer) is True
    except DKIM_FAULTS:
        return False
