"""The mails of a Maildir, as a source of the SDK.

It reads a file, parses it, keeps what a reply will need, and moves its cursor past the file only
after muster answered.
"""

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import trio

from muster.clients.mail.maildir import MailFile, list_mail, read_mail
from muster.clients.mail.parse import InboundMail
from muster.clients.mail.reading import Reading
from muster.clients.mail.state import FileState, MailState
from muster.clients.plugin import Message, Posted, RefusedError

BATCH_COUNT = 500
"""How many files one look at the inbox takes on; each is read only when it is its turn."""

UNREADABLE_MAX = 1000
"""How many files that can't be read are told apart from new trouble."""


@attrs.define(kw_only=True)
class MaildirIn:
    """The mails of a Maildir that muster does not have yet, as a source of the SDK."""

    maildir: Path
    state: MailState
    reading: Reading
    note: Callable[[str], None]
    refused_count: int = 0
    _waiting: deque[MailFile] = attrs.field(factory=deque, init=False)
    _in_hand: dict[str, MailFile] = attrs.field(factory=dict, init=False)
    _unreadable: set[str] = attrs.field(factory=set, init=False)

    @property
    def left_count(self) -> int:
        """How many mails muster refused in this run, or that could not be read."""
        return self.refused_count + len(self._unreadable)

    async def fetch(self) -> Sequence[Message]:
        """The next mail, in the order of file names; empty when there is none now."""
        if not self._waiting:
            # What can't be read stays in the listing and must not fill it.
            count_max = BATCH_COUNT + len(self._unreadable)
            self._waiting.extend(
                await self.state.unsettled(list_mail(self.maildir), count_max=count_max)
            )
        while self._waiting:
            file = self._waiting.popleft()
            mail = await self._read(file)
            if mail is not None:
                await self.state.keep_reply_facts(mail.message.external_id, mail.reply)
                self._in_hand[mail.message.external_id] = file
                return [mail.message]
        return []

    async def _read(self, file: MailFile) -> InboundMail | None:
        try:
            raw = await trio.to_thread.run_sync(read_mail, file.path)
        except OSError as error:
            # Said once and tried again at each look: rights and disks get mended.
            if file.key not in self._unreadable and len(self._unreadable) < UNREADABLE_MAX:
                self._unreadable.add(file.key)
                self.note(f"cannot read {file.path}: {error.strerror}; it waits")
            return None
        self._unreadable.discard(file.key)
        if raw is None:
            return None
        return await self.reading.read(raw, place=str(file.path.resolve()))

    async def accepted(self, message: Message, posted: Posted) -> None:
        """Move the cursor past the file; its mail is message `posted.id` at muster."""
        file = self._in_hand.pop(message.external_id)
        await self.state.settle(file, message.external_id, FileState.POSTED)
        self.note(f"{file.key}: message {posted.id}, {posted.status}")

    async def refused(self, message: Message, refusal: RefusedError) -> None:
        """Remember that muster will never take this mail, and why."""
        file = self._in_hand.pop(message.external_id)
        await self.state.settle(file, message.external_id, FileState.REFUSED, reason=refusal.reason)
        self.refused_count += 1
        self.note(f"{file.path} was refused and stays where it is: {refusal.reason}")
