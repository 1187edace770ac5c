"""A long history, loaded by SQL with past dates as the migrator: no door and no rule is passed.

For each message an audit row, and for every fourth a reply that was sent. The triggers that make
every row begin at the beginning are passed over; what is stored satisfies them all the same.
"""

from collections.abc import Sequence

from bench.people import Person
from muster.pg.driver import Connection

BATCH = 100_000
DAYS = 400  # so long ago the first message came; the last one, a day ago
BODY = "An older message about the figures of some quarter, and whether noon would do. " * 6

_MESSAGES = """
    insert into muster.messages
        (owner_id, plugin_id, external_id, sender, subject, body, no_reply, sender_verified,
         human_conversation, created_at, state, agent_id, epoch, attempts, delivering_at,
         settled_at)
    select (%(owners)s::bigint[])[1 + n %% %(many)s], (%(plugins)s::bigint[])[1 + n %% %(many)s],
           'old-' || n, 'Ada <ada@example.test>', 'Figures', %(body)s, false, false, false,
           at, 'delivered', (%(agents)s::bigint[])[1 + n %% %(many)s], 0, 1,
           at + interval '1 second', at + interval '9 seconds'
    from generate_series(%(first)s::bigint, %(last)s::bigint) n,
         lateral (select now() - make_interval(days => %(days)s)
                  + make_interval(days => %(days)s - 1) * (n::float8 / %(count)s)) t (at)
"""
_DRAFTS = """
    insert into muster.drafts
        (owner_id, message_id, plugin_id, agent_id, body, body_sha256, state, created_at,
         expires_at, decided_at, decided_via, approved_at, claimed_at, lease_expires_at,
         reported_at, external_ref, ended_at)
    select owner_id, id, plugin_id, agent_id, 'Noon it is.',
           sha256(convert_to('Noon it is.', 'UTF8')), 'sent', at, at + interval '7 days', at, 'cli',
           at, at, at + interval '2 minutes', at, 'old', at
    from (select *, settled_at as at from muster.messages where id %% 4 = 0) m
"""
_AUDIT = """
    insert into muster.audit (owner_id, at, actor, via, action, subject, data)
    select owner_id, created_at, 'plugin:mail', 'plugin', 'plugin.message.received',
           'message:' || id, jsonb_build_object('external_id', external_id, 'no_reply', false)
    from muster.messages
"""


async def load_history(admin_url: str, people: Sequence[Person], messages: int) -> None:
    """Store so many messages, spread evenly over everybody's plugins, and let it settle."""
    plugs = [(person, plug.principal) for person in people for plug in person.plugs]
    spread = {
        "owners": [person.owner.owner_id for person, _ in plugs],
        "plugins": [plug.plugin_id for _, plug in plugs],
        "agents": [person.chief.principal.agent_id for person, _ in plugs],
        "many": len(plugs),
    }
    admin = await Connection.open(admin_url)
    try:
        await admin.script("set session_replication_role = replica")
        for first in range(1, messages + 1, BATCH):
            last = min(messages, first + BATCH - 1)
            params = {"first": first, "last": last, "count": messages, "days": DAYS, "body": BODY}
            await admin.execute(_MESSAGES, {**spread, **params})
        await admin.execute(_DRAFTS, {})
        await admin.execute(_AUDIT, {})
        for table in ("messages", "drafts", "audit"):
            await admin.script(f"vacuum analyze muster.{table}")
        # The write of all this would fall into the rounds.
        await admin.script("checkpoint")
    finally:
        admin.close()
