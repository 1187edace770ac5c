"""A model backend on a stage: a played provider, tools that write down what is called, a memory."""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import attrs
import httpx2

from muster.clients.agent.anthropic_messages import AnthropicModel
from muster.clients.agent.backend import Tool, ToolAnswer, Turn, TurnError, Usage
from muster.clients.agent.conversations import Bounds, Conversations, open_conversations
from muster.clients.agent.openai_chat import OpenAiModel
from muster.clients.agent.tool_loop import ModelBackend
from tests.support.model_protocols import OPENAI
from tests.support.model_server import KEY, ModelServer, model_server

SCHEMA = {
    "type": "object",
    "properties": {"message_id": {"type": "integer"}, "body": {"type": "string"}},
    "required": ["message_id", "body"],
}
REPLY_DRAFT = Tool(name="reply_draft", description="Draft a reply.", input_schema=SCHEMA)
LOOK = Tool(name="look", description="Look around.", input_schema={})


@attrs.define
class StagedTools:
    """muster's tools as the tests see them: `answers` by name, all else is done."""

    answers: dict[str, ToolAnswer] = attrs.field(factory=dict)
    called: list[tuple[str, Mapping[str, object]]] = attrs.field(factory=list)
    lost: set[str] = attrs.field(factory=set)

    async def list(self) -> list[Tool]:
        """Two tools."""
        return [REPLY_DRAFT, LOOK]

    async def call(self, name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        """Write the call down and answer it."""
        self.called.append((name, arguments))
        if name in self.lost:
            raise TurnError("the answer was lost")
        return self.answers.get(name) or ToolAnswer(text=f"{name} done", is_error=False)


@attrs.define(kw_only=True)
class Stage:
    """One runner's backend and what it said and counted."""

    server: ModelServer
    backend: ModelBackend
    tools: StagedTools
    conversations: Conversations
    said: list[str] = attrs.field(factory=list)
    counted: list[Usage] = attrs.field(factory=list)
    reports: list[tuple[str, Mapping[str, object]]] = attrs.field(factory=list)

    def give(self, text: str, *, label: str = "a", deadline_seconds: float = 30.0) -> Turn:
        """A turn as the gateway makes it."""

        async def say(text: str) -> None:
            self.said.append(text)

        return Turn(
            turn_id="t1",
            text=text,
            deadline_seconds=deadline_seconds,
            conversation=label,
            title="About lunch",
            say=say,
            count=self.counted.append,
            report=lambda event, facts: self.reports.append((event, facts)),
        )

    async def turn(self, text: str, *, label: str = "a", deadline_seconds: float = 30.0) -> str:
        """Let the backend work on a turn."""
        return await self.backend.turn(
            self.give(text, label=label, deadline_seconds=deadline_seconds), self.tools
        )

    @property
    def heard(self) -> str:
        """All that was said in the turns."""
        return "".join(self.said)


def new_model(path: str, url: str, key: str | None = KEY) -> OpenAiModel | AnthropicModel:
    """A model of the provider whose door is `path`."""
    http = httpx2.AsyncClient(trust_env=False, verify=False)
    if path == OPENAI:
        return OpenAiModel(model="gpt-test", base_url=f"{url}/v1", api_key=key, http=http)
    return AnthropicModel(model="claude-test", base_url=url, api_key=key, http=http)


def no_delay(_attempt: int, retry_after_seconds: float | None) -> float:
    """Wait for what the server asks, and otherwise not at all."""
    return retry_after_seconds or 0.0


@asynccontextmanager
async def stage(path: str, folder: Path, *, bounds: Bounds | None = None) -> AsyncIterator[Stage]:
    """A stage for the provider at `path`, with its memory in `folder`."""
    async with (
        model_server() as server,
        aclosing(new_model(path, server.url)) as model,
        open_conversations(folder, bounds=bounds or Bounds()) as conversations,
    ):
        yield Stage(
            server=server,
            backend=ModelBackend(model=model, conversations=conversations, delay=no_delay),
            tools=StagedTools(),
            conversations=conversations,
        )
