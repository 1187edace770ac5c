"""A real IMAP server for tests: Debian's dovecot as a child (bench/dovecot.py).

With and without TLS. Any user logs in with PASSWORD; each has a Maildir of their own. Mail gets
into a folder by `append`, which is IMAP and so gives it a UID at once and an INTERNALDATE of the
test's choice.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import imapclient
import pytest

from bench import dovecot
from bench.ports import free_port
from tests.support.certificate import make_certificate

PASSWORD = "öffne-dich"


@attrs.define(kw_only=True)
class Dovecot(dovecot.Dovecot):
    """One dovecot over its lives."""

    def tls(self) -> ssl.SSLContext:
        """A context that trusts its certificate alone."""
        return make_certificate().client_context()

    def client(self, user: str) -> imapclient.IMAPClient:
        """Another mail program of this user, logged in; blocking, and the test's to close."""
        client = imapclient.IMAPClient("127.0.0.1", port=self.port, ssl=False, timeout=20)
        client.plain_login(user, PASSWORD)
        return client

    def append(
        self, user: str, *mails: bytes, folder: str = "INBOX", at: datetime | None = None
    ) -> None:
        """Put mails into a folder; `at` is their INTERNALDATE, now when it is None."""
        with self.client(user) as client:
            for mail in mails:
                client.append(folder, mail, msg_time=at)

    def flags(self, user: str, folder: str = "INBOX") -> dict[int, tuple[bytes, ...]]:
        """The flags of each UID in a folder, but for the one that says it is recent."""
        with self.client(user) as client:
            client.select_folder(folder, readonly=True)
            found = client.get_flags(client.search())
        return {uid: tuple(f for f in flags if f != rb"\Recent") for uid, flags in found.items()}


def skip_without_dovecot() -> None:
    """Skip the test where dovecot can't be run."""
    if reason := dovecot.why_no_dovecot():
        pytest.skip(reason)


@asynccontextmanager
async def running_dovecot() -> AsyncIterator[Dovecot]:
    """Run a dovecot until the block ends; the test is skipped where there can be none."""
    skip_without_dovecot()
    with TemporaryDirectory() as name:
        async with dovecot.running_dovecot(
            Dovecot,
            port=free_port(),
            tls_port=free_port(),
            password=PASSWORD,
            certificate=make_certificate().write(Path(name)),
        ) as server:
            yield server
