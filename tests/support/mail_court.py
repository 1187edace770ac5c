"""A verifier of senders and the DNS that it asks, for one signed mail of example.test."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

from muster.clients.mail.verify import Proof, Verifier
from tests.support.dns_server import DnsServer, dns_server
from tests.support.signed_mail import rsa_key

MAIL = (
    b"From: Ada <ada@example.test>\r\nTo: bo@home.test\r\nSubject: Hi\r\n"
    b"Date: Mon, 2 Mar 2026 10:00:00 +0000\r\nMessage-ID: <m1@example.test>\r\n\r\n"
    b"Hello  there \t\r\n\r\nNoon?\r\n\r\n\r\n"
)
KEY_NAME = "k1._domainkey.example.test"
KEY = rsa_key(1024)
NOW = int(time.time())
"""What the verifier takes for now: a test may be collected minutes before it runs."""


@attrs.frozen(kw_only=True)
class Court:
    """A verifier, and the DNS that it asks."""

    dns: DnsServer
    verifier: Verifier

    async def explain(self, raw: bytes) -> Proof:
        """What the verifier says."""
        proof = await self.verifier.explain(raw)
        assert proof.verified == await self.verifier(raw)
        assert proof.verified == (proof.address is not None)
        return proof

    async def refuse(self, raw: bytes, why: str) -> None:
        """Check that the mail is not proven, for this reason."""
        proof = await self.explain(raw)
        assert not proof.verified
        assert why in proof.reason


@asynccontextmanager
async def open_court() -> AsyncIterator[Court]:
    """Open a verifier whose DNS has one key of example.test."""
    async with dns_server() as dns:
        dns.put(KEY_NAME, KEY.record())
        yield Court(dns=dns, verifier=Verifier(resolver=dns.resolver(), clock=lambda: NOW))
