"""Plugins under load that write down what they were answered, and owners who approve.

What a plugin was answered goes into its Book, which is what the rows are judged by at the end
(tests/support/verdict.py). No answer, or 503, means that nothing is known: a post and a result are
repeated until they are answered, some posts only at the end; a claim never is.
"""

import random
from collections.abc import Sequence
from typing import Protocol

import attrs
import httpx2
import trio

from bench.chaos.approver import decide_pending
from bench.chaos.ledger import What
from muster.drafts.operations import DraftView
from muster.errors import Unavailable
from muster.outcomes import Hint
from muster.pg.database import Database
from muster.pg.listener import notify
from muster.principals import Owner

ANSWER_SECONDS = 20.0
AGAIN_SECONDS = 0.05
CLAIM = "drafts/claim"
CLAIM_WAITS = (0, 1, 2)
GIVES_UP = 0.3  # of the posts without an answer
KEEPS_RESULT = 0.12  # of the claimed replies
SENDS_WELL = 0.8


class Reachable(Protocol):
    """A server, in this process or in one of its own."""

    def client(self, token: str | None = None) -> httpx2.AsyncClient:
        """An HTTP client, with a bearer token if one is given."""


@attrs.define(kw_only=True)
class Book:
    """What one plugin was answered."""

    name: str
    token: str = attrs.field(repr=False)
    posted: dict[str, int] = attrs.field(factory=dict)  # external id -> id, answered with 2xx
    unanswered: list[str] = attrs.field(factory=list)  # posts that may or may not be stored
    claimed: list[int] = attrs.field(factory=list)  # each draft id that a claim was answered with
    lost_claims: int = 0  # claims without an answer
    results: dict[int, bool] = attrs.field(factory=dict)  # draft id -> ok, answered with 200
    kept: list[int] = attrs.field(factory=list)  # claimed, and no result was reported
    odd: list[str] = attrs.field(factory=list)  # answers that there should not be


@attrs.define(kw_only=True)
class Phase:
    """How far a test is: the load ends first, then everything that looks after it."""

    calm: trio.Event = attrs.field(factory=trio.Event)
    closed: trio.Event = attrs.field(factory=trio.Event)


async def pause(event: trio.Event, seconds: float) -> None:
    """Wait for the event, but at most so long."""
    with trio.move_on_after(seconds):
        await event.wait()


class PluginUnderLoad:
    """One plugin: what it does and what it was answered."""

    def __init__(self, server: Reachable, book: Book, phase: Phase, seed: int) -> None:
        self.book = book
        self._server = server
        self._phase = phase
        self._random = random.Random(f"{book.name} {seed}")

    async def post_messages(self, count: int, every_seconds: float) -> None:
        """Post so many messages, about one each `every_seconds`, until the load ends."""
        async with self._client() as client:
            for number in range(count):
                if self._phase.calm.is_set():
                    return
                await self._post(client, f"{self.book.name}-{number}", may_give_up=True)
                await pause(self._phase.calm, self._random.uniform(0, 2 * every_seconds))

    async def post_again(self) -> None:
        """Repeat each post that got no answer."""
        async with self._client() as client:
            while self.book.unanswered:
                await self._post(client, self.book.unanswered.pop())

    async def post(self, external_id: str) -> None:
        """Post one message until it is answered."""
        async with self._client() as client:
            await self._post(client, external_id)

    async def claim_replies(self) -> None:
        """Claim and report until all is over."""
        async with self._client() as client:
            while not self._phase.closed.is_set():
                await self._claim(client)

    async def report_late(self) -> None:
        """Report half of the results that were kept."""
        async with self._client() as client:
            for draft_id in self.book.kept[::2]:
                await self._report(client, draft_id)
        del self.book.kept[::2]

    async def _post(
        self, client: httpx2.AsyncClient, external_id: str, *, may_give_up: bool = False
    ) -> None:
        body = {"external_id": external_id, "body": "Does noon work?", "sender": "Ada"}
        while (answer := await self._ask(client, "messages", body)) is None:
            if may_give_up and self._random.random() < GIVES_UP:
                self.book.unanswered.append(external_id)
                return
            await pause(self._phase.closed, AGAIN_SECONDS)
        if answer.status_code not in (200, 202):
            self._note(answer)
            return
        told = answer.json()["id"]
        if self.book.posted.setdefault(external_id, told) != told:
            self.book.odd.append(f"{external_id} was {self.book.posted[external_id]}, now {told}")

    async def _claim(self, client: httpx2.AsyncClient) -> None:
        wait = {"wait_seconds": self._random.choice(CLAIM_WAITS)}
        answer = await self._ask(client, CLAIM, wait)
        if answer is None:
            await pause(self._phase.closed, AGAIN_SECONDS)
        elif answer.status_code == 200:
            draft_id = answer.json()["draft_id"]
            self.book.claimed.append(draft_id)
            if self._random.random() < KEEPS_RESULT:
                self.book.kept.append(draft_id)
            else:
                await self._report(client, draft_id)
        elif answer.status_code == 204:
            await pause(self._phase.closed, AGAIN_SECONDS)
        else:
            self._note(answer)

    async def _report(self, client: httpx2.AsyncClient, draft_id: int) -> None:
        ok = self._random.random() < SENDS_WELL
        result = {"ok": True, "external_ref": f"ref-{draft_id}"} if ok else {"ok": False}
        path = f"drafts/{draft_id}/result"
        while (answer := await self._ask(client, path, result)) is None:
            await pause(self._phase.closed, AGAIN_SECONDS)
        if answer.status_code == 200:
            self.book.results[draft_id] = ok
        else:
            self._note(answer)

    async def _ask(
        self, client: httpx2.AsyncClient, path: str, body: object
    ) -> httpx2.Response | None:
        try:
            answer = await client.post(f"/plugin/v1/{path}", json=body, timeout=ANSWER_SECONDS)
        except httpx2.TransportError as error:
            # Where nobody accepted the connection nothing can have been claimed.
            self.book.lost_claims += path == CLAIM and not isinstance(error, httpx2.ConnectError)
            return None
        if answer.status_code == 503:
            self.book.lost_claims += path == CLAIM
            return None
        return answer

    def _client(self) -> httpx2.AsyncClient:
        return self._server.client(self.book.token)

    def _note(self, answer: httpx2.Response) -> None:
        self.book.odd.append(f"{answer.request.url.path}: {answer.status_code} {answer.text}")


async def approve_all(
    db: Database, hints: list[Hint], owners: Sequence[Owner], phase: Phase
) -> None:
    """Approve what is pending until all is over, and tell the servers, as a command line does.

    `hints` are those that `db` publishes. A database that is away is waited for.
    """
    while not phase.closed.is_set():
        for owner in owners:
            try:
                await decide_pending(db, owner, lambda _draft: What.APPROVED, _nothing)
                told, hints[:] = list(hints), []
                await notify(db, told)
            except Unavailable:
                continue
        await pause(phase.closed, AGAIN_SECONDS)


def _nothing(_draft: DraftView, _what: What) -> None:
    """No ledger is kept of it."""
