"""Replies that await their owner, made by the rooms' own operations, in three commits an owner.

Nothing of this is measured. The owner's chief must not be connected meanwhile.
"""

import itertools
from collections.abc import Sequence

from bench.people import Person, Plug
from bench.server import Server
from muster.drafts.operations import File, file
from muster.messages.operations import lock_message, post, save
from muster.messages.rules import Begin, Complete, Post, decide
from muster.outcomes import Changed
from muster.principals import Muster

REPLY = "Thanks for asking. The figures are ready, and noon works well for me."
PENDING_MAX = 20  # drafts of one chief's that may be pending at once
_ids = itertools.count(1)


async def file_replies(
    server: Server, person: Person, count: int, *, plug: Plug | None = None
) -> list[int]:
    """Draft replies to `count` messages, at most 20 pending; the drafts' ids, oldest first.

    The messages are new and stand delivered; they are `plug`'s, or the person's first plugin's.
    """
    assert count <= PENDING_MAX
    plug, agent = plug or person.plugs[0], person.chief.principal
    async with server.db.transaction(plug.principal) as tx:
        posts = [Post(external_id=f"filed-{next(_ids)}", body="Noon?") for _ in range(count)]
        messages = [(await post(tx, one)).id for one in posts]
    async with server.db.transaction(Muster(owner_id=person.owner.owner_id)) as tx:
        for message_id in messages:
            for command in (Begin(agent_id=agent.agent_id, epoch=0), Complete(epoch=0)):
                message = await lock_message(tx, message_id)
                assert message is not None
                outcome = decide(message, command, tx.now)
                assert isinstance(outcome, Changed)
                await save(tx, outcome)
    async with server.db.transaction(agent) as tx:
        filed = [
            await file(tx, File(message_id=one, body=REPLY, deny_words=frozenset()))
            for one in messages
        ]
    server.unsent.clear()
    return [one.draft.id for one in filed]


async def file_for_all(
    server: Server, people: Sequence[Person], each: int
) -> list[tuple[Person, int]]:
    """`each` replies for everybody, in the order in which neighbours are different people."""
    filed = [await file_replies(server, person, each) for person in people]
    return [
        (person, drafts[number])
        for number in range(each)
        for person, drafts in zip(people, filed, strict=True)
    ]
