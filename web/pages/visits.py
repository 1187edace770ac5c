"""How a page is reached: who visits, from where, and what a refusal looks like.

A view is a coroutine that takes a Visit (or, before sign-in, a Guest) and the path's parameters,
runs one operation and returns `show(…)` or `go_to(…)`. What it refuses (MusterError) becomes a page
with the status of its class, so no view needs a `try`.

A GET changes nothing. A POST is taken only from our own pages: browsers say so with
`Sec-Fetch-Site: same-origin`, older ones with an `Origin` that is the public URL's. That, with the
cookie's SameSite, is what keeps other sites out; there is no token in the forms to lose.

A page that is asked for by another host than MUSTER_PUBLIC_URL's is redirected there: a passkey
belongs to one name, and so does the cookie. Only the host of the request is compared.

What is risky is done by `visit.risky(operation)`: when the sign-in is too old for it, the visitor
is led to `/step-up`, proves who they are, and comes back to the page whose form they sent.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NoReturn, TypeVar
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

from muster.accounts.operations.sessions import (
    LIFE,
    Visitor,
    is_stale,
    knock_session,
    note_session_seen,
)
from muster.accounts.operations.stepup import StepUpNeeded, after_step_up, is_fresh
from muster.chief.operations.glance import count_waiting
from muster.errors import Invalid, MusterError, Refused
from muster.node.node import Node
from muster.pg.database import Transaction
from muster.principals import Owner, System
from web.cookies import SESSION, is_secure, name_of
from web.errors import refusal_headers, sentence_of, status_of
from web.pages.own_paths import own_path, path_of

C = TypeVar("C")
R = TypeVar("R")

_NODE: Final = "MUSTER_NODE"


class ForeignForm(Refused):
    """A form that another site sent, or that does not say where it comes from."""

    default_code = "foreign_form"


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
    visitor: Visitor | None


@attrs.frozen(kw_only=True)
class Visit(Guest):
    """Somebody who is signed in. `owner` is who they act as, by the browser."""

    visitor: Visitor
    owner: Owner

    @property
    def is_fresh(self) -> bool:
        """Whether the sign-in is fresh enough for what is risky, as a page may show."""
        window = self.node.config.stepup_window_seconds
        return is_fresh(self.visitor, self.visitor.looked_at, window)

    def risky(
        self, operation: Callable[[Transaction, C], Awaitable[R]]
    ) -> Callable[[Transaction, C], Awaitable[R]]:
        """The same operation, refused in its own transaction unless the sign-in is fresh."""
        return after_step_up(
            operation,
            session_id=self.visitor.session_id,
            window_seconds=self.node.config.stepup_window_seconds,
        )


_View = Callable[..., Awaitable[ResponseReturnValue]]
Register = Callable[[_View], _View]


def attach(app: Any, node: Node) -> None:
    """Give the pages their node, and every template what the frame of a page shows."""
    app.config[_NODE] = node
    app.context_processor(_frame)


def _frame() -> dict[str, object]:
    """Who is signed in (None for a guest), where they are, and what waits for them."""
    node: Node = current_app.config[_NODE]
    return {
        "visitor": g.get("visitor"),
        "live_id": g.get("live_id", ""),
        "waiting": g.get("waiting", 0),
        "here": request.path,
        # Where the frame of this page is asked for again; what a form brought up cannot be.
        "address": request.full_path.rstrip("?") if request.method == "GET" else "/attention",
        "plugins_on": node.config.plugins,
    }


def signed_in(
    pages: Blueprint, method: str, path: str, *, refused: str = "refusal.html"
) -> Register:
    """Register a view for somebody who is signed in; others are led to the sign-in page.

    `refused` is the template of a refusal: a page with a form shows it again, with the `sentence`.
    """
    return _registered(pages, method, path, needs_visitor=True, refused=refused)


def for_guests(
    pages: Blueprint, method: str, path: str, *, refused: str = "refusal.html"
) -> Register:
    """Register a view for anybody; it is told who visits, if somebody is signed in."""
    return _registered(pages, method, path, needs_visitor=False, refused=refused)


async def show(template: str, status: int = 200, /, **context: Any) -> Response:
    """A page, or the part of one."""
    return Response(await render_template(template, **context), status=status)


def go_to(path: str) -> ResponseReturnValue:
    """After a POST: look at `path`, by GET."""
    return redirect(path, 303)


def _registered(
    pages: Blueprint, method: str, path: str, *, needs_visitor: bool, refused: str
) -> Register:
    def register(view: _View) -> _View:
        async def viewing(**params: Any) -> ResponseReturnValue:
            node: Node = current_app.config[_NODE]
            if (elsewhere := _public_address(node)) is not None:
                return redirect(elsewhere, 307 if request.method == "GET" else 303)
            g.live_id = node.live.newest_id  # before the page looks at anything
            try:
                if request.method == "POST":
                    _refuse_foreign(node)
                guest = await _guest(node)
                if guest.visitor is not None:
                    g.visitor = guest.visitor
                    g.waiting = await _count_waiting(node, guest.visitor)
                if not needs_visitor:
                    return await view(guest, **params)
                if guest.visitor is None:
                    return _to_sign_in()
                return await view(_visit(guest), **params)
            except StepUpNeeded:
                return _to_step_up(node)
            except MusterError as refusal:
                return await show_refusal(refusal, refused)

        pages.add_url_rule(
            path, endpoint=f"{method} {path}".replace(".", "_"), view_func=viewing, methods=[method]
        )
        return view

    return register


async def show_refusal(refusal: MusterError, template: str = "refusal.html") -> Response:
    """A refusal as a page, with the status of its class."""
    sent = await request.form if request.method == "POST" else request.args
    page = await show(
        template,
        status_of(refusal),
        sentence=sentence_of(refusal),
        code=refusal.code,
        sent=sent.to_dict(),
    )
    page.headers.extend(refusal_headers(refusal))
    return page


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


async def _count_waiting(node: Node, visitor: Visitor) -> int:
    owner = Owner(owner_id=visitor.owner_id, via="browser")
    async with node.db.transaction(owner, look=True) as tx:
        return (await count_waiting(tx)).total


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


def _to_step_up(node: Node) -> ResponseReturnValue:
    """Lead to the step-up page, and back to the page that was asked for or whose form was sent."""
    if request.method == "GET":
        wanted = _asked_for()
    else:
        wanted = path_of(request.headers.get("referer"), node.config.public_url) or "/"
    return redirect(f"/step-up?next={quote(own_path(wanted), safe='/')}", 303)


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


def _refuse_foreign(node: Node) -> None:
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None and site != "same-origin":
        _foreign()
    if origin is not None and origin.lower() != node.config.public_url.lower():
        _foreign()
    if site is None and origin is None:
        _foreign()


def _foreign() -> NoReturn:
    raise ForeignForm("This form did not come from a page of this muster; nothing was done.")
