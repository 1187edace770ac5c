"""A push as the request that each kind of device takes.

browser  Web Push: the note as JSON, encrypted for the browser (RFC 8291), under this muster's key
         (VAPID, RFC 8292). Every body has the same length, and the topic is the tag: so the push
         service learns when an owner is told something, and of which draft no more than a number.
         The service worker shows the note, or closes the one of the same tag.
ntfy     the note as JSON to the server's root; its tag is the sequence id, so that a repeat
         replaces the first (ntfy 2.16 and newer; an older one shows both). Closed by
         `PUT /<topic>/<sequence id>/clear`.
webhook  `{"event": "show" | "clear", "kind", "id", "tag", "title", "body", "url"}` with

             Muster-Delivery    the push's id: a repeat has the same
             Muster-Timestamp   seconds since 1970
             Muster-Signature   v1=<hex of HMAC-SHA256 over "<timestamp>.<body>">

         under the secret that was shown once. Take a request only if its timestamp is young.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Final, assert_never
from urllib.parse import urlsplit

import attrs
import http_ece
import py_vapid
from cryptography.hazmat.primitives.asymmetric import ec

from muster.push.operations import Taken
from muster.push.rules.devices import Device, Sink
from muster.push.store.devices import PushKey

BODY_BYTES: Final = 512
TTL_SECONDS: Final = 24 * 3600
TOKEN_SECONDS: Final = 12 * 3600


@attrs.frozen(kw_only=True)
class Outgoing:
    """One request; nothing of it is shown to anybody but its receiver."""

    method: str
    url: str
    headers: Mapping[str, str] = attrs.field(repr=False)
    body: bytes = attrs.field(repr=False)


def make_request(taken: Taken, key: PushKey, public_url: str) -> Outgoing:
    """The request that shows the note of a push, or closes it."""
    match taken.device.sink:
        case Sink.BROWSER:
            return _to_browser(taken, key, public_url)
        case Sink.NTFY:
            return _to_ntfy(taken, taken.device, public_url)
        case Sink.WEBHOOK:
            return _to_webhook(taken, taken.device, public_url)
        case _:
            assert_never(taken.device.sink)


def _to_browser(taken: Taken, key: PushKey, public_url: str) -> Outgoing:
    device, note = taken.device, taken.note
    shown = {"do": "show", "tag": note.tag, "title": note.title, "body": note.body}
    shown |= {"path": note.path}
    members = {"do": "clear", "tag": note.tag} if taken.clears else shown
    # JSON may end in blanks: all notes have one length.
    plain = json.dumps(members).encode().ljust(BODY_BYTES)
    body: bytes = http_ece.encrypt(
        plain,
        private_key=ec.generate_private_key(ec.SECP256R1()),
        dh=device.p256dh,
        auth_secret=device.auth,
        version="aes128gcm",
    )
    headers = {
        "TTL": str(TTL_SECONDS),
        "Topic": note.tag,
        "Urgency": "high" if note.urgent and not taken.clears else "normal",
        "Content-Encoding": "aes128gcm",
        "Content-Type": "application/octet-stream",
        "Authorization": _vapid(taken, key, public_url),
    }
    return Outgoing(method="POST", url=device.url, headers=headers, body=body)


def _vapid(taken: Taken, key: PushKey, public_url: str) -> str:
    """The proof that this push comes from the muster that the browser subscribed to."""
    private = ec.derive_private_key(int.from_bytes(key.private_key, "big"), ec.SECP256R1())
    parts = urlsplit(taken.device.url)
    host = urlsplit(public_url).hostname or "localhost"
    claims = {
        "aud": f"{parts.scheme}://{parts.netloc}",
        "exp": int(taken.now.timestamp()) + TOKEN_SECONDS,
        # Whom the push service may turn to. The owner's own address is none of its business.
        "sub": public_url if public_url.startswith("https:") else f"mailto:muster@{host}",
    }
    # Its check of `sub` knows no address with a port.
    signer = py_vapid.Vapid02(private, conf={"no-strict": True})
    header: str = signer.sign(claims)["Authorization"]
    return header


def _to_ntfy(taken: Taken, device: Device, public_url: str) -> Outgoing:
    note = taken.note
    headers = {"Content-Type": "application/json"}
    if device.secret is not None:
        headers["Authorization"] = f"Bearer {device.secret}"
    if taken.clears:
        url = f"{device.url}/{device.topic}/{note.tag}/clear"
        return Outgoing(method="PUT", url=url, headers=headers, body=b"")
    members = {
        "topic": device.topic,
        "title": note.title,
        "message": note.body,
        "click": f"{public_url}{note.path}",
        "priority": 4 if note.urgent else 3,
        "sequence_id": note.tag,
    }
    return Outgoing(
        method="POST", url=f"{device.url}/", headers=headers, body=json.dumps(members).encode()
    )


def _to_webhook(taken: Taken, device: Device, public_url: str) -> Outgoing:
    note = taken.note
    members: dict[str, object] = {
        "event": "clear" if taken.clears else "show",
        "kind": taken.kind.value,
        "id": taken.item_id,
        "tag": note.tag,
        "url": f"{public_url}{note.path}",
    }
    if not taken.clears:
        members |= {"title": note.title, "body": note.body}
    body = json.dumps(members).encode()
    timestamp = str(int(taken.now.timestamp()))
    headers = {
        "Content-Type": "application/json",
        "Muster-Delivery": str(taken.delivery_id),
        "Muster-Timestamp": timestamp,
        "Muster-Signature": f"v1={sign(device.secret or '', timestamp, body)}",
    }
    return Outgoing(method="POST", url=device.url, headers=headers, body=body)


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """The signature of a webhook's request, in hex."""
    signed = timestamp.encode() + b"." + body
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
