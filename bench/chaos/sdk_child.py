"""Plugins on the SDK, many in one process: `python -m bench.chaos.sdk_child ORDERS`.

Each plugin is `run_plugin` with a journal of its own. Some post at a time; one that has posted all
and hears nothing for a while makes room for the next, and at the end all of them are looked after
in turn, so that what was approved late is sent too. Ends on SIGTERM.
"""

import random
from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

from bench.chaos.ledger import Ledger, What, read
from bench.chaos.mortal import Mortal, begin_life
from bench.chaos.orders import Orders, PluginOrder, read_orders
from bench.chaos.texts import make_message
from muster.clients.plugin import (
    ClaimLostError,
    Draft,
    Message,
    Pace,
    PluginClient,
    Posted,
    RefusedError,
    Reported,
    SendFailedError,
    SendUnknownError,
    Sent,
    TryLaterError,
    UnreachableError,
    open_journal,
    run_plugin,
    run_plugin_once,
)
from muster.clients.stopping import until_stopped

IDLE_SECONDS = 8.0
DRAIN_PAUSE_SECONDS = 0.05
PATIENCE_SECONDS = 2.0
FAILS, UNSURE = 0.05, 0.02


@attrs.define(kw_only=True)
class Facts:
    """What earlier lives of this process wrote down, and this one."""

    posted: set[str] = attrs.field(factory=set)
    sent: set[int] = attrs.field(factory=set)
    heard_at: dict[str, float] = attrs.field(factory=dict)  # when a plugin last had something to do


class NotingClient(PluginClient):
    """The SDK's client, and each answer goes to the ledger before the SDK has it."""

    def __init__(self, url: str, order: PluginOrder, ledger: Ledger, facts: Facts) -> None:
        super().__init__(url, order.token, note=lambda _line: None)
        self._order = order
        self._ledger = ledger
        self._facts = facts

    async def post(self, message: Message, *, patience_seconds: float = float("inf")) -> Posted:
        """As the SDK does."""
        self._ledger.write(What.INTENT, self._order.name, external_id=message.external_id)
        return await super().post(message, patience_seconds=patience_seconds)

    async def claim(self, wait_seconds: int) -> Draft | None:
        """As the SDK does."""
        try:
            draft = await super().claim(wait_seconds)
        except (ClaimLostError, TryLaterError) as error:
            self._ledger.write(What.LOST_CLAIM, self._order.name, detail=str(error))
            raise
        if draft is not None:
            self._facts.heard_at[self._order.name] = trio.current_time()
            self._ledger.write(
                What.CLAIMED, self._order.name,
                draft_id=draft.draft_id, external_id=draft.message_external_id,
            )  # fmt: skip
        return draft

    async def report(
        self,
        draft_id: int,
        ok: bool,  # noqa: FBT001 - the SDK's own
        external_ref: str = "",
        detail: str = "",
        *,
        patience_seconds: float = float("inf"),
    ) -> Reported:
        """As the SDK does."""
        reported = await super().report(
            draft_id, ok, external_ref, detail, patience_seconds=patience_seconds
        )
        self._ledger.write(
            What.RESULT, self._order.name, draft_id=draft_id, detail=reported.verdict.value
        )
        return reported


@attrs.define(kw_only=True)
class PacedSource:
    """The messages of one plugin that no life has posted yet, one now and then."""

    order: PluginOrder
    ledger: Ledger
    facts: Facts
    every_seconds: float
    random: random.Random

    def left(self) -> list[str]:
        """The ids that are still to be posted."""
        ids = (f"{self.order.name}-{number}" for number in range(self.order.count))
        return [one for one in ids if one not in self.facts.posted]

    async def fetch(self) -> Sequence[Message]:
        """The next one, after a pause."""
        left = self.left()
        if left and self.every_seconds:
            await trio.sleep(self.random.uniform(0, 2 * self.every_seconds))
        return [make_message(one) for one in left[:1]]

    async def accepted(self, message: Message, posted: Posted) -> None:
        """Note the answer, which is the cursor of this plugin."""
        self.ledger.write(
            What.POSTED, self.order.name, external_id=message.external_id, id=posted.id
        )
        self.facts.posted.add(message.external_id)
        self.facts.heard_at[self.order.name] = trio.current_time()

    async def refused(self, message: Message, refusal: RefusedError) -> None:
        """Note it; there should be none."""
        self.ledger.write(
            What.ODD, self.order.name, external_id=message.external_id, detail=str(refusal)
        )
        self.facts.posted.add(message.external_id)


@attrs.define(kw_only=True)
class LedgerSink:
    """An upstream that is the ledger: the line SENT is the sending. Half of them can be proven."""

    order: PluginOrder
    ledger: Ledger
    facts: Facts
    mortal: Mortal

    async def send(self, draft: Draft) -> Sent:
        """Send it, or die on the way, or say that it failed or that nobody can know."""
        name, draft_id = self.order.name, draft.draft_id
        self.mortal.reach("claimed")
        self.ledger.write(What.SENDING, name, draft_id=draft_id)
        chance = self.mortal.random.random()
        if chance < FAILS:
            self.ledger.write(What.FAILED, name, draft_id=draft_id)
            raise SendFailedError("the upstream said no")
        if chance < FAILS + UNSURE:
            self.ledger.write(What.UNSURE, name, draft_id=draft_id)
            raise SendUnknownError("the upstream went away")
        self.mortal.reach("sending")
        self.ledger.write(What.SENT, name, draft_id=draft_id, external_id=draft.message_external_id)
        self.facts.sent.add(draft_id)
        self.mortal.reach("sent")
        return Sent(external_ref=f"line-{draft_id}")

    async def was_sent(self, draft: Draft) -> str | None:
        """Look for the line, where this upstream can be asked."""
        known = draft.draft_id % 2 == 0 and draft.draft_id in self.facts.sent
        return f"line-{draft.draft_id}" if known else None


@attrs.frozen(kw_only=True)
class Company:
    """All plugins of the process."""

    orders: Orders
    ledger: Ledger
    facts: Facts
    mortal: Mortal

    async def run(self) -> None:
        """Post, then look after what comes late, until the process is told to end."""
        # Few at a time, because each would claim once a second.
        limit = trio.CapacityLimiter(self.orders.active)
        async with trio.open_nursery() as nursery:
            for order in self.orders.plugins:
                nursery.start_soon(self._live, order, limit)
        while True:
            for order in self.orders.plugins:
                await self._once(order)
                await trio.sleep(DRAIN_PAUSE_SECONDS)

    async def _live(self, order: PluginOrder, limit: trio.CapacityLimiter) -> None:
        async with limit:
            source, sink = self._ends(order)
            if not source.left():
                return
            self.facts.heard_at[order.name] = trio.current_time()
            async with (
                open_journal(self._state(order)) as journal,
                self._client(order) as client,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(self._until_idle, source, nursery.cancel_scope)
                await run_plugin(
                    client, journal, source=source, sink=sink, note=lambda _line: None,
                    pace=Pace(poll_seconds=1.0, report_seconds=1.0),
                )  # fmt: skip

    async def _until_idle(self, source: PacedSource, scope: trio.CancelScope) -> None:
        while True:
            await trio.sleep(1)
            quiet = trio.current_time() - self.facts.heard_at[source.order.name]
            if not source.left() and quiet > IDLE_SECONDS:
                scope.cancel()

    async def _once(self, order: PluginOrder) -> None:
        source, sink = self._ends(order)
        async with open_journal(self._state(order)) as journal, self._client(order) as client:
            try:
                await run_plugin_once(
                    client, journal, source=source, sink=sink, note=lambda _line: None,
                    patience_seconds=PATIENCE_SECONDS,
                )  # fmt: skip
            except (ClaimLostError, UnreachableError, TryLaterError):
                return

    def _ends(self, order: PluginOrder) -> tuple[PacedSource, LedgerSink]:
        source = PacedSource(
            order=order, ledger=self.ledger, facts=self.facts,
            every_seconds=self.orders.every_seconds, random=self.mortal.random,
        )  # fmt: skip
        sink = LedgerSink(order=order, ledger=self.ledger, facts=self.facts, mortal=self.mortal)
        return source, sink

    def _client(self, order: PluginOrder) -> NotingClient:
        return NotingClient(f"http://127.0.0.1:{self.orders.port}", order, self.ledger, self.facts)

    def _state(self, order: PluginOrder) -> Path:
        return Path(self.orders.folder, "state", order.name)


def main() -> None:
    """Run until SIGTERM, or until it dies."""
    orders = read_orders()
    earlier = list(read(orders.ledger))
    facts = Facts()
    for line in earlier:
        if line.what is What.POSTED:
            facts.posted.add(line.external_id)
        elif line.what is What.SENT:
            facts.sent.add(line.draft_id)
    with Ledger(orders.ledger) as ledger:
        mortal = begin_life(ledger, orders, earlier)
        company = Company(orders=orders, ledger=ledger, facts=facts, mortal=mortal)
        trio.run(until_stopped, company.run)


if __name__ == "__main__":
    main()
