"""/messages and a message's page: what came in, and every step of its way."""

import re
from datetime import timedelta

from muster.attention.operations import AskedBy, AskOwner, ask
from muster.chief.operations.retry import RetryMessage, retry_message
from muster.messages.rules import Complete, Fail, Message
from muster.pg.query import Query
from muster.principals import Muster
from muster.token_use import TokenUse
from tests.support.builders import begin, make_draft, make_message, make_plugin, move_message
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.owner_desk import OpenOwnerDesk, OwnerDesk, text_of

ADD_TURN = Query("""
    insert into turns (owner_id, conversation_id, agent_id, message_id, state, attempt, epoch,
                       created_at, begun_at)
    select %(owner_id)s, c.id, %(agent)s, %(message)s, 'delivering', %(attempt)s, 1, %(now)s,
           %(now)s
    from conversations c where c.owner_id = %(owner_id)s
""")
END_TURN = Query("""
    update turns set state = %(state)s, ended_at = %(now)s,
        usage = '{"model": "m-1", "calls": 1, "input_tokens": 1200, "cached_input_tokens": 0,
                  "output_tokens": 34}'
    where owner_id = %(owner_id)s and message_id = %(message)s and attempt = %(attempt)s
""")
OPEN_CONVERSATION = Query("""
    insert into conversations (owner_id, agent_id, plugin_id, title, created_at)
    values (%(owner_id)s, %(agent)s, %(plugin)s, 'Mail', %(now)s)
""")
CITE = Query("""
    insert into tasks (owner_id, title, body, status, message_id, created_by, created_at,
                       updated_at)
    values (%(owner_id)s, 'Rotate the <key>', 'x', 'open', %(message)s, 'agent:chief', %(now)s,
            %(now)s)
""")
USAGE = TokenUse(model="m-1", calls=1, input_tokens=1200, cached_input_tokens=0, output_tokens=34)


async def handed_over(at: OwnerDesk, message: Message, end: str, attempt: int = 1) -> None:
    """A turn on a message, which ends so."""
    owner_id = at.owner.owner_id
    ending = Complete if end == "delivered" else Fail
    await move_message(at.db, message.id, begin(at.chief), owner_id=owner_id)
    async with at.db.transaction(at.owner) as tx:
        if attempt == 1:
            await tx.execute(OPEN_CONVERSATION, agent=at.chief.agent_id, plugin=at.plugin.plugin_id)
        told = {"message": message.id, "attempt": attempt}
        await tx.execute(ADD_TURN, agent=at.chief.agent_id, **told)
        await tx.execute(END_TURN, state=end, **told)
    await move_message(at.db, message.id, ending(epoch=1, usage=USAGE), owner_id=owner_id)


def steps_on(page: str) -> list[str]:
    """What the timeline says, step by step, without the times."""
    (timeline,) = re.findall(r'<ol class="timeline">(.*?)</ol>', page, re.DOTALL)
    items = re.findall(r"<li[^>]*>(.*?)</li>", timeline, re.DOTALL)
    return [re.sub(r" \d+ \w+ \d{4} [\d:]+ · audit$", "", text_of(item)) for item in items]


async def test_an_owner_without_messages_is_told_what_comes(owner_desk: OpenOwnerDesk) -> None:
    """An empty list leads to the plugins, an empty choice back to all."""
    async with owner_desk() as at:
        assert "Nothing came in yet" in await at.page("/messages")
        assert "There is no such message" in await at.page("/messages?state=queued")


async def test_messages_are_listed_and_chosen(owner_desk: OpenOwnerDesk) -> None:
    """The list shows sender, subject, states and the newest reply; a state or a plugin chooses."""
    async with owner_desk() as at:
        queued = await at.queued("Hello <there>\u202e", sender="Bob", sender_verified=True)
        answered = await at.message(sender="Ada\u200b", subject="Lunch")
        draft = await at.draft(to=answered)
        other = await make_message(at.db, await make_plugin(at.db, at.owner, "chat"))
        page = await at.page("/messages")
        told = text_of(page)
        assert f"{queued.id} Bob Hello <there>\\u{{202e}} mail queued" in told
        assert f"{answered.id} Ada\\u{{200b}} unverified Lunch mail delivered reply pending" in told
        assert f'href="/drafts/{draft.id}"' in page
        for query, ids in {
            "state=queued": [other.id, queued.id],
            "plugin=chat": [other.id],
            "state=queued&plugin=mail": [queued.id],
            "state=nonsense&plugin=": [other.id, answered.id, queued.id],
            "plugin=nobody": [],
            f"before={answered.id}": [queued.id],
        }.items():
            page = await at.page(f"/messages?{query}")
            assert [int(found) for found in re.findall(r'"/messages/(\d+)"', page)] == ids, query


async def test_messages_are_paged(owner_desk: OpenOwnerDesk) -> None:
    """Fifty stand on a page, and the link to the older ones keeps the choice."""
    async with owner_desk() as at:
        plugins = [at.plugin, await make_plugin(at.db, at.owner, "second")]
        for number in range(51):
            await make_message(at.db, plugins[number % 2])
        first = await at.page("/messages?state=queued")
        (older,) = re.findall(r'rel="next" href="([^"]+)"', first)
        assert "state=queued" in older
        second = await at.page(older.replace("&amp;", "&"))
        assert len(re.findall(r"<tr data-item", first)) == 50
        assert len(re.findall(r"<tr data-item", second)) == 1


async def test_a_message_tells_its_way(owner_desk: OpenOwnerDesk) -> None:
    """Stored, handed over twice, drafted, approved, collected and sent: each a step with a link."""
    async with owner_desk() as at:
        message = await at.queued(sender="Ada", thread="t-1")
        await handed_over(at, message, "unconfirmed")
        page = await at.page(f"/messages/{message.id}")
        assert "Nobody knows whether your chief had this message." in page
        await at.db.run(at.owner, retry_message, RetryMessage(message_id=message.id))
        await handed_over(at, message, "delivered", attempt=2)
        draft = await make_draft(at.db, at.chief, message)
        await at.decide(draft, "approve")
        await at.claim()
        await at.report(draft, ok=True, detail="queued as <7>")
        page = await at.page(f"/messages/{message.id}")
        tokens = "1,200 tokens in (0 cached), 34 tokens out, 1 call, m-1"
        assert steps_on(page) == [
            "Stored, queued for your chief",
            f"Handed to {at.chief.name}, attempt 1",
            f"The turn ended unconfirmed {tokens}",
            "Put back into the queue by you via cli",
            f"Handed to {at.chief.name}, attempt 2",
            f"The turn ended delivered {tokens}",
            f"Draft {draft.id} written by your chief",
            f"Draft {draft.id} approved via browser",
            f"Draft {draft.id} collected by mail",
            f"Draft {draft.id} sent queued as <7>",
        ]
        assert f'href="/audit?subject=draft:{draft.id}"' in page
        assert f'href="/audit?subject=message:{message.id}"' in page
        assert 'class="untrusted"' in page
        assert "2, 1 retry" in text_of(page)


async def test_a_message_tells_its_task_its_ask_and_its_settling(
    owner_desk: OpenOwnerDesk, db: SpiedDatabase
) -> None:
    """What else may become of a message stands in the same timeline, lapses by the clock too."""
    async with owner_desk() as at:
        message = await at.message()
        async with db.transaction(at.owner) as tx:
            await tx.execute(CITE, message=message.id)
        command = AskOwner(
            asked_by=AskedBy.MUSTER,
            question="What now?",
            message_id=message.id,
            plugin_message_id=message.id,
        )
        asked = await db.run(Muster(owner_id=at.owner.owner_id), ask, command)
        assert asked is not None
        await at.visiting.post(f"/asks/{asked.id}/answer", text="No action needed")
        draft = await make_draft(at.db, at.chief, message)
        await at.decide(draft, "approve")
        await at.claim()
        db.clock_offset = timedelta(minutes=3)
        told = steps_on(await at.page(f"/messages/{message.id}"))
        assert told[1].endswith("filed by agent:chief open Rotate the <key>")
        assert f"Ask {asked.id} answered via browser No action needed" in told
        assert "Settled: it needs nothing more No action needed" in told
        assert told[-1] == f"Draft {draft.id} unconfirmed"


async def test_times_are_the_owners(owner_desk: OpenOwnerDesk, db: SpiedDatabase) -> None:
    """A page shows times in its owner's time zone, and UTC to programs."""
    async with owner_desk() as at:
        async with db.transaction(at.owner) as tx:
            await tx.execute(MOVE_HOUSE, zone="Asia/Kolkata")
        message = await at.queued()
        page = await at.page(f"/messages/{message.id}")
        utc = f"{message.created_at:%Y-%m-%dT%H:%M:%SZ}"
        there = message.created_at + timedelta(hours=5, minutes=30)
        shown = f"{there.day} {there:%b %Y %H:%M:%S}"
        assert re.search(rf'<time datetime="{utc}" title="[^"]* IST">{shown}</time>', page)


MOVE_HOUSE = Query("update users set time_zone = %(zone)s where id = %(owner_id)s")


async def test_a_message_is_its_owners(owner_desk: OpenOwnerDesk, db: SpiedDatabase) -> None:
    """Another owner's message is 404, and so is what is no id."""
    async with owner_desk() as at:
        stranger = await add_owner(db)
        message = await make_message(db, await make_plugin(db, stranger))
        for path in (f"/messages/{message.id}", "/messages/x", "/messages/0", "/messages/1x"):
            assert (await at.visiting.get(path)).status_code == 404
        assert f"/messages/{message.id}" not in await at.page("/messages")
