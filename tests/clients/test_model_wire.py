"""The wire to a provider: events in any pieces, and the providers' own libraries as judges."""

import itertools
import json
import ssl
import subprocess
import sys
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anthropic
import attrs
import httpx2
import openai
import pydantic
import pytest
import trio
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from muster.clients.agent.anthropic_messages import AnthropicModel
from muster.clients.agent.backend import TurnError
from muster.clients.agent.openai_chat import OpenAiModel
from muster.clients.agent.sse import EventReader
from tests.support.certificate import make_certificate
from tests.support.model_protocols import ANTHROPIC, OPENAI, OVERLOADED, Says
from tests.support.model_server import KEY, Cut, Drops, ModelServer, Refuses, model_server
from tests.support.model_stage import new_model, stage

STREAM = (
    ": a comment\n\nevent: ping\r\ndata: {}\r\n\r\ndata: one\rdata: two\r\rid: 7\nretry: 9\n\n"
    "data\n\nevent: lost\n\ndata:no space\n\ndata: ü🦉\n\ndata: never ended"
).encode()
EVENTS = ["{}", "one\ntwo", "", "no space", "ü🦉"]


@given(cuts=st.lists(st.integers(min_value=0, max_value=len(STREAM)), max_size=20))
def test_events_are_the_same_in_any_pieces(cuts: list[int]) -> None:
    """However a stream is cut on its way, in a letter too, its events are the same."""
    reader = EventReader()
    places = [0, *sorted(cuts), len(STREAM)]
    found = [
        event
        for start, end in itertools.pairwise(places)
        for event in reader.feed(STREAM[start:end])
    ]
    assert found == EVENTS


SAYS = Says(
    text="I will draft a reply to Ada.",
    calls=[("reply_draft", {"message_id": 7, "body": "Noon."}), ("look", {})],
    cached_tokens=30,
)


def _openai_answer(server: ModelServer) -> list[openai.types.chat.ChatCompletionChunk]:
    http = httpx2.Client(trust_env=False)
    with openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1", http_client=http) as client:
        return list(
            client.chat.completions.create(
                model="gpt-test",
                messages=[{"role": "user", "content": "go"}],
                stream=True,
                stream_options={"include_usage": True},
            )
        )


def _client(server: ModelServer) -> anthropic.Anthropic:
    http = httpx2.Client(trust_env=False)
    return anthropic.Anthropic(api_key=KEY, base_url=server.url, http_client=http, max_retries=0)


def _anthropic_answer(server: ModelServer) -> anthropic.types.Message:
    with (
        _client(server) as client,
        client.messages.stream(
            model="claude-test",
            max_tokens=99,
            messages=[{"role": "user", "content": [{"type": "text", "text": "go"}]}],
        ) as stream,
    ):
        return stream.get_final_message()


async def test_the_played_openai_is_one_to_openai() -> None:
    """OpenAI's own library reads the test server's stream, so what we test against is real."""
    async with model_server() as server:
        server.plays(SAYS)
        chunks = await trio.to_thread.run_sync(_openai_answer, server)
        deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
        assert "".join(delta.content or "" for delta in deltas) == SAYS.text
        pieces = [piece for delta in deltas for piece in delta.tool_calls or []]
        assert [p.function.name for p in pieces if p.function and p.function.name] == [
            "reply_draft",
            "look",
        ]
        usage = chunks[-1].usage
        assert usage is not None
        assert (usage.prompt_tokens, usage.completion_tokens) == (100, 10)


async def test_the_played_anthropic_is_one_to_anthropic() -> None:
    """Anthropic's own library puts the test server's stream together."""
    async with model_server() as server:
        server.plays(SAYS)
        message = await trio.to_thread.run_sync(_anthropic_answer, server)
        kinds = [block.type for block in message.content]
        assert kinds == ["text", "tool_use", "tool_use"]
        assert message.stop_reason == "tool_use"
        assert (message.usage.cache_read_input_tokens, message.usage.output_tokens) == (30, 10)


async def test_the_played_overload_is_one_to_anthropic() -> None:
    """Anthropic's own library knows the test server's 529 as its overload."""
    async with model_server() as server:
        server.plays(Refuses(status=529, body=OVERLOADED[ANTHROPIC]))
        with pytest.raises(anthropic.APIStatusError) as told:
            await trio.to_thread.run_sync(_anthropic_answer, server)
        assert told.value.type == "overloaded_error"


async def test_our_requests_are_what_the_providers_type(tmp_path: Path) -> None:
    """Every request of a conversation with tools has the shape that the libraries declare."""
    for path in (OPENAI, ANTHROPIC):
        async with stage(path, tmp_path / path.strip("/").replace("/", "-")) as on:
            on.server.plays(SAYS, Says(text="Done."))
            await on.turn("go")
            await on.turn("again")
            for asked in on.server.asked:
                judge = _judge_openai if path == OPENAI else _judge_anthropic
                judge(asked.body)


def _judge_openai(body: Mapping[str, Any]) -> None:
    shapes: Mapping[str, Any] = {
        "messages": list[ChatCompletionMessageParam],
        "tools": list[ChatCompletionToolParam],
    }
    for name, shape in shapes.items():
        pydantic.TypeAdapter[Any](shape).validate_json(json.dumps(body[name]))


def _judge_anthropic(body: Mapping[str, Any]) -> None:
    judge: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(MessageCreateParamsStreaming)
    seen = judge.validate_json(json.dumps(body))
    for message in seen["messages"]:
        list(message["content"])


@pytest.mark.parametrize("url", ["api.example.test", "ftp://x", "http://", "http://x/?q=1"])
def test_an_address_is_one(url: str) -> None:
    """An address that can't be one is refused before anything is asked."""
    for kind in (OpenAiModel, AnthropicModel):
        with pytest.raises(ValueError, match="is not an address"):
            kind(model="m", base_url=url)


@pytest.mark.parametrize("key", ["sk-\n", "sk secret", "sk-ü"])
def test_a_key_that_no_header_takes_is_not_quoted(key: str) -> None:
    """A key with a line break in it is refused without being shown."""
    with pytest.raises(ValueError, match="no key has") as told:
        OpenAiModel(model="m", api_key=key)
    assert key not in str(told.value)
    assert KEY not in repr(OpenAiModel(model="m", api_key=KEY))


@pytest.mark.parametrize("path", [OPENAI, ANTHROPIC])
async def test_a_model_behind_tls(path: str, tmp_path: Path) -> None:
    """A provider is asked over TLS, also after a stream of it was cut without a goodbye."""
    certificate = make_certificate()
    http = httpx2.AsyncClient(trust_env=False, verify=certificate.client_context())
    async with model_server(certificate.server_context()) as server, stage(path, tmp_path) as on:
        model = attrs.evolve(new_model(path, server.url), http=http)
        on.backend = attrs.evolve(on.backend, model=model)
        server.plays(Drops(), Cut(says=SAYS, events=3), Says(text="Done."))
        async with aclosing(model):
            assert await on.turn("go") == "Done."
        assert len(server.asked) == 3


@pytest.mark.parametrize("path", [OPENAI, ANTHROPIC])
async def test_a_stranger_is_not_given_the_key(path: str, tmp_path: Path) -> None:
    """A certificate that nobody trusts ends the turn at once, and says that it is this."""
    context = ssl.create_default_context()
    http = httpx2.AsyncClient(trust_env=False, verify=context)
    async with (
        model_server(make_certificate().server_context()) as server,
        stage(path, tmp_path) as on,
    ):
        model = attrs.evolve(new_model(path, server.url), http=http)
        on.backend = attrs.evolve(on.backend, model=model)
        async with aclosing(model):
            with pytest.raises(TurnError, match=r"not trusted.*self.signed certificate"):
                await on.turn("go")
        assert server.asked == []
        assert server.connections == 1


def test_the_backends_need_no_library_and_no_asyncio() -> None:
    """Both models and the loop come without the providers' libraries and without asyncio."""
    modules = "anthropic_messages, openai_chat, tool_loop"
    code = f"import sys; from muster.clients.agent import {modules}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "muster.clients.agent.tool_loop" in loaded
    assert loaded & {"asyncio", "anyio", "openai", "anthropic", "pydantic"} == set()
