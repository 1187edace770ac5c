"""A provider of models that a test plays: both protocols over real HTTP, and what goes wrong.

One script, of what the model says or of a fault, is used up a request at a time and is told in the
protocol of the door that was asked: `/v1/chat/completions` as OpenAI documents it, `/v1/messages`
as Anthropic does. A request that the real ones would refuse is refused, in their words: a tool call
without its result, an empty text, an id that comes twice.
"""

import json
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import h11
import trio

from tests.support.loopback import Stream, encode_answer, read_request, serving
from tests.support.model_protocols import (
    OPENAI,
    Says,
    find_fault,
    refused_request,
    render,
)

KEY = "sk-test-0123456789abcdef"


@attrs.frozen(kw_only=True)
class Refuses:
    """An answer that is no stream."""

    status: int
    body: Any
    headers: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Cut:
    """The first `events` events of an answer, then the connection is gone."""

    says: Says
    events: int


@attrs.frozen(kw_only=True)
class Hangs:
    """The first `events` events of an answer, then silence until the client goes."""

    says: Says
    events: int


@attrs.frozen(kw_only=True)
class Drops:
    """The connection closes without a byte of an answer."""


@attrs.frozen(kw_only=True)
class Raw:
    """A stream of the test's own, in chunks; `kind` is its content type.

    One that `hangs` is not ended before the client goes.
    """

    chunks: Sequence[str]
    kind: str = "text/event-stream"
    hangs: bool = False


@attrs.frozen(kw_only=True)
class Reads:
    """An answer that depends on what was asked."""

    answer: Callable[["Asked"], Says]


Step = Says | Reads | Refuses | Cut | Hangs | Drops | Raw


@attrs.frozen(kw_only=True)
class Asked:
    """A request that came: its path, the decoded body and the headers in lower case."""

    path: str
    body: Any
    headers: Mapping[str, str]


@attrs.define(kw_only=True)
class ModelServer:
    """The state that tests look at."""

    port: int = 0
    scheme: str = "http"
    asked: list[Asked] = attrs.field(factory=list)
    script: deque[Step] = attrs.field(factory=deque)
    faults: list[str] = attrs.field(factory=list)
    connections: int = 0
    hanging: trio.Event = attrs.field(factory=trio.Event)
    gone: trio.Event = attrs.field(factory=trio.Event)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def plays(self, *steps: Step) -> None:
        """What happens to the next requests."""
        self.script.extend(steps)


@asynccontextmanager
async def model_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[ModelServer]:
    """Serve on a free port of 127.0.0.1; at the end, no request may have been at fault."""
    server = ModelServer(scheme="https" if tls else "http")
    async with serving(partial(_serve, server, tls)) as server.port:
        yield server
    assert server.faults == []


async def _serve(server: ModelServer, tls: ssl.SSLContext | None, tcp: trio.SocketStream) -> None:
    server.connections += 1
    stream: Stream = trio.SSLStream(tcp, tls, server_side=True) if tls else tcp
    async with tcp:
        connection = h11.Connection(h11.SERVER)
        try:
            while await _serve_one(server, stream, connection):
                connection.start_next_cycle()
        except (trio.BrokenResourceError, h11.RemoteProtocolError):
            return


async def _serve_one(server: ModelServer, stream: Stream, connection: h11.Connection) -> bool:
    came = await read_request(stream, connection)
    if came is None:
        return False
    head, body = came
    asked = Asked(
        path=head.target.decode(),
        body=json.loads(body),
        headers={name.decode(): value.decode() for name, value in head.headers},
    )
    server.asked.append(asked)
    fault = find_fault(asked.path, asked.body)
    if fault is not None:
        server.faults.append(fault)
        step: Step = Refuses(status=400, body=refused_request(asked.path, fault))
    else:
        step = server.script.popleft() if server.script else Says(text="Nothing more to say.")
    match step:
        case Drops():
            return False
        case Refuses():
            await stream.send_all(_refusal(connection, step))
            return True
        case Raw(hangs=True):
            await _stream(stream, connection, step.chunks, kind=step.kind, ends=False)
            return await _hang(server, stream)
        case Raw():
            return await _stream(stream, connection, step.chunks, kind=step.kind)
        case Reads():
            says = step.answer(asked)
            return await _stream(stream, connection, render(asked.path, asked.body, says))
        case Says():
            return await _stream(stream, connection, render(asked.path, asked.body, step))
        case Cut():
            events = render(asked.path, asked.body, step.says)[: step.events]
            await _stream(stream, connection, events, ends=False)
            return False
        case Hangs():
            events = render(asked.path, asked.body, step.says)[: step.events]
            await _stream(stream, connection, events, ends=False)
            return await _hang(server, stream)


async def _hang(server: ModelServer, stream: Stream) -> bool:
    server.hanging.set()
    try:
        assert await stream.receive_some(65536) == b""
    finally:
        server.gone.set()
    return False


async def _stream(
    stream: Stream,
    connection: h11.Connection,
    chunks: Sequence[str],
    *,
    kind: str = "text/event-stream",
    ends: bool = True,
) -> bool:
    head = h11.Response(status_code=200, headers=[("content-type", f"{kind}; charset=utf-8")])
    await stream.send_all(connection.send(head) or b"")
    for chunk in chunks:
        await stream.send_all(connection.send(h11.Data(data=chunk.encode())) or b"")
    if ends:
        await stream.send_all(connection.send(h11.EndOfMessage()) or b"")
    return ends


def _refusal(connection: h11.Connection, step: Refuses) -> bytes:
    text = isinstance(step.body, str)
    raw = step.body.encode() if text else json.dumps(step.body).encode()
    kind = "text/html" if text else "application/json"
    return encode_answer(
        connection, step.status, [*step.headers.items(), ("content-type", kind)], raw
    )


def tool_names(asked: Asked) -> list[str]:
    """The names of the tools that a request offers."""
    tools = asked.body.get("tools", [])
    return [each["function"]["name"] if asked.path == OPENAI else each["name"] for each in tools]
