"""The knock at a door: whose a token is, and what closes it."""

from datetime import timedelta

import pytest

from muster.accounts.operations import disable_user, enable_user
from muster.accounts.rules import Disable, Enable
from muster.agents.operations import add_agent, retire_agent
from muster.agents.rules import AddAgent, RetireAgent
from muster.credentials.operations import KNOCK, issue, knock, note_seen, revoke
from muster.credentials.rules import Issue, Knock, Known, NoteSeen, Revoke
from muster.ids import CredentialKind, digest
from muster.pg.query import Query
from muster.plugins.operations import add_plugin, list_plugins, revoke_plugin
from muster.plugins.rules import AddPlugin, ListPlugins, RevokePlugin
from muster.principals import Muster, Owner, System
from tests.support.cluster import SpiedDatabase, add_owner

MAIL = AddPlugin(name="mail", label="Mail", scope="mail")
STORED = Query("select encode(sha256, 'hex') from credentials where owner_id = %(owner_id)s")
EVERYTHING = Query("select count(*) from credentials c where c::text like %(like)s")
EXPLAIN_KNOCK = Query("explain (format json) " + KNOCK.text)
WITHOUT_SCANS = Query("set local enable_seqscan = off")


async def ask(db: SpiedDatabase, token: str) -> Known | None:
    """Knock with a token."""
    return await db.run(System(), knock, Knock(sha256=digest(token)))


@pytest.mark.rule(13, 20)
async def test_a_plugin_is_known_by_its_token(db: SpiedDatabase, owner: Owner) -> None:
    """A live plugin's token tells its owner, kind and name; one that is off by a letter nothing."""
    plugin, token = await db.run(owner, add_plugin, MAIL)
    known = await ask(db, token)
    assert known is not None
    assert (known.owner_id, known.kind, known.holder_id, known.holder_name) == (
        owner.owner_id,
        CredentialKind.PLUGIN,
        plugin.id,
        "mail",
    )
    assert await ask(db, token + "x") is None
    assert await ask(db, token[:-1]) is None


async def test_an_agent_is_known_by_its_token(db: SpiedDatabase, owner: Owner) -> None:
    """A live agent's token tells its kind, though a plugin may have the same id."""
    agent, token = await db.run(owner, add_agent, AddAgent(name="helper"))
    known = await ask(db, token)
    assert known is not None
    assert (known.kind, known.holder_id, known.holder_name) == (
        CredentialKind.AGENT,
        agent.id,
        "helper",
    )


@pytest.mark.rule(11, 12)
async def test_only_the_digest_is_stored(db: SpiedDatabase, owner: Owner) -> None:
    """The database holds a token's sha256 and nothing of its text."""
    _, token = await db.run(owner, add_plugin, MAIL)
    async with db.transaction(owner) as tx:
        assert await tx.scalar(STORED) == digest(token).hex()
        assert await tx.scalar(EVERYTHING, like=f"%{token[4:20]}%") == 0


@pytest.mark.rule(20)
async def test_a_revoked_plugin_is_unknown(db: SpiedDatabase, owner: Owner) -> None:
    """Revoking a plugin ends its token; a new plugin of the name has another."""
    _, token = await db.run(owner, add_plugin, MAIL)
    await db.run(owner, revoke_plugin, RevokePlugin(name="mail"))
    assert await ask(db, token) is None
    _, second = await db.run(owner, add_plugin, MAIL)
    assert await ask(db, token) is None
    assert await ask(db, second) is not None


async def test_a_retired_agent_is_unknown(db: SpiedDatabase, owner: Owner) -> None:
    """Retiring an agent ends its token."""
    _, token = await db.run(owner, add_agent, AddAgent(name="helper"))
    await db.run(owner, retire_agent, RetireAgent(name="helper"))
    assert await ask(db, token) is None


@pytest.mark.rule(21)
async def test_a_disabled_account_has_no_tokens(db: SpiedDatabase) -> None:
    """Disabling an account makes all its tokens unknown at once, enabling it brings them back."""
    owner = await add_owner(db)
    _, plugin = await db.run(owner, add_plugin, MAIL)
    _, agent = await db.run(owner, add_agent, AddAgent(name="helper"))
    await db.run(owner, disable_user, Disable())
    assert await ask(db, plugin) is None
    assert await ask(db, agent) is None
    await db.run(owner, enable_user, Enable())
    assert await ask(db, plugin) is not None
    assert await ask(db, agent) is not None


async def test_the_holder_decides_even_without_its_revocation(
    db: SpiedDatabase, owner: Owner
) -> None:
    """A token of a holder that is not there any more is unknown, though it was never revoked."""
    plugin, token = await db.run(owner, add_plugin, MAIL)
    await db.run(owner, revoke_plugin, RevokePlugin(name="mail"))
    late = Issue(kind=CredentialKind.PLUGIN, holder_id=plugin.id)
    issued = await db.run(owner, issue, late)
    assert await ask(db, issued.token.text) is None
    assert await ask(db, token) is None


async def test_a_kind_has_holders_of_its_own(db: SpiedDatabase, owner: Owner) -> None:
    """A plugin's token whose number is an agent's opens no door, nor the other way round."""
    agent, _ = await db.run(owner, add_agent, AddAgent(name="helper"))
    crossed = await db.run(owner, issue, Issue(kind=CredentialKind.PLUGIN, holder_id=agent.id))
    assert await ask(db, crossed.token.text) is None
    other = await add_owner(db)
    plugin, _ = await db.run(other, add_plugin, MAIL)
    crossed = await db.run(other, issue, Issue(kind=CredentialKind.AGENT, holder_id=plugin.id))
    assert await ask(db, crossed.token.text) is None


async def test_a_token_for_another_owners_holder_is_unknown(
    db: SpiedDatabase, owner: Owner
) -> None:
    """A credential that names somebody else's plugin opens no door."""
    plugin, _ = await db.run(owner, add_plugin, MAIL)
    other = await add_owner(db)
    issued = await db.run(other, issue, Issue(kind=CredentialKind.PLUGIN, holder_id=plugin.id))
    assert await ask(db, issued.token.text) is None


async def test_every_token_of_a_holder_ends(db: SpiedDatabase, owner: Owner) -> None:
    """Revoking ends all tokens of the holder and none of another kind with its id."""
    plugin, first = await db.run(owner, add_plugin, MAIL)
    again = await db.run(owner, issue, Issue(kind=CredentialKind.PLUGIN, holder_id=plugin.id))
    agent_kind = Revoke(kind=CredentialKind.AGENT, holder_id=plugin.id)
    assert await db.run(owner, revoke, agent_kind) == 0
    assert await ask(db, again.token.text) is not None
    both = Revoke(kind=CredentialKind.PLUGIN, holder_id=plugin.id)
    assert await db.run(owner, revoke, both) == 2
    assert await ask(db, first) is None
    assert await ask(db, again.token.text) is None


async def test_when_a_plugin_was_last_seen(db: SpiedDatabase, owner: Owner) -> None:
    """Noting that a credential was used shows in the listing; an older note changes nothing."""
    _, token = await db.run(owner, add_plugin, MAIL)
    known = await ask(db, token)
    assert known is not None
    seen = NoteSeen(credential_ids=frozenset({known.credential_id}))
    acting = Muster(owner_id=owner.owner_id)
    await db.run(acting, note_seen, seen)
    (view,) = await db.run(owner, list_plugins, ListPlugins())
    assert view.last_seen_at is not None
    db.clock_offset -= timedelta(hours=1)
    await db.run(acting, note_seen, seen)
    (again,) = await db.run(owner, list_plugins, ListPlugins())
    assert again.last_seen_at == view.last_seen_at


async def test_the_knock_is_one_indexed_query(db: SpiedDatabase) -> None:
    """The knock goes through the unique index on sha256 and scans no table."""
    async with db.transaction(System()) as tx:
        await tx.execute(WITHOUT_SCANS)
        told = str(await tx.scalar(EXPLAIN_KNOCK, sha256=digest("x")))
    assert "credentials_sha256_key" in told
    assert "Seq Scan" not in told
