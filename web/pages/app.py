"""The pages as one application: its blueprints, its templates and what every answer carries."""

from http import HTTPStatus
from typing import cast

from quart import Response, request
from quart_trio import QuartTrio
from werkzeug.datastructures import Headers
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from muster.node.node import Node
from web.asgi import Scope
from web.openapi import Json
from web.pages import visits, words
from web.pages.agents import AGENTS
from web.pages.attention import ATTENTION
from web.pages.audit import AUDIT
from web.pages.chief import CHIEF
from web.pages.docs import make_docs
from web.pages.home import HOME
from web.pages.hosts import HOSTS
from web.pages.messages import MESSAGES
from web.pages.notifications import NOTIFICATIONS
from web.pages.plugins import PLUGINS
from web.pages.routes import ROUTES
from web.pages.security import SECURITY
from web.pages.sessions import SESSIONS
from web.pages.setting_up import SETTING_UP
from web.pages.settings import SETTINGS
from web.pages.signing import SIGNING
from web.pages.static_files import static_url
from web.pages.tasks import TASKS
from web.routes import answer_phrase

# No inline script or style anywhere, nothing from another place, and nobody frames a page.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self';"
    " connect-src 'self'; manifest-src 'self'; worker-src 'self'; form-action 'self';"
    " frame-ancestors 'none'; base-uri 'none'"
)
PAGES = (
    HOME,
    SIGNING,
    SETTING_UP,
    ATTENTION,
    CHIEF,
    MESSAGES,
    TASKS,
    SESSIONS,
    ROUTES,
    AUDIT,
    SETTINGS,
    SECURITY,
    AGENTS,
    HOSTS,
    NOTIFICATIONS,
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def make_pages(node: Node, document: Json) -> QuartTrio:
    """The pages of `node`; a path that is none of them is 404.

    `document` is the OpenAPI document of the routes of this server, which `/docs/api` shows.
    """
    app = QuartTrio("web.pages", static_folder=None)
    app.config.update(
        # What a view raises is reported and answered by the wire, not rendered as a page.
        PROPAGATE_EXCEPTIONS=True,
        RESPONSE_TIMEOUT=None,
        BODY_TIMEOUT=None,
        MAX_CONTENT_LENGTH=None,
        PROVIDE_AUTOMATIC_OPTIONS=False,
    )
    app.url_map.merge_slashes = False
    app.jinja_options = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    app.jinja_env.globals.update(static_url=static_url)
    visits.attach(app, node)
    words.attach(app)
    # What does not exist while plugins are off is 404 before any credential.
    for pages in (*PAGES, *((PLUGINS,) if node.config.plugins else ()), make_docs(document)):
        app.register_blueprint(pages)
    app.register_error_handler(HTTPException, _refuse_http)
    app.before_request(_refuse_other_methods)
    app.after_request(_secure)
    return app


async def _refuse_other_methods() -> None:
    """A method is what it is, as at the other doors: the framework takes `post` for POST."""
    scope = cast("Scope", request.scope)
    if request.url_rule is not None and scope["method"] != request.method:
        raise MethodNotAllowed(valid_methods=sorted(request.url_rule.methods or ()))


async def _secure(response: Response) -> Response:
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
    return response


async def _refuse_http(error: HTTPException) -> Response:
    """404 or 405: a page for a person, JSON for a program."""
    status = HTTPStatus(error.code or HTTPStatus.INTERNAL_SERVER_ERROR)
    allowed = getattr(error, "valid_methods", None)
    more = [(b"allow", ", ".join(sorted(allowed)).encode())] if allowed else []
    if request.accept_mimetypes.accept_html and "text/html" in request.headers.get("accept", ""):
        page = await visits.show(
            "refusal.html",
            status,
            sentence="There is no such page.",
            code="not_found" if status is HTTPStatus.NOT_FOUND else "",
        )
        page.headers.extend([(name.decode(), value.decode()) for name, value in more])
        return page
    answer = answer_phrase(status, *more)
    headers = Headers([(name.decode(), value.decode()) for name, value in answer.headers])
    return Response(answer.body, status=answer.status, headers=headers)
