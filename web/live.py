"""`GET /live`: what an open page is told, as server-sent events, with the browser's cookie.

Each event has an id; a browser that reconnects names the last one it saw (`Last-Event-ID`) and gets
what it missed, or `resync` when nobody can tell any more (muster/node/live.py). A page says by
`?after=ID` which was the newest when it was made, so that nothing is lost in between. A comment
comes every HEARTBEAT_SECONDS, and the session is looked up again every few of them: a stream
outlives neither its session nor the server. It outlives the database, which is asked again at the
next heartbeat while it is away.
"""

from typing import Final
from urllib.parse import parse_qs

import msgspec
import trio

from muster.accounts.operations.sessions import Visitor, knock_session
from muster.errors import Unavailable
from muster.node.live import RESYNC, Listener, LiveEvent
from muster.node.node import Node
from muster.principals import System
from web.asgi import Receive, Scope, Send
from web.cookies import SESSION, name_of, read_cookie
from web.errors import send_error, send_refusal

HEARTBEAT_SECONDS: Final = 15.0
HEARTBEATS_PER_LOOK: Final = 4
RETRY_MS: Final = 2000
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
]

_encode = msgspec.json.Encoder().encode


async def live(node: Node, scope: Scope, receive: Receive, send: Send) -> None:
    """Stream an owner's events until the client leaves, the session ends or the server stops."""
    if scope["method"] != "GET":
        sentence, allow = "This is a stream to GET.", [(b"allow", b"GET")]
        await send_error(send, 405, "method_not_allowed", sentence, headers=allow)
        return
    cookie = read_cookie(scope, name_of(SESSION, node.config.public_url))
    try:
        visitor = await _knock(node, cookie)
    except Unavailable as away:
        await send_refusal(send, away)
        return
    if visitor is None:
        await send_error(send, 401, "unauthorized", "Sign in first.")
        return
    if node.draining:
        await send_error(send, 503, "unavailable", "The server is stopping.")
        return
    if node.live.is_full(visitor.owner_id):
        sentence = "There are too many open pages; close some."
        retry = [(b"retry-after", b"30")]
        await send_error(send, 429, "too_many", sentence, headers=retry)
        return
    await receive()
    with node.live.listening(visitor.owner_id, visitor.session_id) as listener:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await _send_text(send, f"retry: {RETRY_MS}\n\n" + _missed(node, visitor, scope))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_until_gone, receive, nursery.cancel_scope)
            await _stream(node, cookie, listener, send)
            nursery.cancel_scope.cancel()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _stream(node: Node, cookie: str, listener: Listener, send: Send) -> None:
    beats = 0
    while not listener.ended:
        with trio.move_on_after(HEARTBEAT_SECONDS) as patience:
            await listener.wait()
        lost, events = listener.take()
        text = _event(None, RESYNC, {}) if lost else ""
        text += "".join(_told(node, event) for event in events)
        if patience.cancelled_caught:
            beats += 1
            text += ": still here\n\n"
            if beats >= HEARTBEATS_PER_LOOK:
                try:
                    if await _knock(node, cookie) is None:
                        return
                    beats = 0
                except Unavailable:
                    pass  # it proves nothing, and the session is looked up at the next heartbeat
        if text:
            await _send_text(send, text)


async def _until_gone(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _missed(node: Node, visitor: Visitor, scope: Scope) -> str:
    """What a page did not see since the event that it names."""
    named = [value for name, value in scope["headers"] if name == b"last-event-id"]
    after = parse_qs(scope["query_string"].decode("latin-1")).get("after")
    # A browser names the last event that reached it; until one did, when its page was made.
    last_id = named[-1].decode("latin-1") if named else (after[-1] if after else None)
    missed = node.live.missed(visitor.owner_id, last_id)
    if missed is None:
        return _event(None, RESYNC, {})
    return "".join(_told(node, event) for event in missed)


def _told(node: Node, event: LiveEvent) -> str:
    return _event(node.live.id_of(event), event.name, event.data)


def _event(event_id: str | None, name: str, data: dict[str, object]) -> str:
    named = "" if event_id is None else f"id: {event_id}\n"
    return f"{named}event: {name}\ndata: {_encode(data).decode()}\n\n"


async def _send_text(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _knock(node: Node, cookie: str) -> Visitor | None:
    if not cookie:
        return None
    async with node.db.transaction(System(), look=True) as tx:
        return await knock_session(tx, cookie)
