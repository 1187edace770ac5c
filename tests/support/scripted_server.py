"""A small muster of the tests' own on a real socket, which misbehaves where a script says so.

It keeps the rules of the plugin door that a client can see: a message is stored once, a draft is
claimed once, a result is recorded once. A script of steps for one door is used up one step a
request; after it the door answers honestly.
"""

import enum
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import h11
import trio

from tests.support.loopback import encode_answer, read_request, reset_when_closed, serving

MESSAGES = "messages"
CLAIM = "claim"
RESULT = "result"
TASKS = "tasks"
TOKEN = "mpl_scripted"


class Step(enum.Enum):
    """What goes wrong with one request."""

    LOSE_ANSWER = "carried out, then the connection closes without a byte"
    RESET = "carried out, then the connection is reset"
    IGNORE = "not carried out, and the connection closes"
    HANG = "carried out, and never answered"
    CUT = "carried out, and half of the answer's body is sent"


@attrs.frozen(kw_only=True)
class Answer:
    """An answer of the script's own; nothing is carried out."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Request:
    """What arrived: the door, the decoded body, the headers in lower case, and when."""

    door: str
    body: Any
    headers: Mapping[str, str]
    at: float
    draft_id: int | None = None


@attrs.define(kw_only=True)
class ScriptedServer:
    """The state that tests look at."""

    port: int = 0
    requests: list[Request] = attrs.field(factory=list)
    messages: dict[str, Any] = attrs.field(factory=dict)
    tasks: dict[str, list[Any]] = attrs.field(factory=dict)
    approved: deque[dict[str, Any]] = attrs.field(factory=deque)
    claimed: list[int] = attrs.field(factory=list)
    results: dict[int, Any] = attrs.field(factory=dict)
    offered: trio.Event = attrs.field(factory=trio.Event)
    scripts: dict[str, deque[Step | Answer]] = attrs.field(factory=dict)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def script(self, door: str, *steps: Step | Answer) -> None:
        """What happens to the next requests of `door`."""
        self.scripts.setdefault(door, deque()).extend(steps)

    def approve(self, draft_id: int, external_id: str = "mail-1", body: str = "Noon.") -> None:
        """Offer one approved reply to the next claim."""
        self.approved.append(
            {
                "draft_id": draft_id,
                "message_external_id": external_id,
                "body": body,
                "approved_at": "2026-03-01T10:00:00Z",
            }
        )
        self.offered.set()
        self.offered = trio.Event()

    def asked(self, door: str) -> list[Request]:
        """The requests that came to `door`."""
        return [request for request in self.requests if request.door == door]


@asynccontextmanager
async def scripted_server() -> AsyncIterator[ScriptedServer]:
    """Serve on a free port of 127.0.0.1 until the block ends."""
    server = ScriptedServer()
    async with serving(partial(_serve, server)) as server.port:
        yield server


async def _serve(server: ScriptedServer, stream: trio.SocketStream) -> None:
    async with stream:
        connection = h11.Connection(h11.SERVER)
        try:
            while await _serve_one(server, stream, connection):
                connection.start_next_cycle()
        except (trio.BrokenResourceError, h11.RemoteProtocolError):
            return


async def _serve_one(
    server: ScriptedServer, stream: trio.SocketStream, connection: h11.Connection
) -> bool:
    """Answer one request; False when the connection is over."""
    came = await read_request(stream, connection)
    if came is None:
        return False
    request = _read(*came)
    server.requests.append(request)
    script = server.scripts.get(request.door)
    step = script.popleft() if script else None
    if isinstance(step, Answer):
        answer = step
    elif step is Step.IGNORE:
        return False
    else:
        answer = await _carry_out(server, request)
    match step:
        case Step.HANG:
            await trio.sleep_forever()
        case Step.LOSE_ANSWER:
            return False
        case Step.RESET:
            reset_when_closed(stream.socket)
            return False
    sent = _encode(connection, answer)
    if step is Step.CUT:
        await stream.send_all(sent[:-4])
        return False
    await stream.send_all(sent)
    return True


def _read(head: h11.Request, body: bytes) -> Request:
    path = head.target.decode()
    result = re.fullmatch(r"/plugin/v1/drafts/(\d+)/result", path)
    doors = {"/plugin/v1/messages": MESSAGES, "/plugin/v1/drafts/claim": CLAIM}
    doors["/plugin/v1/tasks"] = TASKS
    return Request(
        door=RESULT if result else doors[path],
        body=json.loads(body) if body else None,
        headers={name.decode(): value.decode() for name, value in head.headers},
        at=trio.current_time(),
        draft_id=int(result[1]) if result else None,
    )


async def _carry_out(server: ScriptedServer, request: Request) -> Answer:
    if request.headers.get("authorization") != f"Bearer {TOKEN}":
        return Answer(status=401, body={"error": "no live plugin token", "code": "unauthorized"})
    if request.door == MESSAGES and "external_id" not in request.body:
        return Answer(status=400, body={"error": "missing", "field": "external_id"})
    if request.door == MESSAGES:
        known = request.body["external_id"] in server.messages
        server.messages.setdefault(request.body["external_id"], request.body)
        number = list(server.messages).index(request.body["external_id"]) + 1
        return Answer(status=200 if known else 202, body={"id": number, "status": "queued"})
    if request.door == TASKS:
        return _note(server, request.body)
    if request.door == CLAIM:
        with trio.move_on_after(request.body["wait_seconds"]):
            while not server.approved:
                await server.offered.wait()
        if not server.approved:
            return Answer(status=204)
        draft = server.approved.popleft()
        server.claimed.append(draft["draft_id"])
        return Answer(status=200, body=draft)
    assert request.draft_id is not None
    kept = server.results.setdefault(request.draft_id, request.body)
    same = kept["ok"] == request.body["ok"]
    told = {"draft_id": request.draft_id, "status": "sent" if kept["ok"] else "failed"}
    if same:
        return Answer(status=200, body=told)
    return Answer(status=409, body=told | {"error": "another result", "code": "conflict"})


def _note(server: ScriptedServer, body: Any) -> Answer:
    created = body["key"] not in server.tasks and "create" in body
    if created:
        server.tasks[body["key"]] = []
    thread = server.tasks.get(body["key"])
    if thread is None:
        return Answer(status=200, body={"id": None, "created": False, "commented": False})
    commented = "comment" in body and body["comment"] not in thread
    if commented:
        thread.append(body["comment"])
    told = {
        "id": list(server.tasks).index(body["key"]) + 1,
        "created": created,
        "commented": commented,
    }
    if body.get("route_to_chief"):
        told["routed"] = False
    return Answer(status=201 if created else 200, body=told)


def _encode(connection: h11.Connection, answer: Answer) -> bytes:
    raw = b"" if answer.body is None else json.dumps(answer.body).encode()
    headers = [*answer.headers.items(), ("content-type", "application/json")]
    return encode_answer(connection, answer.status, headers, raw)
