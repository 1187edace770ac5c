"""The head of a request, read strictly: what two readers could take for two things is refused.

A proxy may stand in front, and then bytes that it counts to one request and we to another are a
request of somebody else's. So nothing is repaired here (RFC 9112; each of these is 400 unless
another status is named): a line ends in CR LF; there is no folded line, no blank before a colon, no
control character; one Host, which can be one; one length, of digits, or `chunked` alone (501 for
another coding), never both, and no chunks from HTTP/1.0. A target is a path, or an absolute form
of the same host, which is cut to its path; it has no fragment. NUL and broken UTF-8 behind percent
signs are refused for all routes here. A method is what it is: `post` is none that has a route.

Rejected: h11, whose share of a request's CPU is three times this one's with what `web.exchange`
writes, and httptools, which leaves the limits, the Host and pipelined requests to its caller.
tests/web/test_heads.py lets h11 read what is accepted here, and both must agree.
"""

import re
from urllib.parse import unquote, unquote_to_bytes

import attrs

Header = tuple[bytes, bytes]

HOST_BYTES_MAX = 255 + len(":65535")
LENGTH_DIGITS_MAX = 18
CHUNK_LINE_BYTES_MAX = 1024

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_TEXT = rb"[^\x00-\x08\x0a-\x1f\x7f]*"
_REQUEST = re.compile(rb"(%s) ([\x21-\x7e]+) HTTP/([0-9]\.[0-9])" % _TOKEN)
_ABSOLUTE = re.compile(rb"(?i:https?)://([^/?]+)(.*)")
_FIELD = re.compile(rb"(%s):(%s)" % (_TOKEN, _TEXT))
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;%s)?" % _TEXT)
# An empty line; that one without a CR is found too, so that it is refused and not waited out.
_END = re.compile(rb"\n\r?\n")
# RFC 3986, 3.2.2, and the lengths of RFC 1035; an empty one is allowed (RFC 9110, 7.2).
_LABEL = r"[A-Za-z0-9_~!$&'()*+,;=%-]{1,63}"
_HOST = re.compile(rf"(\[[0-9A-Fa-f:.]+\]|({_LABEL}(\.{_LABEL})*\.?)?)(:[0-9]{{0,5}})?".encode())


class Refusal(Exception):
    """The request is refused before any handler saw it, or in the middle of its body."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@attrs.frozen(kw_only=True)
class Head:
    """A request's head; header names are in lower case."""

    method: bytes
    raw_path: bytes
    path: str
    query: bytes
    version: bytes  # b"1.0" or b"1.1"
    headers: list[Header]
    length: int | None  # of the body; None when it comes in chunks
    keeps: bool  # whether the client wants to keep the connection
    expects: bool  # whether it waits for a 100 before it sends the body
    upgrades: bool  # to a WebSocket


def take_head(buffer: bytearray, bytes_max: int) -> Head | None:
    """Take a head from the front of `buffer`; None while it is not all there.

    Raises Refusal: 400, 431 over `bytes_max`, 501, 505.
    """
    while buffer.startswith(b"\r\n"):
        del buffer[:2]  # RFC 9112, 2.2: an empty line before a request is passed over
    end = _END.search(buffer)
    if (len(buffer) if end is None else end.start()) > bytes_max:
        raise Refusal(431)
    if buffer and buffer[0] <= 0x20 and buffer != b"\r":
        raise Refusal(400)  # TLS, for one, and whoever sent it waits for us
    if end is None:
        return None
    *lines, last = bytes(buffer[: end.start() + 1]).split(b"\r\n")
    if last:
        raise Refusal(400)
    head = _read(lines[0], lines[1:])
    del buffer[: end.end()]
    return head


def _read(first: bytes, lines: list[bytes]) -> Head:
    request = _REQUEST.fullmatch(first)
    if request is None:
        raise Refusal(400)
    method, target, version = request.groups()
    if version not in {b"1.0", b"1.1"}:
        raise Refusal(505)
    headers = [_field(line) for line in lines]
    named = dict(headers)
    authority, target = _origin_form(target)
    raw_path, _, query = target.partition(b"?")
    _check_host(headers, named, version, authority)
    connection = _connection(headers) if b"connection" in named else []
    return Head(
        method=method,
        raw_path=raw_path,
        path=unquote(raw_path.decode()) if b"%" in raw_path else raw_path.decode(),
        query=query,
        version=version,
        headers=headers,
        length=_length(headers, named, version),
        keeps=version == b"1.1" and b"close" not in connection,
        expects=version == b"1.1" and named.get(b"expect", b"").lower() == b"100-continue",
        upgrades=method == b"GET"
        and b"upgrade" in connection
        and named.get(b"upgrade", b"").lower() == b"websocket",
    )


def _field(line: bytes) -> Header:
    found = _FIELD.fullmatch(line)
    if found is None:
        raise Refusal(400)
    name, value = found.groups()
    return name.lower(), value.strip(b" \t")


def _connection(headers: list[Header]) -> list[bytes]:
    values = b",".join(value for name, value in headers if name == b"connection")
    return [part.strip() for part in values.lower().split(b",")]


def _once(headers: list[Header], name: bytes) -> bool:
    return [found for found, _ in headers].count(name) <= 1


def _check_host(
    headers: list[Header], named: dict[bytes, bytes], version: bytes, authority: bytes | None
) -> None:
    host = named.get(b"host", (authority or b"") if version == b"1.0" else None)
    if (
        host is None
        or len(host) > HOST_BYTES_MAX
        or not _HOST.fullmatch(host)
        or not _once(headers, b"host")
        or (authority is not None and authority.lower() != host.lower())
    ):
        raise Refusal(400)


def _length(headers: list[Header], named: dict[bytes, bytes], version: bytes) -> int | None:
    """Return how long the body is; a head with neither length nor chunks has none (RFC 9112, 6.3).

    None if only the end of the body will tell.
    """
    coding, length = named.get(b"transfer-encoding"), named.get(b"content-length")
    if coding is not None:
        if length is not None or version == b"1.0":
            raise Refusal(400)
        if coding.lower() != b"chunked" or not _once(headers, b"transfer-encoding"):
            raise Refusal(501)
        return None
    if length is None:
        return 0
    # isdigit of bytes is ASCII's alone.
    if not length.isdigit() or len(length) > LENGTH_DIGITS_MAX:
        raise Refusal(400)
    if not _once(headers, b"content-length"):
        raise Refusal(400)
    return int(length)


def _origin_form(target: bytes) -> tuple[bytes | None, bytes]:
    """Return the host that a request target names, if it does, and its path with the query.

    What no handler can name is refused.
    """
    authority = None
    if not target.startswith(b"/"):
        found = _ABSOLUTE.fullmatch(target)
        if found is None:
            raise Refusal(400)
        authority, target = found.groups()
        if not target.startswith(b"/"):
            target = b"/" + target
    if b"#" in target:
        raise Refusal(400)  # one reader would cut it off, another would not
    if b"%" in target:
        plain = unquote_to_bytes(target)
        try:
            plain.decode()
        except UnicodeDecodeError:
            raise Refusal(400) from None
        if b"\0" in plain:
            raise Refusal(400)
    return authority, target


def take_chunk_size(buffer: bytearray) -> int | None:
    """Take the line that begins a chunk; None while it is not all there. Raises Refusal(400)."""
    end = buffer.find(b"\n", 0, CHUNK_LINE_BYTES_MAX)
    if end < 0:
        if len(buffer) >= CHUNK_LINE_BYTES_MAX:
            raise Refusal(400)
        return None
    found = _CHUNK.fullmatch(bytes(buffer[: end - 1]))
    if found is None or buffer[end - 1 : end] != b"\r":
        raise Refusal(400)
    del buffer[: end + 1]
    return int(found[1], 16)


def take_trailers(buffer: bytearray, bytes_max: int) -> bool:
    """Take the lines behind the last chunk, which nobody reads; False while they are not all here.

    Raises Refusal: 400, 431.
    """
    if buffer.startswith(b"\r\n"):
        del buffer[:2]
        return True
    end = _END.search(buffer)
    if (len(buffer) if end is None else end.start()) > bytes_max:
        raise Refusal(431)
    if end is None:
        return False
    *lines, last = bytes(buffer[: end.start() + 1]).split(b"\r\n")
    if last:
        raise Refusal(400)
    for line in lines:
        _field(line)
    del buffer[: end.end()]
    return True
