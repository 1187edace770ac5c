"""An authenticator in software: it makes passkeys and answers with them, also wrongly on purpose.

It reads the options of a page as a browser would, and leaves out what a browser would refuse: the
faults are what a server has to find by itself.
"""

import hashlib
import json
import secrets
from typing import Any

import attrs
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from webauthn.helpers import base64url_to_bytes, bytes_to_base64url, encode_cbor

_PRESENT, _VERIFIED, _ATTESTED = 0x01, 0x04, 0x40


@attrs.frozen(kw_only=True)
class Faults:
    """What is wrong with an answer; without any it is right."""

    origin: str | None = None  # of another page
    host: str | None = None  # of another site
    unverified: bool = False
    absent: bool = False
    challenge: bytes | None = None
    kind: str | None = None
    count: int | None = None
    handle: bytes | None = None
    other_key: bool = False


RIGHT = Faults()


@attrs.define(kw_only=True)
class Authenticator:
    """One that keeps a single passkey; `counts` tells whether it counts its answers."""

    origin: str
    counts: bool = True
    credential_id: bytes = attrs.field(factory=lambda: secrets.token_bytes(32))
    count: int = 0
    handle: bytes = b""
    _key: ec.EllipticCurvePrivateKey = attrs.field(
        factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    def make(self, options: dict[str, Any], faults: Faults = RIGHT) -> str:
        """The answer to creation options: a new passkey, without attestation."""
        self.handle = base64url_to_bytes(options["user"]["id"])
        numbers = self._key.public_key().public_numbers()
        key = {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32), -3: numbers.y.to_bytes(32)}
        attested = (
            bytes(16)
            + len(self.credential_id).to_bytes(2)
            + self.credential_id
            + encode_cbor(key)
        )
        data = self._data(options["rp"]["id"], faults, flags=_ATTESTED) + attested
        statement = encode_cbor({"fmt": "none", "attStmt": {}, "authData": data})
        client = self._client(options, "webauthn.create", faults)
        return self._answer(
            clientDataJSON=bytes_to_base64url(client),
            attestationObject=bytes_to_base64url(statement),
        )

    def use(self, options: dict[str, Any], faults: Faults = RIGHT) -> str:
        """The answer to request options."""
        if self.counts:
            self.count += 1
        data = self._data(options["rpId"], faults)
        client = self._client(options, "webauthn.get", faults)
        key = ec.generate_private_key(ec.SECP256R1()) if faults.other_key else self._key
        signature = key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        handle = self.handle if faults.handle is None else faults.handle
        return self._answer(
            clientDataJSON=bytes_to_base64url(client),
            authenticatorData=bytes_to_base64url(data),
            signature=bytes_to_base64url(signature),
            userHandle=bytes_to_base64url(handle),
        )

    def _data(self, host: str, faults: Faults, *, flags: int = 0) -> bytes:
        flags |= (0 if faults.absent else _PRESENT) | (0 if faults.unverified else _VERIFIED)
        count = self.count if faults.count is None else faults.count
        sha256 = hashlib.sha256((faults.host or host).encode()).digest()
        return sha256 + bytes([flags]) + count.to_bytes(4)

    def _client(self, options: dict[str, Any], kind: str, faults: Faults) -> bytes:
        challenge = faults.challenge or base64url_to_bytes(options["challenge"])
        return json.dumps(
            {
                "type": faults.kind or kind,
                "challenge": bytes_to_base64url(challenge),
                "origin": faults.origin or self.origin,
                "crossOrigin": False,
            }
        ).encode()

    def _answer(self, **response: str) -> str:
        name = bytes_to_base64url(self.credential_id)
        return json.dumps(
            {
                "id": name,
                "rawId": name,
                "type": "public-key",
                "response": response,
                "clientExtensionResults": {},
            }
        )
