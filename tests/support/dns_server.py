"""A small DNS server on loopback, UDP and TCP, that answers TXT as a test lays down."""

import enum
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from socket import SOCK_DGRAM

import attrs
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import trio

from muster.clients.mail.verify.resolver import Resolver, resolver_at

PORTS_MAX = 50


class Trouble(enum.Enum):
    """What is wrong with a name."""

    SILENT = "no packet comes back"
    FAILING = "SERVFAIL"
    EMPTY = "the name is there and has no TXT"


@attrs.define(kw_only=True)
class DnsServer:
    """The state that tests look at; a name that is not laid down does not exist."""

    port: int = 0
    records: dict[str, tuple[bytes, ...]] = attrs.field(factory=dict)
    aliases: dict[str, str] = attrs.field(factory=dict)
    troubles: dict[str, Trouble] = attrs.field(factory=dict)
    only_tcp: set[str] = attrs.field(factory=set)
    asked: list[str] = attrs.field(factory=list)
    asked_by_tcp: list[str] = attrs.field(factory=list)

    @property
    def address(self) -> str:
        """Where it listens, as `--dns` takes it."""
        return f"127.0.0.1:{self.port}"

    def resolver(self) -> Resolver:
        """A new resolver that asks this server."""
        return resolver_at(self.address)

    def put(self, name: str, *records: bytes) -> None:
        """Lay down the records of a name, which is without its last dot."""
        self.records[name] = records


@asynccontextmanager
async def dns_server() -> AsyncIterator[DnsServer]:
    """Serve on a free port of 127.0.0.1 until the block ends."""
    server = DnsServer()
    with trio.socket.socket(type=SOCK_DGRAM) as udp:
        listeners = await _bind_both(udp)
        server.port = udp.getsockname()[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_serve_udp, server, udp)
            nursery.start_soon(
                partial(trio.serve_listeners, partial(_serve_tcp, server), listeners)
            )
            yield server
            nursery.cancel_scope.cancel()


async def _bind_both(udp: trio.socket.SocketType) -> list[trio.SocketListener]:
    """Bind one port for both protocols: what is free for one may be taken for the other."""
    for _ in range(PORTS_MAX):
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        try:
            await udp.bind(listeners[0].socket.getsockname())
        except OSError:
            for listener in listeners:
                await listener.aclose()
        else:
            return listeners
    raise AssertionError("no port is free for both UDP and TCP")


async def _serve_udp(server: DnsServer, udp: trio.socket.SocketType) -> None:
    while True:
        raw, client = await udp.recvfrom(4096)
        answer = _answer(server, raw, by_tcp=False)
        if answer is not None:
            await udp.sendto(answer, client)


async def _serve_tcp(server: DnsServer, stream: trio.SocketStream) -> None:
    async with stream:
        length = int.from_bytes(await _exactly(stream, 2), "big")
        answer = _answer(server, await _exactly(stream, length), by_tcp=True)
        if answer is not None:
            await stream.send_all(len(answer).to_bytes(2, "big") + answer)


async def _exactly(stream: trio.SocketStream, count: int) -> bytes:
    got = b""
    while len(got) < count:
        more = await stream.receive_some(count - len(got))
        assert more, "the client went away in the middle of a query"
        got += more
    return got


def _answer(server: DnsServer, raw: bytes, *, by_tcp: bool) -> bytes | None:
    query = dns.message.from_wire(raw)
    question = query.question[0]
    name = question.name.to_text(omit_final_dot=True).lower()
    (server.asked_by_tcp if by_tcp else server.asked).append(name)
    trouble = server.troubles.get(name)
    if trouble is Trouble.SILENT:
        return None
    response = dns.message.make_response(query)
    response.flags |= dns.flags.RA
    target = server.aliases.get(name)
    if target is not None:
        response.answer.append(dns.rrset.from_text(question.name, 60, "IN", "CNAME", f"{target}."))
        owner, records = f"{target}.", server.records[target]
    else:
        owner, records = question.name.to_text(), server.records.get(name, ())
    if trouble is Trouble.FAILING:
        response.set_rcode(dns.rcode.SERVFAIL)
    elif not records and trouble is not Trouble.EMPTY and name != ".":
        response.set_rcode(dns.rcode.NXDOMAIN)
    elif name in server.only_tcp and not by_tcp:
        response.flags |= dns.flags.TC
    elif records:
        texts = [_quoted(record) for record in records]
        response.answer.append(dns.rrset.from_text_list(owner, 60, "IN", "TXT", texts))
    return response.to_wire()


def _quoted(record: bytes) -> str:
    """A record in its text form: strings of at most 255 bytes, of which a long key needs two."""
    pieces: Sequence[bytes] = [record[at : at + 200] for at in range(0, len(record), 200)] or [b""]
    return " ".join(f'"{_escaped(piece)}"' for piece in pieces)


def _escaped(piece: bytes) -> str:
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\{byte:03d}"
        for byte in piece
    )
