"""How a page is reached: who visits, from where, and what a refusal looks like.

A view is a coroutine that takes a Visit (or, before sign-in, a Guest) and the path's parameters,
runs one operation and returns `show(…)` or `go_to(…)`. What it refuses (MusterError) becomes a page
with the status of its class, so no view needs a `try`.

A GET changes nothing, and a POST is taken only from our own pages (`pages.foreign`).

A page that is asked for by another host than MUSTER_PUBLIC_URL's is redirected there: a passkey
belongs to one name, and so does the cookie. Only the host of the request is compared.

What is risky is done by `visit.risky(operation)`. When the sign-in is too old for it, the proof
that the form brought is tried (`pages.confirming`), and the view has its second go. A form that was
refused comes back on its page with what was typed (`pages.forms`), to be confirmed or mended there.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import attrs
from quart import (
    Blueprint,
    Response,
    after_this_request,
    current_app,
    g,
    redirect,
    render_template,
    request,
)
from quart.typing import ResponseReturnValue

from muster.accounts.operations.passkeys import count_ways
from muster.accounts.operations.sessions import (
    LIFE,
    Visitor,
    is_stale,
    knock_session,
    note_session_seen,
)
from muster.accounts.operations.stepup import StepUpNeeded, after_step_up, is_fresh
from muster.accounts.rules.signing import Browser
from muster.chief.operations.first_steps import find_first_steps
from muster.chief.operations.glance import count_waiting
from muster.errors import (
    Invalid,
    MusterError,
    NotFound,
    OutcomeUnknown,
    Unauthorized,
    Unavailable,
)
from muster.node.node import Node
from muster.pg.database import Transaction
from muster.principals import Owner, System
from web.cookies import CEREMONY, KNOWN, SESSION, is_secure, name_of
from web.errors import refusal_headers, sentence_of, status_of
from web.pages import confirming
from web.pages.foreign import ForeignForm, refuse_foreign
from web.pages.forms import form_at, refused_form, without_secrets

C = TypeVar("C")
R = TypeVar("R")

_NODE: Final = "MUSTER_NODE"


@attrs.frozen(kw_only=True)
class Guest:
    """Whoever asks for a page; `args` is the query, `form` the fields of a POST, one value each."""

    node: Node
    path: str
    args: Mapping[str, str]
    form: Mapping[str, str]
    address: str
    user_agent: str
    is_fragment: bool  # htmx asks for a part of a page
    ceremony: str  # the cookie of a question to a passkey
    known_by: str  # the cookie of a session that this browser was signed in by
    visitor: Visitor | None

    @property
    def browser(self) -> Browser:
        """Where somebody signs in, or proves anew who they are."""
        former = None if self.visitor is None else self.visitor.session_id
        return Browser(
            user_agent=self.user_agent,
            address=self.address,
            former_session_id=former,
            known_by=self.known_by,
        )


@attrs.frozen(kw_only=True)
class Visit(Guest):
    """Somebody who is signed in. `owner` is who they act as, by the browser."""

    visitor: Visitor
    owner: Owner

    def risky(
        self,
        operation: Callable[[Transaction, C], Awaitable[R]],
        *,
        unless: Callable[[R], bool] | None = None,
    ) -> Callable[[Transaction, C], Awaitable[R]]:
        """The same operation, refused in its own transaction unless the sign-in is fresh.

        `unless` tells a result by which nothing was done: it needs no proof.
        """
        return after_step_up(
            operation,
            session_id=self.visitor.session_id,
            window_seconds=self.node.config.stepup_window_seconds,
            unless=unless,
        )


_View = Callable[..., Awaitable[ResponseReturnValue]]
Register = Callable[[_View], _View]
_PAGES: Final[dict[str, _View]] = {}  # what is looked at by somebody signed in, by its path


def attach(app: Any, node: Node) -> None:
    """Give the pages their node, and every template what the frame of a page shows."""
    app.config[_NODE] = node
    app.jinja_env.globals.update(form_at=form_at)
    app.context_processor(_frame)


def _frame() -> dict[str, object]:
    """Who is signed in (None for a guest), where they are, and what waits for them."""
    node: Node = current_app.config[_NODE]
    return {
        "visitor": g.get("visitor"),
        "live_id": g.get("live_id"),  # none for a guest, whom it would tell how much goes on
        "waiting": g.get("waiting", 0),
        "has_hosts": g.get("has_hosts", False),
        # How the visitor may confirm that it is they; None while their sign-in is fresh.
        "confirm_by": g.get("confirm_by"),
        "here": request.path,
        # Where the frame of this page is asked for again; what a form brought up cannot be.
        "address": request.full_path.rstrip("?") if request.method == "GET" else "/attention",
        "first_steps": g.get("first_steps"),
        "plugins_on": node.config.plugins,
        "public_url": node.config.public_url,
    }


def signed_in(
    pages: Blueprint, method: str, path: str, *, page: str = "", refused: str = "refusal.html"
) -> Register:
    """Register a view for somebody who is signed in; others are led to the sign-in page.

    `page` is the path, as it is registered, of the page that the form stands on: a form that is
    refused comes back there. `refused` is the template of a refusal that has no such page.
    """
    return _registered(pages, method, path, needs_visitor=True, refused=refused, page=page)


def for_guests(
    pages: Blueprint, method: str, path: str, *, refused: str = "refusal.html"
) -> Register:
    """Register a view for anybody; it is told who visits, if somebody is signed in."""
    return _registered(pages, method, path, needs_visitor=False, refused=refused)


async def show(template: str, status: int = 200, /, **context: Any) -> Response:
    """A page, or the part of one; what no form on it has told of a refusal stands on top."""
    page = await render_template(template, **context)
    refused = g.get("refused")
    if refused is not None and not refused.is_told:
        page = await render_template(template, **context, untold=refused)
    return Response(page, status=status)


def go_to(path: str) -> ResponseReturnValue:
    """After a POST: look at `path`, by GET."""
    return redirect(path, 303)


def _registered(
    pages: Blueprint, method: str, path: str, *, needs_visitor: bool, refused: str, page: str = ""
) -> Register:
    def register(view: _View) -> _View:
        if needs_visitor and method == "GET":
            _PAGES[path] = view

        async def viewing(**params: Any) -> ResponseReturnValue:
            node: Node = current_app.config[_NODE]
            if (elsewhere := _public_address(node)) is not None:
                return redirect(elsewhere, 307 if request.method == "GET" else 303)
            newest_id = node.live.newest_id  # before the page looks at anything
            try:
                if request.method == "POST":
                    refuse_foreign(request.headers, node.config.public_url)
                guest = await _guest(node)
                if guest.visitor is not None:
                    g.live_id = newest_id
                    await _look_at_frame(node, guest.visitor)
                if not needs_visitor:
                    return await view(guest, **params)
                if guest.visitor is None:
                    return _to_sign_in()
                g.visit = _visit(guest)
                return await _viewed(view, params)
            except MusterError as refusal:
                return await _refuse(refusal, refused, page, params)

        pages.add_url_rule(
            path, endpoint=f"{method} {path}".replace(".", "_"), view_func=viewing, methods=[method]
        )
        return view

    return register


async def _viewed(view: _View, params: Mapping[str, str]) -> ResponseReturnValue:
    """Let the view answer; again, if its form proves what the first go was refused for."""
    visit: Visit = g.visit
    try:
        return await view(visit, **params)
    except StepUpNeeded:
        if not confirming.is_confirmed(visit.form):
            raise
    try:
        await confirming.confirm(
            visit.node.db,
            visit.visitor,
            visit.form,
            public_url=visit.node.config.public_url,
            ceremony=visit.ceremony,
            browser=visit.browser,
        )
    except Unauthorized:
        # Nothing more is shown in a session that ended while the proof was looked at.
        if (await _guest(visit.node)).visitor is None:
            return _to_sign_in()
        raise
    guest = await _guest(visit.node)
    if guest.visitor is None:
        return _to_sign_in()
    await _look_at_frame(visit.node, guest.visitor)
    g.visit = _visit(guest)
    return await view(g.visit, **params)


async def _refuse(
    refusal: MusterError, template: str, page: str, params: Mapping[str, str]
) -> Response:
    """A refusal as a page, with the status of its class; a form comes back with what it held."""
    if isinstance(refusal, StepUpNeeded):
        refusal.field = confirming.FIELD
    visit: Visit | None = g.get("visit")
    answer = None
    if visit is not None and page and not isinstance(refusal, NotFound):
        answer = await _show_again(visit, refusal, page, params)
    if answer is None:
        answer = await _show_refusal(refusal, template)
    answer.status_code = status_of(refusal)
    answer.headers.extend(refusal_headers(refusal))
    return answer


async def _show_again(
    visit: Visit, refusal: MusterError, page: str, params: Mapping[str, str]
) -> Response | None:
    """The page that a form stands on; a page of its own if the confirmation has no place there.

    None when there is no such page any more, or it cannot be read.
    """
    g.refused = refused_form(request.path, visit.form, refusal)
    named = {name: value for name, value in params.items() if f"<{name}>" in page}
    try:
        shown = await _PAGES[page](visit, **named)
    except MusterError:
        g.refused = None
        return None
    if refusal.field == confirming.FIELD and not g.refused.is_shown:
        return await show("confirm.html", sent=g.refused.sent)
    return shown if isinstance(shown, Response) else None


async def _show_refusal(refusal: MusterError, template: str) -> Response:
    sent = (await request.form if request.method == "POST" else request.args).to_dict()
    if isinstance(refusal, ForeignForm):
        sent = {}
    elif request.method == "POST" and template != "refusal.html":
        g.refused = refused_form(request.path, sent, refusal)
    nothing_done = isinstance(refusal, Unavailable) and not isinstance(refusal, OutcomeUnknown)
    return await show(
        template,
        sentence=sentence_of(refusal),
        code=refusal.code,
        sent=without_secrets(sent),
        may_repeat=nothing_done and request.method == "POST",
    )


def set_cookie(
    response: Response, node: Node, cookie: str, value: str, *, life_seconds: int
) -> None:
    """Hand the browser a cookie of `web.cookies`; a life of 0 takes it away."""
    public_url = node.config.public_url
    response.set_cookie(
        name_of(cookie, public_url),
        value,
        max_age=life_seconds,
        path="/",
        secure=is_secure(public_url),
        httponly=True,
        samesite="Lax",
    )


def set_session(response: Response, node: Node, cookie: str) -> None:
    """Sign the browser in by the cookie of a new session, in place of any other."""
    set_cookie(response, node, SESSION, cookie, life_seconds=int(LIFE.total_seconds()))


async def _guest(node: Node) -> Guest:
    cookie = request.cookies.get(name_of(SESSION, node.config.public_url))
    visitor = None
    if cookie:
        async with node.db.transaction(System(), look=True) as tx:
            visitor = await knock_session(tx, cookie)
        if visitor is not None and is_stale(visitor):
            await _note_seen(node, visitor, cookie)
    form = (await request.form).to_dict() if request.method == "POST" else {}
    for name, value in form.items():
        if "\0" in value:  # in an address it is refused by the wire; no text may be stored with one
            raise Invalid("A form may not contain a NUL character.", field=name[:64])
    return Guest(
        node=node,
        path=request.path,
        args=request.args.to_dict(),
        form=form,
        address=request.remote_addr or "",
        user_agent=request.headers.get("user-agent", ""),
        is_fragment=request.headers.get("hx-request") == "true",
        ceremony=request.cookies.get(name_of(CEREMONY, node.config.public_url), ""),
        known_by=request.cookies.get(name_of(KNOWN, node.config.public_url), ""),
        visitor=visitor,
    )


async def _note_seen(node: Node, visitor: Visitor, cookie: str) -> None:
    """Keep that the session is in use, here and in the browser, which would forget its cookie."""
    owner = Owner(owner_id=visitor.owner_id, via="browser")
    await node.db.run(owner, note_session_seen, visitor.session_id)

    @after_this_request
    async def renew(response: Any) -> Any:
        name = name_of(SESSION, node.config.public_url)
        if not any(told.startswith(f"{name}=") for told in response.headers.getlist("set-cookie")):
            set_session(response, node, cookie)
        return response


async def _look_at_frame(node: Node, visitor: Visitor) -> None:
    """What the frame of a page shows of its owner's, and what the empty states say to do next."""
    owner = Owner(owner_id=visitor.owner_id, via="browser")
    is_old = not is_fresh(visitor, visitor.looked_at, node.config.stepup_window_seconds)
    g.visitor = visitor
    async with node.db.transaction(owner) as tx:
        waiting, g.first_steps = await tx.together(count_waiting(tx), find_first_steps(tx))
        g.waiting = waiting.total
        g.has_hosts = waiting.hosts
        g.confirm_by = await count_ways(tx) if is_old else None


def _visit(guest: Guest) -> Visit:
    assert guest.visitor is not None
    return Visit(
        **attrs.asdict(guest, recurse=False),
        owner=Owner(owner_id=guest.visitor.owner_id, via="browser"),
    )


def _to_sign_in() -> ResponseReturnValue:
    """Lead to the sign-in page, and back to where a GET came from."""
    wanted = _asked_for() if request.method == "GET" else "/"
    return redirect(f"/sign-in?next={quote(wanted, safe='/')}", 303)


def _public_address(node: Node) -> str | None:
    """Where this page is by its public name, if it was asked for by another one."""
    public = urlsplit(node.config.public_url)
    if request.host.lower() == public.netloc.lower():
        return None
    return f"{node.config.public_url}{_asked_for()}"


def _asked_for() -> str:
    """The path of this request as an address may carry it, and a GET's query."""
    path = quote(request.path, safe="/:@!$&'()*+,;=~")
    query = request.query_string.decode("latin-1") if request.method == "GET" else ""
    return f"{path}?{query}" if query else path
