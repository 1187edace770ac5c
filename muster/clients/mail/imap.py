"""One connection to an IMAP account, read only, for Trio.

IMAPClient speaks the protocol, in a worker thread and one command at a time. What can take long
is bounded here and not there: each command has a deadline, and a deadline or a cancel shuts the
socket down, which ends the thread's read at once. So no call outlives the task that made it, and
a connection that was cut off in mid-command is over. Waiting for news (IDLE) takes no thread: it
is Trio that waits for the socket.

Folders are opened by EXAMINE and mail is read by BODY.PEEK, so nothing in the account changes.
"""

import contextlib
import hashlib
import imaplib
import socket
import ssl
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

import attrs
import trio
from imapclient.exceptions import LoginError, ProtocolError

from muster.clients.mail.charsets import clean_line
from muster.clients.mail.imap_client import ImapClient
from muster.clients.mail.maildir import RawMail
from muster.clients.mail.settings import MailServer, Security
from muster.clients.reasons import is_no_tls, why_unconnected

R = TypeVar("R")

CONNECT_SECONDS = 20.0
GREETING_SECONDS = 25.0
ANSWER_SECONDS = 120.0
"""How long one command may take, in seconds; at most one chunk of a mail is read by it."""

IDLE_SECONDS_MAX = 28 * 60.0
"""An IDLE is renewed before the 29 minutes after which servers may hang up (RFC 2177)."""

CHUNK_BYTES = 1024 * 1024
MAIL_BYTES_MAX = 4 * 1024**3
"""A mail that is longer is not read: the protocol's own sizes end here."""

SAID_CHARS_MAX = 300
PASSING_CODES = ("[UNAVAILABLE]", "[INUSE]", "[LIMIT]", "[SERVERBUG]")
"""A login refused with one of these (RFC 5530) says nothing about the password."""

# What IMAPClient and the socket raise, and what its parsers raise on an answer that is no IMAP.
FAULTS = (
    imaplib.IMAP4.error, OSError, EOFError, ValueError, TypeError, LookupError, AttributeError,
    MemoryError, OverflowError, RecursionError,
)  # fmt: skip


class ImapError(Exception):
    """Anything that the server, or the way to it, did instead of what was asked for."""


class ImapLostError(ImapError):
    """The connection is over: it broke, took too long, or spoke no IMAP. Connect again."""


class ImapNoError(ImapError):
    """The server said no to one command; the connection goes on."""


class ImapLoginError(ImapError):
    """The server took neither user nor password, or offers no login on this connection."""


class ImapCertificateError(ImapError):
    """The server's certificate is not one that is trusted for this host."""


@attrs.frozen(kw_only=True)
class OpenFolder:
    """A folder as EXAMINE showed it: `uid_next` is above the UID of every mail in it."""

    uid_validity: int
    uid_next: int
    count: int


class ImapConnection:
    """A logged-in connection, from `connect`. Whoever has it closes it."""

    def __init__(self, server: MailServer, sock: socket.socket) -> None:
        self._server = server
        self._socket = sock
        # A second handle on the connection: the first belongs to IMAPClient, and to TLS.
        self._handle = sock.dup()
        self._client: ImapClient | None = None
        self.is_over = False
        self.can_idle = False
        self.tls_version: str | None = None

    @classmethod
    async def connect(cls, server: MailServer) -> "ImapConnection":
        """Connect and log in; raises any ImapError but ImapNoError."""
        connection = cls(server, await _open_socket(server))
        try:
            await connection._greet()
            await connection._call(connection._log_in)
        except ImapNoError as error:
            # A server that greets with a no, or does not begin TLS after all.
            connection.close()
            raise ImapLostError(str(error)) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """End the connection; synchronous, and so whole even while a task is being cancelled."""
        self._hang_up()
        self._handle.close()
        with contextlib.suppress(OSError):
            if self._client is not None:
                self._client.shutdown()
        self._socket.close()

    def _hang_up(self) -> None:
        """Make whatever reads from the connection see its end; what is open stays open."""
        self.is_over = True
        # The other side may have been quicker.
        with contextlib.suppress(OSError):
            self._handle.shutdown(socket.SHUT_RDWR)

    async def examine(self, folder: str) -> OpenFolder:
        """Open a folder, read only, and see how it stands now.

        Raises ImapNoError when the server can't open it, which is also said of a missing one.
        """
        return await self._call(lambda client: _examine(client, folder))

    async def folder_names(self) -> Sequence[str]:
        """The names of the account's folders."""
        return await self._call(lambda client: [row[2] for row in client.list_folders()])

    async def newest_date(self, count: int) -> datetime | None:
        """The newest INTERNALDATE of the last 100 of the folder's `count` mails."""
        numbers = range(max(1, count - 99), count + 1)
        return await self._call(lambda client: _newest_date(client, numbers))

    async def uids(self, first: int, last: int) -> Sequence[int]:
        """The UIDs from `first` to `last`, both included, that are in the folder, in order."""
        found = await self._call(lambda client: client.search(f"UID {first}:{last}"))
        # One that a server adds from beyond would carry the cursor past what lies between.
        return sorted(uid for uid in found if first <= uid <= last)

    async def dates(self, uids: Sequence[int]) -> dict[int, datetime | None]:
        """The INTERNALDATE of each of these mails that is still there; None when it has none."""
        return await self._call(
            lambda client: {
                uid: fields.get(b"INTERNALDATE")
                for uid, fields in client.fetch(uids, ["INTERNALDATE"]).items()
            }
        )

    async def read_mail(self, uid: int, *, bytes_max: int) -> RawMail | None:
        """Read one mail, keeping at most `bytes_max` bytes of it; None when it is gone.

        It comes in chunks of 1 MiB: what a mail takes of memory does not depend on its sender.
        Raises ImapNoError when the server does not hand it out.
        """
        digest = hashlib.sha256()
        beginning = bytearray()
        total = 0
        while True:
            offset = total
            found = await self._call(lambda client: _chunk(client, uid, offset))  # noqa: B023
            if found is None:
                return None
            chunk, size = found
            if len(chunk) > CHUNK_BYTES:
                raise ImapNoError("the server does not hand it out in parts")
            digest.update(chunk)
            total += len(chunk)
            beginning += chunk[: bytes_max - len(beginning)]
            # Some servers count a mail's size wrongly, so an end is believed only when it is seen.
            if not chunk or (len(chunk) < CHUNK_BYTES and total >= size):
                break
            if total > MAIL_BYTES_MAX:
                raise ImapNoError(f"it has more than {MAIL_BYTES_MAX:,} bytes")
        return RawMail(beginning=bytes(beginning), size_bytes=total, sha256=digest.hexdigest())

    async def idle(self, seconds: float) -> None:
        """Wait until the open folder has news, or for `seconds`, at most 28 minutes.

        Raises ImapNoError when the server takes no IDLE after all.
        """
        if not await self._call(ImapClient.begin_idle):
            with trio.move_on_after(min(seconds, IDLE_SECONDS_MAX)):
                await trio.lowlevel.wait_readable(self._handle)
        await self._call(ImapClient.idle_done)

    async def _greet(self) -> None:
        """Hear the greeting. A port that waits for TLS gives none, for it waits for us."""

        def greet(_client: object) -> None:
            try:
                self._client = ImapClient(self._server, self._socket)
            except ssl.SSLError as error:
                if not is_no_tls(error):
                    raise
                why = "this port does not begin with TLS: try imap:// (STARTTLS)"
                raise ImapLostError(why) from error

        with trio.move_on_after(GREETING_SECONDS) as scope:
            await self._call(greet)
        if scope.cancelled_caught:
            is_tls = self._server.security is Security.TLS
            hint = "" if is_tls else "; a port that begins with TLS wants imaps://"
            raise ImapLostError(f"it said nothing for {GREETING_SECONDS:g} s{hint}")

    def _log_in(self, client: ImapClient) -> None:
        login = self._server.login
        assert login is not None, "the settings ask for one"
        if self._server.security is Security.STARTTLS:
            if not client.has_capability("STARTTLS"):
                raise ImapLoginError("the server offers no STARTTLS")
            client.starttls(ssl_context=self._server.tls)
        if isinstance(channel := client.socket(), ssl.SSLSocket):
            self.tls_version = channel.version()
        try:
            # AUTHENTICATE takes any character; LOGIN is what older servers have.
            if client.has_capability("AUTH=PLAIN"):
                client.plain_login(login.user, login.password)
            elif client.has_capability("LOGINDISABLED"):
                raise ImapLoginError("the server takes no password on this connection")
            else:
                client.login(login.user, login.password)
        except LoginError as error:
            said = _said(error)
            # A connection that breaks meanwhile is called a refused login too.
            is_broken = isinstance(error.__context__, imaplib.IMAP4.abort)
            if is_broken or any(code in said.upper() for code in PASSING_CODES):
                raise ImapLostError(said) from error
            raise ImapLoginError(said) from error
        except UnicodeEncodeError as error:
            # Not as it is: its text would show the password.
            raise ImapLoginError("the server takes only ASCII in a user and password") from error
        self.can_idle = client.has_capability("IDLE")

    async def _call(self, work: Callable[["ImapClient"], R]) -> R:
        """Run one command in a thread, under its deadline; never leaves the thread behind."""
        if self.is_over:
            raise ImapLostError("the connection is over")
        answers: list[R] = []
        faults: list[Exception] = []

        def command() -> None:
            try:
                # Only the login comes without a client: it makes one.
                answers.append(work(self._client))  # type: ignore[arg-type]
            except (*FAULTS, ImapError) as error:
                faults.append(error)

        with trio.move_on_after(ANSWER_SECONDS) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._hang_up_when_cancelled, answers, faults)
                await trio.to_thread.run_sync(command)
                nursery.cancel_scope.cancel()
        if scope.cancelled_caught:
            raise ImapLostError(f"no answer within {ANSWER_SECONDS:.0f} s")
        if faults:
            error = _translated(faults[0])
            if isinstance(error, ImapLostError):
                self._hang_up()
            raise error
        return answers[0]

    async def _hang_up_when_cancelled(self, *endings: Sequence[object]) -> None:
        try:
            await trio.sleep_forever()
        finally:
            if not any(endings):
                self._hang_up()


async def _open_socket(server: MailServer) -> socket.socket:
    try:
        with trio.fail_after(CONNECT_SECONDS):
            stream = await trio.open_tcp_stream(server.host, server.port)
    except trio.TooSlowError as error:
        raise ImapLostError(f"no connection within {CONNECT_SECONDS:.0f} s") from error
    except (OSError, UnicodeError) as error:
        # UnicodeError: a name that no host can have, found when it is encoded for the DNS.
        raise ImapLostError(why_unconnected(error) or _said(error)) from error
    sock = socket.socket(fileno=stream.socket.detach())
    sock.setblocking(True)
    # A router that forgot a connection tells nobody; the kernel finds out.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock


def _examine(client: ImapClient, folder: str) -> OpenFolder:
    found = client.select_folder(folder, readonly=True)
    if b"UIDVALIDITY" not in found:
        raise ImapNoError("the server keeps no UIDs in this folder (no UIDVALIDITY)")
    count = int(found.get(b"EXISTS", 0))
    if b"UIDNEXT" in found:
        uid_next = int(found[b"UIDNEXT"])
    else:
        # Older servers don't tell. What is in an empty folder later is above 0.
        uid_next = max(client.search("UID *"), default=0) + 1 if count else 1
    return OpenFolder(uid_validity=int(found[b"UIDVALIDITY"]), uid_next=uid_next, count=count)


def _newest_date(client: ImapClient, numbers: Sequence[int]) -> datetime | None:
    client.use_uid = False
    try:
        found = client.fetch(numbers, ["INTERNALDATE"])
    finally:
        client.use_uid = True
    dates = [fields.get(b"INTERNALDATE") for fields in found.values()]
    return max((date for date in dates if date is not None), default=None)


def _chunk(client: ImapClient, uid: int, offset: int) -> tuple[bytes, int] | None:
    """One chunk of a mail and the size that the whole of it should have; None when it is gone."""
    asked = f"BODY.PEEK[]<{offset}.{CHUNK_BYTES}>"
    fields = client.fetch([uid], ["RFC822.SIZE", asked]).get(uid)
    if fields is None:
        return None
    content = next((fields[key] for key in fields if key.startswith(b"BODY[]")), None)
    if content is None:
        raise ImapNoError("the server hands out nothing of it")
    return bytes(content), int(fields.get(b"RFC822.SIZE", 0))


def _translated(error: Exception) -> ImapError:
    match error:
        case ImapError():
            return error
        case ssl.SSLCertVerificationError():
            return ImapCertificateError(error.verify_message or _said(error))
        case imaplib.IMAP4.abort() | ProtocolError():
            return ImapLostError(_said(error))
        case imaplib.IMAP4.error():
            return ImapNoError(_said(error))
        case _:
            return ImapLostError(_said(error) or type(error).__name__)


def _said(error: Exception) -> str:
    """What an error says, as one line without controls."""
    first = error.args[0] if len(error.args) == 1 else str(error)
    text = first.decode("utf-8", "replace") if isinstance(first, bytes) else str(first)
    # What the server said arrives as the repr of bytes.
    return clean_line(text.replace("b'", "'"))[:SAID_CHARS_MAX]
