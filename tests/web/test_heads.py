"""Heads, chunk sizes and trailers: what is accepted, what is refused, and that h11 agrees."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.heads import Head, Refusal, take_chunk_size, take_head, take_trailers

BYTES_MAX = 16 * 1024
GOOD = b"POST /a/b?c=d HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\n"


def take(raw: bytes) -> Head | int | None:
    """The head, the status that refuses it, or None while it is not whole."""
    try:
        return take_head(bytearray(raw), BYTES_MAX)
    except Refusal as refusal:
        return refusal.status


def request(*lines: bytes) -> bytes:
    """A GET with these header lines."""
    return b"\r\n".join([b"GET / HTTP/1.1", *lines, b"", b""])


def test_a_head_is_taken_whole_and_what_is_behind_it_stays() -> None:
    """Every part is where it belongs, and the next bytes are left for the next reader."""
    buffer = bytearray(b"\r\n" + GOOD + b"hello")
    head = take_head(buffer, BYTES_MAX)
    assert head is not None
    assert (head.method, head.path, head.raw_path, head.query) == (b"POST", "/a/b", b"/a/b", b"c=d")
    assert head.headers == [(b"host", b"test"), (b"content-length", b"5")]
    assert (head.length, head.keeps, head.expects, head.upgrades) == (5, True, False, False)
    assert buffer == b"hello"


def test_no_part_of_a_head_is_a_head() -> None:
    """However it is cut, nothing is taken and nothing refused before the last byte is here."""
    for cut in range(len(GOOD)):
        assert take(GOOD[:cut]) is None, cut


REFUSED: dict[bytes, int] = {
    b"GET / HTTP/1.1\nHost: t\n\n": 400,
    request(b"Host: t", b"X: a\nY: b"): 400,
    request(b"Host: t", b"X: a\rY: b"): 400,
    request(b"Host: t", b"X: a", b" folded"): 400,
    request(b"Host: t", b"X : a"): 400,
    request(b"Host: t", b" X: a"): 400,
    request(b"Host: t", b": a"): 400,
    request(b"Host: t", b"no colon"): 400,
    request(b"Host: t", b"X: \x01"): 400,
    request(b"Host: t", b"X: \x7f"): 400,
    request(b"Host: t", b"X(: a"): 400,
    request(b"Host: t", b"Host: t"): 400,
    request(b"Host: t, u"): 400,
    request(b"X: a"): 400,
    request(b"Host: t", b"Content-Length: 5", b"Content-Length: 5"): 400,
    request(b"Host: t", b"Content-Length: 5, 5"): 400,
    request(b"Host: t", b"Content-Length: +5"): 400,
    request(b"Host: t", b"Content-Length: 0x5"): 400,
    request(b"Host: t", b"Content-Length:"): 400,
    request(b"Host: t", b"Content-Length: \xb2"): 400,
    request(b"Host: t", b"Content-Length: 5", b"Transfer-Encoding: chunked"): 400,
    request(b"Host: t", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"): 501,
    request(b"Host: t", b"Transfer-Encoding: gzip, chunked"): 501,
    request(b"Host: t", b"Transfer-Encoding: identity"): 501,
    request(b"Host: t", b"Transfer-Encoding:"): 501,
    b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n": 400,
    b"GET  / HTTP/1.1\r\nHost: t\r\n\r\n": 400,
    b"GET / HTTP/1.1 \r\nHost: t\r\n\r\n": 400,
    b"GET / HTTP/1.10\r\nHost: t\r\n\r\n": 400,
    b"GET / http/1.1\r\nHost: t\r\n\r\n": 400,
    b"GET / HTTP/1.2\r\nHost: t\r\n\r\n": 505,
    b"G\x80T / HTTP/1.1\r\nHost: t\r\n\r\n": 400,
    b"GET /a#b HTTP/1.1\r\nHost: t\r\n\r\n": 400,
    b"GET http://t/a#b HTTP/1.1\r\nHost: t\r\n\r\n": 400,
    b"GET http:/a HTTP/1.1\r\nHost: t\r\n\r\n": 400,
    b"GET http:///a HTTP/1.1\r\nHost: t\r\n\r\n": 400,
    b"GET http:///a HTTP/1.0\r\n\r\n": 400,
    b"GET httpx://t/a HTTP/1.1\r\nHost: t\r\n\r\n": 400,
    b"GET http://other/a HTTP/1.1\r\nHost: t\r\n\r\n": 400,
    b"GET http://u@t/a HTTP/1.1\r\nHost: t\r\n\r\n": 400,
    b"GET http://u@t/a HTTP/1.0\r\n\r\n": 400,
    b"\n\r\nGET / HTTP/1.1\r\nHost: t\r\n\r\n": 400,
    b"\r\n" + b"x" * (BYTES_MAX + 1): 431,
    request(b"Host: t", b"X: " + b"x" * BYTES_MAX): 431,
}


@pytest.mark.parametrize("raw", REFUSED, ids=lambda raw: repr(raw[:60]))
def test_what_two_readers_could_read_apart_is_refused(raw: bytes) -> None:
    """Each has the status that says why, and none is repaired."""
    assert take(raw) == REFUSED[raw]


@pytest.mark.parametrize(
    ("first", "raw_path", "query"),
    [
        (b"GET http://T/a/b?c HTTP/1.1", b"/a/b", b"c"),
        (b"GET HTTPS://t HTTP/1.1", b"/", b""),
        (b"GET http://t?c HTTP/1.1", b"/", b"c"),
        (b"GET http://t//a HTTP/1.1", b"//a", b""),
    ],
)
def test_an_absolute_form_is_cut_to_its_path(first: bytes, raw_path: bytes, query: bytes) -> None:
    """It names the host that the Host does, so nothing is lost with it."""
    head = take(first + b"\r\nHost: t\r\n\r\n")
    assert isinstance(head, Head)
    assert (head.raw_path, head.query) == (raw_path, query)


@pytest.mark.parametrize(
    ("lines", "keeps"),
    [
        ([b"Connection: close"], False),
        ([b"Connection: keep-alive, CLOSE"], False),
        ([b"Connection: close", b"Connection: keep-alive"], False),
        ([b"Connection: keep-alive"], True),
        ([], True),
    ],
)
def test_a_client_that_will_not_keep_its_connection_says_so(
    lines: list[bytes], keeps: bool
) -> None:
    """In any case and on any of several lines."""
    head = take(request(b"Host: t", *lines))
    assert isinstance(head, Head)
    assert head.keeps is keeps


_name = st.sampled_from([b"Host", b"host", b"X", b"Content-Length", b"Transfer-Encoding", b"X "])
_value = st.one_of(
    st.sampled_from(
        [b"t", b"5", b" 5 ", b"chunked", b"CHUNKED", b"5,5", b"", b"gzip", b"\t", b"a b"]
    ),
    st.binary(max_size=4),
)
_line = st.tuples(_name, st.sampled_from([b":", b": ", b" :"]), _value).map(b"".join)
_first = st.sampled_from(
    [b"GET / HTTP/1.1", b"POST /a%20b?c HTTP/1.1", b"GET / HTTP/1.0", b"GET /\xff HTTP/1.1"]
)
_end = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n"])


@given(_first, st.lists(_line, max_size=4), _end)
def test_h11_reads_what_is_accepted_and_reads_the_same(
    first: bytes, lines: list[bytes], end: bytes
) -> None:
    """A second reader finds the same method, target, headers, and the same end of the body."""
    raw = end.join([first, b"Host: t", *lines, b"", b""])
    buffer = bytearray(raw + b"5\r\nhello\r\n0\r\n\r\n")
    try:
        head = take_head(buffer, BYTES_MAX)
    except Refusal:
        return
    assert head is not None
    other = h11.Connection(h11.SERVER)
    other.receive_data(raw + b"5\r\nhello\r\n0\r\n\r\n")
    event = other.next_event()
    assert isinstance(event, h11.Request)
    assert (event.method, event.http_version) == (head.method, head.version)
    assert event.target == head.raw_path + (b"?" + head.query if head.query else b"")
    framing = {b"transfer-encoding"}
    assert [item for item in event.headers if item[0] not in framing] == [
        item for item in head.headers if item[0] not in framing
    ]
    data = other.next_event()
    if head.length is None:
        assert isinstance(data, h11.Data)
        assert data.data == b"hello"
    elif head.length == 0:
        assert isinstance(data, h11.EndOfMessage)
    else:
        assert isinstance(data, h11.Data)
        assert len(data.data) == min(head.length, len(buffer))


@pytest.mark.parametrize(
    ("line", "size"),
    [(b"5", 5), (b"A", 10), (b"0", 0), (b"00f", 15), (b"5;name=value", 5), (b"5 ;x", 5)],
)
def test_the_size_of_a_chunk(line: bytes, size: int) -> None:
    """Hexadecimal, with extensions that nobody reads."""
    buffer = bytearray(line + b"\r\nrest")
    assert take_chunk_size(buffer) == size
    assert buffer == b"rest"
    for cut in range(len(line) + 1):
        assert take_chunk_size(bytearray(line[:cut])) is None


@pytest.mark.parametrize(
    "line",
    [b"", b"-5", b"0x5", b"5 5", b"g", b"5;\x01", b"1" * 16, b" 5", b"5;" + b"x" * 1024],
)
def test_what_is_no_size_of_a_chunk_is_refused(line: bytes) -> None:
    """A sign, a prefix, a control character, a number too large and a line too long are 400."""
    for end in (b"\r\n", b"\n"):
        with pytest.raises(Refusal):
            take_chunk_size(bytearray(line + end))
    with pytest.raises(Refusal):
        take_chunk_size(bytearray(b"5\nhello"))


def test_trailers_are_read_and_dropped() -> None:
    """They are checked as headers are, bounded, and leave the next request alone."""
    buffer = bytearray(b"X: a\r\nY: b\r\n\r\nGET")
    assert take_trailers(buffer, BYTES_MAX)
    assert buffer == b"GET"
    assert not take_trailers(bytearray(b"X: a\r\n"), BYTES_MAX)
    for bad in (b"no colon\r\n\r\n", b"X: a\nY: b\r\n\r\n", b"X" * (BYTES_MAX + 1)):
        with pytest.raises(Refusal):
            take_trailers(bytearray(bad), BYTES_MAX)
