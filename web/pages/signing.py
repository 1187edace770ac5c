"""`/sign-in`, `/sign-out` and `/step-up`.

A passkey takes three steps: a script of ours asks for the options, the browser asks the
authenticator, and the answer is sent in a form like any other, which leads on. A password needs no
script. Whatever fails shows the form again, with one sentence for all that opens no account.
"""

from typing import Final

from quart import Blueprint, Response
from quart.typing import ResponseReturnValue

from muster.accounts import actor as accounts
from muster.accounts.operations.challenges import LIFE
from muster.accounts.operations.passkeys import count_ways
from muster.accounts.operations.sessions import Opened, end_session
from muster.node.node import Node
from web.cookies import CEREMONY, KNOWN, SESSION
from web.pages.own_paths import own_path
from web.pages.visits import (
    Guest,
    Visit,
    for_guests,
    go_to,
    set_cookie,
    set_session,
    show,
    signed_in,
)

KNOWN_SECONDS: Final = 400 * 24 * 3600  # browsers keep none longer; its row goes before
SIGNING: Final = Blueprint("signing", __name__)


@for_guests(SIGNING, "GET", "/sign-in")
async def look_at_sign_in(guest: Guest) -> ResponseReturnValue:
    """The form; somebody who is signed in is led on."""
    wanted = own_path(guest.args.get("next", "/"))
    if guest.visitor is not None:
        return go_to(wanted)
    return await show("sign_in.html", sent={"next": wanted})


@for_guests(SIGNING, "POST", "/sign-in", refused="sign_in.html")
async def sign_in(guest: Guest) -> ResponseReturnValue:
    """Sign in by name and password."""
    opened = await accounts.sign_in_with_password(
        guest.node.db,
        name=guest.form.get("name", "").strip(),
        password=guest.form.get("password", ""),
        browser=guest.browser,
    )
    return enter(guest, opened)


@for_guests(SIGNING, "POST", "/sign-in/options")
async def ask_to_sign_in(guest: Guest) -> ResponseReturnValue:
    """What the browser asks the authenticator for."""
    question = await accounts.ask_to_sign_in(
        guest.node.db,
        public_url=guest.node.config.public_url,
        address=guest.address,
        known_by=guest.known_by,
    )
    return ask(guest.node, question)


@for_guests(SIGNING, "POST", "/sign-in/passkey", refused="sign_in.html")
async def sign_in_by_passkey(guest: Guest) -> ResponseReturnValue:
    """Sign in by a passkey's answer."""
    opened = await accounts.sign_in_with_passkey(
        guest.node.db,
        public_url=guest.node.config.public_url,
        answer=guest.form.get("passkey", ""),
        cookie=guest.ceremony,
        browser=guest.browser,
    )
    return enter(guest, opened)


@signed_in(SIGNING, "POST", "/sign-out")
async def sign_out(visit: Visit) -> ResponseReturnValue:
    """End this session."""
    await visit.node.db.run(visit.owner, end_session, visit.visitor.session_id)
    response = lead_to("/sign-in")
    set_cookie(response, visit.node, SESSION, "", life_seconds=0)
    return response


@signed_in(SIGNING, "GET", "/step-up")
async def look_at_step_up(visit: Visit) -> ResponseReturnValue:
    """The form by which a visitor proves anew who they are."""
    ways = await visit.node.db.run(visit.owner, count_ways, None)
    wanted = own_path(visit.form.get("next") or visit.args.get("next", "/"))
    return await show("step_up.html", sent={"next": wanted}, ways=ways)


@signed_in(SIGNING, "POST", "/step-up", page="/step-up")
async def step_up(visit: Visit) -> ResponseReturnValue:
    """Prove it by the password, and go back."""
    await accounts.step_up_with_password(
        visit.node.db,
        visit.visitor,
        password=visit.form.get("password", ""),
        address=visit.address,
    )
    return go_to(own_path(visit.form.get("next", "/")))


@signed_in(SIGNING, "POST", "/step-up/options")
async def ask_to_step_up(visit: Visit) -> ResponseReturnValue:
    """What the browser asks the authenticator for."""
    question = await accounts.ask_to_step_up(
        visit.node.db,
        visit.visitor,
        public_url=visit.node.config.public_url,
        address=visit.address,
    )
    return ask(visit.node, question)


@signed_in(SIGNING, "POST", "/step-up/passkey", page="/step-up")
async def step_up_by_passkey(visit: Visit) -> ResponseReturnValue:
    """Prove it by a passkey's answer, and go back."""
    await accounts.step_up_with_passkey(
        visit.node.db,
        visit.visitor,
        public_url=visit.node.config.public_url,
        answer=visit.form.get("passkey", ""),
        cookie=visit.ceremony,
        browser=visit.browser,
    )
    return go_to(own_path(visit.form.get("next", "/")))


def enter(guest: Guest, opened: Opened) -> Response:
    """Hand the browser its new session, and lead on."""
    response = lead_to(own_path(guest.form.get("next", "/")))
    set_session(response, guest.node, opened.cookie)
    set_cookie(response, guest.node, KNOWN, opened.cookie, life_seconds=KNOWN_SECONDS)
    set_cookie(response, guest.node, CEREMONY, "", life_seconds=0)
    return response


def lead_to(path: str) -> Response:
    """`go_to` as a response that can carry a cookie."""
    return Response("", status=303, headers={"Location": path})


def ask(node: Node, question: accounts.Question) -> Response:
    """Hand a page what it asks an authenticator, and the cookie that the answer needs."""
    response = Response(question.options, content_type="application/json")
    life = int(LIFE.total_seconds())
    set_cookie(response, node, CEREMONY, question.cookie, life_seconds=life)
    return response
