"""The mails of an IMAP account, as a source of the SDK.

One connection serves all folders. Servers allow a user few connections, often 10 for all of
their programs, and with one there is one thread, one order and one place where trouble is met.
The price is that IDLE can watch a single folder, the first; it is looked at again at once, and
the others whenever anything wakes us, at the latest after `poll_seconds`. The same poll meets
servers without IDLE and those that silently lose it.

A *round* is one look at every folder. Folders take turns of 20 mails, so that a full one can't
starve another, and within a folder the mails go by UID, the oldest first.

Trouble with the server never ends the program once it runs: the connection is made anew with
jittered waits of up to a minute, for ever. What ends it is what only a person can mend, and only
where the program begins: a refused login, an untrusted certificate, a folder that this
account does not have. Later the same things are waited out, a refused login slowly, because many
servers lock an account that is tried often.
"""

import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from muster.clients.backoff import delay_seconds
from muster.clients.mail.imap import (
    ImapCertificateError,
    ImapConnection,
    ImapError,
    ImapLoginError,
    ImapLostError,
    ImapNoError,
)
from muster.clients.mail.imap_folder import Folder
from muster.clients.mail.imap_sentences import mail_place, tell_missing, tell_trouble
from muster.clients.mail.imap_state import ImapState
from muster.clients.mail.maildir import READ_BYTES_MAX
from muster.clients.mail.parse import InboundMail
from muster.clients.mail.reading import Reading
from muster.clients.mail.settings import FromImap
from muster.clients.mail.state import MailState
from muster.clients.plugin import Journal, Message, Posted, RefusedError

TURN_COUNT = 20
RECONNECT_SECONDS = 0.5
RECONNECT_SECONDS_MAX = 60.0
LOGIN_SECONDS = 60.0
LOGIN_SECONDS_MAX = 15 * 60.0
IDLE_FAULTS_MAX = 3
IDLE_SECONDS_MIN = 5.0
IDLE_PAUSE_SECONDS = 15 * 60.0
"""After 3 IDLEs in a row that ended in trouble within 5 s, folders are only polled so long."""


class ImapUnreachableError(OSError):
    """The mail server could not be read within the patience of a single run."""


class ImapSettingsError(ValueError):
    """The account can't be read as it is set up; only a person can mend that."""


@attrs.frozen(kw_only=True)
class _InHand:
    folder: Folder
    uid_validity: int
    uid: int


@attrs.define(kw_only=True)
class ImapIn:
    """The mails of an IMAP account that muster does not have yet, as a source of the SDK.

    Made by `open_imap`. With `patience_seconds` a look that finds nothing ends with an empty
    answer, as one run needs it, and ImapUnreachableError is raised when the server can't be read
    for that long; without it, `fetch` waits for mail.
    """

    incoming: FromImap
    folders: Sequence[Folder]
    state: MailState
    reading: Reading
    note: Callable[[str], None]
    patience_seconds: float | None
    refused_count: int = 0
    _connection: ImapConnection | None = attrs.field(default=None, init=False)
    _round: deque[Folder] = attrs.field(factory=deque, init=False)
    _open: Folder | None = attrs.field(default=None, init=False)
    _turn: int = attrs.field(default=0, init=False)
    _in_hand: dict[str, _InHand] = attrs.field(factory=dict, init=False)
    _faults: int = attrs.field(default=0, init=False)
    _failing_since: float = attrs.field(default=0.0, init=False)
    _is_told: bool = attrs.field(default=False, init=False)
    _idle_faults: int = attrs.field(default=0, init=False)
    _idle_again_at: float = attrs.field(default=0.0, init=False)

    @property
    def left_count(self) -> int:
        """How many mails muster refused in this run, or that the server did not hand out.

        A folder that can't be read counts as one.
        """
        unread = sum(len(folder.aside) + folder.is_missing for folder in self.folders)
        return self.refused_count + unread

    async def begin(self) -> None:
        """Make the first connection and look at each folder, so that wrong settings are told.

        ImapSettingsError for them. A server that is away is waited for by `fetch`.
        """
        self._round.extend(self.folders)
        try:
            connection = await self._connected()
            for folder in self.folders:
                try:
                    await folder.open(connection)
                except ImapNoError as error:
                    await self._begin_without(folder, connection, error)
        except (ImapLoginError, ImapCertificateError) as error:
            raise ImapSettingsError(tell_trouble(self.incoming.server, error)) from error
        except ImapLostError as error:
            self._lose(error)

    async def fetch(self) -> Sequence[Message]:
        """The next mail; empty when there is none now and nobody waits for one."""
        while True:
            try:
                mail = await self._next_mail()
                if mail is not None:
                    return [mail.message]
                self._mend()
                if self.patience_seconds is not None:
                    self._round.extend(self.folders)
                    return []
                await self._wait_for_news()
            except ImapError as error:
                self._lose(error)
                await self._wait_to_reconnect(error)

    async def accepted(self, message: Message, posted: Posted) -> None:
        """Move the cursor past the mail; it is message `posted.id` at muster."""
        mail = self._in_hand.pop(message.external_id)
        await mail.folder.settle(mail.uid, mail.uid_validity)
        self.note(f"{mail.folder.name} {mail.uid}: message {posted.id}, {posted.status}")

    async def refused(self, message: Message, refusal: RefusedError) -> None:
        """Remember that muster will never take this mail, and why."""
        mail = self._in_hand.pop(message.external_id)
        await mail.folder.refuse(
            mail.uid, mail.uid_validity, external_id=message.external_id, reason=refusal.reason
        )
        self.refused_count += 1
        place = mail_place(self.incoming.server, mail.folder.name, mail.uid)
        self.note(f"{place} was refused and stays where it is: {refusal.reason}")

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._open = None

    async def _next_mail(self) -> InboundMail | None:
        """The next mail of this round, None when the round is over."""
        while self._round:
            folder = self._round[0]
            connection = await self._connected()
            if self._turn >= TURN_COUNT:
                self._round.rotate(-1)
                self._turn = 0
                continue
            try:
                if self._open is not folder:
                    self._turn = 0
                    self._open = None
                    await folder.open(connection)
                    self._open = folder
                uid = await folder.next_uid(connection)
            except ImapNoError as error:
                folder.miss(error)
                uid = None
            if uid is None:
                self._round.popleft()
                self._open = None
                continue
            self._turn += 1
            mail = await self._read(connection, folder, uid)
            if mail is not None:
                return mail
        return None

    async def _read(
        self, connection: ImapConnection, folder: Folder, uid: int
    ) -> InboundMail | None:
        uid_validity = folder.cursor.uid_validity
        try:
            raw = await connection.read_mail(uid, bytes_max=READ_BYTES_MAX)
        except ImapNoError as error:
            await folder.set_aside(uid, str(error))
            return None
        except ImapLostError as error:
            await folder.count_drop(uid, str(error))
            raise
        self._mend()
        if raw is None:
            # Expunged since it was listed.
            await folder.settle(uid, uid_validity)
            return None
        mail = await self.reading.read(
            raw, place=mail_place(self.incoming.server, folder.name, uid)
        )
        external_id = mail.message.external_id
        await self.state.keep_reply_facts(external_id, mail.reply)
        self._in_hand[external_id] = _InHand(folder=folder, uid_validity=uid_validity, uid=uid)
        return mail

    async def _wait_for_news(self) -> None:
        """Wait until there may be mail, and begin a round; none is under way."""
        connection = await self._connected()
        seconds = self.incoming.poll_seconds
        watched = await self._open_first(connection)
        # Nothing comes between that look and the IDLE: a server tells in it what did.
        if not watched:
            idles = connection.can_idle and trio.current_time() >= self._idle_again_at
            if watched is None or not idles:
                await trio.sleep(seconds)
            else:
                await self._idle(connection, seconds)
        self._round.extend(self.folders)

    async def _idle(self, connection: ImapConnection, seconds: float) -> None:
        began_at = trio.current_time()
        try:
            await connection.idle(seconds)
        except ImapError as error:
            # A refusal, or a hang-up at once: to connect again and again for it helps nobody.
            if trio.current_time() - began_at < IDLE_SECONDS_MIN:
                self._idle_faults += 1
            if self._idle_faults >= IDLE_FAULTS_MAX:
                self._idle_faults = 0
                self._idle_again_at = trio.current_time() + IDLE_PAUSE_SECONDS
                self.note(f"{self._shown} takes no IDLE now ({error}); its folders are polled")
            # What the server makes of the next command is anybody's guess.
            raise ImapLostError(str(error)) from error
        self._idle_faults = 0

    async def _open_first(self, connection: ImapConnection) -> bool | None:
        """Open the first folder that can be read; whether it has mail, None if there is none."""
        for folder in self.folders:
            # One that could not be read in this round waits for the next, also if it opens.
            if not folder.is_missing:
                try:
                    return await folder.open(connection)
                except ImapNoError as error:
                    folder.miss(error)
        return None

    async def _connected(self) -> ImapConnection:
        if self._connection is None:
            self._connection = await ImapConnection.connect(self.incoming.server)
        return self._connection

    def _lose(self, error: ImapError) -> None:
        """Drop the connection; what was listed over it is listed again."""
        self.close()
        self._turn = 0
        for folder in self.folders:
            folder.forget_listing()
        if not self._round:
            self._round.extend(self.folders)
        if self._faults == 0:
            self._failing_since = trio.current_time()
        self._faults += 1
        # Servers hang up on whoever is idle for long, and one more try mends it: no news.
        if not self._is_told and (self._faults > 1 or not isinstance(error, ImapLostError)):
            self._is_told = True
            self.note(f"{tell_trouble(self.incoming.server, error)}; it is tried again")

    async def _wait_to_reconnect(self, error: ImapError) -> None:
        first, most = RECONNECT_SECONDS, RECONNECT_SECONDS_MAX
        if isinstance(error, ImapLoginError):
            first, most = LOGIN_SECONDS, LOGIN_SECONDS_MAX
        seconds = delay_seconds(
            self._faults - 1,
            retry_after_seconds=None,
            chance=random.random(),  # noqa: S311 - only spreads retries
            first_seconds=first,
            most_seconds=most,
        )
        patience = self.patience_seconds
        if patience is not None:
            left = self._failing_since + patience - trio.current_time()
            if seconds > left:
                raise ImapUnreachableError(tell_trouble(self.incoming.server, error)) from error
        await trio.sleep(seconds)

    def _mend(self) -> None:
        if self._is_told:
            self.note(f"{self._shown} can be read again")
        self._is_told = False
        self._faults = 0

    async def _begin_without(
        self, folder: Folder, connection: ImapConnection, error: ImapNoError
    ) -> None:
        """Wait for a folder that was here once; one that never was is a wrong setting."""
        if await folder.was_seen():
            folder.miss(error)
            return
        try:
            names = await connection.folder_names()
        except ImapNoError:
            names = [folder.name]
        if folder.name in names:
            folder.miss(error)
            return
        raise ImapSettingsError(tell_missing(self.incoming.server, folder.name, names))

    @property
    def _shown(self) -> str:
        return self.incoming.server.shown()


@asynccontextmanager
async def open_imap(
    incoming: FromImap,
    journal: Journal,
    *,
    state: MailState,
    reading: Reading,
    note: Callable[[str], None],
    patience_seconds: float | None,
) -> AsyncIterator[ImapIn]:
    """An account's mails as a source, connected; its cursors lie in `journal`.

    Raises ImapSettingsError at once for what only a person can mend.
    """
    login = incoming.server.login
    assert login is not None, "the settings ask for one"
    imap_state = ImapState(journal, f"{login.user}@{incoming.server.host.lower()}")
    await imap_state.prepare()
    folders = [
        Folder(name=name, state=imap_state, since=incoming.since, note=note)
        for name in incoming.folders
    ]
    source = ImapIn(
        incoming=incoming, folders=folders, state=state, reading=reading, note=note,
        patience_seconds=patience_seconds,
    )  # fmt: skip
    try:
        await source.begin()
        yield source
    finally:
        source.close()
