"""Filing a draft: whose message, which text, what else is there."""

from datetime import timedelta

import pytest

from muster.drafts import operations as drafts
from muster.drafts.operations import DraftView, File, Filed, State
from muster.errors import Invalid, NotFound, Refused
from muster.ids import digest
from muster.messages.rules import Complete, Fail, PutBack
from muster.pg.driver import DatabaseError
from muster.pg.query import Query
from muster.principals import Agent, Owner, Plugin
from tests.support.builders import (
    begin,
    disable,
    make_agent,
    make_chief,
    make_draft,
    make_message,
    make_plugin,
    move_message,
    read_audit,
    revoke,
)
from tests.support.cluster import SpiedDatabase

LEASE = timedelta(minutes=2)


@pytest.fixture
async def plugin(db: SpiedDatabase, owner: Owner) -> Plugin:
    """A live plugin."""
    return await make_plugin(db, owner)


@pytest.fixture
async def chief(db: SpiedDatabase, owner: Owner) -> Agent:
    """The owner's chief."""
    return await make_chief(db, owner)


async def file(db: SpiedDatabase, agent: Agent, message_id: int, body: str = "Hello.") -> Filed:
    """File a draft with one deny word."""
    command = File(message_id=message_id, body=body, deny_words=frozenset({"acme"}))
    return await db.run(agent, drafts.file, command)


async def view(db: SpiedDatabase, owner: Owner, draft_id: int) -> DraftView:
    """The draft as it stands now."""
    return await db.run(owner, drafts.get_draft, draft_id)


@pytest.mark.rule(251, 252, 271, 278, 279)
async def test_filed(db: SpiedDatabase, owner: Owner, plugin: Plugin, chief: Agent) -> None:
    """A draft is pending, expires in 7 days, sends nothing and leaves its audit row."""
    message = await make_message(db, plugin, delivered_to=chief)
    hints = list(db.published)
    filed = await file(db, chief, message.id, "Hello,\n\tnoon \u2014 works \U0001f600.")
    draft = filed.draft
    assert filed.superseded == 0
    assert (draft.state, draft.plugin_id, draft.agent_id) == (
        State.PENDING,
        plugin.plugin_id,
        chief.agent_id,
    )
    assert draft.expires_at - draft.created_at == timedelta(days=7)
    assert db.published == hints
    assert await db.run(plugin, drafts.claim_next, drafts.ClaimNext()) is None
    (row,) = await read_audit(db, owner, "plugin.draft")
    assert (row.action, row.subject) == ("plugin.draft.filed", f"draft:{draft.id}")
    assert (row.actor, row.via) == (chief.actor, "agent")
    assert row.data == {"message": message.id, "superseded": 0, "sha256": draft.body_sha256.hex()}
    shown = await view(db, owner, draft.id)
    assert (shown.message_external_id, shown.sender, shown.subject, shown.plugin) == (
        message.external_id,
        message.sender,
        message.subject,
        plugin.name,
    )
    assert shown.body_sha256 == digest(draft.body).hex()


@pytest.mark.rule(216, 252)
async def test_only_for_what_was_handed_over(
    db: SpiedDatabase, owner: Owner, plugin: Plugin, chief: Agent
) -> None:
    """A message can be answered while and after it is delivered to this very agent."""
    other = await make_agent(db, owner)
    message = await make_message(db, plugin)
    owner_id = owner.owner_id

    async def refused(agent: Agent, message_id: int = message.id) -> None:
        with pytest.raises(NotFound):
            await file(db, agent, message_id)

    await refused(chief)
    await move_message(db, message.id, begin(chief), owner_id=owner_id)
    await refused(other)
    await file(db, chief, message.id)
    await move_message(db, message.id, PutBack(epoch=1), owner_id=owner_id)
    await refused(chief)
    await move_message(db, message.id, begin(chief), owner_id=owner_id)
    await move_message(db, message.id, Complete(epoch=1), owner_id=owner_id)
    await file(db, chief, message.id)
    await refused(other)
    lost = await make_message(db, plugin)
    await move_message(db, lost.id, begin(chief), owner_id=owner_id)
    await move_message(db, lost.id, Fail(epoch=1), owner_id=owner_id)
    await refused(chief, lost.id)
    await refused(chief, 10**12)


@pytest.mark.rule(46)
async def test_no_reply(db: SpiedDatabase, plugin: Plugin, chief: Agent) -> None:
    """A message that nobody may answer takes no draft."""
    message = await make_message(db, plugin, delivered_to=chief, no_reply=True)
    with pytest.raises(Refused) as refusal:
        await file(db, chief, message.id)
    assert refusal.value.code == "no_reply"


INSERT = Query("""
    insert into drafts (owner_id, message_id, plugin_id, agent_id, body, body_sha256, state,
                        created_at, expires_at)
    values (%(owner_id)s, %(message_id)s, %(plugin_id)s, %(agent_id)s, 'x',
            sha256(convert_to('x', 'UTF8')), 'pending', %(now)s, %(now)s)
""")


@pytest.mark.rule(47)
async def test_the_database_refuses_a_no_reply_draft(
    db: SpiedDatabase, owner: Owner, plugin: Plugin, chief: Agent
) -> None:
    """The database itself takes no draft for such a message, and none through another plugin."""
    mute = await make_message(db, plugin, no_reply=True)
    message = await make_message(db, plugin)
    other = await make_plugin(db, owner)
    for message_id, plugin_id in ((mute.id, plugin.plugin_id), (message.id, other.plugin_id)):
        with pytest.raises(DatabaseError):
            async with db.transaction(owner) as tx:
                await tx.execute(
                    INSERT, message_id=message_id, plugin_id=plugin_id, agent_id=chief.agent_id
                )
    async with db.transaction(owner) as tx:
        await tx.execute(
            INSERT, message_id=message.id, plugin_id=plugin.plugin_id, agent_id=chief.agent_id
        )


@pytest.mark.rule(253)
async def test_text_is_folded_and_measured_twice(
    db: SpiedDatabase, plugin: Plugin, chief: Agent
) -> None:
    """What is kept and hashed is the folded text; 16 KiB hold before and after folding."""
    message = await make_message(db, plugin, delivered_to=chief)
    draft = (await file(db, chief, message.id, "\ufb01ne \uff21 e\u0301")).draft
    assert draft.body == "fine A \u00e9"
    assert draft.body_sha256 == digest("fine A \u00e9")
    full = "word " * 3276 + "word"
    assert len(full) == 16384
    assert (await file(db, chief, message.id, full)).draft.body == full
    # U+FDFA has 3 bytes and folds to 33; U+FF21 has 3 and folds to one.
    for body in (full + "x", "", "\uff21" * 5462, "\ufdfa" * 500, "\ud800", "a\0b"):
        with pytest.raises(Invalid) as refusal:
            await file(db, chief, message.id, body)
        assert refusal.value.field == "body"


@pytest.mark.rule(254)
async def test_screened(db: SpiedDatabase, owner: Owner, plugin: Plugin, chief: Agent) -> None:
    """What the screen finds is refused by its rule and place in the folded text."""
    message = await make_message(db, plugin, delivered_to=chief)
    for body, rule, offset in (
        ("\ufb01ne at \uff11\uff10.0.0.1", "ip_address", 8),
        ("about Acme", "deny_word", 6),
    ):
        with pytest.raises(Invalid) as refusal:
            await file(db, chief, message.id, body)
        assert refusal.value.code == "screened"
        assert refusal.value.facts == {"rule": rule, "offset": offset}
    assert await db.run(owner, drafts.list_drafts, drafts.ListDrafts()) == []


@pytest.mark.rule(255, 276, 279)
async def test_a_newer_draft_supersedes(
    db: SpiedDatabase, owner: Owner, plugin: Plugin, chief: Agent
) -> None:
    """A newer draft supersedes the pending one, which only its own audit row counts."""
    message = await make_message(db, plugin, delivered_to=chief)
    older = (await file(db, chief, message.id, "One.")).draft
    elsewhere = (
        await file(db, chief, (await make_message(db, plugin, delivered_to=chief)).id)
    ).draft
    newer = await file(db, chief, message.id, "Two.")
    assert newer.superseded == 1
    shown = await view(db, owner, older.id)
    assert (shown.state, shown.superseded_by) == (State.SUPERSEDED, newer.draft.id)
    assert shown.ended_at is not None
    assert (await view(db, owner, elsewhere.id)).state is State.PENDING
    rows = await read_audit(db, owner, "plugin.draft")
    assert [row.action for row in rows] == ["plugin.draft.filed"] * 3
    assert [row.data["superseded"] for row in rows] == [0, 0, 1]


@pytest.mark.rule(94, 256)
async def test_none_beside_one_in_flight(
    db: SpiedDatabase, owner: Owner, plugin: Plugin, chief: Agent
) -> None:
    """While a reply waits for its plugin or is within its lease no other is filed."""
    message = await make_message(db, plugin, delivered_to=chief)
    flying = await make_draft(db, chief, message, approved_by=owner)
    with pytest.raises(Refused) as refusal:
        await file(db, chief, message.id)
    assert refusal.value.code == "reply_in_flight"
    assert refusal.value.facts["draft_id"] == flying.id
    await db.run(plugin, drafts.claim_next, drafts.ClaimNext())
    db.clock_offset = LEASE - timedelta(seconds=20)
    with pytest.raises(Refused):
        await file(db, chief, message.id)


@pytest.mark.rule(85, 88, 278)
async def test_a_lapse_found_on_the_way(
    db: SpiedDatabase, owner: Owner, plugin: Plugin, chief: Agent
) -> None:
    """A lapsed lease is written as unconfirmed before the new reply to its message is filed."""
    message = await make_message(db, plugin, delivered_to=chief)
    lost = await make_draft(db, chief, message, approved_by=owner, claimed_by=plugin)
    db.clock_offset = LEASE
    newer = await file(db, chief, message.id)
    assert newer.superseded == 0
    shown = await view(db, owner, lost.id)
    assert (shown.state, shown.superseded_by) == (State.UNCONFIRMED, None)
    rows = await read_audit(db, owner, "plugin.draft")
    assert [(row.action, row.subject) for row in rows[-2:]] == [
        ("plugin.draft.unconfirmed", f"draft:{lost.id}"),
        ("plugin.draft.filed", f"draft:{newer.draft.id}"),
    ]


@pytest.mark.rule(277)
@pytest.mark.parametrize("approved", [False, True])
async def test_an_expiry_found_on_the_way(
    db: SpiedDatabase, owner: Owner, plugin: Plugin, chief: Agent, approved: bool
) -> None:
    """A draft that is past its 7 days is written as expired, and counts neither way."""
    message = await make_message(db, plugin, delivered_to=chief)
    old = await make_draft(db, chief, message, approved_by=owner if approved else None)
    db.clock_offset = timedelta(days=7)
    assert (await file(db, chief, message.id)).superseded == 0
    assert (await view(db, owner, old.id)).state is State.EXPIRED
    (row,) = await read_audit(db, owner, "plugin.draft.expired")
    assert row.data["was"] == ("approved" if approved else "pending")


@pytest.mark.rule(257)
async def test_twenty_pending(
    db: SpiedDatabase, owner: Owner, plugin: Plugin, chief: Agent
) -> None:
    """The 21st pending draft of an agent is refused; one that replaces another is not."""
    messages = [await make_message(db, plugin, delivered_to=chief) for _ in range(21)]
    for message in messages[:20]:
        await file(db, chief, message.id)
    with pytest.raises(Refused) as refusal:
        await file(db, chief, messages[20].id)
    assert refusal.value.code == "too_many_pending"
    replacing = await file(db, chief, messages[0].id, "Another.")
    assert replacing.superseded == 1
    with pytest.raises(Refused):
        await file(db, chief, messages[20].id)
    await db.run(owner, drafts.reject, drafts.Reject(draft_id=replacing.draft.id))
    await file(db, chief, messages[20].id)
    with pytest.raises(Refused):
        await file(db, chief, messages[0].id)
    db.clock_offset = timedelta(days=7, seconds=1)
    await file(db, chief, messages[0].id)


async def test_nobody_there_to_send_it(
    db: SpiedDatabase, owner: Owner, plugin: Plugin, chief: Agent
) -> None:
    """No draft is filed for a revoked plugin or a disabled account: none could be approved."""
    message = await make_message(db, plugin, delivered_to=chief)
    other = await make_plugin(db, owner)
    alive = await make_message(db, other, delivered_to=chief)
    await revoke(db, owner, plugin)
    with pytest.raises(Refused) as refusal:
        await file(db, chief, message.id)
    assert refusal.value.code == "plugin_revoked"
    await file(db, chief, alive.id)
    await disable(db, owner)
    with pytest.raises(Refused) as refusal:
        await file(db, chief, alive.id)
    assert refusal.value.code == "account_disabled"


async def test_listing(db: SpiedDatabase, owner: Owner, plugin: Plugin, chief: Agent) -> None:
    """Drafts are listed newest first, by the state that they have by the clock."""
    made = []
    for approved, claimed in ((None, None), (owner, plugin), (owner, None)):
        message = await make_message(db, plugin, delivered_to=chief)
        made.append(await make_draft(db, chief, message, approved_by=approved, claimed_by=claimed))
    pending, held, waiting = (draft.id for draft in made)

    async def listed(state: State | None, limit: int = 50) -> list[int]:
        command = drafts.ListDrafts(state=state, limit=limit)
        rows = await db.run(owner, drafts.list_drafts, command)
        assert state is None or {row.state for row in rows} <= {state}
        return [row.id for row in rows]

    assert await listed(None) == [waiting, held, pending]
    assert await listed(None, 2) == [waiting, held]
    assert await listed(State.APPROVED) == [waiting, held]
    db.clock_offset = LEASE
    assert await listed(State.APPROVED) == [waiting]
    assert await listed(State.UNCONFIRMED) == [held]
    assert (await view(db, owner, held)).ended_at is not None
    db.clock_offset = timedelta(days=7)
    assert await listed(State.PENDING) == []
    assert await listed(State.EXPIRED) == [waiting, pending]
    assert (await view(db, owner, pending)).ended_at == made[0].expires_at
    assert await listed(State.UNCONFIRMED) == [held]
