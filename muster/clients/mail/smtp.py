"""One mail, handed to an SMTP server, and what its answers mean (RFC 5321).

    connect, greeting, EHLO, [STARTTLS, EHLO], [AUTH], MAIL, RCPT…, DATA | text, dot, answer

The bar is the point of no return. Before it nothing was sent, whatever happens: an answer of 5xx
is for good, an answer of 4xx or a broken line may go away. From the first byte of the text on,
only an answer is knowledge (4.2.5: a server that answers 4xx or 5xx must not deliver the mail).
A line that breaks there, or an answer that never comes, leaves it unknown for ever.

One 4xx after the bar is not tried again: a 421 says that the server is going away, and one that
is being stopped between taking a mail and saying so is the likeliest to be wrong about it. The
owner is told that it was not sent, and decides.

A recipient that is refused ends it for all of them: half an answer is worse than a failed one.
"""

import base64
import math
import re
import ssl
from collections.abc import Mapping
from contextlib import suppress

import attrs
import trio

from muster.clients.mail.replies import Reply
from muster.clients.mail.settings import Login, MailServer, Security
from muster.clients.mail.smtp_line import (
    Answer,
    CertificateError,
    Line,
    NoTlsError,
    TroubleError,
    open_line,
)
from muster.clients.plugin import SendFailedError, SendLaterError, SendUnknownError

GOODBYE_SECONDS = 1.0
GREETING_SECONDS = 20.0
"""How long a connected server may take to say anything; less than all that is before the text."""

SERVICE_CLOSING = 421
START_OF_MAIL = 354
CONTINUE_LOGIN = 334
NOT_IMPLEMENTED = (500, 502)
LINE_END = re.compile(rb"\r\n|\r|\n")
FIRST_DOT = re.compile(rb"^\.", re.MULTILINE)


@attrs.frozen(kw_only=True)
class Patience:
    """How long the parts of one handing over may take, in seconds.

    `before` is within the 30 s of lease that are left when the last sending may begin, so a
    text that begins, begins within the lease. The others are RFC 5321's own (4.5.3.2.5 and .6):
    giving up on an answer earlier would make unknown what was only slow, and a late result is
    recorded. `stop` is how long a plugin that is being stopped waits for the answer.
    """

    before: float = 25.0
    text: float = 180.0
    answer: float = 600.0
    stop: float = 10.0


@attrs.define
class Handing:
    """How far one handing over came, and the way to end it from outside."""

    patience: Patience = attrs.field(factory=Patience)
    has_begun_text: bool = False
    is_stopped: bool = False
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _stop_at: float = attrs.field(default=math.inf, init=False)

    def stop(self) -> None:
        """End it at once before the text, and soon after it began."""
        self.is_stopped = True
        if self.has_begun_text:
            self._stop_at = trio.current_time() + self.patience.stop
            self._scope.deadline = min(self._scope.deadline, self._stop_at)
        else:
            self._scope.cancel()

    def scope_before_text(self) -> trio.CancelScope:
        """The scope of everything before the text."""
        self._scope.deadline = trio.current_time() + self.patience.before
        return self._scope

    def scope_of_text(self) -> trio.CancelScope:
        """The scope of the text and its answer; from here on it can't be taken back."""
        self.has_begun_text = True
        self._scope = trio.CancelScope()
        self.allow(self.patience.text)
        return self._scope

    def allow(self, seconds: float) -> None:
        """Let the text's scope last so long from now on."""
        self._scope.deadline = min(trio.current_time() + seconds, self._stop_at)


class Session:
    """A conversation that was greeted; `features` is what the server offers, in lower case."""

    def __init__(self, line: Line, server: MailServer) -> None:
        self.line = line
        self.server = server
        self.features: Mapping[str, str] = {}

    async def greet(self) -> None:
        """Say who is there, and learn what the server can."""
        answer = await self.line.ask(f"EHLO {self.line.own_name()}")
        if answer.code in NOT_IMPLEMENTED and self.server.security is not Security.STARTTLS:
            # A server from before extensions (RFC 5321, 3.2).
            answer = await self.line.ask(f"HELO {self.line.own_name()}")
            self.expect(answer, "HELO")
            self.features = {}
            return
        self.expect(answer, "EHLO")
        words = (line.replace("=", " ", 1).partition(" ") for line in answer.lines[1:])
        self.features = {name.lower(): rest for name, _, rest in words}

    async def secure(self) -> str:
        """STARTTLS, and greet anew: nothing that was said before counts."""
        if "starttls" not in self.features:
            raise SendFailedError(
                f"The mail server {self.server.place()} offers no STARTTLS, and without TLS "
                "nothing is sent."
            )
        self.expect(await self.line.ask("STARTTLS"), "STARTTLS")
        version = await self.line.start_tls(tls_of(self.server))
        await self.greet()
        return version

    async def log_in(self, login: Login) -> None:
        """AUTH, by PLAIN or LOGIN. The password is in no error: words that hold it are not told."""
        offered = self.features.get("auth", "").upper().split()
        user, password = login.user.encode(), login.password.encode()
        match [name for name in ("PLAIN", "LOGIN") if name in offered]:
            case ["PLAIN", *_]:
                words = [_base64(b"\0" + user + b"\0" + password)]
                command = f"AUTH PLAIN {words[0]}"
            case ["LOGIN"]:
                words = [_base64(user), _base64(password)]
                command = "AUTH LOGIN"
            case _:
                raise SendFailedError(
                    f"The mail server {self.server.place()} offers no login by PLAIN or LOGIN "
                    f"(it offers {', '.join(offered)[:200] or 'none'})."
                )
        try:
            answer = await self.line.ask(command)
            for word in words:
                if answer.code == CONTINUE_LOGIN:
                    answer = await self.line.ask(word)
            self.expect(answer, "the login")
        except (TroubleError, SendFailedError, SendLaterError) as error:
            if not any(secret in str(error) for secret in (login.password, *words)):
                raise
            # Nothing of the error is kept, not even as the cause that a traceback shows.
            told = type(error)
        else:
            return
        raise told("The mail server answered the login with the password itself.")

    async def offer(self, mail: Reply) -> None:
        """MAIL, RCPT and DATA: all that the server can refuse before it has the text."""
        sender = f"MAIL FROM:<{mail.sender}>{self._options(mail)}"
        self.expect(await self.line.ask(sender), f"MAIL from {mail.sender}")
        refused: list[SendFailedError] = []
        put_off: list[SendLaterError] = []
        for recipient in mail.recipients:
            answer = await self.line.ask(f"RCPT TO:<{recipient}>")
            try:
                self.expect(answer, f"the recipient {recipient}")
            except SendFailedError as error:
                refused.append(error)
            except SendLaterError as error:
                if answer.code == SERVICE_CLOSING:
                    raise
                put_off.append(error)
        if refused or put_off:
            told = "\n".join(str(error) for error in (*refused, *put_off))
            with trio.move_on_after(GOODBYE_SECONDS), suppress(TroubleError):
                await self.line.ask("RSET")
            raise SendFailedError(told) if refused else SendLaterError(told)
        answer = await self.line.ask("DATA")
        if answer.code != START_OF_MAIL:
            self.expect(answer, "DATA")
            raise SendFailedError(self._sentence("DATA", answer))
        # An answer that came too early would be taken for the answer to the text.
        if not self.line.is_quiet:
            raise TroubleError("The mail server answered before it had the mail.")

    async def goodbye(self) -> None:
        """QUIT, whose answer nobody waits for, and hang up; in mid-command only that."""
        if self.line.is_quiet:
            with trio.move_on_after(GOODBYE_SECONDS), suppress(TroubleError):
                await self.line.write(b"QUIT\r\n")
        await self.line.close()

    def expect(self, answer: Answer, step: str) -> None:
        """Go on after 2xx; SendLaterError after 4xx, SendFailedError after anything else."""
        if answer.is_good:
            return
        sentence = self._sentence(step, answer)
        raise SendLaterError(sentence) if answer.is_passing else SendFailedError(sentence)

    def _sentence(self, step: str, answer: Answer) -> str:
        return f"The mail server {self.server.place()} did not take {step}: {answer.shown()}"

    def _options(self, mail: Reply) -> str:
        """The options of MAIL, each only where it was offered; SendFailedError where it must be."""
        options = ""
        size_bytes = len(mail.content)
        if "size" in self.features:
            size_bytes_max = size_of(self.features)
            if size_bytes_max and size_bytes > size_bytes_max:
                raise SendFailedError(
                    f"The reply has {size_bytes} bytes, and the mail server "
                    f"{self.server.place()} takes {size_bytes_max} at most."
                )
            options += f" SIZE={size_bytes}"
        addresses = "".join((mail.sender, *mail.recipients))
        if not (addresses.isascii() and mail.content.isascii()):
            if not {"smtputf8", "8bitmime"} <= self.features.keys():
                raise SendFailedError(
                    f"An address of the reply is not ASCII, which the mail server "
                    f"{self.server.place()} does not take (it offers no SMTPUTF8)."
                )
            options += " BODY=8BITMIME SMTPUTF8"
        return options


async def open_session(server: MailServer) -> Session:
    """Connect, read the greeting, begin TLS where it comes first, and greet.

    Raises TroubleError, CertificateError, and SendFailedError or SendLaterError for an answer.
    """
    line = await open_line(server.host, server.port)
    session = Session(line, server)
    try:
        if server.security is Security.TLS:
            await _begin_tls(session)
        session.expect(await _greeting(session), "the connection")
        await session.greet()
    except BaseException:
        await line.close()
        raise
    return session


async def _begin_tls(session: Session) -> None:
    try:
        await session.line.start_tls(tls_of(session.server))
    except NoTlsError as error:
        where = session.server.place()
        raise TroubleError(
            f"The port of {where} does not begin with TLS: try smtp:// (STARTTLS)."
        ) from error


async def _greeting(session: Session) -> Answer:
    """The first answer. A port that waits for TLS gives none, for it waits for us."""
    with trio.move_on_after(GREETING_SECONDS):
        return await session.line.answer()
    hint = ""
    if session.server.security is not Security.TLS:
        hint = " A port that begins with TLS wants smtps://."
    where = session.server.place()
    raise TroubleError(f"The mail server {where} said nothing for {GREETING_SECONDS:g} s.{hint}")


async def hand_over(server: MailServer, mail: Reply, handing: Handing) -> Answer:
    """Hand one mail to the server; its final answer when it took it (RFC 5321, 4.2.5).

    SendFailedError and SendLaterError: it was not taken, and certainly not sent.
    SendUnknownError: the text had begun, and no answer came. Must run shielded: a cancellation
    that comes from outside would leave it unknown; `handing.stop` is the way to end it.
    """
    session: Session | None = None
    try:
        with handing.scope_before_text() as scope:
            try:
                session = await open_session(server)
                if server.security is Security.STARTTLS:
                    await session.secure()
                if server.login is not None:
                    await session.log_in(server.login)
                await session.offer(mail)
            except TroubleError as error:
                raise SendLaterError(str(error)) from error
            except CertificateError as error:
                raise SendFailedError(str(error)) from error
        # Also when it came too late to cancel anything: nothing was sent yet.
        if scope.cancel_called or session is None:
            raise SendLaterError(_why_ended(handing, server))
        return await _send_text(session, mail.content, handing)
    finally:
        if session is not None:
            await session.goodbye()


async def _send_text(session: Session, content: bytes, handing: Handing) -> Answer:
    """Write the text and read what became of it."""
    with handing.scope_of_text():
        try:
            await session.line.write(as_data(content))
        except TroubleError as error:
            answer = await _last_words(session.line, error)
        else:
            handing.allow(handing.patience.answer)
            try:
                answer = await session.line.answer()
            except TroubleError as error:
                raise SendUnknownError(f"{error} It had the reply already.") from error
        if answer.code == SERVICE_CLOSING:
            raise SendFailedError(
                f"The mail server {session.server.place()} closed while it had the reply, and by "
                f"the rules of mail did not take it: {answer.shown()}"
            )
        if 300 <= answer.code < 400:
            raise SendUnknownError(f"The mail server answered the reply with {answer.shown()}")
        session.expect(answer, "the reply")
        return answer
    raise SendUnknownError("The mail server had the reply and did not answer in time.")


async def _last_words(line: Line, trouble: TroubleError) -> Answer:
    """What the server said before it stopped taking the text; SendUnknownError if nothing."""
    with trio.move_on_after(GOODBYE_SECONDS):
        try:
            answer = await line.answer()
        except TroubleError:
            raise SendUnknownError(f"{trouble} It had some of the reply already.") from trouble
        # The dot was never written, so that it took the mail is no answer to it.
        if not answer.is_good:
            return answer
    raise SendUnknownError(f"{trouble} It had some of the reply already.")


def as_data(content: bytes) -> bytes:
    """A mail as the text of DATA, with its dot: every line ends in CRLF (RFC 5321, 4.5.2)."""
    lines = LINE_END.sub(b"\r\n", content)
    if not lines.endswith(b"\r\n"):
        lines += b"\r\n"
    return FIRST_DOT.sub(b"..", lines) + b".\r\n"


def tls_of(server: MailServer) -> ssl.SSLContext:
    """The context that checks this server's certificate."""
    return server.tls or ssl.create_default_context()


def size_of(features: Mapping[str, str]) -> int:
    """The largest mail that is taken, in bytes (RFC 1870); 0 when no limit is named."""
    named = features.get("size", "").strip()
    return int(named) if named.isascii() and named.isdigit() and len(named) <= 20 else 0


def _why_ended(handing: Handing, server: MailServer) -> str:
    if handing.is_stopped:
        return "Not sent: the plugin was stopped."
    return f"The mail server {server.place()} took longer than {handing.patience.before:.0f} s."


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
