"""The proof by a signature: the arithmetic is dkimpy's, everything around it is decided here.

What we do not leave to the library: which signatures and keys count (signatures.py, keys.py), DNS,
and the body. The library's own canonical body takes a hundred bytes of memory for each blank of a
mail, its pattern for trailing white space is quadratic, and its parser holds each line as an
object. Here the body is canonicalised and hashed once for all signatures, in a few passes over it,
and the library only sees the header.
"""

import hashlib
from collections.abc import Mapping, Sequence

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
    hashes: dict[bool, bytes] = {}
    for signature, records in keys:
        key = records if isinstance(records, Doubt) else read_key(records, signature)
        if isinstance(key, Doubt):
            doubts.append(key.reason)
            continue
        relaxed = signature.body_is_relaxed
        if relaxed not in hashes:
            hashes[relaxed] = hashlib.sha256(canonical_body(head.body, relaxed=relaxed)).digest()
        if hashes[relaxed] == signature.body_hash and _holds(head.head, signature, key):
            return signature.domain
        doubts.append(f"the signature of {signature.domain} does not hold")
    return Doubt(reason="; ".join(doubts) or "it has no signature of the From domain")


def canonical_body(body: bytes, *, relaxed: bool) -> bytes:
    """The body as it is hashed (RFC 6376 section 3.4), in time and memory linear in its length."""
    lines = to_crlf(body)
    if lines and not lines.endswith(b"\r\n"):
        lines += b"\r\n"
    if relaxed:
        lines = lines.replace(b"\t", b" ")
        # Each pass halves the longest run of blanks.
        while b"  " in lines:
            lines = lines.replace(b"  ", b" ")
        lines = lines.replace(b" \r\n", b"\r\n")
    # Blank lines at the end are none. A bare return is text: the ends begin after the last one.
    text = lines.rstrip(b"\r\n")
    bare = lines.rfind(b"\r\r", len(text))
    text = lines[: bare + 1] if bare >= 0 else text
    return text + b"\r\n" if text or not relaxed else b""


class HeaderVerifier(dkim.DKIM):  # type: ignore[misc]
    """Checks what a signature says of the header; the body's hash was compared before.

    Without bh= the library passes over the body, as it does for seals that have none.
    """

    def verify_sig_process(
        self,
        sig: Mapping[bytes, bytes],
        include_headers: list[bytes],
        sig_header: tuple[bytes, bytes],
        dnsfunc: object,
    ) -> bool:
        """Whether the signature holds, but for the body."""
        without = {name: value for name, value in sig.items() if name != b"bh"}
        return super().verify_sig_process(without, include_headers, sig_header, dnsfunc) is True


def _holds(head: bytes, signature: Signature, key: bytes) -> bool:
    """Whether the header is as it was signed; its bh= was read from the same field."""

    def answer(_name: bytes, timeout: int = 5) -> bytes:  # noqa: ARG001 - the library passes it
        return key

    try:
        verifier = HeaderVerifier(head + b"\r\n", minkey=1024)
        return verifier.verify(idx=signature.index, dnsfunc=answer) is True
    except DKIM_FAULTS:
        return False
