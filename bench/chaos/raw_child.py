"""Plugins on bare sockets, with no SDK that would protect them: `… raw_child ORDERS`.

A message is posted until it is answered. What a claim is answered with is sent, whatever it is, and
reported until that is answered; what a life had claimed and not sent is left alone by the next one.
So a server that hands a reply out twice makes such a plugin send it twice.

With `producers` in its orders the process posts every message of its plugins that many times, at
once, and ends.
"""

import json
import random

import attrs
import trio

from bench.chaos.ledger import Ledger, What, read
from bench.chaos.mortal import Mortal, begin_life
from bench.chaos.orders import Orders, PluginOrder, read_orders
from bench.chaos.texts import make_message
from bench.client import Answer, Connection
from muster.clients.stopping import until_stopped

AGAIN_SECONDS = 0.1
SLOW_SECONDS = 0.5
LOOKS_PER_SECOND = 20  # of one process, at most about
CLAIM_WAITS = (0, 1, 2)
FAILS, KEEPS = 0.05, 0.02


@attrs.define(kw_only=True)
class Wire:
    """The way of one plugin to the server."""

    port: int
    token: str

    async def until_answered(self, path: str, content: object) -> Answer:
        """Ask until something is known: a post and a result may be repeated."""
        while True:
            answer = await self.ask(path, content)
            if answer is not None:
                return answer
            await trio.sleep(AGAIN_SECONDS)

    async def ask(self, path: str, content: object) -> Answer | None:
        """One request; None when there was no answer, or one that says that nothing is known."""
        try:
            # A connection for each: this client is there to be rough, not to be fast.
            async with Connection.open(self.port) as connection:
                answer = await connection.ask(
                    "POST", f"/plugin/v1/{path}", token=self.token, body=content
                )
        except (OSError, trio.BrokenResourceError, trio.TooSlowError):
            return None
        return None if answer.status in (429, 503) else answer


@attrs.define(kw_only=True)
class Company:
    """All plugins of the process, and what earlier lives wrote down."""

    orders: Orders
    ledger: Ledger
    mortal: Mortal
    posted: set[str] = attrs.field(factory=set)
    ended: dict[int, tuple[str, bool]] = attrs.field(factory=dict)  # sent or failed, not reported

    async def run(self) -> None:
        """Work until the process is told to end; producers until they are done."""
        async with trio.open_nursery() as nursery:
            if self.orders.producers:
                for number in range(self.orders.producers):
                    nursery.start_soon(self._produce, number)
                return
            limit = trio.CapacityLimiter(self.orders.active)
            for order in self.orders.plugins:
                nursery.start_soon(self._post_all, order, limit)
                nursery.start_soon(self._claim_all, order)

    async def _produce(self, number: int) -> None:
        everything = [
            (order, f"{order.name}-{one}")
            for order in self.orders.plugins
            for one in range(order.count)
        ]
        random.Random(number).shuffle(everything)
        for order, external_id in everything:
            await self._post(self._line(order), order.name, external_id)

    async def _post_all(self, order: PluginOrder, limit: trio.CapacityLimiter) -> None:
        async with limit:
            for number in range(order.count):
                external_id = f"{order.name}-{number}"
                if external_id not in self.posted:
                    await trio.sleep(self.mortal.random.uniform(0, 2 * self.orders.every_seconds))
                    self.ledger.write(What.INTENT, order.name, external_id=external_id)
                    await self._post(self._line(order), order.name, external_id)

    async def _post(self, line: Wire, name: str, external_id: str) -> None:
        content = json.loads(make_message(external_id).encode())
        answer = await line.until_answered("messages", content)
        if answer.status in (200, 202):
            told = json.loads(answer.body)["id"]
            self.ledger.write(
                What.POSTED, name, external_id=external_id, id=told, status=answer.status
            )
        else:
            self._note(name, answer)

    async def _claim_all(self, order: PluginOrder) -> None:
        line = self._line(order)
        for draft_id, (name, ok) in list(self.ended.items()):
            if name == order.name:
                await self._report(line, name, draft_id, ok=ok)
        while True:
            await self._claim(line, order.name)

    async def _claim(self, line: Wire, name: str) -> None:
        wait_seconds = self.mortal.random.choice(CLAIM_WAITS)
        answer = await line.ask("drafts/claim", {"wait_seconds": wait_seconds})
        if answer is None:
            self.ledger.write(What.LOST_CLAIM, name)
            await trio.sleep(AGAIN_SECONDS)
        elif answer.status == 204:
            # Many plugins look less often, or their looking would be all that the server does.
            await trio.sleep(max(SLOW_SECONDS, len(self.orders.plugins) / LOOKS_PER_SECOND))
        elif answer.status == 200:
            draft = json.loads(answer.body)
            await self._send(line, name, draft["draft_id"], draft["message_external_id"])
        else:
            self._note(name, answer)

    async def _send(self, line: Wire, name: str, draft_id: int, external_id: str) -> None:
        self.ledger.write(What.CLAIMED, name, draft_id=draft_id, external_id=external_id)
        self.mortal.reach("claimed")
        self.ledger.write(What.SENDING, name, draft_id=draft_id)
        self.mortal.reach("sending")
        chance = self.mortal.random.random()
        if chance < FAILS:
            self.ledger.write(What.FAILED, name, draft_id=draft_id)
        else:
            self.ledger.write(What.SENT, name, draft_id=draft_id, external_id=external_id)
        self.mortal.reach("sent")
        if chance > 1 - KEEPS:
            self.ledger.write(What.KEPT, name, draft_id=draft_id)
            return
        await self._report(line, name, draft_id, ok=chance >= FAILS)

    async def _report(self, line: Wire, name: str, draft_id: int, *, ok: bool) -> None:
        content = {"ok": True, "external_ref": f"line-{draft_id}"} if ok else {"ok": False}
        answer = await line.until_answered(f"drafts/{draft_id}/result", content)
        if answer.status == 200:
            self.ledger.write(What.RESULT, name, draft_id=draft_id, detail="recorded")
        else:
            self._note(name, answer)

    def _line(self, order: PluginOrder) -> Wire:
        return Wire(port=self.orders.port, token=order.token)

    def _note(self, name: str, answer: Answer) -> None:
        told = answer.body.decode(errors="replace")
        self.ledger.write(What.ODD, name, status=answer.status, detail=told)


def main() -> None:
    """Run until SIGTERM, or until it dies."""
    orders = read_orders()
    earlier = list(read(orders.ledger))
    posted: set[str] = set()
    ended: dict[int, tuple[str, bool]] = {}
    for line in earlier:
        if line.what is What.POSTED:
            posted.add(line.external_id)
        elif line.what in (What.SENT, What.FAILED):
            ended[line.draft_id] = line.by, line.what is What.SENT
        elif line.what in (What.RESULT, What.KEPT):
            ended.pop(line.draft_id, None)
    with Ledger(orders.ledger) as ledger:
        mortal = begin_life(ledger, orders, earlier)
        company = Company(orders=orders, ledger=ledger, mortal=mortal, posted=posted, ended=ended)
        trio.run(until_stopped, company.run)


if __name__ == "__main__":
    main()
