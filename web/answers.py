"""What a handler answers with: JSON that no cache keeps."""

import attrs
import msgspec

from muster.errors import MusterError
from web.errors import refusal_body, refusal_headers, status_of

Header = tuple[bytes, bytes]

_JSON = (b"content-type", b"application/json")
_NO_STORE = (b"cache-control", b"no-store")
_encode = msgspec.json.Encoder().encode


@attrs.frozen
class Answer:
    """One whole answer to one request."""

    status: int
    headers: tuple[Header, ...]
    body: bytes


def answer(status: int, members: msgspec.Struct | dict[str, object]) -> Answer:
    """Answer with a JSON object; one that `web.about` shows to authors is a Struct."""
    return answer_encoded(status, _encode(members))


def answer_encoded(status: int, body: bytes, *more: Header) -> Answer:
    """Answer with what is JSON already, and further headers."""
    length = (b"content-length", b"%d" % len(body))
    return Answer(status, (_JSON, length, _NO_STORE, *more), body)


def answer_bare(status: int) -> Answer:
    """Answer with a status that says it all: the body is empty."""
    return Answer(status, ((b"content-length", b"0"), _NO_STORE), b"")


def answer_nothing() -> Answer:
    """Answer 204, which has no body and so no header that speaks of one (RFC 9110, 8.6)."""
    return Answer(204, (_NO_STORE,), b"")


def answer_refusal(error: MusterError) -> Answer:
    """Answer with the one shape of an error; the class decides the status."""
    more = [
        (name.lower().encode(), value.encode()) for name, value in refusal_headers(error).items()
    ]
    return answer_encoded(status_of(error), refusal_body(error), *more)
