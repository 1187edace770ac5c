"""An owner at the pages of a running server, with a plugin and a chief that brought work."""

import itertools
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from html import unescape

import attrs
import httpx2
import pytest

from muster.drafts import operations as drafts
from muster.drafts.operations import Draft
from muster.messages.operations import Post, post
from muster.messages.rules import Complete, Message
from muster.principals import Agent, Owner, Plugin
from tests.support.builders import (
    begin,
    get_message,
    make_chief,
    make_draft,
    make_plugin,
    move_message,
)
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.server import Server, running_server
from tests.support.visitor import Visiting, sign_in


@attrs.frozen(kw_only=True)
class OwnerDesk:
    """Somebody signed in, their plugin and their chief."""

    server: Server
    db: SpiedDatabase
    visiting: Visiting
    owner: Owner
    plugin: Plugin
    chief: Agent

    async def queued(self, body: str = "Does noon work?", **fields: object) -> Message:
        """A message that nobody was handed yet."""
        command = Post(**{"external_id": f"m-{next(_numbers)}", "body": body, **fields})  # type: ignore[arg-type]
        posted = await self.db.run(self.plugin, post, command)
        return await get_message(self.db, self.owner, posted.id)

    async def message(self, body: str = "Does noon work?", **fields: object) -> Message:
        """A message that the chief was handed, and whose turn is over."""
        message = await self.queued(body, **fields)
        owner_id = self.owner.owner_id
        await move_message(self.db, message.id, begin(self.chief), owner_id=owner_id)
        return await move_message(self.db, message.id, Complete(epoch=1), owner_id=owner_id)

    async def draft(self, reply: str = "Thanks, noon works.", to: Message | None = None) -> Draft:
        """A pending draft, to a new message if to none."""
        message = to or await self.message()
        return await make_draft(self.db, self.chief, message, body=reply)

    async def claim(self) -> int:
        """The plugin collects what waits for it; the draft's id."""
        claimed = await self.db.run(self.plugin, drafts.claim_next, drafts.ClaimNext())
        assert claimed is not None
        return claimed.draft_id

    async def report(self, draft: Draft, *, ok: bool, detail: str | None = None) -> None:
        """The plugin says what became of a reply that it collected."""
        command = drafts.Report(draft_id=draft.id, ok=ok, external_ref="up-1", detail=detail)
        await self.db.run(self.plugin, drafts.report, command)

    async def decide(self, draft: Draft, verb: str, **fields: str) -> httpx2.Response:
        """Send the form of the draft's card."""
        form = {"draft_id": str(draft.id), "body_sha256": draft.body_sha256.hex()} | fields
        return await self.visiting.post(f"/drafts/{draft.id}/{verb}", **form)

    async def state(self, draft: Draft) -> str:
        """The draft's state now."""
        return str((await self.db.run(self.owner, drafts.get_draft, draft.id)).state.value)

    async def page(self, path: str) -> str:
        """The markup of a page that is there."""
        answer = await self.visiting.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text


_numbers = itertools.count(1)
OpenOwnerDesk = Callable[..., AbstractAsyncContextManager[OwnerDesk]]


@pytest.fixture
def owner_desk(db: SpiedDatabase, owner: Owner, cluster: Cluster) -> OpenOwnerDesk:
    """Opens the desk of the test's own owner; MUSTER_* settings as keywords."""

    @asynccontextmanager
    async def opened(**settings: str) -> AsyncIterator[OwnerDesk]:
        plugin = await make_plugin(db, owner, "mail")
        chief = await make_chief(db, owner)
        async with running_server(db, cluster.app_url, **settings) as server:
            visiting = await sign_in(server, owner)
            async with visiting.client:
                yield OwnerDesk(
                    server=server, db=db, visiting=visiting, owner=owner, plugin=plugin, chief=chief
                )

    return opened


def text_of(page: str) -> str:
    """What a page says, without its markup, with single spaces."""
    return " ".join(unescape(re.sub(r"<[^>]*>", "", page)).split())


def reply_of(page: str) -> str:
    """The markup of the one reply on a page."""
    (found,) = re.findall(r'aria-label="Text of draft \d+">(.*?)</pre>', page, re.DOTALL)
    return str(found)
