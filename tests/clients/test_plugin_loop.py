"""The plugin loop: what is posted and reported, and what ends it."""

from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest
import trio

from muster.clients.plugin import (
    Draft,
    Message,
    NotSignedInError,
    Result,
    State,
    StateFolderBusyError,
    TryLaterError,
    open_journal,
)
from muster.clients.plugin import loop as loop_module
from tests.support.running_plugin import PACE, Plugin, plugin_on
from tests.support.scripted_server import (
    CLAIM,
    MESSAGES,
    RESULT,
    Answer,
    Step,
    scripted_server,
)


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
