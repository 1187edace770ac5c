"""The router of the doors: one path, one method, one handler that takes a request and answers it.

A handler is principal, body, one operation, render. What it refuses (MusterError) is rendered here,
what it crashes with is the wire's. The API is what programs call all day, so nothing of a framework
stands on this way: a request's path is looked up in a dict, and a path that is not in it goes to
`otherwise`. Rejected: Quart for these routes as well. Its request and response objects, its
contexts and the two tasks of each request cost more CPU than all that the handler itself does.

A path has at most one parameter, `{id}`: one part, whatever stands there.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus

import attrs

from muster.errors import MusterError
from muster.node.node import Node
from web.about import About
from web.answers import Answer, Header, answer_encoded, answer_refusal
from web.asgi import ASGIApp, PeerGone, Receive, Scope, Send
from web.departures import WHILE_THERE, WhileThere
from web.errors import error_body

PARAMETER = "{id}"


@attrs.frozen(kw_only=True)
class Asked:
    """A request as its handler sees it, with the whole body."""

    node: Node
    headers: Sequence[Header]
    body: bytes
    query: bytes = b""  # as it came; `web.queries` reads it
    id: str = ""  # what stands in the place of the path's parameter


Handler = Callable[[Asked], Awaitable[Answer]]


@attrs.frozen
class Route:
    """One handler and where it stands; a GET answers HEAD too.

    One that `waits` for something is cancelled when its client leaves. The others answer at once,
    also a client that has ended its own side. `about` is what an author of programs is told.
    """

    method: str
    path: str
    handler: Handler
    waits: bool = False
    about: About | None = None


Routes = tuple[Route, ...]


def router(node: Node, routes: Routes, *, otherwise: ASGIApp) -> ASGIApp:
    """Serve `routes`; a known path with another method is 405, another path is `otherwise`'s."""
    plain, placed = _by_path(routes)

    async def routing(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        parameter = ""
        handlers = plain.get(path)
        if handlers is None:
            handlers, parameter = _find_placed(placed, path)
        if handlers is None:
            await otherwise(scope, receive, send)
            return
        route = handlers.get(scope["method"])
        if route is None:
            answer = _not_allowed(handlers)
        else:
            body = (await receive())["body"]
            asked = Asked(
                node=node,
                headers=scope["headers"],
                body=body,
                query=scope["query_string"],
                id=parameter,
            )
            if route.waits:
                answer = await _while_there(scope["extensions"][WHILE_THERE], route.handler, asked)
            else:
                answer = await _answered(route.handler, asked)
        await send_answer(send, answer)

    return routing


async def _answered(handler: Handler, asked: Asked) -> Answer:
    try:
        return await handler(asked)
    except MusterError as refusal:
        return answer_refusal(refusal)


async def _while_there(while_there: WhileThere, handler: Handler, asked: Asked) -> Answer:
    """Answer, unless the client leaves before: then whatever the handler does is cancelled."""
    answer: Answer | None = None
    with while_there():
        answer = await _answered(handler, asked)
    if answer is None:
        raise PeerGone
    return answer


async def send_answer(send: Send, answer: Answer) -> None:
    """Send a whole answer."""
    head = {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
    await send(head)
    await send({"type": "http.response.body", "body": answer.body})


def answer_phrase(status: HTTPStatus, *more: Header) -> Answer:
    """Answer 404 or 405, for which there is no handler that could say more."""
    sentence = f"{status.phrase}: there is nothing here by this method and path."
    return answer_encoded(
        status, error_body(status.phrase.lower().replace(" ", "_"), sentence), *more
    )


_Handlers = dict[str, Route]
_Placed = tuple[tuple[str, str, _Handlers], ...]


def _by_path(routes: Routes) -> tuple[Mapping[str, _Handlers], _Placed]:
    """Sort routes into those whose path is a constant and those with a parameter."""
    found: dict[str, _Handlers] = {}
    for route in routes:
        handlers = found.setdefault(route.path, {})
        assert route.method not in handlers, f"{route.method} {route.path} stands twice"
        handlers[route.method] = route
        if route.method == "GET":
            handlers["HEAD"] = route
    placed = tuple(
        (before, after, found[path])
        for path in tuple(found)
        for before, mark, after in [path.partition(PARAMETER)]
        if mark
    )
    return {path: found[path] for path in found if PARAMETER not in path}, placed


def _find_placed(placed: _Placed, path: str) -> tuple[_Handlers | None, str]:
    for before, after, handlers in placed:
        if path.startswith(before) and path.endswith(after):
            parameter = path[len(before) : len(path) - len(after)]
            if parameter and "/" not in parameter:
                return handlers, parameter
    return None, ""


def _not_allowed(handlers: _Handlers) -> Answer:
    allow = ", ".join(sorted(handlers)).encode()
    return answer_phrase(HTTPStatus.METHOD_NOT_ALLOWED, (b"allow", allow))
