"""What goes wrong between a model and its backend, with the real errors of both providers."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import attrs
import httpx2
import pytest
import trio

from muster.clients.agent import sse
from muster.clients.agent.backend import TurnError, Usage
from muster.clients.agent.openai_chat import OpenAiModel
from muster.clients.agent.tool_loop import ATTEMPTS_MAX
from tests.support.model_protocols import (
    ANTHROPIC,
    OPENAI,
    OVERLOADED,
    TOO_LONG,
    Says,
    event_error,
    refusal,
    render,
)
from tests.support.model_server import KEY, Cut, Drops, Hangs, Raw, Refuses
from tests.support.model_stage import Stage, stage

DRAFT = {"message_id": 7, "body": "Noon works."}
BOTH = pytest.mark.parametrize("path", [OPENAI, ANTHROPIC])
OK = Says(text="Done.")


def busy(path: str, status: int = 429, headers: Mapping[str, str] | None = None) -> Refuses:
    """The provider's answer to one request too many."""
    body = refusal(path, "rate_limit_error", "Slow down.")
    return Refuses(status=status, body=body, headers=headers or {})


def writes_delays(on: Stage) -> list[float | None]:
    """Make the stage wait no time, and write down what it was asked to wait."""
    delays: list[float | None] = []

    def delay(attempt: int, retry_after_seconds: float | None) -> float:
        assert attempt == len(delays)
        delays.append(retry_after_seconds)
        return 0.0

    on.backend = attrs.evolve(on.backend, delay=delay)
    return delays


@BOTH
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_a_busy_or_broken_provider_is_asked_again(
    path: str, status: int, tmp_path: Path
) -> None:
    """What may pass is tried again, the attempt is told, and the turn ends well."""
    async with stage(path, tmp_path) as on:
        on.server.plays(busy(path, status), OK)
        assert await on.turn("go") == "Done."
        assert f"The model is asked again in 0 s: HTTP {status}: Slow down." in on.heard
        retry = {"reason": f"HTTP {status}: Slow down.", "seconds": 0.0}
        assert on.reports == [("model.retry", retry)]
        assert len(on.counted) == 1


@BOTH
async def test_retry_after_is_obeyed_in_both_forms(path: str, tmp_path: Path) -> None:
    """Seconds and a date are waits that the provider asks for; anything else is our own wait."""
    soon = datetime.now(UTC) + timedelta(seconds=90)
    async with stage(path, tmp_path) as on:
        delays = writes_delays(on)
        on.server.plays(
            busy(path, headers={"retry-after": "7"}),
            busy(path, 529, headers={"retry-after": format_datetime(soon, usegmt=True)}),
            busy(path, headers={"retry-after": "soon"}),
            OK,
        )
        await on.turn("go")
        assert delays[0] == 7
        assert delays[1] is not None
        assert 60 < delays[1] <= 90
        assert delays[2] is None


@BOTH
async def test_a_wait_is_a_wait(path: str, tmp_path: Path) -> None:
    """The model is not asked again before the time that it named."""
    async with stage(path, tmp_path) as on:
        on.server.plays(busy(path, headers={"retry-after": "1"}), OK)
        began = trio.current_time()
        await on.turn("go")
        assert trio.current_time() - began >= 1


@BOTH
async def test_a_wait_beyond_the_deadline_fails_at_once(path: str, tmp_path: Path) -> None:
    """A turn that cannot live until the model may be asked again says so without waiting."""
    async with stage(path, tmp_path) as on:
        on.server.plays(busy(path, headers={"retry-after": "3600"}), OK)
        with trio.fail_after(5), pytest.raises(TurnError, match=r"again before 3600 s.*Slow down"):
            await on.turn("go", deadline_seconds=60)
        assert len(on.server.asked) == 1


@BOTH
async def test_attempts_are_bounded(path: str, tmp_path: Path) -> None:
    """A provider that stays broken fails the turn in a sentence with its last words."""
    async with stage(path, tmp_path) as on:
        on.server.plays(*[busy(path, 503)] * 20)
        with pytest.raises(TurnError, match=r"not answer in 6 tries; lastly: HTTP 503: Slow down"):
            await on.turn("go")
        assert len(on.server.asked) == ATTEMPTS_MAX


@BOTH
async def test_a_stream_that_breaks_has_no_effect(path: str, tmp_path: Path) -> None:
    """A tool call of a broken stream is never carried out, wherever in it the stream broke."""
    says = Says(text="Let me draft.", calls=[("reply_draft", DRAFT)])
    whole = len(render(path, {"model": "m", "messages": []}, says))
    # Each request may be tried a few times, so the places are spread over as many turns.
    async with stage(path, tmp_path) as on:
        for events in range(whole - 3):
            on.server.plays(Cut(says=says, events=events), OK)
            assert await on.turn("go", label=f"l{events}") == "Done."
        assert on.tools.called == []


@BOTH
async def test_what_was_said_stays_said(path: str, tmp_path: Path) -> None:
    """After a break the text so far stands, then a mark, then the new try's text."""
    async with stage(path, tmp_path) as on:
        says = Says(text="Let me draft.", calls=[("reply_draft", DRAFT)])
        whole = len(render(path, {"model": "m", "messages": []}, says))
        on.server.plays(Cut(says=says, events=whole - 4), says, OK)
        await on.turn("go")
        first, mark, rest = on.heard.partition("\n[The model is asked again in 0 s: the connection")
        assert (first, bool(mark)) == ("Let me draft.", True)
        assert rest.endswith("]\nLet me draft.Done.")
        assert on.tools.called == [("reply_draft", DRAFT)]


@BOTH
async def test_a_stream_that_ends_early_is_broken(path: str, tmp_path: Path) -> None:
    """An answer without its end counts for nothing, even when HTTP ended as it should."""
    async with stage(path, tmp_path) as on:
        says = Says(calls=[("reply_draft", DRAFT)])
        events = render(path, {"model": "m", "messages": []}, says)
        on.server.plays(Raw(chunks=events[:-2]), OK)
        assert await on.turn("go") == "Done."
        assert on.tools.called == []
        assert "the model's answer broke off" in on.heard


@BOTH
async def test_no_answer_at_all_is_tried_again(path: str, tmp_path: Path) -> None:
    """A connection that drops before a byte came is a fault like another."""
    async with stage(path, tmp_path) as on:
        on.server.plays(Drops(), Drops(), OK)
        assert await on.turn("go") == "Done."


@BOTH
async def test_an_error_in_the_stream_is_read(path: str, tmp_path: Path) -> None:
    """Overload can come as an event after some text: the model is asked again."""
    async with stage(path, tmp_path) as on:
        events = render(path, {"model": "m", "messages": []}, Says(text="Let me"))
        begun = next(at for at, event in enumerate(events, start=1) if "Let me" in event)
        on.server.plays(Raw(chunks=[*events[:begun], event_error(path, OVERLOADED[path])]), OK)
        assert await on.turn("go") == "Done."
        assert "overloaded" in on.heard.lower()


async def test_an_old_servers_error_event_is_read(tmp_path: Path) -> None:
    """An error without its wrapping is an error too, and no empty answer."""
    async with stage(OPENAI, tmp_path) as on:
        error = {"object": "error", "message": "engine died", "type": "InternalServerError"}
        on.server.plays(Raw(chunks=[event_error(OPENAI, error), "data: [DONE]\n\n"]), OK)
        assert await on.turn("go") == "Done."
        assert "HTTP 500: engine died" in on.heard


@BOTH
async def test_an_error_event_can_be_final(path: str, tmp_path: Path) -> None:
    """A bad key that is told as an event ends the turn, though the stream stays open."""
    async with stage(path, tmp_path) as on:
        error = refusal(path, "authentication_error", f"bad key {KEY}")
        events = render(path, {"model": "m", "messages": []}, Says(text="Let me"))
        begun = next(at for at, event in enumerate(events, start=1) if "Let me" in event)
        chunks = [*events[:begun], event_error(path, error), ": more\n\n" * 50]
        on.server.plays(Raw(chunks=chunks, hangs=True))
        with trio.fail_after(10), pytest.raises(TurnError, match="refuses the key"):
            await on.turn("go")
        assert on.heard == "Let me"
        await on.server.gone.wait()


@BOTH
@pytest.mark.parametrize("fault", [Cut, Hangs])
async def test_what_follows_the_end_is_nobodys_business(
    path: str, fault: type[Cut | Hangs], tmp_path: Path
) -> None:
    """A whole answer counts, though its connection then breaks, or is never ended."""
    async with stage(path, tmp_path) as on:
        on.server.plays(fault(says=OK, events=1_000))
        with trio.fail_after(20):
            assert await on.turn("go") == "Done."
        assert on.heard == "Done."
        assert await on.turn("again") == "Nothing more to say."


@BOTH
async def test_an_endless_answer_is_given_up(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer over the limit of bytes fails the turn instead of filling the memory."""
    monkeypatch.setattr(sse, "STREAM_BYTES_MAX", 2 << 20)
    async with stage(path, tmp_path) as on:
        on.server.plays(Raw(chunks=[": nothing\n\n" * 100_000] * 3, hangs=True))
        with pytest.raises(TurnError, match="more than 2 MiB"):
            await on.turn("go")


@BOTH
async def test_garbage_is_tried_again(path: str, tmp_path: Path) -> None:
    """Events that are no JSON are a broken answer, not a crash."""
    async with stage(path, tmp_path) as on:
        name = "event: ping\n" if path == ANTHROPIC else ""
        garbage = [f"{name}data: {bad}\n\n" for bad in ("{", "[]", "\x00")]
        on.server.plays(*[Raw(chunks=[each]) for each in garbage], OK)
        assert await on.turn("go") == "Done."


@BOTH
async def test_a_page_is_no_model(path: str, tmp_path: Path) -> None:
    """An address that answers with something else than a stream is named."""
    async with stage(path, tmp_path) as on:
        on.server.plays(Raw(chunks=["<html>"], kind="text/html"))
        with pytest.raises(TurnError, match="answered text/html and no event stream"):
            await on.turn("go")


@BOTH
@pytest.mark.parametrize(
    ("status", "kind", "sentence"),
    [
        (401, "authentication_error", r"refuses the key in (OPENAI|ANTHROPIC)_API_KEY"),
        (403, "permission_error", r"may not use the model '(gpt|claude)-test'"),
        (404, "not_found_error", r"no model '(gpt|claude)-test' at http"),
        (429, "insufficient_quota", r"account behind \w+_API_KEY has no credit left"),
        (400, "invalid_request_error", r"answered HTTP 400: bad \*\*\*"),
        (418, "teapot", r"answered HTTP 418"),
    ],
)
async def test_what_a_person_must_mend_is_said(
    path: str, status: int, kind: str, sentence: str, tmp_path: Path
) -> None:
    """A bad key, a missing model and an empty account are one sentence each, without the key."""
    async with stage(path, tmp_path) as on:
        on.server.plays(Refuses(status=status, body=refusal(path, kind, f"bad {KEY}")))
        with pytest.raises(TurnError, match=sentence) as told:
            await on.turn("go")
        assert KEY not in str(told.value) + on.heard
        assert len(on.server.asked) == 1


@BOTH
async def test_errors_without_shape_are_quoted(path: str, tmp_path: Path) -> None:
    """An error that is a page of a proxy's is quoted shortly, and its status counts."""
    async with stage(path, tmp_path) as on:
        on.server.plays(Refuses(status=502, body="<h1>Bad gateway</h1>" * 9_000), OK)
        assert await on.turn("go") == "Done."
        assert len(on.heard) < 500


@BOTH
async def test_a_context_too_long_forgets_the_older_half(path: str, tmp_path: Path) -> None:
    """The older half of the turns is dropped until the model takes the rest, and for good."""
    async with stage(path, tmp_path) as on:
        for number in range(5):
            on.server.plays(Says(text=f"answer {number}", calls=[("look", {})]), OK)
            await on.turn(f"question {number}")
        too_long = Refuses(status=400, body=TOO_LONG[path])
        on.server.plays(too_long, too_long, OK)
        assert await on.turn("the last") == "Done."
        asked = [str(request.body) for request in on.server.asked[-3:]]
        assert [f"question {n}" in asked[1] for n in range(5)] == [False] * 3 + [True] * 2
        assert [f"question {n}" in asked[2] for n in range(5)] == [False] * 4 + [True]
        assert "forgets all but the last 1 earlier turns" in on.heard
        assert len(await on.conversations.recall("a")) == 2


@BOTH
@pytest.mark.parametrize("by_a_proxy", [False, True])
async def test_a_turn_that_is_too_long_alone_fails(
    path: str, by_a_proxy: bool, tmp_path: Path
) -> None:
    """When there is nothing left to forget, a sentence says that the turn is too long."""
    async with stage(path, tmp_path) as on:
        await on.turn("before")
        refused = Refuses(status=400, body=TOO_LONG[path])
        if by_a_proxy:
            refused = Refuses(status=413, body="<h1>413 Request Entity Too Large</h1>")
        on.server.plays(*[refused] * 9)
        with pytest.raises(
            TurnError, match=r"This turn alone is longer than the model takes: [<\w]+"
        ):
            await on.turn("go")
        assert len(on.server.asked) == 3


@BOTH
async def test_a_cancel_closes_the_stream(path: str, tmp_path: Path) -> None:
    """A cancelled turn closes its connection at once: the provider sees the end of it."""
    async with stage(path, tmp_path) as on:
        on.server.plays(Hangs(says=Says(text="Let me think", calls=[("look", {})]), events=4))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on.turn, "go")
            await on.server.hanging.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(10):
            await on.server.gone.wait()
        ((_user, note),) = await on.conversations.recall("a")
        assert "This turn did not end well: it was cancelled" in str(note)
        assert await on.turn("again") == "Nothing more to say."


@BOTH
async def test_a_deadline_closes_the_stream(path: str, tmp_path: Path) -> None:
    """A slow model is left when the turn's time is over."""
    async with stage(path, tmp_path) as on, trio.open_nursery() as nursery:
        on.server.plays(Hangs(says=OK, events=2))
        with trio.CancelScope() as limit:

            async def expire() -> None:
                await on.server.hanging.wait()
                limit.deadline = trio.current_time()

            nursery.start_soon(expire)
            await on.turn("go")
        assert limit.cancelled_caught
        with trio.fail_after(10):
            await on.server.gone.wait()


async def test_a_broken_call_is_counted_as_far_as_it_is_told(tmp_path: Path) -> None:
    """Anthropic tells the input at the start: it counts even when the rest never comes."""
    async with stage(ANTHROPIC, tmp_path) as on:
        on.server.plays(Cut(says=Says(text="Hm", input_tokens=70), events=3), OK)
        await on.turn("go")
        assert [(each.input_tokens, each.output_tokens) for each in on.counted] == [
            (70, 1),
            (100, 10),
        ]


async def test_nobody_listening_is_tried_again_and_told(tmp_path: Path) -> None:
    """A refused connection is tried again, and in the end the turn says that it is one."""
    async with stage(OPENAI, tmp_path) as on:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        await listener.aclose()
        model = OpenAiModel(
            model="m",
            base_url=f"http://127.0.0.1:{port}/v1",
            http=httpx2.AsyncClient(trust_env=False),
        )
        on.backend = attrs.evolve(on.backend, model=model)
        with pytest.raises(TurnError, match="6 tries; lastly: the connection to the model failed"):
            await on.turn("go")
        await model.aclose()


async def test_members_that_old_servers_refuse_are_left_out(tmp_path: Path) -> None:
    """A server that refuses stream_options or max_tokens is asked without, from then on too."""
    no_options = {"object": "error", "message": "[{'loc': ('body', 'stream_options')}]"}
    message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    no_bound = refusal(OPENAI, "invalid_request_error", message)
    async with stage(OPENAI, tmp_path) as on:
        on.server.plays(
            Refuses(status=422, body=no_options), Refuses(status=400, body=no_bound), OK, OK
        )
        assert await on.turn("go") == "Done."
        assert await on.turn("again") == "Done."
        bodies = [asked.body for asked in on.server.asked]
        assert ["stream_options" in body for body in bodies] == [True, False, False, False]
        assert ["max_tokens" in body for body in bodies] == [True, True, False, False]
        assert bodies[3]["max_completion_tokens"] == 8192
        assert on.counted == [Usage(model="gpt-test")] * 2


@BOTH
async def test_one_connection_serves_many_calls(path: str, tmp_path: Path) -> None:
    """A whole answer leaves its connection to the next call."""
    async with stage(path, tmp_path) as on:
        on.server.plays(*[Says(calls=[("look", {})])] * 5)
        await on.turn("go")
        assert on.server.connections == 1
