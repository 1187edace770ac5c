"""An owner with a device of each kind at a push service of the tests', and what they are pushed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs

from muster.attention import operations as attention
from muster.attention.rules import Ask, AskedBy, AskOwner
from muster.drafts import operations as drafts
from muster.drafts.operations import Draft
from muster.messages.rules import Message
from muster.pg.database import Database
from muster.pg.query import Query
from muster.principals import Agent, Node, Owner, Plugin
from muster.push import operations as push
from muster.push.rules.devices import AddNtfy, AddWebhook, DeviceView
from muster.tasks import operations as tasks
from muster.tasks.rules import CreateTask, Task
from tests.support.builders import make_chief, make_draft, make_message, make_plugin
from tests.support.push_service import Browser, PushService, Request, browser_of, push_service
from tests.support.waiting import until

CANARY = "canary"  # stands in every text of a message, a draft, an ask and a task

ROWS = Query("""
    select device_id, kind, item_id, state, attempts, error, sent_at is not null as was_sent
    from push_deliveries where owner_id = %(owner_id)s order by kind, id
""")


@attrs.frozen(kw_only=True)
class Row:
    """A push as it is stored."""

    device_id: int
    kind: str
    item_id: int | None
    state: str
    attempts: int
    error: str | None
    was_sent: bool


@attrs.frozen(kw_only=True)
class PushDesk:
    """What most tests of pushes begin with. What it does is seen by the servers of `db`."""

    db: Database
    owner: Owner
    plugin: Plugin
    chief: Agent
    service: PushService
    browser: Browser

    async def subscribe(self) -> int:
        """The browser becomes a device; its id."""
        return await self.db.run(self.owner, push.add_browser, self.browser.subscription)

    async def subscribe_ntfy(self, token: str = "") -> int:
        """A topic becomes a device; its id."""
        url = f"{self.service.url}/ntfy"
        command = AddNtfy(name="Phone", url=url, topic="mine", token=token)
        return await self.db.run(self.owner, push.add_ntfy, command)

    async def subscribe_webhook(self) -> str:
        """A webhook becomes a device; its secret."""
        command = AddWebhook(name="Door bell", url=f"{self.service.url}/hook")
        return await self.db.run(self.owner, push.add_webhook, command)

    async def message(self, *, verified: bool = True) -> Message:
        """A message with the chief, whose words must not get into a push."""
        return await make_message(
            self.db,
            self.plugin,
            delivered_to=self.chief,
            body=f"{CANARY} of a body",
            sender=f"{CANARY} <a@example.test>",
            subject=f"{CANARY} of a subject",
            sender_verified=verified,
        )

    async def draft(self, message: Message | None = None, *, verified: bool = True) -> Draft:
        """A reply that awaits the owner."""
        message = message or await self.message(verified=verified)
        return await make_draft(self.db, self.chief, message, body=f"{CANARY} of a draft")

    async def reject(self, draft_id: int) -> None:
        """The owner decides."""
        await self.db.run(self.owner, drafts.reject, drafts.Reject(draft_id=draft_id))

    async def ask(self) -> Ask:
        """A question that awaits the owner."""
        command = AskOwner(asked_by=AskedBy.AGENT, question=f"{CANARY}?", answers=(CANARY,))
        asked = await self.db.run(self.chief, attention.ask, command)
        assert asked is not None
        return asked

    async def task(self) -> Task:
        """A new task."""
        command = CreateTask(title=f"{CANARY} of a title", body=f"{CANARY} of a body")
        return await self.db.run(self.owner, tasks.create_task, command)

    async def rows(self) -> list[Row]:
        """The owner's pushes by kind, oldest first."""
        async with self.db.transaction(self.owner) as tx:
            return await tx.all(ROWS, Row)

    async def states(self) -> list[str]:
        """What became of the owner's pushes, by kind, oldest first."""
        return [row.state for row in await self.rows()]

    async def reaches(self, *states: str, seconds: float = 10.0) -> None:
        """Wait until the owner's pushes are in these states, by kind, oldest first."""

        async def there() -> bool:
            return await self.states() == list(states)

        try:
            await until(there, seconds)
        except AssertionError:
            raise AssertionError(await self.rows()) from None

    async def devices(self) -> list[DeviceView]:
        """The owner's devices."""
        return list((await self.db.run(self.owner, push.get_notified, None)).devices)

    async def open(self, request: Request) -> dict[str, Any]:
        """The note that a request to the browser carries."""
        key = await self.db.run(Node(), push.push_key, None)
        return self.browser.open(request, key.public_key)

    async def notes(self, count: int) -> list[dict[str, Any]]:
        """Wait for so many pushes to the browser, and no more; their notes."""
        return [await self.open(request) for request in await self.service.received(count)]


@asynccontextmanager
async def push_desk(db: Database, owner: Owner) -> AsyncIterator[PushDesk]:
    """A desk without a device yet; those that it got are removed at its end."""
    async with push_service() as service:
        desk = PushDesk(
            db=db,
            owner=owner,
            plugin=await make_plugin(db, owner),
            chief=await make_chief(db, owner),
            service=service,
            browser=browser_of(service),
        )
        try:
            yield desk
        finally:
            for device in await desk.devices():
                await db.run(owner, push.remove_device, device.id)
