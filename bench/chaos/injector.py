"""Puts mails into mailboxes by IMAP's APPEND, as another mail program would, until each is taken.

A mail whose APPEND was not answered is appended once more, byte for byte the same: it is one mail
then, however often it lies in the box.
"""

import hashlib
import random
from functools import partial

import attrs
import imapclient
import trio
from imapclient.exceptions import IMAPClientError, LoginError

from bench.chaos.children import ChaosError
from bench.chaos.ledger import Ledger, What
from bench.chaos.texts import make_message

AGAIN_SECONDS = 0.5
ANSWER_SECONDS = 10.0


@attrs.frozen(kw_only=True)
class Mailbox:
    """One account at the IMAP server, which the plugin `plugin` reads."""

    user: str
    plugin: str
    port: int
    password: str = attrs.field(repr=False)

    async def inject(self, number: int, ledger: Ledger) -> None:
        """Put mail `number` into the inbox; returns once the server took it."""
        mail = make_mail(self.user, number)
        # What the plugin will call it: the digest of all its bytes.
        external_id = hashlib.sha256(mail).hexdigest()
        ledger.write(What.INTENT, self.plugin, external_id=external_id, detail=message_id(mail))
        while True:
            try:
                await trio.to_thread.run_sync(partial(self._append, mail))
            except LoginError as error:
                raise ChaosError(f"{self.user} cannot log in: {error}") from error
            except (OSError, IMAPClientError):
                await trio.sleep(AGAIN_SECONDS)
            else:
                ledger.write(What.INJECTED, self.plugin, external_id=external_id)
                return

    async def inject_all(
        self, count: int, every_seconds: float, ledger: Ledger, chance: random.Random
    ) -> None:
        """Put so many mails in, one now and then."""
        for number in range(count):
            await trio.sleep(chance.uniform(0, 2 * every_seconds))
            await self.inject(number, ledger)

    def _append(self, mail: bytes) -> None:
        with imapclient.IMAPClient(
            "127.0.0.1", port=self.port, ssl=False, timeout=ANSWER_SECONDS
        ) as client:
            client.login(self.user, self.password)
            client.append("INBOX", mail)


def make_mail(user: str, number: int) -> bytes:
    """The mail of this number, the same whenever it is asked for."""
    message = make_message(f"{user}-{number}")
    return (
        f"From: Bo <bo@away.test>\r\nTo: {user}@home.test\r\n"
        f"Subject: {message.subject} {number}\r\nMessage-ID: <m{number}.{user}@away.test>\r\n"
        f"Date: Mon, 02 Mar 2026 10:00:00 +0000\r\n\r\nMail {number}. {message.body}\r\n"
    ).encode("ascii")


def message_id(mail: bytes) -> str:
    """The Message-ID of a mail that `make_mail` made."""
    return mail.split(b"Message-ID: ", 1)[1].split(b"\r\n", 1)[0].decode("ascii")
