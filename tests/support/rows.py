"""One plain row in each table of an owner, written by SQL: for tests of the database itself."""

import secrets

import attrs

from muster.outcomes import Fact
from muster.pg.database import Database
from muster.pg.query import Query
from muster.principals import Owner
from tests.support.mirror_rows import MirrorRows, add_mirror_rows
from tests.support.self_routing_rows import SelfRoutingRows, add_self_routing_rows

PLUGIN = Query(
    """
    insert into plugins (owner_id, name, label, scope, created_at)
    values (%(owner_id)s, 'mail', 'Mail', 'mail', %(now)s) returning id
    """
)
AGENT = Query(
    """
    insert into agents (owner_id, name, chief, provisioned, created_at)
    values (%(owner_id)s, 'helper', true, true, %(now)s) returning id
    """
)
CREDENTIAL = Query(
    """
    insert into credentials (owner_id, kind, holder_id, sha256, created_at)
    values (%(owner_id)s, 'mpl_', %(holder)s, %(sha256)s, %(now)s) returning id
    """
)
CONVERSATION = Query(
    """
    insert into conversations (owner_id, agent_id, plugin_id, title, created_at)
    values (%(owner_id)s, %(agent)s, %(plugin)s, 'Mail', %(now)s) returning id
    """
)
MESSAGE = Query(
    """
    insert into messages (owner_id, plugin_id, external_id, body, no_reply, sender_verified,
                          human_conversation, created_at, state, attempts)
    values (%(owner_id)s, %(plugin)s, %(external)s, 'hello', %(no_reply)s, false, false, %(now)s,
            'queued', 0)
    returning id
    """
)
DRAFT = Query(
    """
    insert into drafts (owner_id, message_id, plugin_id, agent_id, body, body_sha256, state,
                        created_at, expires_at)
    values (%(owner_id)s, %(message)s, %(plugin)s, %(agent)s, 'an answer',
            sha256(convert_to('an answer', 'UTF8')), 'pending', %(now)s,
            %(now)s + interval '7 days')
    returning id
    """
)
ASK = Query(
    """
    insert into asks (owner_id, asked_by, question, answers, message_id, plugin_message_id, state,
                      created_at, expires_at)
    values (%(owner_id)s, 'muster', 'What now?', '{}', %(message)s, %(message)s, 'open', %(now)s,
            %(now)s + interval '1 day')
    returning id
    """
)
TURN = Query(
    """
    insert into turns (owner_id, conversation_id, agent_id, words, said_by, state, attempt,
                       created_at)
    values (%(owner_id)s, %(conversation)s, %(agent)s, 'hello', 'owner', 'queued', 0, %(now)s)
    returning id
    """
)
TASK = Query(
    """
    insert into tasks (owner_id, title, body, status, created_by, created_at, updated_at)
    values (%(owner_id)s, 'Water the garden', '', 'open', 'owner', %(now)s, %(now)s)
    returning id
    """
)
ROUTE = Query(
    """
    insert into session_routes (owner_id, message_id, agent_id, mirrored_id, routed_by, state,
                                created_at, deadline_at)
    values (%(owner_id)s, %(message)s, %(agent)s, %(mirrored)s, 'chief', 'routed', %(now)s,
            %(now)s + interval '30 minutes')
    returning id
    """
)
SESSION_ASK = Query(
    """
    insert into session_asks (owner_id, mirrored_id, agent_id, route_id, turn_id, question,
                              created_at)
    values (%(owner_id)s, %(mirrored)s, %(agent)s, %(route)s, %(turn)s, 'Which gate?', %(now)s)
    """
)
ON_TASK = (
    Query(
        """
        insert into task_tags (owner_id, task_id, tag) values (%(owner_id)s, %(task)s, 'inbox')
        """
    ),
    Query(
        """
        insert into task_comments (owner_id, task_id, author, body, body_sha256, created_at)
        values (%(owner_id)s, %(task)s, 'owner', 'done?', sha256('done?'), %(now)s)
        """
    ),
)
SIGN_IN = (
    Query(
        """
        insert into passkeys (owner_id, name, credential_id, public_key, sign_count, created_at)
        values (%(owner_id)s, 'laptop', %(sha256)s, 'key', 0, %(now)s)
        """
    ),
    Query(
        """
        insert into browser_sessions (owner_id, sha256, created_at, signed_in_at, expires_at,
                                      last_seen_at, method, user_agent, address)
        values (%(owner_id)s, %(sha256)s, %(now)s, %(now)s, %(now)s + interval '1 day', %(now)s,
                'password', '', '')
        """
    ),
    Query(
        """
        insert into setup_links (owner_id, sha256, created_at, expires_at)
        values (%(owner_id)s, %(sha256)s, %(now)s, %(now)s + interval '15 minutes')
        """
    ),
    Query(
        """
        insert into passkey_challenges (owner_id, sha256, address, created_at, expires_at)
        values (%(owner_id)s, %(sha256)s, '', %(now)s, %(now)s + interval '5 minutes')
        """
    ),
    Query(
        """
        insert into personal_tokens (owner_id, name, scope, created_at)
        values (%(owner_id)s, 'laptop', 'write', %(now)s)
        """
    ),
)

# The device was removed, so that no server of another test pushes to it.
PUSH = (
    Query(
        """
        insert into push_devices (owner_id, sink, name, url, kinds, secret, created_at, not_before,
                                  removed_at)
        values (%(owner_id)s, 'webhook', 'door', 'https://door.example.test/', '{}', 'secret',
                %(now)s, %(now)s, %(now)s)
        """
    ),
    Query(
        """
        insert into push_deliveries (owner_id, device_id, kind, item_id, state, created_at, due_at,
                                     attempts, ended_at)
        select owner_id, id, 'draft', 1, 'dropped', %(now)s, %(now)s, 0, %(now)s from push_devices
        where owner_id = %(owner_id)s
        """
    ),
    Query(
        """
        insert into push_quiet_hours (owner_id, from_minute, until_minute)
        values (%(owner_id)s, 1320, 420)
        """
    ),
)


@attrs.frozen(kw_only=True)
class Rows:
    """The ids of what was written."""

    plugin_id: int
    agent_id: int
    credential_id: int
    token_sha256: bytes
    conversation_id: int
    message_id: int
    draft_id: int
    turn_id: int
    ask_id: int
    task_id: int
    mirror: MirrorRows
    route_id: int
    self_routing: SelfRoutingRows


async def add_rows(db: Database, owner: Owner) -> Rows:
    """Write one row of each kind for an owner who has none yet."""
    sha256 = secrets.token_bytes(32)
    async with db.transaction(owner) as tx:
        plugin = await tx.scalar(PLUGIN)
        agent = await tx.scalar(AGENT)
        credential = await tx.scalar(CREDENTIAL, holder=plugin, sha256=sha256)
        conversation = await tx.scalar(CONVERSATION, agent=agent, plugin=plugin)
        message = await tx.scalar(MESSAGE, plugin=plugin, external="1", no_reply=False)
        draft = await tx.scalar(DRAFT, message=message, plugin=plugin, agent=agent)
        ask = await tx.scalar(ASK, message=message)
        turn = await tx.scalar(TURN, conversation=conversation, agent=agent)
        task = await tx.scalar(TASK)
        for insert in ON_TASK:
            await tx.execute(insert, task=task)
        for insert in SIGN_IN:
            await tx.execute(insert, sha256=sha256)
        for insert in PUSH:
            await tx.execute(insert)
        mirror = await add_mirror_rows(tx)
        route = await tx.scalar(ROUTE, message=message, agent=agent, mirrored=mirror.mirrored_id)
        await tx.execute(
            SESSION_ASK, mirrored=mirror.mirrored_id, agent=agent, route=route, turn=turn
        )
        self_routing = await add_self_routing_rows(
            tx, mirrored=mirror.mirrored_id, host=mirror.host_id, message=message
        )
        await tx.record(Fact(action="plugin.draft.filed", subject=f"draft:{draft}"))
    return Rows(
        plugin_id=plugin,
        agent_id=agent,
        credential_id=credential,
        token_sha256=sha256,
        conversation_id=conversation,
        message_id=message,
        draft_id=draft,
        turn_id=turn,
        ask_id=ask,
        task_id=task,
        mirror=mirror,
        route_id=route,
        self_routing=self_routing,
    )
