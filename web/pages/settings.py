"""`/settings`: one page made of sections, each with a template, a look, and forms of its own.

A section is listed in SECTIONS: its template is included with what `load` returns as `data`. What
gives a way in, or takes one away, needs a fresh sign-in (`visit.risky`); ending a session does not:
that is never the risky direction.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import attrs
from quart import Blueprint
from quart.typing import ResponseReturnValue

from muster.accounts.operations.passkeys import count_ways, list_passkeys
from muster.accounts.operations.sessions import list_sessions
from muster.accounts.rules.signing import time_zones
from muster.credentials.operations.personal import list_personal
from muster.credentials.rules import ListPersonal
from web.pages.agents import load_agents
from web.pages.hosts import load_hosts
from web.pages.notifications import load_notifications
from web.pages.visits import Visit, show, signed_in

SETTINGS: Final = Blueprint("settings", __name__)


@attrs.frozen(kw_only=True)
class Section:
    """A part of the settings: `#name`, its title, its template, and what the template shows."""

    name: str
    title: str
    template: str
    load: Callable[[Visit], Awaitable[Mapping[str, object]]]


async def load_passkeys(visit: Visit) -> Mapping[str, object]:
    """The passkeys, and whether there is a password beside them."""
    async with visit.node.db.transaction(visit.owner) as tx:
        return {"passkeys": await list_passkeys(tx), "ways": await count_ways(tx)}


async def load_password(visit: Visit) -> Mapping[str, object]:
    """Whether there is a password."""
    return {"ways": await visit.node.db.run(visit.owner, count_ways, None)}


async def load_sessions(visit: Visit) -> Mapping[str, object]:
    """The live sessions, this one among them."""
    async with visit.node.db.transaction(visit.owner) as tx:
        return {"sessions": await list_sessions(tx)}


async def load_tokens(visit: Visit) -> Mapping[str, object]:
    """The person's own tokens."""
    tokens = await visit.node.db.run(visit.owner, list_personal, ListPersonal())
    return {"tokens": tokens, "now": visit.visitor.looked_at}


async def load_time_zone(_visit: Visit) -> Mapping[str, object]:
    """The zones to choose from."""
    return {"zones": time_zones()}


async def load_nothing(_visit: Visit) -> Mapping[str, object]:
    """What is kept in the browser alone."""
    return {}


SECTIONS: Final = (
    Section(
        name="passkeys", title="Passkeys", template="settings/passkeys.html", load=load_passkeys
    ),
    Section(
        name="password", title="Password", template="settings/password.html", load=load_password
    ),
    Section(
        name="sessions", title="Sessions", template="settings/sessions.html", load=load_sessions
    ),
    Section(
        name="tokens", title="Personal tokens", template="settings/tokens.html", load=load_tokens
    ),
    Section(
        name="notifications",
        title="Notifications",
        template="settings/notifications.html",
        load=load_notifications,
    ),
    Section(
        name="agents", title="Agents' tokens", template="settings/agents.html", load=load_agents
    ),
    Section(name="hosts", title="Hosts' tokens", template="settings/hosts.html", load=load_hosts),
    Section(
        name="time-zone", title="Time zone", template="settings/time_zone.html", load=load_time_zone
    ),
    Section(name="keys", title="Keyboard", template="settings/keys.html", load=load_nothing),
)


@signed_in(SETTINGS, "GET", "/settings")
async def look_at_settings(visit: Visit) -> ResponseReturnValue:
    """All sections, one below the other."""
    shown = [(section, await section.load(visit)) for section in SECTIONS]
    return await show("settings.html", shown=shown)
