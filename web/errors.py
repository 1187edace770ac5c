"""The one shape of an error on every API route, for raw ASGI.

`{"error": "<sentence>", "code": "<slug>"}`, with `"field"` where one part of the input is to blame
and further members where the refusal has facts of its own. The slug is the contract.
"""

from collections.abc import Iterable, Mapping

import msgspec

from web.asgi import Send

Headers = Iterable[tuple[bytes, bytes]]

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
