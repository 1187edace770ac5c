"""No sequence of bytes from one client disturbs another, or keeps the server from ending."""

import base64
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import trio

from tests.support.small_apps import CAP_BYTES, capped, quart_app, raw_app
from tests.support.wire import Floor, RawClient, served
from web.line import Limits

Attack = Callable[[Floor], Awaitable[None]]
LIMITS = Limits(write_seconds=0.4, head_seconds=0.4, linger_seconds=0.2)
HANDSHAKE = (
    b"GET /socket HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
FRAME = b"\x81\x82\x00\x00\x00\x00hi"
POST = b"POST /echo HTTP/1.1\r\nHost: test\r\n"


async def _say(floor: Floor, data: bytes, *, waits: bool) -> bytes:
    """Send and half-close (after the first bytes of an answer), and return what comes back."""
    client = await floor.open()
    await client.send(data)
    first = b""
    if waits:
        with trio.fail_after(5):
            first = bytes(await client.stream.receive_some())
    with suppress(trio.BrokenResourceError):
        await client.half_close()
    return first + await client.read_to_end()


def _bytes(data: bytes, *expected: bytes) -> Attack:
    """Return the attack that sends `data`, and whose answer starts with one of `expected`."""

    async def attack(floor: Floor) -> None:
        answer = await _say(floor, data, waits=bool(expected))
        assert not expected or answer.startswith(expected), answer

    return attack


async def _frame_in_the_handshakes_segment(floor: Floor) -> None:
    client = await floor.open()
    await client.send(HANDSHAKE + b"\r\n" + FRAME)
    with trio.fail_after(5):
        answer = b""
        while b"hi" not in answer:
            part = await client.stream.receive_some()
            assert part, answer
            answer += bytes(part)
    assert answer.startswith(b"HTTP/1.1 101 ")
    client.leave()


async def _resets_at_every_point(floor: Floor) -> None:
    whole = POST + b"Content-Length: 5\r\n\r\nhello"
    for cut in range(len(whole) + 1):
        client = await floor.open()
        await client.send(whole[:cut])
        client.reset()


async def _resets_in_a_socket(floor: Floor) -> None:
    whole = HANDSHAKE + b"\r\n" + FRAME
    for cut in range(0, len(whole) + 1, 7):
        client = await floor.open()
        await client.send(whole[:cut])
        client.reset()
    for _ in range(3):
        client = await _shaken(floor)
        client.reset()


async def _shaken(floor: Floor) -> RawClient:
    client = await floor.open()
    await client.send(HANDSHAKE + b"\r\n")
    with trio.fail_after(5):
        assert bytes(await client.stream.receive_some()).startswith(b"HTTP/1.1 101")
    return client


async def _pipelined(floor: Floor) -> None:
    client = await floor.open()
    one = b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
    await client.send(one * 3 + last + one)
    answer = await client.read_to_end()
    assert answer.count(b"HTTP/1.1 200") == 4, answer
    client.leave()


async def _pipelined_behind_one_that_waits(floor: Floor) -> None:
    client = await floor.open()
    await client.send(b"GET /park HTTP/1.1\r\nHost: test\r\n\r\n" * 3)
    client.leave()


async def _never_reads(floor: Floor) -> None:
    client = await floor.open()
    await client.send(b"GET /endless HTTP/1.1\r\nHost: test\r\n\r\n")
    with trio.fail_after(5):
        while not floor.counts.slow_readers:
            await trio.testing.wait_all_tasks_blocked(0.05)
    client.leave()


async def _never_reads_and_stays(floor: Floor) -> None:
    """Left connected on purpose: shutdown meets it in mid-write."""
    client = await floor.open()
    await client.send(b"GET /endless HTTP/1.1\r\nHost: test\r\n\r\n")
    with trio.fail_after(5):
        await client.stream.receive_some(1)


async def _socket_never_reads(floor: Floor) -> None:
    client = await _shaken(floor)
    size = (60_000).to_bytes(2, "big")
    frame = b"\x81\xfe" + size + b"\0\0\0\0" + b"y" * 60_000
    with trio.move_on_after(5):
        try:
            while not floor.counts.slow_readers:
                with trio.move_on_after(0.3):
                    await client.send(frame)
        except trio.BrokenResourceError:
            pass
    assert floor.counts.slow_readers == 1
    client.leave()


async def _refused_heads(floor: Floor) -> None:
    """A refused HEAD, also behind one that was served, has an answer without a body."""
    served = b"HEAD /healthz HTTP/1.1\r\nHost: test\r\n\r\n"
    for refused in (b"HEAD /%ff HTTP/1.1\r\nHost: test\r\n\r\n", b"HEAD / HTTP/9.9\r\n\r\n"):
        answer = await _say(floor, refused, waits=True)
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 505 ")), answer
        assert answer.endswith(b"\r\n\r\n"), answer
    answer = await _say(floor, served + b"no head\r\n\r\n", waits=True)
    assert b"HTTP/1.1 400 " in answer, answer
    assert answer.endswith(b"}"), answer


async def _slow_head(floor: Floor) -> None:
    client = await floor.open()
    await client.send(b"GET /healthz HTTP/1.1\r\nHost: te")
    assert (await client.read_to_end()).startswith(b"HTTP/1.1 408 ")
    client.leave()


async def _slow_body(floor: Floor) -> None:
    client = await floor.open()
    await client.send(POST + b"Content-Length: 9\r\n\r\nhel")
    answer = await client.read_to_end()
    assert answer.startswith(b"HTTP/1.1 408 "), answer
    assert b'"code":"request_timeout"' in answer
    client.leave()


async def _body_far_over_the_cap(floor: Floor) -> None:
    client = await floor.open()
    size = CAP_BYTES + 200_000
    await client.send(POST + b"Content-Length: %d\r\n\r\n" % size + b"z" * size)
    answer = await client.read_to_end()
    assert answer.startswith(b"HTTP/1.1 413 "), answer[:200]
    assert b'"code":"body_too_large"' in answer
    assert b"connection: close" in answer.lower()
    assert b"<reset>" not in answer
    client.leave()


async def _chunks_over_the_cap(floor: Floor) -> None:
    client = await floor.open()
    chunk = b"4000\r\n" + b"c" * 0x4000 + b"\r\n"
    await client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 6)
    answer = await client.read_to_end()
    assert answer.startswith(b"HTTP/1.1 413 "), answer[:200]
    client.leave()


async def _body_cut_short(floor: Floor) -> None:
    answer = await _say(floor, POST + b"Content-Length: 9\r\n\r\nhel", waits=False)
    assert answer.startswith(b"HTTP/1.1 400 "), answer


async def _socket_message_over_the_limit(floor: Floor) -> None:
    client = await _shaken(floor)
    size = (300_000).to_bytes(8, "big")
    await client.send(b"\x81\xff" + size + b"\0\0\0\0" + b"y" * 300_000)
    answer = await client.read_to_end()
    assert answer[:4] == b"\x88\x02\x03\xf1", answer[:40]
    client.leave()


async def _socket_message_without_end(floor: Floor) -> None:
    """The first fragments are over the limit; the client answers no close and sends on."""
    client = await _shaken(floor)
    fragment = b"\xfe" + (60_000).to_bytes(2, "big") + b"\0\0\0\0" + b"y" * 60_000
    await client.send(b"\x01" + fragment)
    with trio.fail_after(5):
        try:
            while True:
                await client.send(b"\x00" + fragment)
        except trio.BrokenResourceError:
            client.leave()


async def _compressed_socket(floor: Floor) -> None:
    client = await floor.open()
    offer = b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
    await client.send(HANDSHAKE + offer)
    with trio.fail_after(5):
        answer = bytes(await client.stream.receive_some())
    assert answer.startswith(b"HTTP/1.1 101")
    assert b"deflate" not in answer


async def _socket_half_closed(floor: Floor) -> None:
    client = await _shaken(floor)
    await client.half_close()
    await client.read_to_end()
    client.leave()


ATTACKS: dict[str, Attack] = {
    "bad HTTP2-Settings": _bytes(
        b"GET /healthz HTTP/1.1\r\nHost: t\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: ***\r\n\r\n",
        b"HTTP/1.1 200 ",
    ),
    "good HTTP2-Settings": _bytes(
        b"GET /healthz HTTP/1.1\r\nHost: t\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: %b\r\n\r\n" % base64.urlsafe_b64encode(b"\0\3\0\0\0\x64"),
        b"HTTP/1.1 200 ",
    ),
    "HTTP/2 preface": _bytes(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", b"HTTP/1.1 505"
    ),
    "TLS hello": _bytes(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"\0" * 64, b"HTTP/1.1 400"),
    "0xff in a WebSocket header": _bytes(
        HANDSHAKE + b"Sec-WebSocket-Protocol: a\xff\r\n\r\n", b"HTTP/1.1 400 "
    ),
    "0xff in the key": _bytes(HANDSHAKE.replace(b"dGhl", b"\xff\xff") + b"\r\n", b"HTTP/1.1 400 "),
    "0xff in Connection": _bytes(
        HANDSHAKE.replace(b"Connection: Upgrade", b"Connection: Upgrade, \xff") + b"\r\n",
        b"HTTP/1.1 400 ",
    ),
    "0xff in extensions": _bytes(
        HANDSHAKE + b"Sec-WebSocket-Extensions: \xff; =\r\n\r\n", b"HTTP/1.1 400 "
    ),
    "nonsense extensions": _bytes(
        HANDSHAKE + b"Sec-WebSocket-Extensions: permessage-deflate; x=;;,\r\n\r\n", b"HTTP/1.1 101"
    ),
    "handshake without a key": _bytes(
        b"GET /socket HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 400 ",
    ),
    "handshake of HTTP/1.0": _bytes(HANDSHAKE.replace(b"1.1", b"1.0") + b"\r\n", b"HTTP/1.1 400"),
    "handshake with a body": _bytes(HANDSHAKE + b"Content-Length: 5\r\n\r\nhello"),
    "chunks by HTTP/1.0": _bytes(
        POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 400 ",
    ),
    "Host with an empty label": _bytes(
        b"GET /healthz HTTP/1.1\r\nHost: a..b\r\n\r\n", b"HTTP/1.1 400 "
    ),
    "Host with a long label": _bytes(
        b"GET /healthz HTTP/1.1\r\nHost: %b\r\n\r\n" % (b"a" * 64), b"HTTP/1.1 400 "
    ),
    "Host that is no name": _bytes(
        b"GET /healthz HTTP/1.1\r\nHost: \xff\r\n\r\n", b"HTTP/1.1 400 "
    ),
    "HEAD that is refused": _refused_heads,
    "unmasked frame": _bytes(HANDSHAKE + b"\r\n\x81\x02hi", b"HTTP/1.1 101"),
    "reserved bits": _bytes(HANDSHAKE + b"\r\n\xf1\x82\0\0\0\0hi", b"HTTP/1.1 101"),
    "frame of 2^63 bytes": _bytes(HANDSHAKE + b"\r\n\x81\xff\x80" + b"\0" * 11, b"HTTP/1.1 101"),
    "close frame, then more": _bytes(
        HANDSHAKE + b"\r\n\x88\x82\0\0\0\0\x03\xe8" + FRAME * 3, b"HTTP/1.1 101"
    ),
    "close frame of one byte": _bytes(HANDSHAKE + b"\r\n\x88\x81\0\0\0\0\x03" + FRAME),
    "text that is not UTF-8": _bytes(HANDSHAKE + b"\r\n\x81\x82\0\0\0\0\xff\xfe" + FRAME),
    "frame in the handshake's segment": _frame_in_the_handshakes_segment,
    "resets at every point": _resets_at_every_point,
    "resets in a socket": _resets_in_a_socket,
    "pipelined": _pipelined,
    "pipelined behind one that waits": _pipelined_behind_one_that_waits,
    "never reads": _never_reads,
    "never reads and stays": _never_reads_and_stays,
    "socket that never reads": _socket_never_reads,
    "socket, half-closed": _socket_half_closed,
    "slow head": _slow_head,
    "slow body": _slow_body,
    "body announced over the cap": _bytes(
        POST + b"Content-Length: 999999\r\n\r\n", b"HTTP/1.1 413"
    ),
    "body far over the cap": _body_far_over_the_cap,
    "chunks over the cap": _chunks_over_the_cap,
    "message over the limit": _socket_message_over_the_limit,
    "message without an end": _socket_message_without_end,
    "compressed socket": _compressed_socket,
    "length that is no number": _bytes(POST + b"Content-Length: -5\r\n\r\n", b"HTTP/1.1 400"),
    "length of 30 digits": _bytes(
        POST + b"Content-Length: %b\r\n\r\n" % (b"9" * 30), b"HTTP/1.1 4"
    ),
    "two lengths": _bytes(
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", b"HTTP/1.1 400"
    ),
    "length and chunks": _bytes(
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 400 ",
    ),
    "chunk size of nonsense": _bytes(
        POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello", b"HTTP/1.1 400"
    ),
    "chunk without its end": _bytes(
        POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloworld\r\n", b"HTTP/1.1 400"
    ),
    "unknown coding": _bytes(POST + b"Transfer-Encoding: gzip\r\n\r\n", b"HTTP/1.1 501"),
    "body cut short": _body_cut_short,
    "half-closed before the answer": _bytes(POST + b"Content-Length: 5\r\n\r\nhello"),
    "half-closed over the cap": _bytes(POST + b"Content-Length: 999999\r\n\r\nhello"),
    "head too large": _bytes(
        b"GET /healthz HTTP/1.1\r\nHost: t\r\nX: " + b"h" * 20_000, b"HTTP/1.1 431"
    ),
    "target too large": _bytes(b"GET /" + b"t" * 20_000, b"HTTP/1.1 431"),
    "NUL in the target": _bytes(b"GET /a\0b HTTP/1.1\r\nHost: t\r\n\r\n", b"HTTP/1.1 400"),
    "NUL behind a percent sign": _bytes(b"GET /%00 HTTP/1.1\r\nHost: t\r\n\r\n", b"HTTP/1.1 400"),
    "bare 0xff in the target": _bytes(b"GET /\xff HTTP/1.1\r\nHost: t\r\n\r\n", b"HTTP/1.1 400"),
    "0xff behind a percent sign": _bytes(b"GET /%ff HTTP/1.1\r\nHost: t\r\n\r\n", b"HTTP/1.1 400"),
    "0xff in the query": _bytes(b"GET /healthz?q=%ff HTTP/1.1\r\nHost: t\r\n\r\n", b"HTTP/1.1 400"),
    "target without a path": _bytes(b"GET ?q HTTP/1.1\r\nHost: t\r\n\r\n", b"HTTP/1.1 400"),
    "absolute target": _bytes(b"GET http://t/healthz HTTP/1.1\r\nHost: t\r\n\r\n", b"HTTP/1.1 200"),
    "broken absolute target": _bytes(
        b"GET http://[::/healthz HTTP/1.1\r\nHost: t\r\n\r\n", b"HTTP/1.1 400"
    ),
    "CONNECT": _bytes(b"CONNECT t:80 HTTP/1.1\r\nHost: t\r\n\r\nmore", b"HTTP/1.1 400"),
    "OPTIONS *": _bytes(b"OPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n", b"HTTP/1.1 400"),
    "no host": _bytes(b"GET /healthz HTTP/1.1\r\n\r\n", b"HTTP/1.1 400"),
    "NUL in a header": _bytes(
        b"GET /healthz HTTP/1.1\r\nHost: t\r\nX: \0\r\n\r\n", b"HTTP/1.1 400"
    ),
    "0xff in a header": _bytes(
        b"GET /healthz HTTP/1.1\r\nHost: t\r\nX: \xff\r\n\r\n", b"HTTP/1.1 200"
    ),
    "HTTP/1.0": _bytes(b"GET /healthz HTTP/1.0\r\n\r\n", b"HTTP/1.1 200"),
    "HTTP/0.9": _bytes(b"GET /healthz\r\n\r\n", b"HTTP/1.1 400"),
    "HTTP/0.9 of one line": _bytes(b"GET /healthz\r\n"),
    "empty lines": _bytes(b"\r\n\r\n\r\n"),
    "nothing": _bytes(b""),
    "expect 100": _bytes(
        POST + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", b"HTTP/1.1 100 "
    ),
    "HEAD": _bytes(b"HEAD /healthz HTTP/1.1\r\nHost: t\r\n\r\n", b"HTTP/1.1 200"),
}


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("kind", ["raw", "quart"])
async def test_an_attack_disturbs_nobody(kind: str, name: str) -> None:
    """After each attack a new and an older connection are served, nothing crashed, and it ends."""
    app = capped(quart_app() if kind == "quart" else raw_app)
    async with served(app, limits=LIMITS) as floor:
        bystander = await floor.open()
        assert await bystander.healthy()
        await ATTACKS[name](floor)
        newcomer = await floor.open()
        assert await newcomer.healthy()
        assert await bystander.healthy()
        assert floor.reports == []


async def test_every_refused_head_is_told_in_json() -> None:
    """A refusal that no handler made has the shape of every other error."""
    async with served(raw_app, limits=LIMITS) as floor:
        answer = await _say(floor, b"GET /%00 HTTP/1.1\r\nHost: t\r\n\r\n", waits=True)
        assert b"content-type: application/json" in answer.lower()
        assert answer.endswith(b'is not valid HTTP.","code":"malformed_request"}')
