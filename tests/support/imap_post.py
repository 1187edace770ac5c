"""The mail plugin on an IMAP account of the tests' own, with a muster to post to."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import trio

from muster.clients.mail.program import run_mail
from muster.clients.mail.settings import FromImap, Since, ToMaildir
from muster.clients.mail.settings import MailServer as Account
from tests.support.scripted_server import MESSAGES, TOKEN, ScriptedServer
from tests.support.waiting import until


def mail(number: int, *, size_bytes: int = 0) -> bytes:
    """A mail that is like no other."""
    head = (
        f"From: Bo <bo@x.test>\r\nTo: ada@home.test\r\nSubject: Mail {number}\r\n"
        f"Message-ID: <m{number}@x.test>\r\n\r\nThis is mail {number}.\r\n"
    ).encode()
    line = b"x" * 70 + b"\r\n"
    return head + line * ((size_bytes - len(head)) // len(line) + 1) * (size_bytes > 0)


def external_id(raw: bytes) -> str:
    """What muster knows a mail by."""
    return hashlib.sha256(raw).hexdigest()


@attrs.define(kw_only=True)
class ImapPost:
    """One account, one state folder, one muster."""

    server: ScriptedServer
    account: Account
    folder: Path
    folders: tuple[str, ...] = ("INBOX",)
    since: Since = None
    poll_seconds: float = 60.0
    notes: list[str] = attrs.field(factory=list)

    async def run(self, *, once: bool) -> int:
        """Run the plugin to its end."""
        return await run_mail(
            url=self.server.url,
            token=TOKEN,
            incoming=FromImap(
                server=self.account,
                folders=self.folders,
                since=self.since,
                poll_seconds=self.poll_seconds,
            ),
            outgoing=ToMaildir(folder=self.folder / "out"),
            state_folder=self.folder / "state",
            once=once,
            patience_seconds=1,
            poll_seconds=0.05,
            note=self.notes.append,
        )

    async def once(self) -> int:
        """Run the plugin until there is nothing to do."""
        with trio.fail_after(30):
            return await self.run(once=True)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the plugin until the block ends."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(self.run, once=False))
            yield
            nursery.cancel_scope.cancel()

    def posted(self) -> list[str]:
        """The subjects that muster has, in the order in which they came."""
        return [message["subject"] for message in self.server.messages.values()]

    async def has_more_than(self, count: int) -> None:
        """Wait until muster has more than so many mails."""
        await until(lambda: len(self.server.messages) > count, 20)

    def post_count(self) -> int:
        """How often a mail was posted, repeats included."""
        return len(self.server.asked(MESSAGES))

    def told(self, words: str) -> int:
        """How many notes say this."""
        return sum(words in note for note in self.notes)
