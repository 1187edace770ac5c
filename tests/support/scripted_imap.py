"""A small IMAP server of the tests' own on a real socket, which misbehaves where a script says so.

It speaks what the mail plugin speaks and keeps one folder of mails. A script of faults for one
command is used up one fault a command; after it the command is answered honestly. A FETCH of one
mail's body is the command `FETCH <uid>`, what comes before any command is `GREETING`.
"""

import enum
import re
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import attrs
import trio

from muster.clients.mail.settings import Login, MailServer, Security
from tests.support.loopback import serving

INBOX = '"INBOX"'
SILENCE_SECONDS = 10.0
DATED = '"01-Mar-2026 10:00:00 +0000"'


class Fault(enum.Enum):
    """What goes wrong with one command."""

    NONE = "nothing: the next one counts for a later command"
    DROP = "the connection closes without an answer"
    CUT = "the connection closes in the middle of the answer"
    NO = "refused with NO"
    BYE = "the server says goodbye"
    SILENCE = "never answered"
    JUNK = "answered in another language"
    EMPTY = "answered with success and without any data"


@attrs.define(kw_only=True)
class ScriptedImap:
    """The state that tests look at; mails go by UID."""

    port: int = 0
    mails: dict[int, bytes] = attrs.field(factory=dict)
    uid_next: int = 1
    uid_validity: int = 7
    capabilities: str = "IMAP4rev1 AUTH=PLAIN IDLE"
    tells_uid_next: bool = True
    tells_news: bool = True
    adds_uid: int | None = None  # to each SEARCH, whatever was asked for
    no_code: str = ""
    commands: list[str] = attrs.field(factory=list)
    scripts: dict[str, deque[Fault]] = attrs.field(factory=dict)
    late: list[bytes] = attrs.field(factory=list)
    news: trio.Event = attrs.field(factory=trio.Event)
    is_idle: trio.Event = attrs.field(factory=trio.Event)

    def account(self) -> MailServer:
        """The account of anybody here."""
        login = Login(user="ada", password="open")
        return MailServer(host="127.0.0.1", port=self.port, security=Security.NONE, login=login)

    def put(self, *mails: bytes) -> None:
        """Let mail arrive."""
        for raw in mails:
            self.mails[self.uid_next] = raw
            self.uid_next += 1
        self.news.set()
        self.news = trio.Event()

    def script(self, command: str, *faults: Fault) -> None:
        """What happens to the next commands of this name."""
        self.scripts.setdefault(command, deque()).extend(faults)

    def count(self, command: str) -> int:
        """How often a command came."""
        return self.commands.count(command)


class _HungUp(Exception):
    pass


@attrs.define(kw_only=True)
class _Session:
    server: ScriptedImap
    stream: trio.SocketStream
    buffer: bytearray = attrs.field(factory=bytearray)
    known: int = 0

    async def line(self) -> str:
        while b"\r\n" not in self.buffer:
            received = await self.stream.receive_some(65536)
            if not received:
                raise _HungUp
            self.buffer += received
        line, _, rest = self.buffer.partition(b"\r\n")
        self.buffer = bytearray(rest)
        return line.decode()

    async def send(self, *lines: bytes | str) -> None:
        raw = [line.encode() if isinstance(line, str) else line for line in lines]
        await self.stream.send_all(b"".join(line + b"\r\n" for line in raw))

    async def run(self) -> None:
        await self.answer("GREETING", "*", [f"* OK [CAPABILITY {self.server.capabilities}] hello"])
        while True:
            tag, _, rest = (await self.line()).partition(" ")
            await self.obey(tag, rest)

    async def obey(self, tag: str, rest: str) -> None:
        name, _, arguments = rest.removeprefix("UID ").partition(" ")
        server = self.server
        match name:
            case "CAPABILITY":
                await self.answer(name, tag, [f"* CAPABILITY {server.capabilities}"])
            case "AUTHENTICATE":
                await self.send("+ ")
                await self.line()
                await self.answer(name, tag, [])
            case "EXAMINE":
                next_uid = [f"* OK [UIDNEXT {server.uid_next}] next"] * server.tells_uid_next
                self.known = len(server.mails)
                exists = f"* {self.known} EXISTS"
                valid = f"* OK [UIDVALIDITY {server.uid_validity}] valid"
                await self.answer(name, tag, [exists, valid, *next_uid])
            case "SEARCH":
                first, _, last = arguments.removeprefix("UID ").partition(":")
                uids = sorted(server.mails)
                wanted = [uid for uid in uids if last and int(first) <= uid <= int(last)]
                found = wanted if last else uids[-1:]
                found += [] if server.adds_uid is None else [server.adds_uid]
                await self.answer(name, tag, ["* SEARCH " + " ".join(map(str, found))])
            case "LIST":
                await self.answer(name, tag, [f'* LIST () "." {INBOX}'])
            case "FETCH":
                await self.fetch(tag, arguments, by_uid=rest.startswith("UID"))
            case "IDLE":
                await self.idle(tag)
            case _:
                await self.send(f"{tag} BAD what is {name}?")

    async def fetch(self, tag: str, arguments: str, *, by_uid: bool) -> None:
        numbers, _, items = arguments.partition(" ")
        uids = sorted(self.server.mails)
        asked = [int(number) for number in numbers.split(",")]
        chosen = [uid for uid in uids if (uid if by_uid else uids.index(uid) + 1) in asked]
        partial_body = re.search(r"<(\d+)\.(\d+)>", items)
        lines: list[bytes | str] = []
        for uid in chosen:
            start = f"* {uids.index(uid) + 1} FETCH (UID {uid} "
            if partial_body is None:
                lines.append(f"{start}INTERNALDATE {DATED})")
                continue
            offset, count = map(int, partial_body.groups())
            raw = self.server.mails[uid]
            chunk = raw[offset : offset + count]
            head = f"{start}RFC822.SIZE {len(raw)} BODY[]<{offset}> {{{len(chunk)}}}\r\n"
            lines.append(head.encode() + chunk + b")")
        name = "FETCH" if partial_body is None else f"FETCH {asked[0]}"
        await self.answer(name, tag, lines)

    async def idle(self, tag: str) -> None:
        late, self.server.late = self.server.late, []
        if late:
            self.server.put(*late)
        # What came since the folder was looked at is told at once, and the rest as it comes.
        news = self.server.news
        told = [f"* {len(self.server.mails)} EXISTS"] * (len(self.server.mails) != self.known)
        await self.answer("IDLE", tag, ["+ idling", *told], ends=False)
        self.server.is_idle.set()
        async with trio.open_nursery() as nursery:
            if self.server.tells_news:
                nursery.start_soon(self.tell, news)
            done = await self.line()
            nursery.cancel_scope.cancel()
        assert done == "DONE", done
        await self.send(f"{tag} OK idled")

    async def tell(self, news: trio.Event) -> None:
        await news.wait()
        await self.send(f"* {len(self.server.mails)} EXISTS")

    async def answer(
        self, name: str, tag: str, lines: list[bytes | str], *, ends: bool = True
    ) -> None:
        self.server.commands.append(name)
        script = self.server.scripts.get(name)
        fault = script.popleft() if script else None
        end = [f"{tag} OK {name} done"] * (ends and name != "GREETING")
        match fault:
            case None | Fault.NONE:
                await self.send(*lines, *end)
            case Fault.DROP:
                raise _HungUp
            case Fault.CUT:
                raw = b"\r\n".join(x if isinstance(x, bytes) else x.encode() for x in lines)
                await self.stream.send_all(raw[: len(raw) // 2])
                raise _HungUp
            case Fault.NO:
                await self.send(f"{tag} NO {self.server.no_code}not now")
                if not ends:
                    # No IDLE has begun, and none is ended.
                    await self.obey(*(await self.line()).split(" ", 1))
            case Fault.BYE:
                await self.send("* BYE too many of you")
                raise _HungUp
            case Fault.SILENCE:
                # For ever to whoever waits, and an end to a test that would hang with it.
                with trio.move_on_after(SILENCE_SECONDS):
                    await trio.sleep_forever()
                raise _HungUp
            case Fault.JUNK:
                await self.send(b"HTTP/1.1 400 \xff\xfe")
                raise _HungUp
            case Fault.EMPTY:
                await self.send(*end)


@asynccontextmanager
async def scripted_imap() -> AsyncIterator[ScriptedImap]:
    """Serve on a free port of 127.0.0.1 until the block ends."""
    server = ScriptedImap()
    async with serving(partial(_serve, server)) as server.port:
        yield server


async def _serve(server: ScriptedImap, stream: trio.SocketStream) -> None:
    async with stream:
        try:
            await _Session(server=server, stream=stream).run()
        except* (_HungUp, trio.BrokenResourceError):
            pass
