"""The key record of a signer, and whether it may prove anything (RFC 6376 section 3.6.1).

RSA keys of 1,024 bits are taken, as RFC 8301 section 3.2 demands of a verifier, since many domains
have no longer ones yet; shorter ones can be broken by anybody. Keys and exponents beyond what a
signer has reason to use are refused, because checking them takes as long as their owner likes.
A key that its owner only tests (`t=y`) proves nothing: such a mail is to be treated as unsigned.
"""

import base64
from collections.abc import Mapping

from dkim.crypto import UnparsableKeyError, parse_public_key

from muster.clients.mail.parts import PARSER_FAULTS
from muster.clients.mail.verify.proof import Doubt
from muster.clients.mail.verify.signatures import Signature, read_tags

RECORD_BYTES_MAX = 8 * 1024
RSA_BITS_MIN = 1024
RSA_BITS_MAX = 8192
EXPONENT_MAX = 2**33
ED25519_BYTES = 32


def read_key(records: tuple[bytes, ...], signature: Signature) -> bytes | Doubt:
    """The key that DNS has under the signature's name, or why what is there is none.

    Returned as a record with nothing in it but the key: the library, which takes it, has its own
    mind about the other tags.
    """
    if len(records) != 1:
        # Which of several counts is undefined (section 3.6.2.2).
        return Doubt(reason=f"{signature.key_name} has {len(records)} records and not one")
    tags = read_tags(records[0]) if len(records[0]) <= RECORD_BYTES_MAX else None
    reason = _reason(tags or {}, signature)
    if reason is not None:
        return Doubt(reason=f"the key at {signature.key_name} {reason}")
    assert tags is not None, "a record without tags has a reason"
    return f"v=DKIM1; k={signature.key_type}; p={''.join(tags['p'].split())}".encode("ascii")


def _reason(tags: Mapping[str, str], signature: Signature) -> str | None:
    if "p" not in tags or tags.get("v", "DKIM1") != "DKIM1":
        return "can't be read"
    if not tags["p"]:
        return "is revoked"
    if tags.get("k", "rsa") != signature.key_type:
        return "is of another kind than the signature"
    flags = _listed(tags.get("t", ""))
    if "y" in flags:
        return "is only being tested (t=y)"
    if "s" in flags and not signature.same_identity:
        return "allows no subdomain in i= (t=s)"
    if "sha256" not in _listed(tags.get("h", "sha256")):
        return "does not allow SHA-256"
    if not _listed(tags.get("s", "*")) & {"*", "email"}:
        return "is not for mail"
    try:
        raw = base64.b64decode("".join(tags["p"].split()), validate=True)
    except ValueError:
        return "can't be read"
    if signature.key_type == "ed25519":
        return None if len(raw) == ED25519_BYTES else "can't be read"
    return _rsa_reason(raw)


def _rsa_reason(raw: bytes) -> str | None:
    try:
        key = parse_public_key(raw)
        bits, exponent = key["modulus"].bit_length(), key["publicExponent"]
    except (UnparsableKeyError, *PARSER_FAULTS):
        return "can't be read"
    if bits < RSA_BITS_MIN:
        return f"is too weak: {bits} bits"
    if bits > RSA_BITS_MAX or not (3 <= exponent < EXPONENT_MAX and exponent % 2):
        return "is none that mail is signed with"
    return None


def _listed(text: str) -> set[str]:
    return {one.strip() for one in text.split(":")}
