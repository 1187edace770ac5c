"""The one shape of an error on every API route, for raw ASGI.

`{"error": "<sentence>", "code": "<slug>"}`, with `"field"` where one part of the input is to blame
and further members where the refusal has facts of its own. The slug is the contract.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus

import msgspec

from muster.errors import (
    Forbidden,
    Invalid,
    MusterError,
    NotFound,
    NotSetUp,
    OutcomeUnknown,
    Refused,
    TooMany,
    Unauthorized,
    Unavailable,
)
from web.asgi import Send

Headers = Iterable[tuple[bytes, bytes]]

NOT_SET_UP_RETRY_SECONDS = 300  # a person must do something, and nobody knows when

AWAY = "The database is away or too busy; nothing was done. Come again."


class WrongMediaType(MusterError):
    """The body says that it is something else than JSON."""

    default_code = "unsupported_media_type"


_STATUSES: tuple[tuple[type[MusterError], HTTPStatus], ...] = (
    (Invalid, HTTPStatus.BAD_REQUEST),
    (Unauthorized, HTTPStatus.UNAUTHORIZED),
    (NotFound, HTTPStatus.NOT_FOUND),
    (Forbidden, HTTPStatus.FORBIDDEN),
    (Refused, HTTPStatus.CONFLICT),
    (WrongMediaType, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    (TooMany, HTTPStatus.TOO_MANY_REQUESTS),
    (Unavailable, HTTPStatus.SERVICE_UNAVAILABLE),
    (NotSetUp, HTTPStatus.SERVICE_UNAVAILABLE),
)

_encode = msgspec.json.Encoder().encode


def error_body(
    code: str,
    sentence: str,
    *,
    field: str | None = None,
    facts: Mapping[str, object] | None = None,
) -> bytes:
    """Return the JSON of an error; `facts` never hide the sentence, the code or the field."""
    members: dict[str, object] = {**(facts or {}), "error": sentence, "code": code}
    if field is not None:
        members["field"] = field
    return _encode(members)


def error_headers(body: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers that every error carries: JSON, its length, and that it isn't kept."""
    return [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]


async def send_error(
    send: Send,
    status: int,
    code: str,
    sentence: str,
    *,
    field: str | None = None,
    facts: Mapping[str, object] | None = None,
    headers: Headers = (),
) -> None:
    """Answer an HTTP request with an error; it must not have been answered in part before."""
    body = error_body(code, sentence, field=field, facts=facts)
    head = {
        "type": "http.response.start",
        "status": status,
        "headers": [*error_headers(body), *headers],
    }
    await send(head)
    await send({"type": "http.response.body", "body": body})


def status_of(error: MusterError) -> HTTPStatus:
    """Return the status of a refusal, by its class."""
    return next(status for kind, status in _STATUSES if isinstance(error, kind))


def sentence_of(error: MusterError) -> str:
    """Return what a client is told.

    Of a database that is away it is told no more than that: the driver's own words name hosts,
    paths and parts of statements.
    """
    if isinstance(error, Unavailable) and not isinstance(error, OutcomeUnknown):
        return AWAY
    return error.sentence


def refusal_body(error: MusterError) -> bytes:
    """Return the JSON of a refusal."""
    return error_body(error.code, sentence_of(error), field=error.field, facts=error.facts)


def refusal_headers(error: MusterError) -> dict[str, str]:
    """Return the headers that a refusal has beside those of every error."""
    match error:
        case TooMany():
            return {"Retry-After": str(error.retry_after_seconds)}
        case Unauthorized():
            return {"WWW-Authenticate": "Bearer"}
        case Unavailable():
            return {"Retry-After": "1"}
        case NotSetUp():
            return {"Retry-After": str(NOT_SET_UP_RETRY_SECONDS)}
        case _:
            return {}


async def send_refusal(send: Send, error: MusterError) -> None:
    """Answer an HTTP request with a refusal."""
    extra = refusal_headers(error).items()
    await send_error(
        send,
        status_of(error),
        error.code,
        sentence_of(error),
        field=error.field,
        facts=error.facts,
        headers=[(name.lower().encode(), value.encode()) for name, value in extra],
    )


async def refuse_socket(send: Send, status: int, code: str, sentence: str) -> None:
    """Answer a WebSocket handshake with an HTTP error instead of accepting it."""
    body = error_body(code, sentence)
    head = {
        "type": "websocket.http.response.start",
        "status": status,
        "headers": error_headers(body),
    }
    await send(head)
    await send({"type": "websocket.http.response.body", "body": body})
