"""The backend that starts Claude Code, the `claude` program, once a turn.

Theory. The program gets the turn on stdin, muster's tools by an MCP configuration that points at
`/mcp`, and none of its own tools. Its stream of events (`claude_stream`) is read to the end; only
the `result` decides, since the program may exit 1 after a good result and 0 after a bad one. The
program itself waits out rate limits and overload; what it gives up on is the turn's failure.

What keeps a message from becoming more than text, each tried with version 2.1.197 and a model on
loopback that wanted it:

- `--tools ""` leaves none of the program's own tools, `--strict-mcp-config` no server of the
  user's, `--setting-sources=` no hooks, permissions or CLAUDE.md of the user's or a project's;
  `--permission-mode dontAsk` refuses what is not allowed. A call of Bash finds no such tool.
- The program puts a file into the prompt where the text says `@/path`, and no list of tools and no
  deny rule stops it. CLAUDE_CODE_DISABLE_ATTACHMENTS does; beside it `as_text` takes the `@`
  apart, for a version that does not know the variable.
- A text that begins with `/` would be one of the program's commands: `as_text` again.
- The token stands in a 0600 file that lives as long as the turn: never in the arguments, which
  every user of the machine can read, nor in the environment.

A session belongs to the folder that it was begun in, so each conversation has a folder of its own,
which is emptied before each turn. See `claude_sessions` for what is remembered.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import attrs
import trio

from muster.clients.agent.backend import Backend, Tools, Turn, TurnError, without_muster
from muster.clients.agent.bites import Bites
from muster.clients.agent.child_program import EXIT_SECONDS, Exited, run_program
from muster.clients.agent.claude_sessions import ClaudeSessions, open_claude_sessions
from muster.clients.agent.claude_stream import SERVER, Stream, clean

# What the program must not do by itself: read files that a text names, remember, replace itself.
ENVIRON = {
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "DISABLE_AUTOUPDATER": "1",
}
NOT_INHERITED = frozenset({"CLAUDECODE"})  # the mark of a program that Claude Code started
_AT = re.compile(r"(?<![A-Za-z0-9])@|@(?![A-Za-z0-9])")


@attrs.frozen(kw_only=True)
class ClaudeCode:
    """How the program is started.

    `program` is its path, `url` and `token` the way to muster, `model` one that it knows, or its
    own choice; `allowed_tools` are its own tools that it may use, none unless named.
    """

    program: str
    url: str
    token: str = attrs.field(repr=False)
    environ: Mapping[str, str] = attrs.field(repr=False)
    model: str | None = None
    allowed_tools: tuple[str, ...] = ()

    def command(self, *, files: Path, session_id: str, resumed: str | None) -> list[str]:
        """The program and its arguments for one turn. Each value is bound to its name by `=`."""
        ours = [f"mcp__{SERVER}", *self.allowed_tools]
        return [
            self.program,
            "--print",
            "--output-format=stream-json",
            "--verbose",
            "--include-partial-messages",
            "--strict-mcp-config",
            f"--mcp-config={files / MCP_FILE}",
            f"--tools={','.join(self.allowed_tools)}",
            f"--allowedTools={','.join(ours)}",
            "--permission-mode=dontAsk",
            "--setting-sources=",
            "--disable-slash-commands",
            f"--session-id={session_id}",
            *([f"--resume={resumed}", "--fork-session"] if resumed else []),
            *([f"--model={self.model}"] if self.model else []),
            f"--system-prompt-file={files / INSTRUCTIONS_FILE}",
        ]

    @property
    def mcp_configuration(self) -> str:
        """Where muster's tools are, in the program's words."""
        door = {
            "type": "http",
            "url": f"{self.url.rstrip('/')}/mcp",
            "headers": {"Authorization": f"Bearer {self.token}"},
        }
        return json.dumps({"mcpServers": {SERVER: door}})

    def environment(self, folder: Path) -> dict[str, str]:
        """What the program sees of the runner's environment, and what it is told by it."""
        kept = without_muster(self.environ)
        kept = {name: value for name, value in kept.items() if name not in NOT_INHERITED}
        return kept | ENVIRON | {"PWD": str(folder)}


MCP_FILE = "mcp.json"
INSTRUCTIONS_FILE = "instructions.txt"
NO_INSTRUCTIONS = "You are an assistant. You work with the tools that you are given."


@attrs.frozen(kw_only=True)
class ClaudeCodeBackend(Backend):
    """Answers each turn by a run of the program, in the conversation's session."""

    claude: ClaudeCode
    sessions: ClaudeSessions
    folder: Path

    async def turn(self, turn: Turn, _tools: Tools) -> str:
        """Run the program, and once more in a new session where the old one is of no use.

        That is: it is gone, or too long, and no tool was called yet.
        """
        try:
            return await self._answer(turn, turn.conversation)
        except OSError as error:
            raise TurnError(f"claude's folder cannot be used: {error}") from error

    async def _answer(self, turn: Turn, label: str) -> str:
        known = await self.sessions.find(label)
        run = await self._run(turn, label, known)
        if known is not None and (run.heard.has_no_session or run.heard.is_too_long):
            await self.sessions.forget(label)
            if not run.heard.tools_ran:
                known = None
                run = await self._run(turn, label, None)
        answer = run.answer()
        try:
            await self.sessions.keep(label, run.session_id, resumed=known is not None)
        except OSError as error:
            # What the turn did is done all the same.
            await turn.say(f"\n[This turn could not be remembered: {error}.]\n")
        return answer

    async def _run(self, turn: Turn, label: str, resumed: str | None) -> "_Run":
        heard, bites = Stream(), Bites(say=turn.say)

        async def hear(line: bytes) -> float | None:
            await bites.hear(heard.take(line))
            if heard.door_is_away:
                return 0
            return EXIT_SECONDS if heard.result is not None else None

        session_id = str(uuid.uuid4())
        with self._files(turn) as files:
            folder = await trio.to_thread.run_sync(self._empty_folder, label)
            try:
                exited = await run_program(
                    self.claude.command(files=files, session_id=session_id, resumed=resumed),
                    folder=folder,
                    environ=self.claude.environment(folder),
                    text=as_text(turn.text),
                    hear=hear,
                )
            finally:
                # Of a run that was cancelled as well.
                if heard.usage is not None:
                    turn.count(heard.usage)
        await bites.end()
        return _Run(heard=heard, exited=exited, session_id=session_id)

    def _empty_folder(self, label: str) -> Path:
        name = hashlib.sha256(label.encode("utf-8", "replace")).hexdigest()[:16]
        folder = _work(self.folder) / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if any(folder.iterdir()):
            raise TurnError(f"the folder {folder} cannot be emptied")
        return folder

    @contextmanager
    def _files(self, turn: Turn) -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp(dir=_runs(self.folder)))
        try:
            _write(folder / MCP_FILE, self.claude.mcp_configuration)
            _write(folder / INSTRUCTIONS_FILE, turn.instructions or NO_INSTRUCTIONS)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@attrs.frozen(kw_only=True)
class _Run:
    heard: Stream
    exited: Exited
    session_id: str

    def answer(self) -> str:
        """The last word of a good run; TurnError says what was wrong with any other."""
        result = self.heard.result
        if self.heard.door_is_away:
            raise TurnError(f"claude could not connect to muster's tools ({self.exited.told})")
        if result is None:
            raise TurnError(f"claude ended without a result, by {self.exited.told}")
        if result.is_error:
            raise TurnError(f"claude: {result.text}")
        return result.text


def as_text(text: str) -> str:
    """`text` such that the program reads it as text alone: no file named by `@`, no command.

    An `@` between letters or digits is left, so that addresses can be read.
    """
    plain = _AT.sub("@ ", clean(text))
    return f"Read this: {plain}" if plain.lstrip().startswith("/") else plain


def _write(path: Path, text: str) -> None:
    # Made with its mode, so that it was never there with another.
    made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(made, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)


def _runs(folder: Path) -> Path:
    return folder / "runs"


def _work(folder: Path) -> Path:
    return folder / "work"


def _clear_runs(folder: Path) -> Path:
    # What a runner that was killed left here held a token.
    shutil.rmtree(_runs(folder), ignore_errors=True)
    _runs(folder).mkdir(mode=0o700)
    _work(folder).mkdir(mode=0o700, exist_ok=True)
    return folder.resolve()


@asynccontextmanager
async def open_claude_code(claude: ClaudeCode, folder: Path) -> AsyncIterator[ClaudeCodeBackend]:
    """Hold the state folder and make the backend that keeps its sessions there.

    Raises StateFolderBusyError when another process holds the folder, OSError when it can't be
    made.
    """
    async with open_claude_sessions(folder) as sessions:
        # Real, since the program knows a session by the real path of its folder.
        real = await trio.to_thread.run_sync(_clear_runs, folder)
        yield ClaudeCodeBackend(claude=claude, sessions=sessions, folder=real)
