"""`muster plugin`: what may bring messages in and take replies out."""

from typing import TYPE_CHECKING

import click

from muster.commands.next_step import to_type
from muster.commands.options import json_option, owner_option
from muster.commands.output import local, print_json, print_table, utc
from muster.commands.plugin_new import new as new_command
from muster.commands.plugin_retry import retry as retry_command
from muster.commands.plugin_test import test as test_command
from muster.commands.session import in_store

if TYPE_CHECKING:
    from muster.plugins.rules import PluginView


@click.group()
def plugin() -> None:
    """Add, list and revoke plugins; write and test your own."""


plugin.add_command(new_command)
plugin.add_command(retry_command)
plugin.add_command(test_command)


@plugin.command()
@click.argument("name")
@owner_option
@click.option("--label", required=True, help="What the chief's conversation for it is called.")
@click.option("--scope", required=True, help="What its messages are about; the chief is told.")
@json_option
def add(name: str, owner: str | None, label: str, scope: str, *, as_json: bool) -> None:
    """Register a plugin named NAME and print its token, this once.

    The token goes into the plugin's configuration: MUSTER_PLUGIN_TOKEN, or a file that
    MUSTER_PLUGIN_TOKEN_FILE names. muster keeps only its sha256.
    """
    from muster.plugins.operations import add_plugin
    from muster.plugins.rules import AddPlugin

    command = AddPlugin(name=name, label=label, scope=scope)
    added, token = in_store(lambda store: store.run_as(owner, add_plugin, command))
    if as_json:
        print_json(
            {
                "plugin_id": added.id,
                "name": added.name,
                "label": added.label,
                "scope": added.scope,
                "token": token,
            }
        )
        return
    click.echo(token)
    click.echo(f"This is the token of {added.name}. It is shown this once; keep it safe.", err=True)


@plugin.command("list")
@owner_option
@click.option("--all", "revoked_too", is_flag=True, help="The revoked ones too.")
@json_option
def list_(owner: str | None, *, revoked_too: bool, as_json: bool) -> None:
    """List plugins: when each last called, how many of its messages wait for the chief."""
    from muster.plugins.operations import list_plugins
    from muster.plugins.rules import ListPlugins

    command = ListPlugins(revoked_too=revoked_too)
    found = in_store(lambda store: store.run_as(owner, list_plugins, command))
    if as_json:
        print_json([_document(view) for view in found])
        return
    print_table(
        ("ID", "Name", "Label", "Scope", "Last seen", "Waiting", "State"),
        [
            (
                str(view.id),
                view.name,
                view.label,
                view.scope,
                local(view.last_seen_at),
                str(view.waiting),
                "live" if view.revoked_at is None else f"revoked {local(view.revoked_at)}",
            )
            for view in found
        ],
        empty="There is no plugin yet: "
        + to_type("plugin", "add", "NAME", "--label", "LABEL", "--scope", "SCOPE"),
    )


@plugin.command()
@click.argument("name")
@owner_option
@json_option
def revoke(name: str, owner: str | None, *, as_json: bool) -> None:
    """End the plugin NAME and its token, for good.

    What it brought stays stored, but its queued messages are not handed over any more and its
    drafts can't be approved. The name is free again.
    """
    from muster.plugins.operations import revoke_plugin
    from muster.plugins.rules import RevokePlugin

    ended = in_store(lambda store: store.run_as(owner, revoke_plugin, RevokePlugin(name=name)))
    if as_json:
        print_json({"plugin_id": ended.id, "name": ended.name, "revoked_at": utc(ended.revoked_at)})
        return
    click.echo(f"{ended.name} is revoked; its token opens no door any more.", err=True)


def _document(view: "PluginView") -> dict[str, object]:
    return {
        "plugin_id": view.id,
        "name": view.name,
        "label": view.label,
        "scope": view.scope,
        "created_at": utc(view.created_at),
        "last_seen_at": utc(view.last_seen_at),
        "waiting": view.waiting,
        "revoked_at": utc(view.revoked_at),
    }
