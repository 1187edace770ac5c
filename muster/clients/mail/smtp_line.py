"""The line to an SMTP server: commands out, whole answers in, both within bounds (RFC 5321).

Trio's own streams, so that a deadline stands around a whole step and a cancellation ends it at
once, without a thread. Rejected: smtplib in a worker thread. It reads an answer of any length,
its timeouts are those of one read each (a server that sends a byte a minute is never late), its
login is ASCII only, and its errors do not say whether the mail's text had begun to be written,
which here decides whether a reply may be sent again.
"""

import re
import ssl

import attrs
import trio

from muster.clients.mail.charsets import clean_line
from muster.clients.reasons import causes, is_no_tls, why_unconnected

LINE_BYTES_MAX = 4 * 1024
ANSWER_BYTES_MAX = 64 * 1024
"""How much of one answer is read; a server that says more is not spoken to any longer."""

SHOWN_CHARS_MAX = 1500
CHUNK_BYTES = 16 * 1024
ANSWER_LINE = re.compile(rb"([2-5][0-9]{2})(?:([ -])(.*))?", re.DOTALL)


class TroubleError(Exception):
    """The line broke, or what came over it is no SMTP; a sentence."""


class NoTlsError(TroubleError):
    """What answered the beginning of TLS is no TLS; a sentence."""


class CertificateError(Exception):
    """The server's certificate is not one that is trusted for its name; a sentence."""


@attrs.frozen(kw_only=True)
class Answer:
    """One whole answer: its code and its lines without the code, free of control characters."""

    code: int
    lines: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """2xx: done."""
        return 200 <= self.code < 300

    @property
    def is_passing(self) -> bool:
        """4xx: not done, and the same may work later."""
        return 400 <= self.code < 500

    def shown(self) -> str:
        """As one line for a person: `250 2.0.0 Ok: queued as 4F1`."""
        text = f"{self.code} {' '.join(self.lines)}".rstrip()
        return text if len(text) <= SHOWN_CHARS_MAX else f"{text[: SHOWN_CHARS_MAX - 1]}…"


class Line:
    """One connection. Every method raises TroubleError when the line is broken."""

    def __init__(self, stream: trio.SocketStream, *, host: str) -> None:
        self._stream: trio.SocketStream | trio.SSLStream[trio.SocketStream] = stream
        self._socket = stream.socket
        self._host = host
        self._heard = bytearray()
        self._owes_answer = True

    def own_name(self) -> str:
        """This end's address as an SMTP address literal (RFC 5321, 4.1.3)."""
        address = str(self._socket.getsockname()[0]).partition("%")[0]
        return f"[IPv6:{address}]" if ":" in address else f"[{address}]"

    @property
    def is_quiet(self) -> bool:
        """Whether everything was answered, and nothing was said beyond that."""
        return not (self._owes_answer or self._heard)

    async def ask(self, command: str) -> Answer:
        """Send one command and read its answer."""
        assert "\r" not in command, "a command is one line"
        assert "\n" not in command, "a command is one line"
        await self.write(command.encode("utf-8") + b"\r\n")
        return await self.answer()

    async def write(self, data: bytes) -> None:
        """Write all of `data`, which the server will answer."""
        self._owes_answer = True
        try:
            for start in range(0, len(data), CHUNK_BYTES):
                await self._stream.send_all(data[start : start + CHUNK_BYTES])
        except (trio.BrokenResourceError, OSError) as error:
            raise TroubleError(_broken(error)) from error

    async def answer(self) -> Answer:
        """Read one whole answer, however it is split into pieces."""
        lines: list[str] = []
        code: bytes | None = None
        size_bytes = 0
        while True:
            line = await self._line()
            size_bytes += len(line)
            found = ANSWER_LINE.fullmatch(line)
            if found is None or (code is not None and code != found[1]):
                raise TroubleError(f"The mail server answered no SMTP: {line[:80]!a}.")
            if size_bytes > ANSWER_BYTES_MAX:
                raise TroubleError("The mail server's answer has no end.")
            code = found[1]
            lines.append(clean_line((found[3] or b"").decode("utf-8", "replace")))
            if found[2] != b"-":
                self._owes_answer = False
                return Answer(code=int(code), lines=tuple(lines))

    async def start_tls(self, context: ssl.SSLContext) -> str:
        """Secure the line; returns what TLS it is. CertificateError when it is not the host's."""
        # What came before TLS is not the server's word: anyone could have put it there.
        if self._heard:
            raise TroubleError("The mail server spoke on before TLS began.")
        assert isinstance(self._stream, trio.SocketStream), "TLS begins once"
        # Servers hang up without TLS's goodbye, which SMTP's own answers make harmless.
        secured = trio.SSLStream(
            self._stream, context, server_hostname=self._host, https_compatible=True
        )
        try:
            await secured.do_handshake()
        except (trio.BrokenResourceError, OSError) as error:
            cause = error.__cause__
            if isinstance(cause, ssl.SSLCertVerificationError):
                why = clean_line(cause.verify_message)
                raise CertificateError(
                    f"The certificate of {self._host} is not to be trusted: {why}."
                ) from error
            if is_no_tls(error):
                raise NoTlsError("What the mail server answered is no TLS.") from error
            raise TroubleError(f"TLS could not begin: {_broken(error)}") from error
        self._stream = secured
        return str(secured.version())

    async def close(self) -> None:
        """Hang up at once."""
        await trio.aclose_forcefully(self._stream)

    async def _line(self) -> bytes:
        while (end := self._heard.find(b"\n")) < 0:
            if len(self._heard) > LINE_BYTES_MAX:
                raise TroubleError("The mail server's answer has a line without an end.")
            try:
                piece = await self._stream.receive_some(LINE_BYTES_MAX)
            except (trio.BrokenResourceError, OSError) as error:
                raise TroubleError(_broken(error)) from error
            if not piece:
                raise TroubleError("The mail server hung up.")
            self._heard += piece
        line = bytes(self._heard[:end]).removesuffix(b"\r")
        del self._heard[: end + 1]
        return line


async def open_line(host: str, port: int) -> Line:
    """Connect. TroubleError when there is no way."""
    try:
        stream = await trio.open_tcp_stream(host, port)
    except (OSError, UnicodeError) as error:
        # UnicodeError: a name that no host can have, found when it is encoded for the DNS.
        why = why_unconnected(error) or _first_cause(error)
        raise TroubleError(f"No connection to {host}:{port}: {why}.") from error
    return Line(stream, host=host)


def _broken(error: Exception) -> str:
    return f"The connection to the mail server broke: {_first_cause(error)}."


def _first_cause(error: BaseException) -> str:
    """What the system said, below what Trio made of it."""
    *_, error = causes(error)
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return clean_line(said or type(error).__name__)[:200]
