"""Plugins: registered once, live until revoked, never live again.

A revoked plugin keeps its row, its messages and its drafts, but nothing of it moves any more: its
token opens no door, its queued messages are passed over, its drafts can't be approved. Its name is
free again for a new plugin, which shares nothing with it.

Races: a post locks its plugin's row first (`lock_live_plugin`), and revoking locks it too, so that
each post is wholly before or wholly refused. Delivery, approval and claim look at the row without a
lock: what looked before the revocation was committed happened before it.
"""

from datetime import datetime

import attrs

from muster.names import check_line, check_name
from muster.outcomes import Changed, Fact, Hint, HintKind

LABEL_CHARACTERS_MAX = 80
SCOPE_CHARACTERS_MAX = 80


@attrs.frozen(kw_only=True)
class PluginRow:
    """A plugin: its name is the slug, its label what the chief's conversation for it is called."""

    id: int
    owner_id: int
    name: str
    label: str
    scope: str
    created_at: datetime
    revoked_at: datetime | None


@attrs.frozen(kw_only=True)
class PluginView(PluginRow):
    """A plugin as listed: when it last called, how many of its messages wait for the chief."""

    last_seen_at: datetime | None
    waiting: int


@attrs.frozen(kw_only=True)
class AddPlugin:
    """Register a plugin; audit action `plugin.added`."""

    name: str
    label: str
    scope: str


@attrs.frozen(kw_only=True)
class ListPlugins:
    """List the live plugins by name, or the revoked ones too."""

    revoked_too: bool = False
    limit: int = 1000


@attrs.frozen(kw_only=True)
class RevokePlugin:
    """End a live plugin; audit action `plugin.revoked`.

    With a `plugin_id` it must be that one: a name is free again for another after a revocation.
    """

    name: str
    plugin_id: int | None = None


@attrs.frozen(kw_only=True)
class PluginName:
    """What a plugin is called."""

    id: int
    name: str


def check(command: AddPlugin) -> None:
    """Raise Invalid unless name, label and scope have their shape (plugins: "Two ways in")."""
    check_name(command.name, field="name")
    check_line(command.label, field="label", characters_max=LABEL_CHARACTERS_MAX)
    check_line(command.scope, field="scope", characters_max=SCOPE_CHARACTERS_MAX)


def revoked(plugin: PluginRow, now: datetime) -> Changed[PluginRow]:
    """End a live plugin as of `now`; the caller has seen that it is live."""
    assert plugin.revoked_at is None
    return Changed(
        row=attrs.evolve(plugin, revoked_at=now),
        facts=(
            Fact(
                action="plugin.revoked",
                subject=f"plugin:{plugin.id}",
                data={"name": plugin.name},
            ),
        ),
        hints=(Hint(kind=HintKind.PLUGIN_REVOKED, owner_id=plugin.owner_id, id=plugin.id),),
    )
