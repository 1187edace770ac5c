"""Keys and DKIM signatures of the tests' own, with every fault that a signer can make.

The canonical forms are typed from RFC 6376 and not taken from the library that is tested by them.
"""

import base64
import hashlib
import itertools
import random
import re
from collections.abc import Mapping, Sequence
from functools import cache

import attrs
import nacl.signing
from dkim.crypto import RSASSA_PKCS1_v1_5_sign

SIGNED = ("from", "to", "subject", "date", "message-id")
# The object id of rsaEncryption and its NULL.
RSA_ALGORITHM = bytes.fromhex("300d06092a864886f70d0101010500")


@attrs.frozen(kw_only=True)
class Key:
    """A signer's key: what DNS is told of it, and how it signs a digest."""

    kind: str
    public: bytes
    rsa: Mapping[str, int] | None = None
    ed25519: nacl.signing.SigningKey | None = None

    def record(self, **tags: str | None) -> bytes:
        """The key record; `tags` change it, and None leaves one out."""
        given = {"v": "DKIM1", "k": self.kind, "p": base64.b64encode(self.public).decode()}
        return "; ".join(
            f"{name}={value}" for name, value in (given | tags).items() if value is not None
        ).encode()

    def pem(self) -> bytes:
        """The private RSA key in the text form that the library signs with."""
        assert self.rsa is not None
        raw = _der(0x30, _integer(0) + b"".join(map(_integer, self.rsa.values())))
        return b"--\n" + base64.encodebytes(raw) + b"--"

    def sign(self, raw: bytes, algorithm: str) -> bytes:
        """The signature of these bytes."""
        if self.ed25519 is not None:
            return bytes(self.ed25519.sign(hashlib.sha256(raw).digest()).signature)
        hasher = hashlib.sha1 if algorithm.endswith("sha1") else hashlib.sha256
        return bytes(RSASSA_PKCS1_v1_5_sign(hasher(raw), self.rsa))


@cache
def rsa_key(bits: int, seed: int = 1, exponent: int = 65537) -> Key:
    """An RSA key of exactly this length, the same one for the same seed."""
    numbers = random.Random(f"{bits} {seed}")
    while True:
        p = _prime(numbers, bits - bits // 2)
        q = _prime(numbers, bits // 2)
        modulus, order = p * q, (p - 1) * (q - 1)
        if modulus.bit_length() == bits and p != q and order % exponent:
            break
    secret = pow(exponent, -1, order)
    return Key(
        kind="rsa",
        public=_spki(modulus, exponent),
        rsa={
            "modulus": modulus, "publicExponent": exponent, "privateExponent": secret,
            "prime1": p, "prime2": q, "exponent1": secret % (p - 1), "exponent2": secret % (q - 1),
            "coefficient": pow(q, -1, p),
        },
    )  # fmt: skip


def rsa_public(modulus: int, exponent: int) -> Key:
    """A key that signs nothing, for records that nobody should take."""
    return Key(kind="rsa", public=_spki(modulus, exponent))


@cache
def ed25519_key(seed: int = 1) -> Key:
    """An Ed25519 key, the same one for the same seed."""
    signing = nacl.signing.SigningKey(bytes([seed]) * 32)
    return Key(kind="ed25519", public=bytes(signing.verify_key), ed25519=signing)


def sign_mail(
    raw: bytes, key: Key, *, signed: Sequence[str] = SIGNED, form: str = "relaxed/relaxed",
    body_bytes: int | None = None, **tags: str | None
) -> bytes:  # fmt: skip
    """The mail, which has CRLF ends, with a signature on top.

    `tags` change those of the signature and None leaves one out; `body_bytes` is how much of the
    body is hashed, whatever l= says.
    """
    head, _, body = raw.partition(b"\r\n\r\n")
    fields = []
    for field in re.split(rb"\r\n(?![ \t])", head):
        name, _, value = field.partition(b":")
        fields.append((name, value + b"\r\n"))
    ways = form.split("/")
    hashed = canonical(body, ways[1])[:body_bytes]
    given: dict[str, str | None] = {
        "v": "1", "a": "rsa-sha256" if key.kind == "rsa" else "ed25519-sha256", "c": form,
        "d": "example.test", "s": "k1", "h": ":".join(signed),
        "bh": base64.b64encode(hashlib.sha256(hashed).digest()).decode(),
    }  # fmt: skip
    algorithm = str((given | tags)["a"])
    if algorithm.endswith("sha1"):
        given["bh"] = base64.b64encode(hashlib.sha1(hashed).digest()).decode()
    told = "; ".join(f"{k}={v}" for k, v in (given | tags).items() if v is not None)
    value = f" {told};\r\n\tb=".encode()
    chosen = []
    left = list(fields)
    for name in str((given | tags)["h"] or "").lower().split(":"):
        for index in range(len(left) - 1, -1, -1):
            if left[index][0].lower().decode() == name.strip():
                chosen.append(left.pop(index))
                break
    covered = b"".join(_field(name, text, ways[0]) for name, text in chosen)
    covered += _field(b"DKIM-Signature", value + b"\r\n", ways[0]).removesuffix(b"\r\n")
    made = base64.b64encode(key.sign(covered, algorithm))
    return b"DKIM-Signature:" + value + made + b"\r\n" + raw


def canonical(body: bytes, way: str) -> bytes:
    """A body's canonical form, line by line."""
    lines = body.split(b"\r\n")
    if way == "relaxed":
        lines = [re.sub(rb"[ \t]+", b" ", line).rstrip(b" ") for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        return b"" if way == "relaxed" else b"\r\n"
    return b"".join(line + b"\r\n" for line in lines)


def _field(name: bytes, value: bytes, way: str) -> bytes:
    if way == "simple":
        return name + b":" + value
    text = re.sub(rb"[ \t]+", b" ", value.replace(b"\r\n", b"")).strip(b" ")
    return name.lower() + b":" + text + b"\r\n"


def _prime(numbers: random.Random, bits: int) -> int:
    while True:
        one = numbers.getrandbits(bits) | 1 | 3 << (bits - 2)
        if all(one % small for small in _small_primes()) and all(
            _is_probable(one, numbers.randrange(2, one - 1)) for _ in range(8)
        ):
            return one


@cache
def _small_primes() -> tuple[int, ...]:
    return tuple(n for n in range(3, 2000, 2) if all(n % d for d in range(3, int(n**0.5) + 1, 2)))


def _is_probable(number: int, base: int) -> bool:
    """One round of Miller and Rabin."""
    twos = next(count for count in itertools.count() if (number - 1) >> count & 1)
    power = pow(base, (number - 1) >> twos, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False


def _spki(modulus: int, exponent: int) -> bytes:
    key = _der(0x30, _integer(modulus) + _integer(exponent))
    return _der(0x30, RSA_ALGORITHM + _der(0x03, b"\0" + key))


def _integer(number: int) -> bytes:
    return _der(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _der(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    size = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(size)]) + size + content
