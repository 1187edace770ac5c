"""Stands for the `claude` program: run as `stand_in_claude.py FOLDER ARGUMENTS…`.

It does as version 2.1.197 was seen to do: the flags, the sessions that belong to a folder, the
files that it puts into a prompt at `@/path`, the commands after `/`, the MCP server that it calls
over HTTP, and the events. What its model wants is in FOLDER/plan.json, a list of runs, each a list
of steps; what it saw of each run is appended to FOLDER/seen.jsonl.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any, NoReturn

MODEL = "stand-in-1"
BUILT_IN = {"Bash", "Read", "Write", "Edit", "Glob", "Grep"}
USAGE = {
    "input_tokens": 100,
    "cache_read_input_tokens": 50,
    "cache_creation_input_tokens": 7,
    "output_tokens": 20,
}
NO_USAGE = dict.fromkeys(USAGE, 0)


def put(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def emit(**event: Any) -> None:
    """Print an event."""
    put(json.dumps(event))


def parse(arguments: list[str]) -> argparse.Namespace:
    """The flags that this stand-in knows; another one is an error, as it is there."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for flag in ("--print", "--verbose", "--strict-mcp-config", "--disable-slash-commands"):
        parser.add_argument(flag, action="store_true")
    for flag in ("--fork-session", "--include-partial-messages"):
        parser.add_argument(flag, action="store_true")
    for name in ("output-format", "mcp-config", "tools", "allowedTools", "permission-mode"):
        parser.add_argument(f"--{name}")
    for name in ("setting-sources", "session-id", "resume", "model", "system-prompt-file"):
        parser.add_argument(f"--{name}")
    return parser.parse_args(arguments)


class Door:
    """The MCP server of the configuration."""

    def __init__(self, server: dict[str, Any]) -> None:
        self.server = server

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """One request; raises OSError for a refusal."""
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        request = urllib.request.Request(
            self.server["url"],
            data=json.dumps(call).encode(),
            headers={
                **self.server["headers"],
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
            },
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            body = answer.read().decode()
            if answer.headers["content-type"].startswith("text/event-stream"):
                lines = [line for line in body.splitlines() if line.startswith("data: {")]
                body = lines[-1].removeprefix("data: ")
        decoded: dict[str, Any] = json.loads(body)
        return decoded

    def tools(self) -> list[str] | None:
        """The tools on offer; None when the server cannot be reached or refuses."""
        client = {"name": "stand-in", "version": "1"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        try:
            self.ask("initialize", hello)
            listed = self.ask("tools/list", {})["result"]["tools"]
        except (OSError, urllib.error.URLError):
            return None
        return [f"mcp__muster__{tool['name']}" for tool in listed]


class Run:
    """One run: what it was given, and the steps of its plan."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        self.folder = folder
        self.flags = parse(arguments)
        self.session_id = self.flags.session_id or str(uuid.uuid4())
        self.messages = 0
        self.text = sys.stdin.read()
        plan = json.loads((folder / "plan.json").read_text())
        seen = folder / "seen.jsonl"
        number = len(seen.read_text().splitlines()) if seen.exists() else 0
        self.steps: list[dict[str, Any]] = plan[min(number, len(plan) - 1)]
        config = Path(self.flags.mcp_config)
        self.door = Door(json.loads(config.read_text())["mcpServers"]["muster"])
        instructions = Path(self.flags.system_prompt_file)
        self.seen: dict[str, Any] = {
            "pid": os.getpid(),
            "arguments": arguments,
            "environ": dict(os.environ),
            "folder": str(Path.cwd()),
            "there": sorted(each.name for each in Path.cwd().iterdir()),
            "text": self.text,
            "files": self.attached(),
            "config": str(config),
            "config_mode": oct(config.stat().st_mode & 0o7777),
            "config_folder_mode": oct(config.parent.stat().st_mode & 0o7777),
            "server": self.door.server,
            "instructions": instructions.read_text(),
            "results": [],
        }

    def attached(self) -> list[str]:
        """The files that the program would put into the prompt by itself."""
        if os.environ.get("CLAUDE_CODE_DISABLE_ATTACHMENTS") == "1":
            return []
        named = re.findall(r"(?:^|[\s\"'(])@\"?([^\s\")]+)", self.text)
        return [path for path in named if Path(path).is_file()]

    def note(self) -> None:
        """Write down what was seen."""
        with (self.folder / "seen.jsonl").open("a") as file:
            file.write(json.dumps(self.seen) + "\n")

    def sessions(self) -> Path:
        """Where the sessions of this folder are kept."""
        project = re.sub(r"[^A-Za-z0-9]", "-", str(Path.cwd()))
        return Path(os.environ["HOME"]) / ".claude" / "projects" / project

    def finish(self, code: int, **members: Any) -> NoReturn:
        """Print the result and exit."""
        self.note()
        spent = {name: count * self.messages for name, count in USAGE.items()}
        result = {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "num_turns": self.messages,
            "session_id": self.session_id,
            "usage": spent,
            "modelUsage": {
                f"{MODEL}[1m]": {
                    "inputTokens": spent["input_tokens"],
                    "outputTokens": spent["output_tokens"],
                    "cacheReadInputTokens": spent["cache_read_input_tokens"],
                    "cacheCreationInputTokens": spent["cache_creation_input_tokens"],
                }
            }
            if self.messages
            else {},
        }
        emit(**{**result, **members})
        sys.exit(code)

    def begin(self) -> None:
        """Check the flags, find the session, connect, and say so."""
        flags = self.flags
        if not flags.print or not flags.verbose or flags.output_format != "stream-json":
            sys.exit("Error: --output-format=stream-json requires --print and --verbose")
        kept = self.sessions()
        if flags.resume and not (kept / flags.resume).is_file():
            told = f"No conversation found with session ID: {flags.resume}"
            sys.stderr.write(f"{told}\n")
            self.finish(1, subtype="error_during_execution", is_error=True, errors=[told])
        if (kept / self.session_id).exists() or (flags.resume and not flags.fork_session):
            sys.exit(f"Error: Session ID {self.session_id} is already in use.")
        kept.mkdir(parents=True, exist_ok=True)
        earlier = (kept / flags.resume).read_text() if flags.resume else ""
        (kept / self.session_id).write_text(earlier + self.text)
        self.seen["earlier"] = earlier
        tools = self.door.tools()
        self.tools = [*filter(None, flags.tools.split(",")), *(tools or [])]
        emit(
            type="system",
            subtype="init",
            session_id=self.session_id,
            tools=self.tools,
            mcp_servers=[{"name": "muster", "status": "failed" if tools is None else "connected"}],
        )
        if self.text.lstrip().startswith("/"):
            self.finish(0, result=f"{self.text.split()[0]} isn't available in this environment.")

    def piece(self, kind: str, **members: Any) -> None:
        """Print an event of the provider's, if they were asked for."""
        if self.flags.include_partial_messages:
            emit(type="stream_event", event={"type": kind, **members}, session_id=self.session_id)

    def begin_message(self, model: str = MODEL) -> dict[str, Any]:
        """The head of a message, printed unless the program made it up itself."""
        synthetic = model != MODEL
        usage = NO_USAGE if synthetic else {**USAGE, "output_tokens": 1}
        self.messages += not synthetic
        head = {"id": f"msg_{self.messages}", "model": model, "role": "assistant", "usage": usage}
        if not synthetic:
            self.piece("message_start", message={**head, "content": []})
        return head

    def say(self, *blocks: dict[str, Any], model: str = MODEL) -> None:
        """Print a message: its pieces, and an event for each of its blocks."""
        head = self.begin_message(model)
        made_up = model != MODEL
        for block in blocks:
            if not made_up:
                self.piece("content_block_start", content_block={**block, "text": ""})
                text = block.get("text", "")
                for part in (text[:3], text[3:]):
                    self.piece("content_block_delta", delta={"type": "text_delta", "text": part})
            emit(type="assistant", message={**head, "content": [block]})
            if not made_up:
                self.piece("content_block_stop", index=0)
        if not made_up:
            self.piece("message_delta", usage={"output_tokens": USAGE["output_tokens"]})
            self.piece("message_stop")

    def call(self, name: str, arguments: dict[str, Any]) -> None:
        """Call a tool as the model wants it, if it is there and allowed."""
        named = re.search(r"\[message_id (\d+)\]", self.text)
        if arguments.get("message_id") == "as in the text" and named:
            arguments = {**arguments, "message_id": int(named[1])}
        block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}
        self.say({"type": "text", "text": f"I call {name}."}, block)
        if name not in self.tools:
            answer, refused = f"Error: No such tool available: {name}.", True
        elif name in BUILT_IN:
            answer, refused = f"{name} ran", False
        else:
            called = {"name": name.removeprefix("mcp__muster__"), "arguments": arguments}
            told = self.door.ask("tools/call", called)
            result = told.get("result", {"content": [], "isError": True})
            texts = [each["text"] for each in result["content"] if each["type"] == "text"]
            answer, refused = "\n".join(texts), bool(result.get("isError"))
        self.seen["results"].append([name, answer, refused])
        content = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": answer}]
        emit(type="user", message={"role": "user", "content": content})

    def play(self, step: dict[str, Any]) -> None:
        """Do one step of the plan."""
        match step:
            case {"say": text}:
                self.say({"type": "text", "text": text})
            case {"begin": _}:
                self.begin_message()
            case {"call": name}:
                self.call(name, step.get("arguments", {}))
            case {"line": line}:
                put(line * step.get("times", 1))
            case {"error": text}:
                self.say({"type": "text", "text": text}, model="<synthetic>")
                status = step.get("status", 400)
                self.finish(1, is_error=True, result=text, api_error_status=status)
            case {"exit": code}:
                self.note()
                sys.stderr.write(step.get("stderr", ""))
                sys.exit(code)
            case {"start": seconds}:
                child = subprocess.Popen(["sleep", str(seconds)], stdin=subprocess.DEVNULL)
                self.seen["child"] = child.pid
            case {"write": name}:
                Path(name).write_text("left behind")
            case {"hang": deaf}:
                if deaf:
                    signal.signal(signal.SIGTERM, signal.SIG_IGN)
                self.note()
                while True:
                    signal.pause()
            case {"done": text}:
                self.finish(step.get("code", 0), result=text)
            case _:
                raise AssertionError(step)


def main() -> None:
    """Play the next run of the plan."""
    run = Run(Path(sys.argv[1]), sys.argv[2:])
    run.begin()
    for step in run.steps:
        run.play(step)
    run.note()


if __name__ == "__main__":
    main()
