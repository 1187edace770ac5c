"""`/plugins`: create and revoke plugins, see how they are, hand over again what is unconfirmed.

These pages are there while plugins are on; otherwise they are 404, whoever asks.
"""

from quart import Blueprint
from quart.typing import ResponseReturnValue

from muster.chief.operations.plugin_desk import look_at_plugins
from muster.chief.operations.retry import RetryMessage, retry_message
from muster.plugins.operations import add_plugin, revoke_plugin
from muster.plugins.rules import AddPlugin, ListPlugins, RevokePlugin
from web.pages.reading import read_id
from web.pages.visits import Visit, go_to, show, signed_in

PLUGINS = Blueprint("plugins", __name__)


@signed_in(PLUGINS, "GET", "/plugins")
async def plugins(visit: Visit) -> ResponseReturnValue:
    """The plugins, and what the chief did not confirm."""
    desk = await visit.node.db.run(visit.owner, look_at_plugins, ListPlugins(revoked_too=True))
    return await show("plugins.html", desk=desk)


@signed_in(PLUGINS, "POST", "/plugins", page="/plugins")
async def create(visit: Visit) -> ResponseReturnValue:
    """Create a plugin; its token is shown on the answer and never again."""
    fields = {name: visit.form.get(name, "").strip() for name in ("name", "label", "scope")}
    plugin, token = await visit.node.db.run(visit.owner, add_plugin, AddPlugin(**fields))
    public_url = visit.node.config.public_url
    return await show("plugin_made.html", 201, plugin=plugin, token=token, public_url=public_url)


@signed_in(PLUGINS, "POST", "/plugins/<plugin_id>/revoke", page="/plugins")
async def revoke(visit: Visit, plugin_id: str) -> ResponseReturnValue:
    """End a plugin and its token, for good."""
    command = RevokePlugin(name=visit.form.get("name", ""), plugin_id=read_id(plugin_id))
    await visit.node.db.run(visit.owner, revoke_plugin, command)
    return go_to("/plugins")


@signed_in(PLUGINS, "POST", "/plugins/messages/<message_id>/retry", page="/plugins")
async def retry(visit: Visit, message_id: str) -> ResponseReturnValue:
    """Hand an unconfirmed message over again; nothing leaves muster by it."""
    command = RetryMessage(message_id=read_id(message_id))
    await visit.node.db.run(visit.owner, retry_message, command)
    return go_to("/plugins")
