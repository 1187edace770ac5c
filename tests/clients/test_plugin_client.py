"""The plugin client against a peer that answers badly, late or not at all."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone

import pytest
import trio

from muster.clients.plugin import (
    ClaimLostError,
    Message,
    NotSignedInError,
    PluginClient,
    PluginsOffError,
    RefusedError,
    TryLaterError,
    UnexpectedAnswerError,
    UnreachableError,
    Verdict,
)
from muster.clients.plugin import client as client_module
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

HELLO = Message(external_id="mail-1", body="Hello")


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """Yield a scripted muster."""
    async with scripted_server() as server:
        yield server


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[PluginClient]:
    """Yield a client of it that keeps its notes to itself."""
    async with PluginClient(server.url, TOKEN, note=lambda _: None) as client:
        yield client


async def test_a_message_arrives_with_the_fields_that_it_has(
    server: ScriptedServer, client: PluginClient
) -> None:
    """A post sends each field as the contract spells it and leaves out what is not there."""
    message = Message(
        external_id="mail-1",
        body="Γειά \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
        sender="Ada <ada@example.test>",
        received_at=datetime(2026, 3, 1, 10, 19, 32, tzinfo=timezone(timedelta(seconds=1172))),
        no_reply=True,
    )
    posted = await client.post(message)
    assert (posted.id, posted.status) == (1, "queued")
    assert server.messages["mail-1"] == {
        "external_id": "mail-1",
        "body": "Γειά 😀",
        "sender": "Ada <ada@example.test>",
        "received_at": "2026-03-01T10:00:00Z",
        "no_reply": True,
    }


@pytest.mark.parametrize("step", [*(step for step in Step if step is not Step.HANG)])
async def test_a_post_without_an_answer_is_posted_again(
    server: ScriptedServer, client: PluginClient, step: Step
) -> None:
    """However an answer gets lost, the same message is sent again and stored once."""
    server.script(MESSAGES, step)
    assert (await client.post(HELLO)).id == 1
    first, second = server.asked(MESSAGES)
    assert first.body == second.body
    assert len(server.messages) == 1


async def test_a_post_obeys_retry_after(server: ScriptedServer, client: PluginClient) -> None:
    """After 429 the next try comes when Retry-After said, never earlier."""
    server.script(MESSAGES, Answer(status=429, body={"error": "60"}, headers={"Retry-After": "1"}))
    await client.post(HELLO)
    first, second = server.asked(MESSAGES)
    assert 1.0 <= second.at - first.at < 1.9


async def test_a_post_outlives_a_server_error(server: ScriptedServer, client: PluginClient) -> None:
    """5xx answers are temporary: the message is posted again until one takes it."""
    server.script(MESSAGES, Answer(status=503, body={"error": "x"}), Answer(status=500))
    assert (await client.post(HELLO)).status == "queued"
    assert len(server.asked(MESSAGES)) == 3


async def test_patience_ends_a_post(server: ScriptedServer, client: PluginClient) -> None:
    """A post that would have to wait longer than its patience says for how long."""
    server.script(MESSAGES, Answer(status=429, body={"error": "x"}, headers={"Retry-After": "900"}))
    with pytest.raises(TryLaterError) as caught:
        await client.post(HELLO, patience_seconds=2)
    assert caught.value.retry_after_seconds == 900


async def test_nobody_there_is_unreachable() -> None:
    """A server that does not listen is unreachable, for a post and for a claim."""
    async with scripted_server() as gone:
        url = gone.url
    async with PluginClient(url, TOKEN, note=lambda _: None) as client:
        with pytest.raises(UnreachableError):
            await client.post(HELLO, patience_seconds=0)
        with pytest.raises(UnreachableError):
            await client.claim(0)


async def test_a_refusal_carries_its_field(server: ScriptedServer, client: PluginClient) -> None:
    """A 400 is not tried again and names the field that broke a rule."""
    told = {"error": "too long", "code": "invalid", "field": "sender"}
    server.script(MESSAGES, Answer(status=400, body=told))
    with pytest.raises(RefusedError) as caught:
        await client.post(HELLO)
    assert (caught.value.field, caught.value.status) == ("sender", 400)
    assert len(server.asked(MESSAGES)) == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(status=401, body={"error": "who?"}), NotSignedInError),
        (Answer(status=404, body={"error": "off"}), PluginsOffError),
        (Answer(status=405, body="<html>"), UnexpectedAnswerError),
        (Answer(status=302, headers={"Location": "/login"}), UnexpectedAnswerError),
        (Answer(status=200, body=["a captive portal"]), UnexpectedAnswerError),
    ],
)
async def test_other_answers_have_errors_of_their_own(
    server: ScriptedServer, client: PluginClient, answer: Answer, error: type[Exception]
) -> None:
    """What is wrong with the token, the server or the URL never looks like a stored message."""
    server.script(MESSAGES, answer)
    with pytest.raises(error):
        await client.post(HELLO)
    assert len(server.asked(MESSAGES)) == 1


async def test_a_404_says_what_to_set(server: ScriptedServer, client: PluginClient) -> None:
    """Whoever forgot to open the doors for plugins is told by which setting they open."""
    server.script(MESSAGES, Answer(status=404, body={"error": "Not Found"}))
    with pytest.raises(PluginsOffError, match="MUSTER_PLUGINS=1"):
        await client.post(HELLO)


async def test_a_claim_brings_the_draft(server: ScriptedServer, client: PluginClient) -> None:
    """A claim waits for an approved reply, and comes back empty when there is none."""
    assert await client.claim(0) is None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_approve_once_asked, server)
        draft = await client.claim(5)
    assert draft is not None
    assert (draft.draft_id, draft.message_external_id, draft.body) == (17, "mail-1", "Noon.")


async def _approve_once_asked(server: ScriptedServer) -> None:
    await until(lambda: len(server.asked(CLAIM)) == 2)
    server.approve(17)


@pytest.mark.parametrize("step", [*(step for step in Step if step is not Step.HANG)])
@pytest.mark.rule(97)
async def test_a_claim_is_never_repeated(
    server: ScriptedServer, client: PluginClient, step: Step
) -> None:
    """A claim whose answer got lost is lost: the client says so and asks nothing again."""
    server.approve(17)
    server.script(CLAIM, step)
    with pytest.raises(ClaimLostError):
        await client.claim(0)
    assert len(server.asked(CLAIM)) == 1


@pytest.mark.rule(96)
async def test_a_claim_times_out_ten_seconds_after_its_wait(
    server: ScriptedServer, client: PluginClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that is never answered ends its wait plus the slack, which is 10 s, later."""
    assert client_module.CLAIM_SLACK_SECONDS == 10.0
    monkeypatch.setattr(client_module, "CLAIM_SLACK_SECONDS", 0.5)
    server.script(CLAIM, Step.HANG)
    began = trio.current_time()
    with pytest.raises(ClaimLostError):
        await client.claim(1)
    assert 1.4 < trio.current_time() - began < 3


@pytest.mark.rule(100)
async def test_a_report_is_repeated_until_it_is_answered(
    server: ScriptedServer, client: PluginClient
) -> None:
    """Lost answers and server errors don't end a report; the repeat is recorded once."""
    server.script(RESULT, Step.LOSE_ANSWER, Answer(status=502), Step.CUT)
    reported = await client.report(17, True, "ref-1")
    assert (reported.verdict, reported.status) == (Verdict.RECORDED, "sent")
    assert server.results == {17: {"ok": True, "external_ref": "ref-1"}}


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(404, Verdict.NOT_OURS), (409, Verdict.CONFLICT), (400, Verdict.REFUSED)],
)
async def test_a_final_answer_to_a_report_is_a_verdict(
    server: ScriptedServer, client: PluginClient, status: int, verdict: Verdict
) -> None:
    """404, 409 and 400 end a report, since asking again would not change them."""
    told = {"error": "no", "code": "refused", "draft_id": 17, "status": "failed"}
    server.script(RESULT, Answer(status=status, body=told))
    reported = await client.report(17, True)
    assert (reported.verdict, reported.status) == (verdict, "failed")
    assert len(server.asked(RESULT)) == 1


async def test_a_report_fits_the_limits(server: ScriptedServer, client: PluginClient) -> None:
    """A reference over 200 characters and a detail over 4 KiB are cut to the contract's limits."""
    await client.report(17, False, "r" * 201, "ä" * 5000 + "\0")
    result = server.results[17]
    assert len(result["external_ref"]) == 200
    assert len(result["detail"].encode()) <= 4096
    assert "r" * 201 in result["detail"]
    assert result["detail"].endswith("ä…")


@pytest.mark.parametrize("url", ["localhost:8420", "ftp://x.test", "http://"])
def test_what_is_no_url_is_refused(url: str) -> None:
    """A URL that can't be muster's is told before anything is sent."""
    with pytest.raises(ValueError, match="URL"):
        PluginClient(url, TOKEN)


@pytest.mark.parametrize("token", ["", "mpl_a b", "mpl_\r\nX: y", "mpl_ü"])
def test_what_is_no_token_is_refused(token: str) -> None:
    """A token can't add a header."""
    with pytest.raises(ValueError, match="token"):
        PluginClient("http://localhost", token)
