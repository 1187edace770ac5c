"""A whole plugin of the SDK, with a source and a sink of the tests' own."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from muster.clients.plugin import (
    Draft,
    Journal,
    Message,
    Pace,
    PluginClient,
    Posted,
    RefusedError,
    Sent,
    State,
    open_journal,
    run_plugin,
    run_plugin_once,
)
from tests.support.scripted_server import TOKEN, ScriptedServer
from tests.support.waiting import until

PACE = Pace(poll_seconds=0.02, off_seconds=0.05, report_seconds=0.5)


@attrs.define
class Queue:
    """A source over a queue, which remembers what became of each message."""

    waiting: deque[Message] = attrs.field(factory=deque)
    accepted_ids: list[str] = attrs.field(factory=list)
    refused_ids: list[str] = attrs.field(factory=list)

    async def fetch(self) -> Sequence[Message]:
        """The oldest message."""
        return [self.waiting[0]] if self.waiting else []

    async def accepted(self, message: Message, posted: Posted) -> None:
        """Take it off the queue."""
        assert posted.id
        self.accepted_ids.append(self.waiting.popleft().external_id)
        assert message.external_id == self.accepted_ids[-1]

    async def refused(self, message: Message, refusal: RefusedError) -> None:
        """Take it off the queue."""
        assert refusal.error
        self.refused_ids.append(self.waiting.popleft().external_id)
        assert message.external_id == self.refused_ids[-1]


@attrs.define
class Upstream:
    """A sink that remembers, or raises what it is told to: `error` always, `busy` once each."""

    sent: list[Draft] = attrs.field(factory=list)
    error: Exception | None = None
    busy: deque[Exception] = attrs.field(factory=deque)
    detail: str = ""

    async def send(self, draft: Draft) -> Sent:
        """Send it, unless told otherwise."""
        if self.busy:
            raise self.busy.popleft()
        self.sent.append(draft)
        if self.error is not None:
            raise self.error
        return Sent(f"ref-{draft.draft_id}", self.detail)

    async def was_sent(self, draft: Draft) -> str | None:
        """This upstream can't be asked."""
        assert draft.body
        return None


@attrs.define(kw_only=True)
class Plugin:
    """A running plugin and everything it touches."""

    server: ScriptedServer
    client: PluginClient
    journal: Journal
    source: Queue = attrs.field(factory=Queue)
    sink: Upstream = attrs.field(factory=Upstream)
    notes: list[str] = attrs.field(factory=list)
    pace: Pace = PACE

    async def run(self) -> None:
        """Run until cancelled."""
        await run_plugin(
            self.client, self.journal, source=self.source, sink=self.sink,
            note=self.notes.append, pace=self.pace,
        )  # fmt: skip

    async def run_once(self) -> None:
        """Do what there is to do."""
        await run_plugin_once(
            self.client, self.journal, source=self.source, sink=self.sink,
            note=self.notes.append, patience_seconds=1,
        )  # fmt: skip

    async def run_until(self, predicate: Callable[[], object]) -> None:
        """Run until something is true, then stop it as a signal would."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.run)
            await until(predicate, 10)
            nursery.cancel_scope.cancel()

    async def state(self, draft_id: int) -> State | None:
        """What the journal says of a draft."""
        entry = await self.journal.find(draft_id)
        return entry.state if entry else None


@asynccontextmanager
async def plugin_on(folder: Path, server: ScriptedServer) -> AsyncIterator[Plugin]:
    """Yield a plugin with its state in `folder`."""
    notes: list[str] = []
    async with (
        open_journal(folder) as journal,
        PluginClient(server.url, TOKEN, note=notes.append) as client,
    ):
        yield Plugin(server=server, client=client, journal=journal, notes=notes)
