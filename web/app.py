"""The whole application: what stands around the doors, and which door a path leads to.

body_reader      the whole body, within the cap of its route
refuse_plugins   a plugin token anywhere but on /plugin/v1/ is 401 (plugins: "Two ways in")
dispatch         the two sockets, /mcp and /live are raw ASGI, for they need tasks of their own;
                 what programs call is routed by `web.routes`, everything else is a page, Quart's
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import cast

from muster.ids import CredentialKind, kind_of
from muster.node.node import Node
from web.agent_socket import agent_socket
from web.api.plugin_threads import PLUGIN_THREADS_API
from web.api.plugins import PLUGINS_API
from web.api.pr_sessions import PR_SESSIONS_API
from web.api.session_routes import SESSION_ROUTES_API
from web.api.tasks import TASKS_API
from web.asgi import ASGIApp, Receive, Scope, Send
from web.auth import bearer_tokens
from web.body_reader import body_reader
from web.errors import refuse_socket, send_error
from web.health import HEALTH
from web.live import live
from web.mcp.agents import AGENTS_TOOLS
from web.mcp.door import open_tool_door
from web.mcp.mirrored import SESSIONS_TOOLS
from web.mirror_socket import mirror_socket
from web.openapi import document, openapi_routes
from web.pages.app import make_pages
from web.pages.static_files import STATIC
from web.plugin_api import PLUGIN_API
from web.plugin_stamps import PLUGIN_STAMPS
from web.plugin_tasks import PLUGIN_TASKS
from web.routes import Routes, router

KIB = 1024
BODY_BYTES_MAX = 64 * KIB
BODY_BYTES_MAX_BY_PATH = {
    "/plugin/v1/messages": 256 * KIB,
    "/plugin/v1/tasks": 1024 * KIB,  # its text is cut, so it may be long
    "/mcp": 256 * KIB,
    "/mirror/mcp": 256 * KIB,
    "/chief": 256 * KIB,  # a form that is too long comes back with what was typed
}
# A claim that nobody waits for any more must not take a reply with it.
WAITING_PATHS = frozenset(
    {*(route.path for route in PLUGIN_API if route.waits), "/mcp", "/mirror/mcp", "/live"}
)
PLUGIN_PREFIX = "/plugin/v1/"


@asynccontextmanager
async def open_app(node: Node) -> AsyncIterator[ASGIApp]:
    """The application of `node`, for the length of the block."""
    async with (
        open_tool_door(node, AGENTS_TOOLS) as agents,
        open_tool_door(node, SESSIONS_TOOLS) as sessions,
    ):
        app = _dispatch(node, {"/mcp": agents.serve, "/mirror/mcp": sessions.serve})
        guarded = _refuse_plugins(app, plugins_off=not node.config.plugins)
        yield body_reader(guarded, cap_for=cap_for, waits_at=WAITING_PATHS.__contains__)


def cap_for(_method: str, path: str) -> int:
    """How many bytes the body of a request to `path` may have."""
    return BODY_BYTES_MAX_BY_PATH.get(path, BODY_BYTES_MAX)


def routes_of(node: Node) -> Routes:
    """The doors that answer one request with one answer."""
    plugins = PLUGIN_API + PLUGIN_TASKS + PLUGINS_API if node.config.plugins else ()
    routed = PLUGIN_THREADS_API + SESSION_ROUTES_API + PLUGIN_STAMPS
    threads = routed if node.config.routing else ()
    authors = PR_SESSIONS_API if node.config.routes_reviews else ()
    told = HEALTH + TASKS_API + plugins + threads + authors
    return told + STATIC + openapi_routes(told)


def _refuse_plugins(app: ASGIApp, *, plugins_off: bool) -> ASGIApp:
    async def refusing(scope: Scope, receive: Receive, send: Send) -> None:
        kinds = {kind_of(token) for token in bearer_tokens(scope["headers"])}
        path = scope["path"]
        # What does not exist while plugins are off is 404 to everybody, before any credential.
        absent = plugins_off and (path == "/plugins" or path.startswith(("/plugin/", "/plugins/")))
        if CredentialKind.PLUGIN not in kinds or path.startswith(PLUGIN_PREFIX) or absent:
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await refuse_socket(send, 401, "credential_not_allowed", _NOT_HERE)
        else:
            await send_error(send, 401, "credential_not_allowed", _NOT_HERE)

    return refusing


_NOT_HERE = "A plugin token is good for /plugin/v1/ and nothing else."


def _dispatch(node: Node, tools: Mapping[str, ASGIApp]) -> ASGIApp:
    routes = routes_of(node)
    pages = make_pages(node, document(routes))
    routed = router(node, routes, otherwise=cast("ASGIApp", pages))

    async def dispatching(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if scope["type"] == "websocket":
            if path == "/agent/v1/socket":
                await agent_socket(node, scope, receive, send)
            elif path == "/mirror/v1/socket":
                await mirror_socket(node, scope, receive, send)
            else:
                await refuse_socket(send, 404, "not_found", "There is no socket at this path.")
        elif path in tools:
            await tools[path](scope, receive, send)
        elif path == "/live":
            await live(node, scope, receive, send)
        else:
            await routed(scope, receive, send)

    return dispatching
