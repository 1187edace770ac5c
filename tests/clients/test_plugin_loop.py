"""The plugin loop: what is posted, sent and reported, and what ends it."""

import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from muster.clients.plugin import (
    Draft,
    Journal,
    Message,
    NotSignedInError,
    Pace,
    PluginClient,
    Posted,
    RefusedError,
    Result,
    SendFailedError,
    SendUnknownError,
    State,
    StateFolderBusyError,
    TryLaterError,
    open_journal,
    run_plugin,
    run_plugin_once,
)
from muster.clients.plugin import loop as loop_module
from tests.support.scripted_server import (
    CLAIM,
    MESSAGES,
    RESULT,
    TOKEN,
    Answer,
    ScriptedServer,
    Step,
    scripted_server,
)
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
    """A sink that remembers, or raises what it is told to."""

    sent: list[Draft] = attrs.field(factory=list)
    error: Exception | None = None

    async def send(self, draft: Draft) -> str:
        """Send it, unless told otherwise."""
        self.sent.append(draft)
        if self.error is not None:
            raise self.error
        return f"ref-{draft.draft_id}"

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


@pytest.fixture
async def plugin(tmp_path: Path) -> AsyncIterator[Plugin]:
    """Yield a plugin with a state folder and a scripted muster of its own."""
    async with scripted_server() as server, plugin_on(tmp_path, server) as plugin:
        yield plugin


@pytest.mark.rule(7, 100)
async def test_the_whole_loop(plugin: Plugin) -> None:
    """Messages go in, approved replies go out once each, and each result is reported at once."""
    plugin.pace = attrs.evolve(PACE, report_seconds=3600)
    plugin.source.waiting.extend(Message(external_id=f"m{n}", body="x") for n in range(3))
    plugin.server.approve(1)
    plugin.server.approve(2)
    await plugin.run_until(
        lambda: len(plugin.server.results) == 2 and len(plugin.source.accepted_ids) == 3
    )
    assert [draft.draft_id for draft in plugin.sink.sent] == [1, 2]
    assert plugin.server.results[2] == {"ok": True, "external_ref": "ref-2"}
    assert list(plugin.server.messages) == ["m0", "m1", "m2"]


async def test_a_refused_message_holds_nobody_up(plugin: Plugin) -> None:
    """A message that muster refuses is handed back with the reason; the next one goes on."""
    plugin.server.script(MESSAGES, Answer(status=400, body={"error": "bad", "field": "body"}))
    plugin.source.waiting.extend(Message(external_id=f"m{n}", body="x") for n in range(2))
    await plugin.run_once()
    assert (plugin.source.refused_ids, plugin.source.accepted_ids) == (["m0"], ["m1"])


async def test_the_cursor_moves_only_after_an_answer(plugin: Plugin) -> None:
    """While a post gets no 2xx, the source is not told that its message arrived."""
    late = {"Retry-After": "60"}
    plugin.server.script(MESSAGES, Answer(status=429, body={"error": "x"}, headers=late))
    plugin.source.waiting.append(Message(external_id="m0", body="x"))
    with pytest.raises(TryLaterError):
        await plugin.run_once()
    assert plugin.source.accepted_ids == []
    await plugin.run_once()
    assert plugin.source.accepted_ids == ["m0"]


async def test_claims_go_on_beside_a_post_that_waits(plugin: Plugin) -> None:
    """A post held up by Retry-After does not hold up replies: claims run beside it."""
    late = {"Retry-After": "60"}
    plugin.server.script(MESSAGES, Answer(status=429, body={"error": "x"}, headers=late))
    plugin.source.waiting.append(Message(external_id="m0", body="x"))
    plugin.server.approve(1)
    await plugin.run_until(lambda: plugin.server.results)


async def test_claims_are_short_after_a_post(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a minute after a post the claims wait a second, else 25: each start moves delivery."""
    assert loop_module.BUSY_SECONDS == 60.0
    plugin.source.waiting.append(Message(external_id="m0", body="x"))
    await plugin.run_until(lambda: len(plugin.server.asked(CLAIM)) == 2)
    assert [request.body["wait_seconds"] for request in plugin.server.asked(CLAIM)] == [1, 1]
    monkeypatch.setattr(loop_module, "BUSY_SECONDS", 0.0)
    await plugin.run_until(lambda: len(plugin.server.asked(CLAIM)) == 3)
    assert plugin.server.asked(CLAIM)[-1].body == {"wait_seconds": 25}


async def test_what_is_known_not_sent_is_reported_false(plugin: Plugin) -> None:
    """SendFailedError is reported as not sent, with its text as the detail."""
    plugin.sink.error = SendFailedError("mailbox full")
    plugin.server.approve(1)
    await plugin.run_once()
    assert plugin.server.results == {1: {"ok": False, "detail": "mailbox full"}}


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


@pytest.mark.rule(100)
async def test_a_result_survives_until_it_is_answered(tmp_path: Path) -> None:
    """A result that got no answer is reported by the next process."""
    draft = Draft(draft_id=1, message_external_id="m", body="b", approved_at="t")
    async with scripted_server() as server:
        async with plugin_on(tmp_path, server) as plugin:
            await plugin.journal.record_claimed(draft, claimed_at=0)
            await plugin.journal.record_sending(1)
            await plugin.journal.record_done(1, Result(ok=True, external_ref="r"))
            server.script(RESULT, *(Answer(status=503) for _ in range(9)))
            with pytest.raises(TryLaterError):
                await plugin.run_once()
        server.scripts.clear()
        async with plugin_on(tmp_path, server) as plugin:
            await plugin.run_until(lambda: server.results)
            assert server.results == {1: {"ok": True, "external_ref": "r"}}


async def test_results_that_muster_does_not_take_are_settled(plugin: Plugin) -> None:
    """404 and 409 for a result are said on stderr and not asked again."""
    plugin.server.approve(1)
    plugin.server.approve(2)
    plugin.server.script(
        RESULT,
        Answer(status=404, body={"error": "no such reply"}),
        Answer(status=409, body={"error": "other", "draft_id": 2, "status": "failed"}),
    )
    await plugin.run_once()
    assert [await plugin.state(number) for number in (1, 2)] == [State.REPORTED] * 2
    assert sum("did not take the result" in note for note in plugin.notes) == 2


async def test_a_result_outlives_plugins_off(plugin: Plugin) -> None:
    """A 404 for a result settles nothing while the whole server has no plugin doors."""
    off = Answer(status=404, body={"error": "Not found.", "code": "not_found"})
    plugin.server.approve(1)
    plugin.server.script(RESULT, off)
    plugin.server.script(MESSAGES, off)
    await plugin.run_until(lambda: plugin.server.results)
    assert plugin.server.results == {1: {"ok": True, "external_ref": "ref-1"}}
    assert sum("asking again" in note for note in plugin.notes) == 1


async def test_a_revoked_token_ends_the_loop(plugin: Plugin) -> None:
    """401 ends the loop with one error that says so."""
    plugin.server.script(CLAIM, Answer(status=401, body={"error": "revoked"}))
    with trio.fail_after(10), pytest.raises(NotSignedInError, match="revoked"):
        await plugin.run()


async def test_plugins_off_is_waited_out(plugin: Plugin) -> None:
    """404 at the doors is waited out slowly, said once, and over when they open."""
    off = Answer(status=404, body={"error": "plugins are off"})
    plugin.server.script(MESSAGES, off, off)
    plugin.server.script(CLAIM, off)
    plugin.source.waiting.append(Message(external_id="m0", body="x"))
    await plugin.run_until(lambda: plugin.source.accepted_ids)
    assert sum("asking again" in note for note in plugin.notes) == 1


async def test_lost_claims_are_followed_by_new_ones(plugin: Plugin) -> None:
    """After a lost claim the loop claims anew and sends what comes then, never the lost one."""
    plugin.server.approve(1)
    plugin.server.approve(2)
    plugin.server.script(CLAIM, Step.LOSE_ANSWER, Answer(status=503, body={"error": "x"}))
    await plugin.run_until(lambda: plugin.server.results)
    assert [draft.draft_id for draft in plugin.sink.sent] == [2]
    assert list(plugin.server.results) == [2]


async def test_a_stop_in_mid_send_keeps_the_result(plugin: Plugin) -> None:
    """A loop cancelled while its sink works still writes the result down."""
    begun = trio.Event()
    go_on = trio.Event()

    class Slow(Upstream):
        """A sink that takes its time and can't be cut off."""

        async def send(self, draft: Draft) -> str:
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


async def test_a_state_folder_has_one_holder(plugin: Plugin, tmp_path: Path) -> None:
    """Within a process too, a state folder is opened once at a time."""
    with pytest.raises(StateFolderBusyError):
        async with open_journal(tmp_path):
            raise AssertionError("opened twice")
    assert plugin.journal is not None


async def test_the_journal_forbids_skipped_steps(plugin: Plugin) -> None:
    """A step that does not follow from the journal's state is an error and changes nothing."""
    draft = Draft(draft_id=1, message_external_id="m", body="b", approved_at="t")
    await plugin.journal.record_claimed(draft, claimed_at=0)
    with pytest.raises(AssertionError):
        await plugin.journal.record_unknown(1, "")
    await plugin.journal.record_sending(1)
    with pytest.raises(AssertionError):
        await plugin.journal.record_sending(1)
    assert await plugin.state(1) is State.SENDING


async def test_a_failed_transaction_leaves_nothing(plugin: Plugin) -> None:
    """Work on the journal's file that raises is rolled back, and the file stays usable."""

    def work(db: object) -> None:
        db.execute("delete from drafts")  # type: ignore[attr-defined]
        raise LookupError

    draft = Draft(draft_id=1, message_external_id="m", body="b", approved_at="t")
    await plugin.journal.record_claimed(draft, claimed_at=0)
    with pytest.raises(LookupError):
        await plugin.journal.run(work)
    assert await plugin.state(1) is State.CLAIMED
