"""A small SMTP server on a real socket, which misbehaves where a script says so.

A script is a list of steps for one moment: `greeting`, a verb (`EHLO`, `MAIL`, `RCPT`, `DATA`,
`AUTH`, `STARTTLS`), `text` (some of the mail's text arrived) or `dot` (all of it did). A step is an
answer instead of the honest one, or a fault; after its script a moment is honest again.
"""

import base64
import enum
import ssl
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import attrs
import trio

from muster.clients.mail.settings import Login, MailServer, Security
from tests.support.loopback import Stream, reset_when_closed, serving
from tests.support.waiting import dawdle

TEXT = "text"
DOT = "dot"
GREETING = "greeting"


class Fault(enum.Enum):
    """What a server does instead of answering."""

    HANG_UP = "closes the connection"
    RESET = "resets the connection"
    SILENT = "says nothing for ever"


Step = Fault | str


@attrs.define(kw_only=True)
class ScriptedSmtp:
    """The state that tests look at; `moments` counts how often each was reached.

    The mail's text is answered once `answer_when` is set, and not even read without `reads_text`.
    """

    host: str = "127.0.0.1"
    port: int = 0
    features: list[str] = attrs.field(factory=lambda: ["SIZE 100000", "8BITMIME", "SMTPUTF8"])
    tls: ssl.SSLContext | None = None
    implicit_tls: bool = False
    login: Login | None = None
    piece_bytes: int = 1_000_000
    piece_seconds: float = 0.0
    reads_text: bool = True
    answer_when: trio.Event | None = None
    scripts: dict[str, deque[Step]] = attrs.field(factory=dict)
    heard: list[str] = attrs.field(factory=list)
    moments: Counter[str] = attrs.field(factory=Counter)
    mails: list[bytes] = attrs.field(factory=list)
    ended: int = 0

    def script(self, moment: str, *steps: Step) -> None:
        """What happens at the next times that `moment` is reached."""
        self.scripts.setdefault(moment, deque()).extend(steps)

    def next_step(self, moment: str) -> Step | None:
        """Count the moment; the step of its script, None to be honest."""
        self.moments[moment] += 1
        script = self.scripts.get(moment)
        return script.popleft() if script else None

    def as_seen(
        self, security: Security = Security.NONE, *, trust: ssl.SSLContext | None = None
    ) -> MailServer:
        """This server as a plugin's setting."""
        return MailServer(
            host=self.host, port=self.port, security=security, login=self.login, tls=trust
        )


class _OverError(Exception):
    """This connection is over."""


@attrs.define
class _Peer:
    server: ScriptedSmtp
    stream: Stream
    socket: trio.socket.SocketType
    heard: bytearray = attrs.field(factory=bytearray)

    async def say(self, moment: str, honest: str) -> str:
        """Answer as the script of this moment says, else honestly; what was said."""
        step = self.server.next_step(moment)
        if isinstance(step, Fault):
            await self.fail(step)
        if moment == DOT and self.server.answer_when is not None:
            await self.server.answer_when.wait()
        said = honest if not isinstance(step, str) else step
        await self.write(said)
        return said

    async def write(self, said: str) -> None:
        raw = said.encode("utf-8", "surrogateescape") + b"\r\n"
        for start in range(0, len(raw), self.server.piece_bytes):
            await self.stream.send_all(raw[start : start + self.server.piece_bytes])
            if self.server.piece_seconds:
                await dawdle(self.server.piece_seconds, because="a slow server is what is tested")

    async def fail(self, fault: Fault) -> None:
        if fault is Fault.SILENT:
            # Until the client hangs up, or the test is over.
            while await self.stream.receive_some(65536):
                pass
        if fault is Fault.RESET:
            reset_when_closed(self.socket)
        raise _OverError

    async def until(self, end: bytes) -> bytes:
        while (found := self.heard.find(end)) < 0:
            await self.more()
        text = bytes(self.heard[: found + len(end)])
        del self.heard[: found + len(end)]
        return text

    async def more(self) -> None:
        piece = await self.stream.receive_some(65536)
        if not piece:
            raise _OverError
        self.heard += piece


@asynccontextmanager
async def scripted_smtp(host: str = "127.0.0.1") -> AsyncIterator[ScriptedSmtp]:
    """Serve on a free port of this machine's `host` until the block ends."""
    server = ScriptedSmtp(host=host)
    async with serving(partial(_serve, server), host=host) as server.port:
        yield server


async def _serve(server: ScriptedSmtp, stream: trio.SocketStream) -> None:
    peer = _Peer(server, stream, stream.socket)
    try:
        if server.implicit_tls:
            await _start_tls(peer)
        await peer.say(GREETING, "220 mail.test ESMTP")
        while True:
            line = (await peer.until(b"\r\n")).decode("utf-8", "replace").rstrip("\r\n")
            server.heard.append(line)
            await _answer(peer, line.partition(" ")[0].upper(), line)
    except (_OverError, trio.BrokenResourceError):
        pass
    finally:
        server.ended += 1
        await trio.aclose_forcefully(peer.stream)


async def _answer(peer: _Peer, verb: str, line: str) -> None:
    server = peer.server
    match verb:
        case "EHLO":
            lines = ["mail.test", *server.features]
            marks = ["-"] * len(server.features) + [" "]
            pairs = zip(marks, lines, strict=True)
            await peer.say(verb, "\r\n".join(f"250{mark}{text}" for mark, text in pairs))
        case "STARTTLS":
            if (await peer.say(verb, "220 2.0.0 go ahead")).startswith("220"):
                await _start_tls(peer)
        case "AUTH":
            await _log_in(peer, line)
        case "DATA":
            if (await peer.say(verb, "354 go on")).startswith("354"):
                await _take_text(peer)
        case "QUIT":
            await peer.say(verb, "221 2.0.0 bye")
            raise _OverError
        case _:
            await peer.say(verb, "250 2.1.0 Ok")


async def _start_tls(peer: _Peer) -> None:
    assert isinstance(peer.stream, trio.SocketStream)
    assert peer.server.tls is not None
    secured = trio.SSLStream(peer.stream, peer.server.tls, server_side=True, https_compatible=True)
    peer.stream = secured
    await secured.do_handshake()


async def _log_in(peer: _Peer, line: str) -> None:
    login = peer.server.login
    assert login is not None
    expected = [login.user, login.password]
    match line.split(" "):
        case [_, "PLAIN", word]:
            told = base64.b64decode(word).decode().split("\0")[1:]
        case _:
            told = []
            for prompt in ("Username:", "Password:"):
                await peer.write(f"334 {base64.b64encode(prompt.encode()).decode()}")
                told.append(base64.b64decode(await peer.until(b"\r\n")).decode())
    honest = "235 2.7.0 ok" if told == expected else "535 5.7.8 wrong user or password"
    await peer.say("AUTH", honest)


async def _take_text(peer: _Peer) -> None:
    if not peer.server.reads_text:
        await trio.sleep_forever()
    while not peer.heard:
        await peer.more()
    step = peer.server.next_step(TEXT)
    if isinstance(step, str):
        await peer.write(step)
        raise _OverError
    if step is not None:
        await peer.fail(step)
    raw = b"\r\n" + await peer.until(b"\r\n.\r\n")
    text = raw[2:-3].replace(b"\r\n.", b"\r\n")
    # Kept before it is answered: whoever got no answer can't know that it is here.
    peer.server.mails.append(text)
    said = await peer.say(DOT, f"250 2.0.0 Ok: queued as Q{len(peer.server.mails)}")
    if not said.startswith("2"):
        peer.server.mails.pop()
