"""`muster mail`: the mail plugin as a program, and its two ends.

The inbox is the SDK's source: it reads a file, parses it, keeps what a reply will need, and moves
its cursor past the file only after muster answered. The outbox is the sink: it writes the reply
under a name that comes from the draft, which is its proof after a restart.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import attrs
import trio

from muster.clients.mail.addresses import usable_address
from muster.clients.mail.compose import compose, draft_key, message_id
from muster.clients.mail.maildir import (
    MailFile,
    deliver,
    find_delivered,
    list_mail,
    make_outbox,
    read_mail,
)
from muster.clients.mail.parse import InboundMail, parse
from muster.clients.mail.state import FileState, MailState
from muster.clients.plugin import (
    Draft,
    Message,
    Pace,
    PluginClient,
    PluginError,
    Posted,
    RefusedError,
    SendFailedError,
    SendUnknownError,
    StateFolderBusyError,
    note_on_stderr,
    open_journal,
    run_plugin,
    run_plugin_once,
)
from muster.clients.stopping import until_stopped

BATCH_COUNT = 500
"""How many files one look at the inbox takes on; each is read only when it is its turn."""

UNREADABLE_MAX = 1000
"""How many files that can't be read are told apart from new trouble."""


@attrs.define(kw_only=True)
class Inbox:
    """The mails of a Maildir that muster does not have yet, as a source of the SDK."""

    maildir: Path
    state: MailState
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
            mail = await trio.to_thread.run_sync(_read_and_parse, file.path)
        except OSError as error:
            # Said once and tried again at each look: rights and disks get mended.
            if file.key not in self._unreadable and len(self._unreadable) < UNREADABLE_MAX:
                self._unreadable.add(file.key)
                self.note(f"cannot read {file.path}: {error.strerror}; it waits")
            return None
        self._unreadable.discard(file.key)
        return mail

    async def accepted(self, message: Message, posted: Posted) -> None:
        """Move the cursor past the file; its mail is message `posted.id` at muster."""
        file = self._in_hand.pop(message.external_id)
        await self.state.settle(file, message.external_id, FileState.POSTED)
        self.note(f"{file.key}: message {posted.id}, {posted.status}")

    async def refused(self, message: Message, refusal: RefusedError) -> None:
        """Remember that muster will never take this mail, and why."""
        file = self._in_hand.pop(message.external_id)
        field = f" ({refusal.field})" if refusal.field else ""
        reason = f"{refusal.error}{field}"
        await self.state.settle(file, message.external_id, FileState.REFUSED, reason=reason)
        self.refused_count += 1
        self.note(f"{file.path} was refused and stays where it is: {reason}")


@attrs.frozen(kw_only=True)
class Outbox:
    """Replies as files of a Maildir, as a sink of the SDK."""

    outbox: Path
    state: MailState
    sender_address: str | None

    async def send(self, draft: Draft) -> str:
        """Write the reply into the outbox, once; returns its Message-ID.

        SendFailedError when this folder does not know the mail that it answers, when an address
        is missing, or when the file can't be written: then nothing lies in the outbox.
        """
        reply = await self.state.find_reply_facts(draft.message_external_id)
        if reply is None:
            raise SendFailedError("This plugin does not know the mail that the reply answers.")
        sender = self.sender_address or reply.own_address
        if sender is None:
            raise SendFailedError("The mail names no address of ours: start muster mail --from.")
        try:
            content = compose(draft, reply, sender_address=sender, date=datetime.now(UTC))
        except ValueError as error:
            raise SendFailedError(str(error)) from error
        try:
            await trio.to_thread.run_sync(deliver, self.outbox, draft_key(draft), content)
        except FileExistsError:
            # Our own file from before a crash: this very reply has been sent.
            return message_id(draft, sender)
        except OSError as error:
            if await trio.to_thread.run_sync(find_delivered, self.outbox, draft_key(draft)):
                raise SendUnknownError(f"the outbox has it but would not sync: {error}") from error
            raise SendFailedError(f"The outbox can't be written: {error}") from error
        return message_id(draft, sender)

    async def was_sent(self, draft: Draft) -> str | None:
        """The reply's Message-ID when its file lies in the outbox.

        None proves nothing: whoever carries the outbox on may have taken the file already.
        """
        path = await trio.to_thread.run_sync(find_delivered, self.outbox, draft_key(draft))
        if path is None:
            return None
        reply = await self.state.find_reply_facts(draft.message_external_id)
        sender = self.sender_address or (reply.own_address if reply else None)
        return message_id(draft, sender) if sender else path.name


def _read_and_parse(path: Path) -> InboundMail | None:
    raw = read_mail(path)
    if raw is None:
        return None
    whole = None if raw.is_whole else raw.sha256
    return parse(raw.beginning, place=str(path.resolve()), whole=whole)


async def run_mail(
    *,
    url: str,
    token: str,
    maildir: Path,
    outbox: Path,
    state_folder: Path,
    sender_address: str | None = None,
    once: bool = False,
    patience_seconds: float = 30.0,
    poll_seconds: float = 2.0,
    note: Callable[[str], None] = note_on_stderr,
) -> int:
    """Run the mail plugin; returns how many mails this run could not bring to muster.

    Without `once` it runs until it is cancelled and looks at the inbox every `poll_seconds`. With
    it, it ends when there is nothing left to do, and gives up where it would have to wait more
    than `patience_seconds`. `sender_address` is the replies' From; without it each reply comes
    from the address that its mail was delivered to. Replies are only written to the outbox;
    something else carries them on.

    Raises ValueError (a bad URL, token, address or outbox), NotADirectoryError (`maildir` is none),
    StateFolderBusyError, OSError, and the errors of `run_plugin` and `run_plugin_once`.
    """
    sender = None
    if sender_address is not None:
        sender = usable_address(sender_address)
        if sender is None:
            raise ValueError(f"not an address that a mail can come from: {sender_address!r}")
    # A wrong folder is told at once and not by the first look at it.
    next(list_mail(maildir), None)
    make_outbox(outbox, maildir=maildir)
    async with (
        open_journal(state_folder) as journal,
        PluginClient(url, token, note=note) as client,
    ):
        state = MailState(journal)
        await state.prepare()
        inbox = Inbox(maildir=maildir, state=state, note=note)
        sink = Outbox(outbox=outbox, state=state, sender_address=sender)
        if once:
            await run_plugin_once(
                client, journal, source=inbox, sink=sink, note=note,
                patience_seconds=patience_seconds,
            )  # fmt: skip
        else:
            pace = Pace(poll_seconds=poll_seconds)
            await run_plugin(client, journal, source=inbox, sink=sink, note=note, pace=pace)
    return inbox.left_count


async def mail_until_stopped(run: Callable[[], Awaitable[int]]) -> int | Exception:
    """Run the plugin until it is told to stop, or until it ends by itself.

    `run` is `run_mail` with its arguments. Returns what it returned or raised, 0 after a signal.
    """

    async def ending() -> int | Exception:
        try:
            return await run()
        except (PluginError, StateFolderBusyError, OSError, ValueError) as error:
            return error

    return await until_stopped(ending) or 0
