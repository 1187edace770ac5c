"""What a handler answers with: JSON that no cache keeps."""

import msgspec
from quart import Response


def answer(status: int, members: dict[str, object]) -> Response:
    """Answer with a JSON object."""
    return answer_encoded(status, msgspec.json.encode(members))


def answer_encoded(status: int, body: bytes) -> Response:
    """Answer with what is JSON already."""
    return Response(
        body,
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )


def answer_nothing() -> Response:
    """Answer 204, which has no body and so no header that speaks of one (RFC 9110, 8.6)."""
    empty = Response(b"", status=204, headers={"Cache-Control": "no-store"})
    del empty.headers["Content-Type"], empty.headers["Content-Length"]
    return empty
