"""The section "Hosts' tokens" of `/settings`: machines that mirror their terminals to muster.

A new token is shown once, by the answer to its form, with the lines that start a mirror with it.
Making one needs a fresh sign-in: it shows what is mirrored, and lets a session read what comes and
answer it. So does revoking one, which ends what a machine offers.
"""

from collections.abc import Mapping
from typing import Final

from quart import Blueprint
from quart.typing import ResponseReturnValue

from muster.mirror.operations.hosts import add_host, list_hosts, retire_host
from muster.mirror.rules import AddHost, ListHosts, RetireHost
from web.pages.visits import Visit, go_to, show, signed_in

HOSTS: Final = Blueprint("hosts", __name__)


async def load_hosts(visit: Visit) -> Mapping[str, object]:
    """The live hosts; each holds one token."""
    return {"hosts": await visit.node.db.run(visit.owner, list_hosts, ListHosts())}


@signed_in(HOSTS, "POST", "/settings/hosts", page="/settings")
async def add(visit: Visit) -> ResponseReturnValue:
    """Make a host and show its token, this once."""
    command = AddHost(name=visit.form.get("name", "").strip())
    host, token = await visit.node.db.run(visit.owner, visit.risky(add_host), command)
    return await show("host_made.html", host=host, token=token)


@signed_in(HOSTS, "POST", "/settings/hosts/<name>/revoke", page="/settings")
async def revoke(visit: Visit, name: str) -> ResponseReturnValue:
    """End a host and its token; its program is cut off, and its sessions have ended."""
    await visit.node.db.run(visit.owner, visit.risky(retire_host), RetireHost(name=name))
    return go_to("/settings#hosts")
