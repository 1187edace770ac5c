"""`/setup?link=…`: the first account of a server, or a new way into an account, by a one-time link.

Looking at the page uses nothing up: mail programs and chats look at what they are given.
"""

from typing import Final

from quart import Blueprint
from quart.typing import ResponseReturnValue

from muster.accounts import actor as accounts
from muster.accounts.operations.links import get_link
from muster.accounts.rules.signing import time_zones
from muster.principals import System
from web.pages.signing import ask, enter
from web.pages.visits import Guest, for_guests, show

SETTING_UP: Final = Blueprint("setting_up", __name__)


@SETTING_UP.context_processor
def _zones() -> dict[str, object]:
    """What the form offers, when it is shown again with a refusal too."""
    return {"zones": time_zones()}


@for_guests(SETTING_UP, "GET", "/setup", refused="setup_gone.html")
async def look_at_setup(guest: Guest) -> ResponseReturnValue:
    """The form, while the link is good."""
    link = guest.args.get("link", "")
    found = await guest.node.db.run(System(), get_link, link)
    sent = {"link": link, "for": found.name or ""}
    return await show("setup.html", sent=sent)


@for_guests(SETTING_UP, "POST", "/setup", refused="setup.html")
async def set_up(guest: Guest) -> ResponseReturnValue:
    """Take the link."""
    form = guest.form
    sent = accounts.SettingUp(
        link=form.get("link", ""),
        name=form.get("name", "").strip(),
        email=form.get("email", "").strip(),
        password=form.get("password", ""),
        answer=form.get("passkey", ""),
        passkey_name=form.get("passkey_name", "").strip(),
        cookie=guest.ceremony,
        time_zone=form.get("time_zone", ""),
        browser=guest.browser,
    )
    opened = await accounts.set_up(guest.node.db, sent, public_url=guest.node.config.public_url)
    return enter(guest, opened)


@for_guests(SETTING_UP, "POST", "/setup/options")
async def ask_to_set_up(guest: Guest) -> ResponseReturnValue:
    """What the browser asks the authenticator for."""
    question = await accounts.ask_to_set_up(
        guest.node.db,
        link=guest.form.get("link", ""),
        name=guest.form.get("name", "").strip(),
        public_url=guest.node.config.public_url,
        address=guest.address,
    )
    return ask(guest.node, question)
