"""Stands for Claude Code in a terminal: `claude_stand_in.py --stand-in FOLDER [claude's flags]`.

It is the program that a person sees in a tmux pane (`stand_in_claude.py` is the one without a
terminal, which agents run). It does what the host program leans on, as Claude Code 2.1 does it:

- raw input with bracketed paste. A paste goes whole into the prompt line and waits for Enter. An
  Enter that arrives in one read with a paste's end is a line break of the text, not a submit.
- three states. `idle`: Enter submits. `working`: Enter queues, and the end of the turn submits what
  was queued. `waiting`, a permission prompt: whatever is typed goes to the prompt, Enter says yes.
  Escape and Ctrl-C interrupt a turn, and no hook tells of it.
- the hooks of `~/.claude/settings.json` and of `.claude/settings.json` in its folder, read anew at
  each event: matchers, `sh -c`, JSON on stdin, all of one event at once, one event after the other.
  Exit code 2 of UserPromptSubmit rejects the prompt.
- the transcript `~/.claude/projects/<slug of its folder>/<session id>.jsonl`.
- `--session-id ID`, `--resume ID` (refused where this folder has no such transcript).

Flags of its own: `--stand-in FOLDER` (ledger and control), `--stand-in-turn SECONDS` (a turn ends
by itself after so long; without it, when it is told `stop`), `--stand-in-spin` (the screen moves
while it works, as it does there).

A test drives it through a pipe, FOLDER/ID.control, one JSON object a line:
`{"do": "prompt", "text": …}` as if typed and submitted by the person, `{"do": "tool", "name": …}` a
tool call to its end, `{"do": "ask"}` a permission prompt (`"agent": ID` for a subagent's), `{"do":
"grant"}` and `{"do": "deny"}` answer it, `{"do": "stop"}` ends the turn, `{"do": "hook", "event":
…, "members": {…}}` calls a hook alone, `{"do": "write", "record": {…}}` adds a line to the
transcript (a summary, a title), `{"do": "edit", "seconds": …}` gives the terminal to an editor as
Ctrl-G does, `{"do": "end"}` leaves as /exit does.

What happened is in FOLDER/ID.jsonl, one object a line, each with `at` (wall clock), `mono`
(monotonic), `state` and `what`: `started`, `state` (`to`), `paste_began`, `paste` (`text`), `typed`
(`text`), `key` (`name`), `into_prompt` (`text`: what a permission prompt got), `submitted` and
`queued` (`text`), `hook` (`event`, `seconds`, `codes`, `out`), `ended`. `paste_began` is noted at
the first byte of a paste, `submitted` before its hook is called.

tests/support/claude_pane.py starts it in tmux and reads the ledger.
"""

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import termios
import time
import tty
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.claude_keys import ESCAPE_SECONDS, Keys
from tests.support.claude_records import Hooks, Records, stamp

SPIN_SECONDS = 0.2


def parse(arguments: list[str]) -> argparse.Namespace:
    """The flags; another one is an error."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--stand-in", type=Path, required=True)
    parser.add_argument("--stand-in-turn", type=float)
    parser.add_argument("--stand-in-spin", action="store_true")
    parser.add_argument("--session-id")
    parser.add_argument("--resume")
    return parser.parse_args(arguments)


class Session:
    """The session: its states, its prompt line and what is done about keys and orders."""

    def __init__(self, flags: argparse.Namespace, home: Path, wake: Callable[[], None]) -> None:
        self.flags = flags
        session_id = flags.resume or flags.session_id or str(uuid.uuid4())
        self.records = Records(home, flags.stand_in, session_id)
        there = self.records.transcript.exists()
        if flags.resume and not there:
            sys.exit(f"No conversation found with session ID: {session_id}")
        if there and not flags.resume:
            sys.exit(f"Error: Session ID {session_id} is already in use.")
        self.hooks = Hooks(home, self.records, wake)
        self.line = ""
        self.queued: list[str] = []
        self.turn_ends_at: float | None = None
        self.beginning = False
        self.stops_when_begun = False
        self.asked: dict[str, Any] = {}
        self.over = False
        self.records.note("started", pid=os.getpid(), arguments=sys.argv[1:], cwd=str(Path.cwd()))
        source = "resume" if flags.resume else "startup"
        self.hooks.call("SessionStart", lambda _: self.become("idle"), source=source, model="m-1")

    def become(self, state: str) -> None:
        """Be in another state and show it."""
        self.records.state = state
        self.records.note("state", to=state)
        self.show()

    def show(self, tick: int = 0) -> None:
        """Draw the screen: the state, then the prompt line."""
        spin = f" {'|/-'[tick % 3]} {tick}" if self.records.state == "working" and tick else ""
        shown = self.line if len(self.line) < 60 else f"[Pasted text {len(self.line)}]"
        shown = shown.replace("\n", " ")
        if self.records.state == "waiting":
            shown = "Do you want to proceed?  1. Yes  2. No"
        put(f"\x1b[H\x1b[2J* {self.records.state}{spin}\r\n\r\n> {shown}")

    def submit(self) -> None:
        """Do what Enter does."""
        text, self.line = self.line, ""
        if not text.strip():
            return
        if self.records.state == "working":
            self.records.note("queued", text=text)
            self.queued.append(text)
            self.records.write(
                {
                    "type": "queue-operation",
                    "operation": "enqueue",
                    "timestamp": stamp(),
                    "sessionId": self.records.session_id,
                    "content": text,
                }
            )
            return
        self._begin(text)

    def _begin(self, text: str) -> None:
        def began(refused: bool) -> None:
            self.beginning = False
            if refused:
                self.become("idle")
                return
            self.records.say("user", text)
            if self.flags.stand_in_turn is not None:
                self.turn_ends_at = time.monotonic() + self.flags.stand_in_turn
            if self.stops_when_begun:
                self.stop()

        self.beginning, self.stops_when_begun = True, False
        self.records.note("submitted", text=text)
        self.become("working")
        self.hooks.call("UserPromptSubmit", began, prompt=text)

    def stop(self) -> None:
        """End the turn: the answer, the hook, and what was queued meanwhile."""

        def stopped(refused: bool) -> None:
            if refused:
                return
            self.become("idle")
            if self.queued:
                text, self.queued = "\n".join(self.queued), []
                self._begin(text)

        self.turn_ends_at = None
        if self.beginning:
            # The hook has not answered yet, so there is no turn to end.
            self.stops_when_begun = True
            return
        self.records.say("assistant", [{"type": "text", "text": "Done."}])
        self.hooks.call("Stop", stopped, stop_hook_active=False, last_assistant_message="Done.")

    def note(self, what: str, **members: Any) -> None:
        """Write a line of the ledger."""
        self.records.note(what, **members)

    def key(self, name: str) -> None:
        """Do what a key does that is no text."""
        self.records.note("key", name=name)
        if self.records.state == "waiting":
            self.answer(yes=name == "enter")
        elif name == "enter":
            self.submit()
        elif name == "backspace":
            self.line = self.line[:-1]
        elif self.records.state == "working":
            self.turn_ends_at = None
            self.become("idle")
        else:
            self.line = ""
        self.show()

    def put_in(self, text: str, *, what: str) -> None:
        """Take typed or pasted text."""
        self.records.note(what, text=text)
        if self.records.state == "waiting":
            self.records.note("into_prompt", text=text)
        else:
            self.line += text.replace("\r\n", "\n").replace("\r", "\n")
        self.show()

    def ask(self, order: dict[str, Any]) -> None:
        """Show a permission prompt."""
        agent = {"agent_id": order["agent"], "agent_type": "x"} if "agent" in order else {}
        told = {"tool_name": "Bash", "tool_input": {"command": "ls"}, **agent}
        self.asked = told
        self.hooks.call("PreToolUse", tool_use_id="toolu_1", **told)
        self.become("waiting")
        self.hooks.call("PermissionRequest", **told)

    def answer(self, *, yes: bool) -> None:
        """Answer it: a yes goes on, a no ends the turn without a hook."""
        told, self.asked = self.asked, {}
        self.become("working" if yes else "idle")
        if yes:
            self.hooks.call("PostToolUse", tool_response={}, tool_use_id="toolu_1", **told)

    def obey(self, order: dict[str, Any]) -> None:
        """Do what a test says."""
        match order["do"]:
            case "prompt":
                self.line += order["text"]
                self.submit()
            case "tool":
                told = {"tool_name": order["name"], "tool_input": {}, "tool_use_id": "toolu_2"}
                self.hooks.call("PreToolUse", **told)
                self.hooks.call("PostToolUse", **told, tool_response={})
            case "ask":
                self.ask(order)
            case "grant" | "deny" as word:
                self.answer(yes=word == "grant")
            case "stop":
                self.stop()
            case "hook":
                self.hooks.call(order["event"], **order.get("members", {}))
            case "write":
                self.records.write(order["record"])
            case "edit":
                # As Ctrl-G does: an editor has the terminal until it ends.
                subprocess.Popen(["sleep", str(order["seconds"])])
            case "end":
                self.end("prompt_input_exit")
            case other:
                raise AssertionError(other)
        self.show()

    def end(self, reason: str) -> None:
        """Leave."""
        if not self.over:
            self.over = True
            self.hooks.call("SessionEnd", reason=reason)
            self.hooks.finish()
            self.records.note("ended", reason=reason)


def put(text: str) -> None:
    """Write to the terminal."""
    os.write(1, text.encode(errors="replace"))


class Loop:
    """Waits for keys, orders, ends of hooks and the time."""

    def __init__(self, flags: argparse.Namespace) -> None:
        self.flags = flags
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.session = Session(flags, Path(os.environ["HOME"]), self.wake)
        self.keys = Keys(self.session)
        control = flags.stand_in / f"{self.session.records.session_id}.control"
        if not control.exists():
            os.mkfifo(control)
        # Opened for both ways, so that it never ends.
        self._control = os.open(control, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._orders = b""
        self._tick = 0
        for number in (signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, self.hang_up)

    def wake(self) -> None:
        """Let the loop look again."""
        os.write(self._wake, b".")

    def hang_up(self, *_: object) -> None:
        """The pane was closed; it may be told twice."""
        if not self.session.over:
            self.session.end("other")
            os._exit(0)

    def run(self) -> None:
        """Run until the session is over."""
        while not self.session.over:
            ready, _, _ = select.select([0, self._control, self._woken], [], [], self._seconds())
            if self._woken in ready:
                os.read(self._woken, 4096)
            while not self.session.hooks.finished.empty():
                self.session.hooks.finished.get()()
            if 0 in ready:
                data = os.read(0, 1 << 16)
                if not data:
                    self.hang_up()
                self.keys.feed(data)
            if self._control in ready:
                self._obey(os.read(self._control, 1 << 16))
            self._pass_time()

    def _seconds(self) -> float | None:
        dues = [due for due in (self.session.turn_ends_at,) if due is not None]
        if self.keys.waiting_since is not None:
            dues.append(self.keys.waiting_since + ESCAPE_SECONDS)
        if self.flags.stand_in_spin and self.session.records.state == "working":
            dues.append(time.monotonic() + SPIN_SECONDS)
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def _obey(self, data: bytes) -> None:
        *lines, self._orders = (self._orders + data).split(b"\n")
        for line in lines:
            self.session.obey(json.loads(line))

    def _pass_time(self) -> None:
        now = time.monotonic()
        since, ends_at = self.keys.waiting_since, self.session.turn_ends_at
        if since is not None and now >= since + ESCAPE_SECONDS:
            self.keys.give_up_waiting()
        if ends_at is not None and now >= ends_at:
            self.session.stop()
        if self.flags.stand_in_spin and self.session.records.state == "working":
            self._tick += 1
            self.session.show(self._tick)


def main() -> None:
    """Be Claude Code until the session is over."""
    flags = parse(sys.argv[1:])
    loop = Loop(flags)
    before = termios.tcgetattr(0)
    tty.setraw(0)
    put("\x1b[?2004h\x1b]0;* stand-in\x07")
    try:
        loop.run()
        put("\x1b[?2004l\r\n")
        termios.tcsetattr(0, termios.TCSANOW, before)
    except OSError:
        # The terminal is gone, and its signal has not come yet.
        loop.hang_up()


if __name__ == "__main__":
    main()
