"""A push service of the tests' own on loopback, which takes what browsers, ntfy and hooks are sent.

It does what the real ones cannot be asked to do in a test: it checks who sends (VAPID), opens what
was encrypted for the browser, and fails where a script says so.
"""

import base64
import enum
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import attrs
import h11
import http_ece
import trio
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from muster.push.rules.devices import AddBrowser
from tests.support.loopback import encode_answer, read_request, reset_when_closed, serving
from tests.support.waiting import until


class Step(enum.Enum):
    """What goes wrong with one request."""

    RESET = "taken, then the connection is reset"
    HANG = "taken, and never answered"


@attrs.frozen(kw_only=True)
class Answer:
    """An answer of the script's own."""

    status: int
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: bytes = b""


TAKEN = Answer(status=201)


@attrs.frozen(kw_only=True)
class Request:
    """What arrived; headers in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body of one that is not encrypted."""
        decoded: dict[str, Any] = json.loads(self.body)
        return decoded


@attrs.define(kw_only=True)
class PushService:
    """The state that tests look at. Each request that is not scripted is answered 201."""

    port: int = 0
    requests: list[Request] = attrs.field(factory=list)
    script: deque[Step | Answer] = attrs.field(factory=deque)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def received(self, count: int, seconds: float = 10.0) -> list[Request]:
        """Wait until so many requests came, and no more are there."""
        await until(lambda: len(self.requests) >= count, seconds)
        assert len(self.requests) == count, self.requests
        return list(self.requests)


@attrs.frozen(kw_only=True)
class Browser:
    """A browser's side of a subscription: the endpoint, and the keys that only it holds."""

    endpoint: str
    origin: str
    private_key: ec.EllipticCurvePrivateKey = attrs.field(
        factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    auth: bytes = bytes(range(16))

    @property
    def subscription(self) -> AddBrowser:
        """What it gives to the page."""
        point = self.private_key.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )
        return AddBrowser(
            name="Firefox on the desk",
            url=self.endpoint,
            p256dh=encode(point),
            auth=encode(self.auth),
        )

    def open(self, request: Request, public_key: bytes) -> dict[str, Any]:
        """The note of a push that this browser's subscription with that key takes."""
        assert request.headers["content-encoding"] == "aes128gcm"
        assert 0 < int(request.headers["ttl"]) <= 7 * 24 * 3600
        check_vapid(request.headers["authorization"], public_key, audience=self.origin)
        plain: bytes = http_ece.decrypt(
            request.body,
            private_key=self.private_key,
            auth_secret=self.auth,
            version="aes128gcm",
        )
        decoded: dict[str, Any] = json.loads(plain)
        return decoded


def check_vapid(header: str, public_key: bytes, *, audience: str) -> None:
    """Refuse a push as RFC 8292 has it: another key, a bad signature, audience or expiry."""
    scheme, _, rest = header.partition(" ")
    assert scheme.lower() == "vapid"
    members = dict(part.strip().split("=", 1) for part in rest.split(","))
    assert decode(members["k"]) == public_key
    signed, _, signature = members["t"].rpartition(".")
    raw = decode(signature)
    assert len(raw) == 64
    der = utils.encode_dss_signature(
        int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
    )
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), public_key)
    key.verify(der, signed.encode(), ec.ECDSA(hashes.SHA256()))
    head, claims = (json.loads(decode(part)) for part in signed.split("."))
    assert head["alg"] == "ES256"
    assert claims["aud"] == audience
    assert claims["sub"].startswith(("mailto:", "https://"))
    ends = datetime.fromtimestamp(claims["exp"], UTC) - datetime.now(UTC)
    assert timedelta() < ends <= timedelta(hours=24)


def encode(raw: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """Bytes out of base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def browser_of(service: PushService, name: str = "desk") -> Browser:
    """A browser whose push service this is."""
    return Browser(endpoint=f"{service.url}/push/{name}", origin=service.url)


@asynccontextmanager
async def push_service() -> AsyncIterator[PushService]:
    """Serve on a free port of 127.0.0.1 until the block ends."""
    service = PushService()
    async with serving(partial(_serve, service)) as service.port:
        yield service


async def _serve(service: PushService, stream: trio.SocketStream) -> None:
    async with stream:
        connection = h11.Connection(h11.SERVER)
        try:
            while await _serve_one(service, stream, connection):
                connection.start_next_cycle()
        except (trio.BrokenResourceError, h11.RemoteProtocolError):
            return


async def _serve_one(
    service: PushService, stream: trio.SocketStream, connection: h11.Connection
) -> bool:
    """Answer one request; False when the connection is over."""
    read = await read_request(stream, connection)
    if read is None:
        return False
    head, body = read
    headers = {name.decode().lower(): value.decode() for name, value in head.headers}
    service.requests.append(
        Request(method=head.method.decode(), path=head.target.decode(), headers=headers, body=body)
    )
    step = service.script.popleft() if service.script else TAKEN
    match step:
        case Step.RESET:
            reset_when_closed(stream.socket)
            return False
        case Step.HANG:
            await trio.sleep_forever()
        case Answer():
            answer = encode_answer(connection, step.status, step.headers.items(), step.body)
            await stream.send_all(answer)
    return connection.our_state is h11.DONE
