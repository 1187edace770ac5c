"""A stage for the stand-in of Claude Code: its plan, what it saw, and a backend that starts it."""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs

from muster.clients.agent.backend import Tool, ToolAnswer, Turn, Usage
from muster.clients.agent.claude_code import ClaudeCode, ClaudeCodeBackend, open_claude_code
from tests.support import stand_in_claude

TEXT = "A message from outside.\n| Lunch?"
Step = dict[str, Any]
DONE: Step = {"done": "Done."}


class NoTools:
    """The runner's own way to the tools, which this backend does not use."""

    async def list(self) -> list[Tool]:
        """Nobody asks."""
        raise AssertionError

    async def call(self, name: str, arguments: object) -> ToolAnswer:  # noqa: ARG002 - nor this
        """Nobody calls."""
        raise AssertionError


@attrs.define
class Heard:
    """What a turn told while it ran."""

    said: list[str] = attrs.field(factory=list)
    counted: list[Usage] = attrs.field(factory=list)

    async def say(self, text: str) -> None:
        """Keep a text."""
        self.said.append(text)

    @property
    def text(self) -> str:
        """All that was said."""
        return "".join(self.said)

    @property
    def usage(self) -> Usage | None:
        """All that was counted."""
        total: Usage | None = None
        for each in self.counted:
            total = each if total is None else total + each
        return total


@attrs.frozen(kw_only=True)
class ClaudeStage:
    """A stand-in in `folder`, which works for the agent of `token` at `url`."""

    folder: Path
    url: str
    token: str

    @property
    def program(self) -> Path:
        """The stand-in as a program of its own."""
        return self.folder / "claude"

    def plan(self, *runs: list[Step]) -> None:
        """What the model wants, run by run; the last one goes for all that follow."""
        (self.folder / "plan.json").write_text(json.dumps(runs))

    @property
    def seen(self) -> list[dict[str, Any]]:
        """What the program saw, run by run."""
        path = self.folder / "seen.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @asynccontextmanager
    async def backend(self, **settings: Any) -> AsyncIterator[ClaudeCodeBackend]:
        """The backend, with the environment that a runner would have."""
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "MUSTER_URL": self.url}
        claude = ClaudeCode(
            **{
                "program": str(self.program),
                "url": self.url,
                "token": self.token,
                "environ": environ,
                **settings,
            }
        )
        async with open_claude_code(claude, self.folder / "state") as backend:
            yield backend

    async def turn(
        self, backend: ClaudeCodeBackend, heard: Heard | None = None, **members: Any
    ) -> str:
        """Let the backend work on a turn."""
        told = heard or Heard()
        turn = Turn(
            **{
                "turn_id": "message:1:1",
                "text": TEXT,
                "deadline_seconds": 60,
                "conversation": "conversation:1",
                "instructions": "Be kind.",
                "say": told.say,
                "count": told.counted.append,
                **members,
            }
        )
        return await backend.turn(turn, NoTools())


def set_stage(folder: Path, *, url: str, token: str) -> ClaudeStage:
    """Put the stand-in into `folder`; it ends each run well until it has another plan."""
    stage = ClaudeStage(folder=folder, url=url, token=token)
    script = Path(stand_in_claude.__file__)
    stage.program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "{folder}" "$@"\n')
    stage.program.chmod(0o755)
    stage.plan([{"say": "Let me see."}, DONE])
    return stage
