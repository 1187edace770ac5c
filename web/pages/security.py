"""The forms of `/settings` about ways in: passkeys, the password, sessions, tokens.

Each leads back to its section. A new token is shown once, by the answer to its form.
"""

from typing import Final

from quart import Blueprint
from quart.typing import ResponseReturnValue

from muster.accounts import actor as accounts
from muster.accounts.operations.passkeys import RevokePasskey, revoke_passkey
from muster.accounts.operations.sessions import (
    end_other_sessions,
    end_session,
    sign_out_everywhere,
)
from muster.accounts.operations.signing import set_time_zone
from muster.accounts.operations.stepup import confirm_fresh
from muster.accounts.rules.signing import check_time_zone
from muster.credentials.operations.personal import add_personal, revoke_personal
from muster.credentials.rules import AddPersonal, RevokePersonal, Scope
from muster.errors import Invalid
from web.cookies import SESSION
from web.pages.reading import read_id
from web.pages.signing import ask, lead_to
from web.pages.visits import Visit, go_to, set_cookie, show, signed_in

SECURITY: Final = Blueprint("security", __name__)
_DAY_SECONDS: Final = 24 * 60 * 60
_EXPIRIES: Final = {"never": None, **{f"{days}d": days * _DAY_SECONDS for days in (7, 30, 90, 365)}}


@signed_in(SECURITY, "POST", "/settings/passkeys/options")
async def ask_for_passkey(visit: Visit) -> ResponseReturnValue:
    """What the browser asks the authenticator for, to make another passkey."""
    await visit.node.db.run(visit.owner, visit.risky(confirm_fresh), None)
    question = await accounts.ask_for_passkey(
        visit.node.db,
        visit.visitor,
        public_url=visit.node.config.public_url,
        address=visit.address,
    )
    return ask(visit.node, question)


@signed_in(SECURITY, "POST", "/settings/passkeys", page="/settings")
async def add_passkey(visit: Visit) -> ResponseReturnValue:
    """Keep the passkey that the browser made."""
    await visit.node.db.run(visit.owner, visit.risky(confirm_fresh), None)
    await accounts.take_new_passkey(
        visit.node.db,
        visit.visitor,
        public_url=visit.node.config.public_url,
        answer=visit.form.get("passkey", ""),
        cookie=visit.ceremony,
        name=visit.form.get("name", "").strip(),
        window_seconds=visit.node.config.stepup_window_seconds,
    )
    return go_to("/settings#passkeys")


@signed_in(SECURITY, "POST", "/settings/passkeys/<passkey_id>/revoke", page="/settings")
async def take_passkey_away(visit: Visit, passkey_id: str) -> ResponseReturnValue:
    """A passkey opens nothing any more; never the last way in."""
    command = RevokePasskey(passkey_id=read_id(passkey_id))
    await visit.node.db.run(visit.owner, visit.risky(revoke_passkey), command)
    return go_to("/settings#passkeys")


@signed_in(SECURITY, "POST", "/settings/password", page="/settings")
async def change_password(visit: Visit) -> ResponseReturnValue:
    """Set a password; all other sessions end."""
    await visit.node.db.run(visit.owner, visit.risky(confirm_fresh), None)
    await accounts.change_password(
        visit.node.db,
        visit.visitor,
        password=visit.form.get("password", ""),
        window_seconds=visit.node.config.stepup_window_seconds,
    )
    return go_to("/settings#password")


@signed_in(SECURITY, "POST", "/settings/sessions/<session_id>/end", page="/settings")
async def end_one(visit: Visit, session_id: str) -> ResponseReturnValue:
    """End a session, wherever its browser is."""
    await visit.node.db.run(visit.owner, end_session, read_id(session_id))
    return go_to("/settings#sessions")


@signed_in(SECURITY, "POST", "/settings/sessions/end-others", page="/settings")
async def end_others(visit: Visit) -> ResponseReturnValue:
    """End every session but this one."""
    await visit.node.db.run(visit.owner, end_other_sessions, visit.visitor.session_id)
    return go_to("/settings#sessions")


@signed_in(SECURITY, "POST", "/settings/sign-out-everywhere", page="/settings")
async def sign_out_of_all(visit: Visit) -> ResponseReturnValue:
    """End every session, this one too."""
    await visit.node.db.run(visit.owner, sign_out_everywhere, None)
    response = lead_to("/sign-in")
    set_cookie(response, visit.node, SESSION, "", life_seconds=0)
    return response


@signed_in(SECURITY, "POST", "/settings/tokens", page="/settings")
async def add_token(visit: Visit) -> ResponseReturnValue:
    """Make a personal token and show it, this once."""
    expiry = visit.form.get("expires", "never")
    if expiry not in _EXPIRIES:
        raise Invalid("Choose how long the token lasts.", field="expires")
    scope = Scope.WRITE if visit.form.get("scope") == "write" else Scope.READ
    name = visit.form.get("name", "").strip()
    command = AddPersonal(name=name, scope=scope, expires_seconds=_EXPIRIES[expiry])
    token, text = await visit.node.db.run(visit.owner, visit.risky(add_personal), command)
    return await show("token_made.html", token=token, text=text)


@signed_in(SECURITY, "POST", "/settings/tokens/<name>/revoke", page="/settings")
async def revoke_token(visit: Visit, name: str) -> ResponseReturnValue:
    """End a personal token."""
    await visit.node.db.run(visit.owner, revoke_personal, RevokePersonal(name=name))
    return go_to("/settings#tokens")


@signed_in(SECURITY, "POST", "/settings/time-zone", page="/settings")
async def change_time_zone(visit: Visit) -> ResponseReturnValue:
    """Show times in another zone."""
    zone = visit.form.get("time_zone", "")
    check_time_zone(zone)
    await visit.node.db.run(visit.owner, set_time_zone, zone)
    return go_to("/settings#time-zone")
