"""What the plugin loop makes of one sending: once at most, again only where nothing went."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from muster.clients.plugin import (
    Draft,
    SendFailedError,
    SendLaterError,
    SendUnknownError,
    Sent,
    State,
)
from muster.clients.plugin import loop as loop_module
from tests.support.running_plugin import Plugin, Upstream, plugin_on
from tests.support.scripted_server import scripted_server


@pytest.fixture
async def plugin(tmp_path: Path) -> AsyncIterator[Plugin]:
    """Yield a plugin with a state folder and a scripted muster of its own."""
    async with scripted_server() as server, plugin_on(tmp_path, server) as plugin:
        yield plugin


async def test_what_is_known_not_sent_is_reported_false(plugin: Plugin) -> None:
    """SendFailedError is reported as not sent, with its text as the detail."""
    plugin.sink.error = SendFailedError("mailbox full")
    plugin.server.approve(1)
    await plugin.run_once()
    assert plugin.server.results == {1: {"ok": False, "detail": "mailbox full"}}


async def test_an_upstreams_answer_is_the_detail(plugin: Plugin) -> None:
    """What the upstream said to a reply that it took is the detail of its result."""
    plugin.sink.detail = "250 queued"
    plugin.server.approve(1)
    await plugin.run_once()
    told = {"ok": True, "external_ref": "ref-1", "detail": "250 queued"}
    assert plugin.server.results == {1: told}


@pytest.fixture
def no_delay(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make the waits between two sendings nothing; which attempts waited is what is yielded."""
    waited: list[int] = []

    def delay(attempt: int, *, retry_after_seconds: float | None, chance: float) -> float:
        assert retry_after_seconds is None
        assert 0 <= chance < 1
        waited.append(attempt)
        return 0.0

    monkeypatch.setattr(loop_module, "delay_seconds", delay)
    return waited


@pytest.mark.rule(99)
async def test_what_may_be_sent_soon_is_tried_again(plugin: Plugin, no_delay: list[int]) -> None:
    """SendLaterError is no result: the draft is `claimed` again, and sent at a later attempt."""
    plugin.sink.busy.extend(SendLaterError("busy") for _ in range(3))
    plugin.server.approve(1)
    await plugin.run_once()
    assert plugin.server.results == {1: {"ok": True, "external_ref": "ref-1"}}
    assert (len(plugin.sink.sent), no_delay) == (1, [0, 1, 2])
    assert sum("is not sent yet: busy" in note for note in plugin.notes) == 1


async def test_the_lease_ends_the_attempts(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the next attempt would begin too late in the lease, the last detail is the result."""
    delays = iter([0.0, 88.0])
    monkeypatch.setattr(loop_module, "delay_seconds", lambda *_, **__: next(delays))
    plugin.sink.busy.extend(SendLaterError(f"busy {number}") for number in range(3))
    draft = Draft(draft_id=1, message_external_id="m", body="b", approved_at="t")
    await plugin.journal.record_claimed(draft, claimed_at=time.time() - 5)
    with trio.fail_after(10):
        await plugin.run_once()
    assert plugin.server.results == {1: {"ok": False, "detail": "busy 1"}}
    assert plugin.sink.sent == []


async def test_a_stop_between_two_attempts_leaves_it_unsent(plugin: Plugin) -> None:
    """A plugin stopped while it waits to send again has the draft `claimed`, for the next start."""
    plugin.sink.busy.append(SendLaterError("busy"))
    plugin.server.approve(1)
    await plugin.run_until(lambda: any("not sent yet" in note for note in plugin.notes))
    assert await plugin.state(1) is State.CLAIMED
    await plugin.run_once()
    assert (len(plugin.sink.sent), len(plugin.server.results)) == (1, 1)


async def test_a_sink_that_is_stopped_may_know_that_nothing_went(plugin: Plugin) -> None:
    """A cancelled sink that raises SendLaterError has it written down before the loop ends."""
    begun = trio.Event()

    class Stopped(Upstream):
        """A sink that tells what it knows when it is cancelled."""

        async def send(self, draft: Draft) -> Sent:
            """Wait until the end."""
            assert draft.body
            begun.set()
            try:
                await trio.sleep_forever()
            finally:
                raise SendLaterError("stopped")

    plugin.sink = Stopped()
    plugin.server.approve(1)
    await plugin.run_until(begun.is_set)
    assert await plugin.state(1) is State.CLAIMED


async def test_what_nobody_can_know_is_not_reported(plugin: Plugin) -> None:
    """SendUnknownError leaves the draft to its lease, and says so."""
    plugin.sink.error = SendUnknownError("connection lost")
    plugin.server.approve(1)
    await plugin.run_once()
    await plugin.run_once()
    assert plugin.server.results == {}
    assert await plugin.state(1) is State.UNKNOWN
    assert len(plugin.sink.sent) == 1
    assert any("unconfirmed" in note for note in plugin.notes)


async def test_a_bug_in_the_sink_leaves_the_draft_unknown(plugin: Plugin) -> None:
    """Any other error of a sink ends the loop, and the draft is not sent again after it."""
    plugin.sink.error = KeyError("a bug")
    plugin.server.approve(1)
    with pytest.raises(ExceptionGroup) as caught:
        await plugin.run()
    assert caught.group_contains(KeyError)
    assert await plugin.state(1) is State.SENDING
    plugin.sink.error = None
    await plugin.run_once()
    assert (await plugin.state(1), len(plugin.sink.sent)) == (State.UNKNOWN, 1)


@pytest.mark.rule(99)
async def test_a_draft_id_that_is_known_is_not_sent_again(plugin: Plugin) -> None:
    """Should a server offer a draft twice, it is sent once."""
    plugin.server.approve(1)
    plugin.server.approve(1, body="Another text.")
    await plugin.run_once()
    assert len(plugin.sink.sent) == 1
    assert any("claimed before" in note for note in plugin.notes)


@pytest.mark.parametrize("age_seconds", [91.0, -5.0])
async def test_a_claim_that_aged_is_not_sent(plugin: Plugin, age_seconds: float) -> None:
    """A draft claimed before a long stop, or by a clock set back, is reported as not sent."""
    draft = Draft(draft_id=1, message_external_id="m", body="b", approved_at="t")
    await plugin.journal.record_claimed(draft, claimed_at=time.time() - age_seconds)
    await plugin.run_once()
    assert plugin.sink.sent == []
    assert plugin.server.results[1]["ok"] is False


async def test_a_stop_in_mid_send_keeps_the_result(plugin: Plugin) -> None:
    """A loop cancelled while its sink works still writes the result down."""
    begun = trio.Event()
    go_on = trio.Event()

    class Slow(Upstream):
        """A sink that takes its time and can't be cut off."""

        async def send(self, draft: Draft) -> Sent:
            """Wait for the test."""
            begun.set()
            with trio.CancelScope(shield=True):
                await go_on.wait()
            return await super().send(draft)

    plugin.sink = Slow()
    plugin.server.approve(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(plugin.run)
        await begun.wait()
        nursery.cancel_scope.cancel()
        go_on.set()
    assert await plugin.state(1) is State.DONE
