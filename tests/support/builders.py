"""Makes what tests start from, through the rooms' own operations."""

import itertools
from datetime import datetime

from muster.accounts.operations import disable_user
from muster.accounts.rules import Disable
from muster.agents.operations import add_agent
from muster.agents.rules import AddAgent
from muster.credentials.operations import knock
from muster.credentials.rules import Knock
from muster.drafts import operations as drafts
from muster.ids import digest
from muster.messages import operations as messages
from muster.messages import rules as message_rules
from muster.outcomes import Changed
from muster.pg.audit import AuditRow, list_audit
from muster.pg.database import Database, Transaction
from muster.pg.query import Query
from muster.plugins.operations import add_plugin, revoke_plugin
from muster.plugins.rules import AddPlugin, RevokePlugin
from muster.principals import Acting, Agent, Muster, Owner, Plugin, System

_numbers = itertools.count(1)


async def _credential_id(db: Database, token: str) -> int:
    async with db.transaction(System()) as tx:
        known = await knock(tx, Knock(sha256=digest(token)))
    assert known is not None
    return known.credential_id


async def new_plugin(db: Database, owner: Owner, name: str = "mail") -> tuple[int, str]:
    """The id and the token of a new plugin."""
    command = AddPlugin(name=name, label=name.title(), scope="mail")
    row, token = await db.run(owner, add_plugin, command)
    return row.id, token


async def new_agent(
    db: Database, owner: Owner, name: str = "helper", *, chief: bool = True
) -> tuple[int, str]:
    """The id and the token of a new agent."""
    row, token = await db.run(owner, add_agent, AddAgent(name=name, chief=chief, replace=False))
    return row.id, token


async def make_plugin(db: Database, owner: Owner, name: str | None = None) -> Plugin:
    """A live plugin of the owner's."""
    name = name or f"plugin-{next(_numbers)}"
    plugin_id, token = await new_plugin(db, owner, name)
    return Plugin(
        owner_id=owner.owner_id,
        plugin_id=plugin_id,
        name=name,
        credential_id=await _credential_id(db, token),
    )


async def make_chief(db: Database, owner: Owner, name: str | None = None) -> Agent:
    """The owner's chief."""
    return await make_agent(db, owner, name, chief=True)


async def make_agent(
    db: Database, owner: Owner, name: str | None = None, *, chief: bool = False
) -> Agent:
    """A live agent of the owner's."""
    name = name or f"agent-{next(_numbers)}"
    agent_id, token = await new_agent(db, owner, name, chief=chief)
    return Agent(
        owner_id=owner.owner_id,
        agent_id=agent_id,
        name=name,
        credential_id=await _credential_id(db, token),
    )


async def make_message(
    db: Database,
    plugin: Plugin,
    *,
    delivered_to: Agent | None = None,
    external_id: str | None = None,
    body: str = "Does noon work?",
    sender: str = "Ada <ada@example.test>",
    subject: str = "Lunch",
    no_reply: bool = False,
    sender_verified: bool = False,
    thread: str | None = None,
    human_conversation: bool = False,
) -> message_rules.Message:
    """A message of the plugin's, queued or already delivered to an agent."""
    command = message_rules.Post(
        external_id=external_id or f"msg-{next(_numbers)}",
        body=body,
        sender=sender,
        subject=subject,
        no_reply=no_reply,
        sender_verified=sender_verified,
        thread=thread,
        human_conversation=human_conversation,
    )
    posted = await db.run(plugin, messages.post, command)
    if delivered_to is None:
        return await get_message(db, plugin, posted.id)
    await move_message(db, posted.id, begin(delivered_to), owner_id=plugin.owner_id)
    complete = message_rules.Complete(epoch=1)
    return await move_message(db, posted.id, complete, owner_id=plugin.owner_id)


def begin(agent: Agent, epoch: int = 1) -> message_rules.Begin:
    """Hand a message to this agent."""
    return message_rules.Begin(agent_id=agent.agent_id, epoch=epoch)


async def get_message(db: Database, principal: Acting, message_id: int) -> message_rules.Message:
    """The message as it is stored now."""
    return await db.run(principal, messages.get_message, message_id)


async def move_message(
    db: Database, message_id: int, command: message_rules.Command, *, owner_id: int
) -> message_rules.Message:
    """Decide about a message and save it, as a delivery does."""

    async def move(tx: Transaction, command: message_rules.Command) -> message_rules.Message:
        message = await messages.lock_message(tx, message_id)
        assert message is not None
        outcome = message_rules.decide(message, command, tx.now)
        assert isinstance(outcome, Changed), outcome
        return await messages.save(tx, outcome)

    return await db.run(Muster(owner_id=owner_id), move, command)


async def make_draft(
    db: Database,
    agent: Agent,
    message: message_rules.Message,
    *,
    body: str = "Thanks, noon works.",
    approved_by: Owner | None = None,
    claimed_by: Plugin | None = None,
) -> drafts.Draft:
    """A draft to a delivered message: pending, approved, or claimed."""
    command = drafts.File(message_id=message.id, body=body, deny_words=frozenset())
    draft = (await db.run(agent, drafts.file, command)).draft
    if approved_by is not None:
        draft = await db.run(approved_by, drafts.approve, drafts.Approve(draft_id=draft.id))
    if claimed_by is not None:
        claimed = await db.run(claimed_by, drafts.claim_next, drafts.ClaimNext())
        assert claimed is not None
        assert claimed.draft_id == draft.id
    return draft


async def revoke(db: Database, owner: Owner, plugin: Plugin) -> None:
    """Revoke a plugin."""
    await db.run(owner, revoke_plugin, RevokePlugin(name=plugin.name))


async def disable(db: Database, owner: Owner) -> None:
    """Disable the owner's account."""
    await db.run(owner, disable_user, Disable())


async def read_audit(db: Database, owner: Owner, action: str = "") -> list[AuditRow]:
    """The owner's audit rows whose action begins so, oldest first."""
    async with db.transaction(owner) as tx:
        rows = await list_audit(tx, limit=500)
    return [row for row in reversed(rows) if row.action.startswith(action)]


LOOK = Query("select 1")


async def read_now(db: Database) -> datetime:
    """The database's time, with the test's offset."""
    async with db.transaction(System(), look=True) as tx:
        await tx.scalar(LOOK)
        return tx.now
