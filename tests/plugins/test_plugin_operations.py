"""Plugins on the database: names, listing, revoking, and what races."""

import pytest

from muster.errors import Conflict, Invalid, NotFound, Unauthorized
from muster.outcomes import HintKind
from muster.pg.audit import list_audit
from muster.pg.query import Query
from muster.plugins.operations import (
    add_plugin,
    find_plugin,
    knows_name,
    list_plugins,
    lock_live_plugin,
    name_plugins,
    revoke_plugin,
)
from muster.plugins.rules import AddPlugin, ListPlugins, PluginRow, RevokePlugin
from muster.principals import Owner
from tests.support.barrier import collide
from tests.support.cluster import SpiedDatabase, add_owner

MAIL = AddPlugin(name="mail", label="Mail", scope="mail")
ADD_MESSAGE = Query("""
    insert into messages (owner_id, plugin_id, external_id, body, no_reply, sender_verified,
                          human_conversation, created_at, state, attempts)
    values (%(owner_id)s, %(plugin_id)s, %(external_id)s, 'x', false, false, false, %(now)s,
            'queued', 0)
""")


@pytest.mark.rule(16)
async def test_a_plugin_has_name_label_and_scope(db: SpiedDatabase, owner: Owner) -> None:
    """What a plugin was registered with is what is found and listed, and in the audit log."""
    plugin, token = await db.run(owner, add_plugin, MAIL)
    assert token.startswith("mpl_")
    assert (plugin.name, plugin.label, plugin.scope) == ("mail", "Mail", "mail")
    async with db.transaction(owner) as tx:
        assert await find_plugin(tx, "mail") == plugin
        assert await name_plugins(tx, [plugin.id, plugin.id]) == {plugin.id: "mail"}
        assert await knows_name(tx, "mail")
        assert not await knows_name(tx, "post")
        (row,) = await list_audit(tx)
    assert (row.action, row.subject) == ("plugin.added", f"plugin:{plugin.id}")
    assert row.data == {"name": "mail", "label": "Mail", "scope": "mail"}
    assert token[4:] not in str(row)


@pytest.mark.parametrize("field", ["label", "scope"])
@pytest.mark.rule(16)
async def test_the_edges_of_label_and_scope(db: SpiedDatabase, owner: Owner, field: str) -> None:
    """Label and scope have 1 to 80 characters and no control among them."""
    base = {"label": "Mail", "scope": "mail"}
    for number, good in enumerate(("x", "é" * 80)):
        command = AddPlugin(name=f"p{number}", **(base | {field: good}))
        plugin, _ = await db.run(owner, add_plugin, command)
        assert getattr(plugin, field) == good
    for bad in ("", "é" * 81, "a\nb", "a\x1b[2Jb", "a\0b"):
        with pytest.raises(Invalid) as caught:
            await db.run(owner, add_plugin, AddPlugin(name="q", **(base | {field: bad})))
        assert caught.value.field == field


async def test_a_live_name_is_taken(db: SpiedDatabase, owner: Owner) -> None:
    """A name is taken while its plugin lives, for its owner alone, and free after that."""
    first, _ = await db.run(owner, add_plugin, MAIL)
    with pytest.raises(Conflict) as caught:
        await db.run(owner, add_plugin, MAIL)
    assert caught.value.code == "name_taken"
    await db.run(await add_owner(db), add_plugin, MAIL)
    await db.run(owner, revoke_plugin, RevokePlugin(name="mail"))
    second, _ = await db.run(owner, add_plugin, MAIL)
    assert second.id != first.id


async def test_two_that_add_one_name(db: SpiedDatabase, owner: Owner) -> None:
    """Of several that add one name at the same time, exactly one gets it."""
    outcomes = await collide(db, *[(owner, lambda tx: add_plugin(tx, MAIL))] * 6)
    refused = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
    assert len(refused) == 5
    assert len(await db.run(owner, list_plugins, ListPlugins())) == 1


async def test_revoking(db: SpiedDatabase, owner: Owner) -> None:
    """Revoking writes its time, one audit row and the hint; there is nothing to revoke after it."""
    plugin, _ = await db.run(owner, add_plugin, MAIL)
    db.published.clear()
    ended = await db.run(owner, revoke_plugin, RevokePlugin(name="mail"))
    assert ended.id == plugin.id
    assert ended.revoked_at is not None
    assert [(hint.kind, hint.id) for hint in db.published] == [(HintKind.PLUGIN_REVOKED, plugin.id)]
    for name in ("mail", "never"):
        with pytest.raises(NotFound):
            await db.run(owner, revoke_plugin, RevokePlugin(name=name))
    async with db.transaction(owner) as tx:
        assert [row.action for row in await list_audit(tx)] == ["plugin.revoked", "plugin.added"]
        assert await find_plugin(tx, "mail") is None
        with pytest.raises(Unauthorized):
            await lock_live_plugin(tx, plugin.id)


async def test_two_that_revoke_one(db: SpiedDatabase, owner: Owner) -> None:
    """Of two that revoke one plugin, one does and the other finds none."""
    await db.run(owner, add_plugin, MAIL)
    command = RevokePlugin(name="mail")
    outcomes = await collide(
        db,
        (owner, lambda tx: revoke_plugin(tx, command)),
        (owner, lambda tx: revoke_plugin(tx, command)),
    )
    assert len([outcome for outcome in outcomes if isinstance(outcome, NotFound)]) == 1
    assert len([outcome for outcome in outcomes if isinstance(outcome, PluginRow)]) == 1


async def test_another_owners_plugin_is_none(db: SpiedDatabase, owner: Owner) -> None:
    """Nobody sees, locks or revokes somebody else's plugin."""
    plugin, _ = await db.run(owner, add_plugin, MAIL)
    other = await add_owner(db)
    async with db.transaction(other) as tx:
        assert await find_plugin(tx, "mail") is None
        assert await name_plugins(tx, [plugin.id]) == {}
        with pytest.raises(Unauthorized):
            await lock_live_plugin(tx, plugin.id)
        with pytest.raises(NotFound):
            await revoke_plugin(tx, RevokePlugin(name="mail"))
        assert await list_plugins(tx, ListPlugins(revoked_too=True)) == []


async def test_the_listing(db: SpiedDatabase, owner: Owner) -> None:
    """The listing is by name, counts what waits for the chief, and shows the revoked on demand."""
    for name in ("zulu", "alpha", "gone"):
        await db.run(owner, add_plugin, AddPlugin(name=name, label="L", scope="s"))
    await db.run(owner, revoke_plugin, RevokePlugin(name="gone"))
    async with db.transaction(owner) as tx:
        zulu = await find_plugin(tx, "zulu")
        assert zulu is not None
        for number in range(3):
            await tx.execute(ADD_MESSAGE, plugin_id=zulu.id, external_id=f"m{number}")
    views = await db.run(owner, list_plugins, ListPlugins())
    assert [(view.name, view.waiting, view.last_seen_at) for view in views] == [
        ("alpha", 0, None),
        ("zulu", 3, None),
    ]
    everything = await db.run(owner, list_plugins, ListPlugins(revoked_too=True))
    assert [view.name for view in everything] == ["alpha", "gone", "zulu"]
    assert len(await db.run(owner, list_plugins, ListPlugins(limit=1))) == 1


async def test_a_lock_waits_for_a_revocation(db: SpiedDatabase, owner: Owner) -> None:
    """A post that meets a revocation is wholly before it or refused."""
    plugin, _ = await db.run(owner, add_plugin, MAIL)
    locked, revoked = await collide(
        db,
        (owner, lambda tx: lock_live_plugin(tx, plugin.id)),
        (owner, lambda tx: revoke_plugin(tx, RevokePlugin(name="mail"))),
    )
    assert isinstance(revoked, PluginRow)
    assert isinstance(locked, PluginRow | Unauthorized)
    if isinstance(locked, PluginRow):
        assert locked.revoked_at is None
