"""The loop of a plugin: three tasks side by side, and what a restart does first.

- *posting* takes messages from the source and posts them, one at a time and in order;
- *claiming* long-polls for approved replies, writes each down, sends it, writes the result down;
- *reporting* tells muster each result, until each one is answered.

A plugin that posted or started within the last minute claims with waits of a second: the start of
a claim is muster's only retry of delivery (plugins: "collect an approved reply"), so a message
that arrived while the chief was busy would else wait out a long poll.
"""

import itertools
import math
import random
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import attrs
import trio

from muster.clients.backoff import delay_seconds
from muster.clients.plugin.client import PluginClient, note_on_stderr
from muster.clients.plugin.journal import Entry, Journal, State
from muster.clients.plugin.wire import (
    CLAIM_WAIT_SECONDS_MAX,
    LEASE_SECONDS,
    ClaimLostError,
    Draft,
    Message,
    PluginError,
    PluginsOffError,
    Posted,
    RefusedError,
    Result,
    SendFailedError,
    SendLaterError,
    SendUnknownError,
    Sent,
    TryLaterError,
    UnreachableError,
    Verdict,
)

SHORT_WAIT_SECONDS = 1
BUSY_SECONDS = 60.0
"""How long after a post, or the start, the claims stay short, in seconds."""

LEASE_MARGIN_SECONDS = 30.0
"""A sending begins only while at least this much of the lease is left, in seconds."""

REPORT_PATIENCE_SECONDS = 60.0
"""How long one report is tried before the next draft has its turn, in seconds."""


class Source(Protocol):
    """Where a plugin's messages come from."""

    async def fetch(self) -> Sequence[Message]:
        """The next messages, oldest first, few (100 at most); empty when there are none now."""
        ...

    async def accepted(self, message: Message, posted: Posted) -> None:
        """A 2xx: muster has `message`, and only now may a cursor move past it."""
        ...

    async def refused(self, message: Message, refusal: RefusedError) -> None:
        """Remember that muster will never take `message`, and why, and move on."""
        ...


class Sink(Protocol):
    """Where a plugin's replies go."""

    async def send(self, draft: Draft) -> Sent:
        """Send the reply and return the upstream's reference and answer.

        Raise SendFailedError only when it is known not to have been sent, SendLaterError when
        that is known and the same sending may work soon, SendUnknownError when nobody can know.
        Any other error, and a cancellation that comes out, leaves the draft in `sending`: a sink
        that is cancelled and knows what it did says it in one of these ways instead, and the
        loop ends right after writing it down. There is no deadline around it: what a cut-off
        sending did would be unknown. At least 30 s of the lease are left when it begins.
        """
        ...

    async def was_sent(self, draft: Draft) -> str | None:
        """Prove, after a restart, that `draft` was sent: its reference, or None for "can't say"."""
        ...


@attrs.frozen(kw_only=True)
class Pace:
    """The loop's waits, in seconds; a test shortens them."""

    poll_seconds: float = 2.0
    off_seconds: float = 60.0
    report_seconds: float = 30.0


@attrs.define(kw_only=True)
class _Loop:
    client: PluginClient
    journal: Journal
    source: Source
    sink: Sink
    note: Callable[[str], None]
    pace: Pace
    patience_seconds: float
    # A start counts as a post: what an earlier process posted may still be waiting.
    posted_at: float = attrs.field(factory=trio.current_time)
    plugins_off: bool = False
    to_report: trio.Event = attrs.field(factory=trio.Event)

    async def recover(self) -> None:
        """Settle what an earlier process left half done, before anything new is claimed."""
        # Each round settles every entry it read, so the rounds end.
        while entries := await self.journal.begun():
            for entry in entries:
                await self._recover_one(entry)

    async def _recover_one(self, entry: Entry) -> None:
        draft = entry.draft
        if entry.state is State.CLAIMED:
            await self._send(draft, claimed_at=entry.claimed_at)
            return
        reference = await self.sink.was_sent(draft)
        if reference is not None:
            await self.journal.record_done(draft.draft_id, Result(ok=True, external_ref=reference))
            self.note(f"draft {draft.draft_id} was sent before the restart ({reference})")
            return
        detail = "The plugin stopped in mid-send and can't prove whether it was sent."
        await self.journal.record_unknown(draft.draft_id, detail)
        self.note(
            f"draft {draft.draft_id}: stopped in mid-send, so it is not sent again and nothing "
            "is reported; muster will show it as unconfirmed"
        )

    async def post_next(self) -> bool:
        """Post what the source has now; False when it had nothing."""
        messages = await self.source.fetch()
        for message in messages:
            await self._post(message)
        return bool(messages)

    async def _post(self, message: Message) -> None:
        while True:
            try:
                posted = await self.client.post(message, patience_seconds=self.patience_seconds)
            except RefusedError as refusal:
                await self.source.refused(message, refusal)
                return
            except PluginsOffError as error:
                await self._wait_while_off(error)
            else:
                self._plugins_are_on()
                self.posted_at = trio.current_time()
                await self.source.accepted(message, posted)
                return

    async def post_forever(self) -> None:
        while True:
            if not await self.post_next():
                await trio.sleep(self.pace.poll_seconds)

    async def claim_forever(self) -> None:
        failures = 0
        while True:
            busy = trio.current_time() - self.posted_at < BUSY_SECONDS
            wait_seconds = SHORT_WAIT_SECONDS if busy else CLAIM_WAIT_SECONDS_MAX
            try:
                await self.claim_next(wait_seconds)
                failures = 0
            except PluginsOffError as error:
                await self._wait_while_off(error)
            except (ClaimLostError, UnreachableError, TryLaterError) as error:
                if failures == 0:
                    self.note(f"{error}; claiming goes on")
                asked = error.retry_after_seconds if isinstance(error, TryLaterError) else None
                await trio.sleep(delay_seconds(failures, retry_after_seconds=asked, chance=0.5))
                failures += 1

    async def claim_next(self, wait_seconds: int) -> bool:
        """Claim once and send what was claimed; False when there was nothing."""
        draft = await self.client.claim(wait_seconds)
        self._plugins_are_on()
        if draft is None:
            return False
        # Shielded, because a claimed draft that is not written down is lost to its lease.
        claimed_at = time.time()
        with trio.CancelScope(shield=True):
            is_new = await self.journal.record_claimed(draft, claimed_at=claimed_at)
        if not is_new:
            self.note(
                f"draft {draft.draft_id} was claimed before, so it is not sent again; another "
                "server needs another state folder"
            )
            return True
        await self._send(draft, claimed_at=claimed_at)
        return True

    async def _send(self, draft: Draft, *, claimed_at: float) -> None:
        """Send a draft that is `claimed`, once, and write down what became of it."""
        detail = "Not sent: the plugin was stopped until the lease was nearly over."
        # Each failure waits half a second and more, so the lease ends the attempts.
        for attempt in itertools.count():
            if not has_lease(claimed_at, time.time()):
                break
            try:
                await self._try_to_send(draft)
            except SendLaterError as error:
                detail = str(error)
                if attempt == 0:
                    self.note(f"draft {draft.draft_id} is not sent yet: {detail}")
            else:
                return
            chance = random.random()  # noqa: S311 - only spreads the attempts
            delay = delay_seconds(attempt, retry_after_seconds=None, chance=chance)
            # Whoever would wait until the lease is over may as well be told now.
            if not has_lease(claimed_at, time.time() + delay):
                break
            await trio.sleep(delay)
        await self._finish(draft, Result(ok=False, detail=detail))

    async def _try_to_send(self, draft: Draft) -> None:
        """Begin one sending; SendLaterError when the draft is `claimed` again after it."""
        await self.journal.record_sending(draft.draft_id)
        try:
            sent = await self.sink.send(draft)
        except SendLaterError:
            # Shielded: it is known now, and after a stop nobody would know it any more.
            with trio.CancelScope(shield=True):
                await self.journal.record_not_sent(draft.draft_id)
            raise
        except SendFailedError as error:
            await self._finish(draft, Result(ok=False, detail=str(error)))
        except SendUnknownError as error:
            with trio.CancelScope(shield=True):
                await self.journal.record_unknown(draft.draft_id, str(error))
            self.note(
                f"draft {draft.draft_id}: nobody can know whether it was sent ({error}), so "
                "nothing is reported; muster will show it as unconfirmed"
            )
        else:
            result = Result(ok=True, external_ref=sent.external_ref, detail=sent.detail)
            await self._finish(draft, result)

    async def _finish(self, draft: Draft, result: Result) -> None:
        # Shielded: the sending is over, and a stop now must not make it unknown.
        with trio.CancelScope(shield=True):
            await self.journal.record_done(draft.draft_id, result)
        self.to_report.set()

    async def report_forever(self) -> None:
        while True:
            # Taken before looking: a result written down meanwhile sets the new event.
            self.to_report = trio.Event()
            await self.report_all()
            with trio.move_on_after(self.pace.report_seconds):
                await self.to_report.wait()

    async def report_all(self) -> bool:
        """Report each result that waits; False when one of them must be tried again."""
        all_answered = True
        for entry in await self.journal.unreported():
            try:
                await self._report(entry)
            except PluginsOffError as error:
                await self._wait_while_off(error)
                return False
            except (UnreachableError, TryLaterError):
                # The client said so; the others have their turn, and this one comes again.
                all_answered = False
        return all_answered

    async def _report(self, entry: Entry) -> None:
        draft_id, result = entry.draft.draft_id, entry.result
        assert result is not None, "a draft that is done has a result"
        reported = await self.client.report(
            draft_id,
            result.ok,
            result.external_ref,
            result.detail,
            patience_seconds=min(REPORT_PATIENCE_SECONDS, self.patience_seconds),
        )
        answer = f"{reported.verdict.value} {reported.status} {reported.error}".strip()
        with trio.CancelScope(shield=True):
            await self.journal.record_reported(draft_id, answer)
        if reported.verdict is not Verdict.RECORDED:
            self.note(f"muster did not take the result of draft {draft_id}: {answer}")

    async def _wait_while_off(self, error: PluginsOffError) -> None:
        if self.patience_seconds < self.pace.off_seconds:
            raise error
        if not self.plugins_off:
            self.note(f"{error}; asking again every {self.pace.off_seconds:.0f} s")
        self.plugins_off = True
        await trio.sleep(self.pace.off_seconds)

    def _plugins_are_on(self) -> None:
        if self.plugins_off:
            self.note("plugins are on again")
        self.plugins_off = False


async def run_plugin(
    client: PluginClient,
    journal: Journal,
    *,
    source: Source,
    sink: Sink,
    note: Callable[[str], None] = note_on_stderr,
    pace: Pace | None = None,
) -> None:
    """Run a plugin until it is cancelled (plugins: "The plugin author's contract").

    First settles what an earlier process left. Ends by raising NotSignedInError (401) or
    UnexpectedAnswerError, or an OSError of `source` or `sink`; waits out everything else. What
    else these two raise beyond their contract comes out in an ExceptionGroup.
    """
    loop = _Loop(
        client=client, journal=journal, source=source, sink=sink, note=note,
        pace=pace or Pace(), patience_seconds=math.inf,
    )  # fmt: skip
    ended: PluginError | OSError | None = None
    try:
        async with trio.open_nursery() as nursery:
            # Results of an earlier process need no recovering: they are only reported.
            nursery.start_soon(loop.report_forever)
            await loop.recover()
            nursery.start_soon(loop.post_forever)
            nursery.start_soon(loop.claim_forever)
    except* (PluginError, OSError) as group:
        # One revoked token ends all three tasks; the first to say so stands for them.
        ended = _first_of(group)
    if ended is not None:
        raise ended


async def run_plugin_once(
    client: PluginClient,
    journal: Journal,
    *,
    source: Source,
    sink: Sink,
    note: Callable[[str], None] = note_on_stderr,
    patience_seconds: float = 30.0,
) -> None:
    """Post what is there, send what is approved, report what is done; then return.

    Raises UnreachableError, TryLaterError or PluginsOffError where `run_plugin` would have
    waited longer than `patience_seconds`; what was done until then stays done. A reply that may be
    sent soon (SendLaterError) is not such a wait: it is tried as long as its lease lasts.
    """
    loop = _Loop(
        client=client, journal=journal, source=source, sink=sink, note=note,
        pace=Pace(), patience_seconds=patience_seconds,
    )  # fmt: skip
    await loop.recover()
    while await loop.post_next():
        pass
    while await loop.claim_next(0):
        pass
    while await journal.unreported():
        if not await loop.report_all():
            raise TryLaterError("muster did not take a result yet", retry_after_seconds=None)


def has_lease(claimed_at: float, now: float) -> bool:
    """Whether a sending may begin at `now` (both in seconds since 1970).

    A claim from the future means that the clock was set back: its age is not known, so no.
    """
    return 0 <= now - claimed_at <= LEASE_SECONDS - LEASE_MARGIN_SECONDS


def _first_of(group: BaseExceptionGroup[PluginError | OSError]) -> PluginError | OSError:
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    assert isinstance(first, PluginError | OSError), "the group was split by this class"
    return first
