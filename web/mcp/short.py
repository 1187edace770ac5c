"""The short road of a tool door: what nearly every request is, read without the library.

A plain `tools/list` or `tools/call` of a protocol that begins with `initialize` needs nothing that
the library does for it: to each stateless request it gives a server of its own, with a transport,
four tasks and six streams. What is not exactly plain is its to judge, so each rule of the protocol
stands in one place and this one only recognises: another method, a notification, a batch, a member
or a header that is not named here, broken JSON, a newer protocol.

tests/web/test_mcp_roads.py sends the same requests down both roads and compares the answers.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from mcp_types import INTERNAL_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from msgspec import UNSET, UnsetType

from web.answers import Answer, Header, answer_encoded

_VERSIONS = frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)
_encode = msgspec.json.Encoder().encode


class _Meta(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    progressToken: str | int | UnsetType = UNSET  # noqa: N815 - the protocol's name


class _NoParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    meta: _Meta | UnsetType = msgspec.field(name="_meta", default=UNSET)


class _CallParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str
    arguments: dict[str, Any] | UnsetType | None = UNSET
    meta: _Meta | UnsetType = msgspec.field(name="_meta", default=UNSET)


class ListTools(
    msgspec.Struct, tag_field="method", tag="tools/list", forbid_unknown_fields=True, frozen=True
):
    """A plain `tools/list`."""

    jsonrpc: Literal["2.0"]
    id: str | int
    params: _NoParams | UnsetType = UNSET


class CallTool(
    msgspec.Struct, tag_field="method", tag="tools/call", forbid_unknown_fields=True, frozen=True
):
    """A plain `tools/call`."""

    jsonrpc: Literal["2.0"]
    id: str | int
    params: _CallParams

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the call; none is the same as an empty object."""
        return self.params.arguments or {}


Plain = ListTools | CallTool
_decode: Callable[[bytes], Plain] = msgspec.json.Decoder(ListTools | CallTool).decode


def read_plain(headers: list[Header], body: bytes) -> Plain | None:
    """Return the request, or None for one that is the library's."""
    if not _are_plain(headers):
        return None
    try:
        return _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _are_plain(headers: list[Header]) -> bool:
    accepted: list[bytes] = []
    versions: list[bytes] = []
    for name, value in headers:
        if name == b"accept":
            accepted += [part.strip() for part in value.split(b",")]
        elif name == b"mcp-protocol-version":
            versions.append(value)
        elif name in {b"origin", b"mcp-session-id", b"last-event-id"}:
            return False
    return (
        b"application/json" in accepted
        and b"text/event-stream" in accepted
        and len(versions) <= 1
        and _VERSIONS.issuperset(versions)
    )


def answer_result(plain: Plain, members: dict[str, object]) -> Answer:
    """Answer with the result of a request."""
    return answer_encoded(200, _encode({"jsonrpc": "2.0", "id": plain.id, "result": members}))


def answer_broken(plain: Plain, sentence: str) -> Answer:
    """Answer that there is no result."""
    error = {"code": INTERNAL_ERROR, "message": sentence}
    return answer_encoded(200, _encode({"jsonrpc": "2.0", "id": plain.id, "error": error}))
